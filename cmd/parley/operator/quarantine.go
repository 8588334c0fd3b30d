package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"parley/actors/record"
	"parley/client/api"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
	"parley/journal"
	"parley/persistence"
)

type QuarantineCmd struct {
	List quarantineListCmd `cmd:"" default:"withargs" help:"List the rows in quarantine and change nothing; default subcommand."`
	Drop quarantineDropCmd `cmd:"" help:"Delete rows of the quarantine for good; verify then no longer reports them."`
}

type quarantineListCmd struct {
	Data string `env:"PARLEY_DATA" default:"./parley-data" placeholder:"DIR" help:"Data directory, which no server may have open. Default: ${default}."`
}

type quarantineDropCmd struct {
	quarantineListCmd
	All bool     `help:"Drop all rows."`
	Row []string `arg:"" optional:"" help:"Rows to drop, named as \"quarantine list\" names them."`
}

// QuarantineRow is a row of the quarantine in the output of --json.
type QuarantineRow struct {
	Row string `json:"row"`
	// Actor is the actor that the data was for.
	Actor string   `json:"actor"`
	At    api.Time `json:"put_aside_at"`
	Why   string   `json:"why"`
	Bytes int      `json:"bytes"`
	SHA   string   `json:"sha256"`
	Data  []byte   `json:"data"`
}

func (r *QuarantineRow) text() program.Printable {
	const told = 128
	data := hex.EncodeToString(r.Data[:min(len(r.Data), told)])
	if len(r.Data) > told {
		data += "..."
	}
	return program.Format("%s\n  for          %s\n  put aside    %s\n  why          %s\n  %5d bytes  %s", r.Row, r.Actor, program.Clock(r.At), r.Why, r.Bytes, data)
}

// quarantined reads all rows of the quarantine.
func quarantined(v interface {
	Table(table journal.Table, fn func(key, value []byte) bool) error
},
) (all []record.Quarantined, rows []*QuarantineRow, err error) {
	err = record.Quarantine(v, func(q record.Quarantined) bool {
		sum := sha256.Sum256(q.Word)
		all = append(all, q)
		rows = append(rows, &QuarantineRow{
			Row: q.Name(), Actor: q.Actor(), At: api.At(q.At), Why: q.Why, Bytes: len(q.Word), SHA: hex.EncodeToString(sum[:]), Data: q.Word,
		})
		return true
	})
	return all, rows, err
}

// Run reads the directory and changes nothing.
func (c *quarantineListCmd) Run(std *program.Streams) error {
	dir, err := datadir.Journal(c.Data)
	if err != nil {
		return err
	}
	archive, err := persistence.OpenArchive(dir, persistence.Options{
		Clock: time.Now, CacheBytes: 8 << 20, Logger: slog.New(slog.NewTextHandler(std.Log(), &slog.HandlerOptions{Level: slog.LevelError})),
		Fatal: func(err error) { os.Exit(std.Fail(err)) },
	})
	if err != nil {
		return datadir.Advise(err, c.Data)
	}
	_, rows, err := quarantined(archive)
	if err = errors.Join(err, archive.Close()); err != nil {
		return err
	}
	if std.JSON {
		return program.List(std, rows)
	}
	if len(rows) == 0 {
		return std.Say("nothing is in quarantine in %s", c.Data)
	}
	return printRows(std, rows)
}

// printRows prints rows of the quarantine as text.
func printRows(s *program.Streams, rows []*QuarantineRow) error {
	var lines program.Printable
	for _, r := range rows {
		lines.Add("%s", r.text())
	}
	return s.Say("%s", lines)
}

func (c *quarantineDropCmd) Validate() error {
	if c.All == (len(c.Row) > 0) {
		return errors.New("name the rows to drop, or --all")
	}
	return nil
}

// Run deletes rows through the journal. If any of the named rows does not exist, it
// deletes none. It prints each row and logs it with its hash.
func (c *quarantineDropCmd) Run(ctx context.Context, std *program.Streams) error {
	store, err := datadir.Open(c.Data, std)
	if errors.Is(err, persistence.ErrInUse) {
		return fmt.Errorf("%w\nStop the server first", err)
	}
	if err != nil {
		return err
	}
	dropped, err := c.drop(ctx, store, quarantineLog(std))
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	if std.JSON {
		return program.List(std, dropped)
	}
	if len(dropped) == 0 {
		return std.Say("nothing is in quarantine in %s", c.Data)
	}
	return errors.Join(printRows(std, dropped), std.Say("dropped %d", len(dropped)))
}

// quarantineLog returns a logger to standard error, in a format that a log collector can
// parse.
func quarantineLog(std *program.Streams) *slog.Logger {
	if std.JSON {
		return slog.New(slog.NewJSONHandler(std.Log(), nil))
	}
	return slog.New(slog.NewTextHandler(std.Log(), nil))
}

func (c *quarantineDropCmd) drop(ctx context.Context, store *persistence.Store, log *slog.Logger) (dropped []*QuarantineRow, err error) {
	view := store.View()
	all, rows, err := quarantined(view.RowReader)
	view.Close()
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, r := range rows {
		there[r.Row] = true
	}
	for _, name := range c.Row {
		if !there[name] {
			return nil, program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("%q is not in quarantine, so nothing was dropped; \"%s\" lists the rows", name, program.Typed("quarantine list --data "+c.Data))}
		}
	}
	if err := store.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}); err != nil {
		return nil, err
	}
	for i, r := range rows {
		if !c.All && !slices.Contains(c.Row, r.Row) {
			continue
		}
		done := make(chan error, 1)
		store.Append(all[i].Drop(time.Now(), func(err error) { done <- err }))
		select {
		case err = <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return dropped, fmt.Errorf("%s: %w", r.Row, err)
		}
		log.Warn("an effect in quarantine was dropped", "data", c.Data, "row", r.Row, "put_aside_at", r.At.Time, "why", r.Why, "bytes", r.Bytes, "sha256", r.SHA)
		dropped = append(dropped, r)
	}
	return dropped, nil
}
