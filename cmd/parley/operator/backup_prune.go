package operator

import (
	"context"
	"fmt"

	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
	"parley/persistence/backup"
)

type backupPruneCmd struct {
	Dir  string `arg:"" help:"Backup directory."`
	Keep int    `required:"" placeholder:"N" help:"Number of the server's newest snapshots to keep; at least 1. Snapshots of other servers are always kept."`
	Data string `env:"PARLEY_DATA" default:"./parley-data" placeholder:"DIR" help:"Data directory of the server whose snapshots to prune, running or not. Its master.key, or PARLEY_MASTER_KEY, identifies them. Default: ${default}."`
}

// prunedJSON is the output of `backup prune --json`.
type prunedJSON struct {
	Dir     string   `json:"dir"`
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"`
	// Others is how many snapshots of other servers there are.
	Others int   `json:"others"`
	Freed  int64 `json:"freed_bytes"`
}

func (c *backupPruneCmd) Validate() error {
	if c.Keep < 1 {
		return fmt.Errorf("--keep: %d is less than 1", c.Keep)
	}
	return nil
}

// Run deletes the server's oldest snapshots and the files that only they needed.
func (c *backupPruneCmd) Run(ctx context.Context, std *program.Streams) error {
	found, err := datadir.FindMasterKey(c.Data)
	if err != nil {
		return err
	}
	owner, err := datadir.BackupOwner(found.Key)
	if err != nil {
		return err
	}
	if owner == "" {
		return program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("%s does not exist, but it identifies the server's snapshots: name the server's data directory with --data, or set the key in %s", found.File, datadir.MasterKeyVariable)}
	}
	pruned, err := backup.Prune(ctx, nil, c.Dir, owner, c.Keep)
	if err != nil {
		return err
	}
	if len(pruned.Removed)+len(pruned.Kept) == 0 {
		return program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("%s contains %[3]d snapshots, but none of the server of %[2]s: name the server's data directory with --data", c.Dir, c.Data, pruned.Others)}
	}
	told := prunedJSON{Dir: c.Dir, Removed: snapshotIDs(pruned.Removed), Kept: snapshotIDs(pruned.Kept), Others: pruned.Others, Freed: pruned.Freed}
	if std.JSON {
		return std.Value(told)
	}
	lines := program.Format("removed %d of %d snapshots of this server from %s: %s freed", len(told.Removed), len(told.Removed)+len(told.Kept), c.Dir, size(told.Freed))
	for _, id := range told.Removed {
		lines.Add("  %s", id)
	}
	if told.Others > 0 {
		lines.Add("%d snapshots of others stay", told.Others)
	}
	return std.Say("%s", lines)
}

func snapshotIDs(snapshots []*backup.Snapshot) []string {
	ids := []string{}
	for _, s := range snapshots {
		ids = append(ids, s.ID)
	}
	return ids
}
