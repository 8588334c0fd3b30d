package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"parley"
	"parley/cmd/parley/program"
	"parley/http/auth"
	"parley/persistence"
	"parley/persistence/backup"
)

// backupDoor makes backups of an open store: for the operator's address of a
// server, or for the command itself where no server runs.
type backupDoor struct {
	store *persistence.Store
	data  string
	// owner is the name under which snapshots are this server's, see backupOwner.
	owner string
	// target judges and resolves the directory of a backup; nil where a person
	// writes with rights of their own.
	target func(to string) (string, error)
}

// backupOwner is the name under which a server's snapshots lie in a backup
// directory. It goes with the master key, which a restored directory keeps.
func backupOwner(master *auth.MasterKey) (string, error) {
	if master == nil {
		return "", nil
	}
	name, err := master.Derive("backup owner")
	return hex.EncodeToString(name[:min(len(name), 8)]), err
}

func (d *backupDoor) mount(mux *http.ServeMux) { mux.Handle("POST /backup", d) }

// backupBodyMax is more than any path needs.
const backupBodyMax = 64 << 10

// ServeHTTP answers POST /backup with a line of JSON now and then, the last of
// which tells what came of it. A caller who goes away ends the backup. Browsers
// are refused: a page of elsewhere must not have this machine's files written.
func (d *backupDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := byNoBrowser(r); err != nil {
		refuseOrder(w, err)
		return
	}
	var request backupRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, backupBodyMax))
	if err == nil {
		err = json.Unmarshal(body, &request, json.RejectUnknownMembers(true))
	}
	if err == nil {
		err = d.judge(request)
	}
	if refused := (*parley.Refusal)(nil); errors.As(err, &refused) {
		refuseOrder(w, err)
		return
	}
	if err != nil {
		writeOrder(w, http.StatusBadRequest, map[string]string{"detail": err.Error(), "code": "validation_error"})
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	say := func(line backupLine) {
		text, _ := json.Marshal(line) // plain values
		_, _ = w.Write(append(text, '\n'))
		_ = flush.Flush()
	}
	next := time.Now()
	made, err := d.take(r.Context(), request, func(p backup.Progress) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressEvery)
			line := progressJSON(p)
			say(backupLine{Progress: &line})
		}
	})
	if err != nil {
		slog.Error("a backup failed", "to", request.To, "error", err)
		say(backupLine{Error: err.Error()})
		return
	}
	slog.Info("a backup was made", "to", request.To, "snapshot", made.Snapshot, "bytes", made.Bytes, "copied", made.Copied)
	say(backupLine{Snapshot: made})
}

func (d *backupDoor) judge(r backupRequest) error {
	switch {
	case !filepath.IsAbs(r.To):
		return fmt.Errorf("to: %q is not an absolute path", r.To)
	case r.Keep < 0:
		return fmt.Errorf("keep: %d is less than none", r.Keep)
	}
	if d.target == nil {
		return nil
	}
	if _, err := d.target(r.To); err != nil {
		return errBackupTarget.Saying(fmt.Sprintf("%s cannot be a backup directory: %v.", r.To, err))
	}
	return nil
}

var errBackupTarget = parley.Refuse(parley.Forbidden, "forbidden", "The server may not write a backup there.")

// prepare makes the backup directory where there is none, and gives its real
// path: what lay at a path that was judged may have been made by others since.
func (d *backupDoor) prepare(to string) (string, error) {
	if d.target == nil {
		return to, nil
	}
	made, err := d.target(to)
	if err == nil {
		err = os.MkdirAll(made, 0o700)
	}
	if err == nil {
		made, err = d.target(made)
	}
	return made, err
}

func (d *backupDoor) take(ctx context.Context, r backupRequest, progress func(backup.Progress)) (*snapshotJSON, error) {
	within, err := contains(d.data, r.To)
	if err != nil {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s cannot be a backup directory: %w", r.To, err)}
	}
	if within {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s lies in the data directory: a backup there would be lost with it", r.To)}
	}
	if r.Keep > 0 && d.owner == "" {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--keep: without the master key it is not known which snapshots are this server's")}
	}
	options := backup.Options{Owner: d.owner, Keep: r.Keep, Progress: progress}
	if !r.WithoutKey {
		key, err := d.key()
		if err != nil {
			return nil, fmt.Errorf("the master key cannot be backed up (leave it out with --without-key): %w", err)
		}
		options.Beside = map[string][]byte{masterKeyFile: key}
	}
	if options.To, err = d.prepare(r.To); err != nil {
		return nil, err
	}
	made, err := backup.Take(ctx, d.store, options)
	if err != nil {
		return nil, err
	}
	return snapshotOf(r.To, made), nil
}

// key is what the master key's file holds. A key that does not open what is
// sealed is not let into a backup: it would be found out when the backup is
// needed, and when those that have the right one are deleted.
func (d *backupDoor) key() ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(d.data, masterKeyFile))
	if err != nil {
		return nil, err
	}
	found := masterKey{file: filepath.Join(d.data, masterKeyFile), filed: true}
	if found.key, err = auth.NewMasterKey(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", found.file, err)
	}
	view := d.store.View()
	defer view.Close()
	return raw, found.fits(view)
}

// contains reports whether path, which need not exist, is dir or lies in it.
func contains(dir, path string) (bool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return false, err
	}
	rest := ""
	for ; ; path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest) {
		resolved, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = filepath.Join(resolved, rest)
			break
		}
		if !errors.Is(err, os.ErrNotExist) || filepath.Dir(path) == path {
			return false, err
		}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, err
	}
	between, err := filepath.Rel(dir, path)
	return err == nil && between != ".." && !strings.HasPrefix(between, ".."+string(filepath.Separator)), nil
}
