package main

import (
	"context"

	"parley/persistence/backup"
)

type restoreCmd struct {
	From string `required:"" placeholder:"DIR[@SNAPSHOT]" help:"Backup directory, and which of its snapshots; default: the newest."`
	Data string `required:"" placeholder:"DIR" help:"Data directory to create; an existing one must be empty."`
}

// Run makes a data directory of a snapshot. It says yes only when every file
// was compared with its hash and lies on the disk.
func (c *restoreCmd) Run(ctx context.Context, std *streams) error {
	dir, snapshot := splitSnapshot(c.From)
	restored, err := backup.Restore(ctx, backup.RestoreOptions{From: dir, Snapshot: snapshot, To: c.Data, Progress: std.progress()})
	if err != nil {
		return err
	}
	if std.json {
		line := snapshotOf(dir, restored)
		line.Data = c.Data
		return std.value(line)
	}
	note := ""
	if !restored.Has(masterKeyFile) {
		note = "\n  the backup has no master.key: put the key into the directory (mode 600) before a server is started on it"
	}
	return std.say("restored snapshot %s into %s: %d files, %s%s\n  %s", restored.ID, c.Data, len(restored.Files), size(restored.Bytes()), note, typed("serve --data "+c.Data))
}
