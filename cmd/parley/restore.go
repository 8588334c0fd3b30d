package main

import (
	"context"

	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
	"parley/persistence/backup"
)

type restoreCmd struct {
	From string `required:"" placeholder:"DIR[@SNAPSHOT]" help:"Backup directory, and which of its snapshots; default: the newest."`
	Data string `required:"" placeholder:"DIR" help:"Data directory to create; an existing one must be empty."`
}

// Run makes a data directory of a snapshot. It says yes only when every file
// was compared with its hash and lies on the disk.
func (c *restoreCmd) Run(ctx context.Context, std *program.Streams) error {
	dir, snapshot := splitSnapshot(c.From)
	restored, err := backup.Restore(ctx, backup.RestoreOptions{From: dir, Snapshot: snapshot, To: c.Data, Progress: progress(std)})
	if err != nil {
		return err
	}
	if std.JSON {
		line := snapshotOf(dir, restored)
		line.Data = c.Data
		return std.Value(line)
	}
	note := ""
	if !restored.Has(datadir.MasterKeyFile) {
		note = "\n  the backup has no master.key: put the key into the directory (mode 600) before a server is started on it"
	}
	return std.Say("restored snapshot %s into %s: %d files, %s%s\n  %s", restored.ID, c.Data, len(restored.Files), size(restored.Bytes()), note, program.Typed("serve --data "+c.Data))
}
