package operator

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"parley/client/parley"
	"parley/cmd/parley/admin"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
	"parley/persistence"
	"parley/persistence/backup"
)

type BackupCmd struct {
	Take  backupTakeCmd  `cmd:"" default:"withargs" help:"Write a snapshot; default subcommand."`
	List  backupListCmd  `cmd:"" help:"List the snapshots of a backup directory, oldest first."`
	Check backupCheckCmd `cmd:"" help:"Read a whole snapshot and compare every file with its hash."`
	Prune backupPruneCmd `cmd:"" help:"Delete all but the newest snapshots of one server, without making a new one."`
}

type backupTakeCmd struct {
	To         string `required:"" placeholder:"DIR" help:"Backup directory, on the server's machine. Files that it already contains are not copied again."`
	Admin      string `env:"PARLEY_ADMIN" placeholder:"URL" help:"Admin address of the running server; default: http://127.0.0.1:8081."`
	Data       string `placeholder:"DIR" help:"With --admin: data directory of that server, for its admin.token. Without --admin: the directory to back up, which no server may have open."`
	Keep       int    `placeholder:"N" help:"Afterwards delete all but the N newest snapshots and the files that only the deleted ones used; default: keep all."`
	WithoutKey bool   `help:"Leave out master.key. With the key, anyone who can read the backup can read everything that is stored and sign access tokens; without it, a restored server needs the key from elsewhere."`
}

func (c *backupTakeCmd) Validate() error {
	if c.Keep < 0 {
		return fmt.Errorf("--keep: %d is negative", c.Keep)
	}
	return nil
}

// Run asks the running server for a snapshot, or makes one of a data directory that no
// server has open.
func (c *backupTakeCmd) Run(ctx context.Context, std *program.Streams) error {
	var made *admin.Snapshot
	var err error
	if c.Data != "" && c.Admin == "" {
		made, err = c.offline(ctx, std)
	} else {
		made, err = c.online(ctx, std)
	}
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(made)
	}
	lines := program.Format("snapshot %s in %s\n  %d files, %s, of which %s are new", made.Snapshot, made.Dir, made.Files, size(made.Bytes), size(made.Copied))
	if !made.MasterKey {
		lines.Add("  master.key is not in it: keep that file elsewhere, or no server can be started on a restored directory")
	}
	return std.Say("%s", lines)
}

func (c *backupTakeCmd) offline(ctx context.Context, std *program.Streams) (*admin.Snapshot, error) {
	store, keys, found, err := datadir.OpenForBackup(c.Data, std)
	if errors.Is(err, persistence.ErrInUse) {
		return nil, fmt.Errorf("%w\nIf a server uses the directory, let it make the backup: name its admin address with --admin, or omit --data", err)
	}
	if err != nil {
		return nil, err
	}
	to := &datadir.Backup{Store: store, Keyring: keys, Data: c.Data, Master: found.Key}
	made, err := to.Take(ctx, datadir.BackupRequest{To: c.To, Keep: c.Keep, WithoutKey: c.WithoutKey}, progress(std))
	if err = errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	return admin.SnapshotOf(c.To, made), nil
}

func (c *backupTakeCmd) online(ctx context.Context, std *program.Streams) (*admin.Snapshot, error) {
	server := operatorFlags{Admin: c.Admin, Data: cmp.Or(c.Data, os.Getenv("PARLEY_DATA"), datadir.Default)}
	admin, err := server.address()
	if err != nil {
		return nil, err
	}
	to := c.To
	if !filepath.IsAbs(to) {
		if !parley.IsLoopback(admin.Hostname()) {
			return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--to: %q is not an absolute path, which a server on another machine needs", to)}
		}
		if to, err = filepath.Abs(to); err != nil {
			return nil, err
		}
	}
	answer, err := server.do(ctx, "backup", datadir.BackupRequest{To: to, Keep: c.Keep, WithoutKey: c.WithoutKey})
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	return readBackup(answer, progress(std))
}

// readBackup reads the lines of an answer to the end and returns the snapshot.
func readBackup(answer *http.Response, progress func(backup.Progress)) (*admin.Snapshot, error) {
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		var line admin.BackupLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("the server's answer: %w", err)
		}
		switch {
		case line.Error != "":
			return nil, errors.New(line.Error)
		case line.Snapshot != nil:
			return line.Snapshot, nil
		case line.Progress != nil:
			progress(backup.Progress(*line.Progress))
		}
	}
	return nil, program.ExitError{Code: program.ExitNetwork, Err: errors.New("the connection broke before the backup was complete, and the backup is not listed")}
}

type backupListCmd struct {
	Dir string `arg:"" help:"Backup directory."`
}

func (c *backupListCmd) Run(std *program.Streams) error {
	snapshots, err := backup.List(nil, c.Dir)
	all := []*admin.Snapshot{}
	rows := [][]string{{"SNAPSHOT", "BYTES", "NEW", "FILES", "COMMITS", "KEY"}}
	for _, s := range snapshots {
		line := admin.SnapshotOf(c.Dir, s)
		all = append(all, line)
		rows = append(rows, []string{line.Snapshot, size(line.Bytes), size(line.Copied), strconv.Itoa(line.Files), strconv.FormatUint(line.Commits, 10), strconv.FormatBool(line.MasterKey)})
	}
	if err != nil && len(all) == 0 {
		return err
	}
	if std.JSON {
		return errors.Join(program.List(std, all), err)
	}
	return errors.Join(std.Table(rows), err)
}

type backupCheckCmd struct {
	From string `arg:"" placeholder:"DIR[@SNAPSHOT]" help:"Backup directory, and optionally one of its snapshots; default: the newest."`
}

func (c *backupCheckCmd) Run(ctx context.Context, std *program.Streams) error {
	dir, snapshot := splitSnapshot(c.From)
	checked, err := backup.Check(ctx, nil, dir, snapshot, progress(std))
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(admin.SnapshotOf(dir, checked))
	}
	return std.Say("snapshot %s is whole: %d files, %s", checked.ID, len(checked.Files), size(checked.Bytes()))
}

// splitSnapshot splits DIR[@SNAPSHOT]. If a directory with an @ in its name exists, the
// text is that directory without a snapshot.
func splitSnapshot(text string) (dir, snapshot string) {
	at := strings.LastIndex(text, "@")
	if _, err := os.Stat(text); err == nil || at < 0 {
		return text, ""
	}
	return text[:at], text[at+1:]
}

// progressEvery is the pause between two lines of progress.
const progressEvery = 2 * time.Second

// progress returns a function that prints the progress on standard error, at most every 2
// s.
func progress(s *program.Streams) func(backup.Progress) {
	next := time.Now().Add(progressEvery)
	return func(p backup.Progress) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressEvery)
			s.Note("%s: %s of %s", p.Stage, size(p.Done), size(p.Total))
		}
	}
}

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
