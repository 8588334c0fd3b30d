package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"parley"
	"parley/cmd/parley/datadir"
	"parley/http/api"
	"parley/persistence/backup"
)

// backupDoor answers POST /backup.
type backupDoor struct{ *datadir.Backup }

func (d *backupDoor) mount(mux *http.ServeMux) { mux.Handle("POST /backup", d) }

// backupProgressEvery is how often the answer says how far the backup is.
const backupProgressEvery = 2 * time.Second

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
	var request datadir.BackupRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, backupBodyMax))
	if err == nil {
		err = json.Unmarshal(body, &request, json.RejectUnknownMembers(true))
	}
	if err == nil {
		err = d.Check(request)
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
	made, err := d.Take(r.Context(), request, func(p backup.Progress) {
		if now := time.Now(); now.After(next) {
			next = now.Add(backupProgressEvery)
			line := progressJSON(p)
			say(backupLine{Progress: &line})
		}
	})
	if err != nil {
		slog.Error("a backup failed", "to", request.To, "error", err)
		say(backupLine{Error: err.Error()})
		return
	}
	done := snapshotOf(request.To, made)
	slog.Info("a backup was made", "to", request.To, "snapshot", done.Snapshot, "bytes", done.Bytes, "copied", done.Copied)
	say(backupLine{Snapshot: done})
}

// backupLine is one line of its answer: how far it is, and at the end what came
// of it.
type backupLine struct {
	Progress *progressJSON `json:"progress,omitzero"`
	Snapshot *snapshotJSON `json:"snapshot,omitzero"`
	Error    string        `json:"error,omitzero"`
}

type progressJSON struct {
	Stage string `json:"stage"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
}

// snapshotJSON is a snapshot as `--json` tells it.
type snapshotJSON struct {
	Dir      string   `json:"dir"`
	Snapshot string   `json:"snapshot"`
	TakenAt  api.Time `json:"taken_at"`
	Commits  uint64   `json:"commits"`
	Files    int      `json:"files"`
	Bytes    int64    `json:"bytes"`
	// Copied is how many of the bytes were not in the backup directory before.
	Copied    int64 `json:"copied"`
	MasterKey bool  `json:"master_key"`
	// Data is the directory into which it was restored.
	Data string `json:"data,omitzero"`
}

func snapshotOf(dir string, s *backup.Snapshot) *snapshotJSON {
	return &snapshotJSON{
		Dir: dir, Snapshot: s.ID, TakenAt: api.At(s.Taken), Commits: s.Commits,
		Files: len(s.Files), Bytes: s.Bytes(), Copied: s.Copied, MasterKey: s.Has(datadir.MasterKeyFile),
	}
}
