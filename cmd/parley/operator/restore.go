package operator

import (
	"context"

	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
	"parley/persistence/backup"
)

type RestoreCmd struct {
	From string `required:"" placeholder:"DIR[@SNAPSHOT]" help:"Backup directory, and optionally one of its snapshots; default: the newest."`
	Data string `required:"" placeholder:"DIR" help:"Data directory to create; an existing one must be empty."`
}

// Run restores a snapshot to a data directory. It succeeds only if every file matches its
// hash and is synced to the disk.
func (c *RestoreCmd) Run(ctx context.Context, std *program.Streams) error {
	dir, snapshot := splitSnapshot(c.From)
	restored, err := backup.Restore(ctx, backup.RestoreOptions{From: dir, Snapshot: snapshot, To: c.Data, Progress: progress(std)})
	if err != nil {
		return err
	}
	if std.JSON {
		line := admin.SnapshotOf(dir, restored)
		line.Data = c.Data
		return std.Value(line)
	}
	lines := program.Format("restored snapshot %s into %s: %d files, %s", restored.ID, c.Data, len(restored.Files), size(restored.Bytes()))
	if !restored.HasMasterKey() {
		lines.Add("  the backup has no master.key: put the key into the directory (mode 600) before a server is started on it")
	}
	return std.Say("%s\n  %s\n  as the first node of a new cluster, before that: %s", lines, program.Typed("serve --data "+c.Data), program.Typed("cluster init --data "+c.Data+" --advertise HOST:PORT"))
}
