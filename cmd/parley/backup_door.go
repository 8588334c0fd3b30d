package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"parley/http/auth"
	"parley/persistence"
)

// backupDoor makes backups of an open store: for the operator's address of a
// server, or for the command itself where no server runs.
type backupDoor struct {
	store *persistence.Store
	data  string
}

// backupBodyMax is more than any path needs.
const backupBodyMax = 64 << 10

// ServeHTTP answers POST /backup with a line of JSON now and then, the last of
// which tells what came of it. A caller who goes away ends the backup. Browsers
// are refused: a page of elsewhere must not have this machine's files written.
func (d *backupDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" || r.Header.Get("Origin") != "" {
		http.Error(w, "a backup is asked for with application/json, and by no browser", http.StatusForbidden)
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
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
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
	made, err := d.take(r.Context(), request, func(p persistence.BackupProgress) {
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
	return nil
}

func (d *backupDoor) take(ctx context.Context, r backupRequest, progress func(persistence.BackupProgress)) (*snapshotJSON, error) {
	within, err := contains(d.data, r.To)
	if err != nil {
		return nil, exitError{code: exitUsage, err: fmt.Errorf("%s cannot be a backup directory: %w", r.To, err)}
	}
	if within {
		return nil, exitError{code: exitUsage, err: fmt.Errorf("%s lies in the data directory: a backup there would be lost with it", r.To)}
	}
	options := persistence.BackupOptions{To: r.To, Keep: r.Keep, Progress: progress}
	if !r.WithoutKey {
		key, err := d.key()
		if err != nil {
			return nil, fmt.Errorf("the master key cannot be backed up (leave it out with --without-key): %w", err)
		}
		options.Beside = map[string][]byte{masterKeyFile: key}
	}
	made, err := d.store.Backup(ctx, options)
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
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = filepath.Join(real, rest)
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
