package admin

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"parley/actors/operator"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/datadir"
	"parley/persistence/backup"
)

// BackupEndpoint answers POST /backup.
type BackupEndpoint struct{ *datadir.Backup }

// Mount adds POST /backup.
func (d *BackupEndpoint) Mount(calls *Calls) {
	calls.Show(operator.RoleAdmin, "POST /backup", d.ServeHTTP)
}

// progressEvery is the pause between two lines of progress.
const progressEvery = 2 * time.Second

// backupBodyMax bounds the body of POST /backup.
const backupBodyMax = 64 << 10

// ServeHTTP answers with lines of JSON: progress every 2 s, and at the end the snapshot
// or an error. A backup ends when its caller disconnects. It rejects browsers, because a
// page from another site must not be able to make this server write files. A node of a cluster
// makes none that lacks what other nodes have acknowledged.
func (d *BackupEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := refuseBrowserRequest(r); err != nil {
		writeRefusal(w, err)
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
	if err == nil {
		err = d.Store.Fence(r.Context())
	}
	if refused := (*parley.Refusal)(nil); errors.As(err, &refused) {
		writeRefusal(w, err)
		return
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"detail": err.Error(), "code": "validation_error"})
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	say := func(line BackupLine) {
		text, _ := json.Marshal(line) // plain values always marshal
		_, _ = w.Write(append(text, '\n'))
		_ = flush.Flush()
	}
	next := time.Now()
	made, err := d.Take(r.Context(), request, func(p backup.Progress) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressEvery)
			line := BackupProgress(p)
			say(BackupLine{Progress: &line})
		}
	})
	if err != nil {
		slog.Error("a backup failed", "to", request.To, "error", err)
		say(BackupLine{Error: err.Error()})
		return
	}
	done := SnapshotOf(request.To, made)
	slog.Info("a backup was made", "to", request.To, "snapshot", done.Snapshot, "bytes", done.Bytes, "copied", done.Copied)
	say(BackupLine{Snapshot: done})
}

// BackupLine is one line of the answer of POST /backup. Exactly one field is set.
type BackupLine struct {
	Progress *BackupProgress `json:"progress,omitzero"`
	// Snapshot describes the finished snapshot.
	Snapshot *Snapshot `json:"snapshot,omitzero"`
	Error    string    `json:"error,omitzero"`
}

// BackupProgress is the progress of a backup, in bytes.
type BackupProgress struct {
	Stage string `json:"stage"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
}

// Snapshot is a snapshot in the output of `--json`.
type Snapshot struct {
	Dir      string   `json:"dir"`
	Snapshot string   `json:"snapshot"`
	TakenAt  api.Time `json:"taken_at"`
	Commits  uint64   `json:"commits"`
	Files    int      `json:"files"`
	Bytes    int64    `json:"bytes"`
	// Copied is how many of the bytes the backup directory did not have before.
	Copied    int64 `json:"copied"`
	MasterKey bool  `json:"master_key"`
	// Data is the directory to which the snapshot was restored.
	Data string `json:"data,omitzero"`
}

// SnapshotOf describes a snapshot in the backup directory dir.
func SnapshotOf(dir string, s *backup.Snapshot) *Snapshot {
	return &Snapshot{
		Dir: dir, Snapshot: s.ID, TakenAt: api.At(s.Taken), Commits: s.Commits,
		Files: len(s.Files), Bytes: s.Bytes(), Copied: s.Copied, MasterKey: s.HasMasterKey(),
	}
}
