package persistence

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/backup"
)

// TestBackupKeepsOthers: pruning leaves the snapshots of other owners, those
// without an owner, and files that no backup wrote.
func TestBackupKeepsOthers(t *testing.T) {
	fs := vfs.NewMem()
	s, c := filled(t, fs, 10)
	var others []*backup.Snapshot
	for _, owner := range []string{"", "other", "other"} {
		c.write(t, s)
		others = append(others, mustBackup(t, s, backup.Options{To: "backup", Owner: owner}))
	}
	foreign := []string{"backup/files/letter.txt", "backup/files/letter.tmp", "backup/files/" + strings.Repeat("A", 64)}
	for _, path := range foreign {
		f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var last *backup.Snapshot
	for range 3 {
		c.write(t, s)
		last = mustBackup(t, s, backup.Options{To: "backup", Owner: "mine", Keep: 1})
	}
	mustClose(t, s)
	left, err := backup.List(fs, "backup")
	if err != nil || len(left) != len(others)+1 || left[3].ID != last.ID || left[3].Owner != "mine" {
		t.Fatalf("%d snapshots are left (%v)", len(left), err)
	}
	for i, snapshot := range left {
		if i < len(others) && (snapshot.ID != others[i].ID || snapshot.Owner != others[i].Owner) {
			t.Errorf("%v is left, and %v was taken", snapshot, others[i])
		}
		if _, err := backup.Check(context.Background(), fs, "backup", snapshot.ID, nil); err != nil {
			t.Error(err)
		}
	}
	for _, path := range foreign {
		if _, err := fs.Stat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestBackupKeepsOthersControl: if all snapshots have the same owner, Keep deletes those of
// every server.
func TestBackupKeepsOthersControl(t *testing.T) {
	fs := vfs.NewMem()
	s, c := filled(t, fs, 10)
	for range 3 {
		c.write(t, s)
		mustBackup(t, s, backup.Options{To: "backup", Owner: "anybody"})
	}
	mustBackup(t, s, backup.Options{To: "backup", Owner: "anybody", Keep: 1})
	mustClose(t, s)
	if left, err := backup.List(fs, "backup"); err != nil || len(left) != 1 {
		t.Errorf("%d snapshots are left (%v)", len(left), err)
	}
}

// TestPruneBackups: pruning without a backup deletes the owner's oldest snapshots and the
// contents that only they needed, and rejects impossible requests.
func TestPruneBackups(t *testing.T) {
	fs := vfs.NewMem()
	s, c := filled(t, fs, 10)
	var ids []string
	for _, owner := range []string{"mine", "other", "mine", "", "mine"} {
		c.write(t, s)
		ids = append(ids, mustBackup(t, s, backup.Options{To: "backup", Owner: owner}).ID)
	}
	mustClose(t, s)
	prune := func(dir, owner string, keep int) (*backup.Pruned, error) {
		return backup.Prune(t.Context(), fs, dir, owner, keep)
	}
	for what, try := range map[string]func() (*backup.Pruned, error){
		"of nobody": func() (*backup.Pruned, error) { return prune("backup", "", 1) },
		"all":       func() (*backup.Pruned, error) { return prune("backup", "mine", 0) },
		"elsewhere": func() (*backup.Pruned, error) { return prune("data", "mine", 1) },
		"nowhere":   func() (*backup.Pruned, error) { return prune("new", "mine", 1) },
		"busy": func() (*backup.Pruned, error) {
			lock, err := pebble.LockDirectory("backup", fs)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lock.Close() }()
			return prune("backup", "mine", 1)
		},
	} {
		if p, err := try(); err == nil {
			t.Errorf("%s: %+v", what, p)
		}
	}
	if names, err := fs.List("new"); err == nil {
		t.Errorf("a directory was created, with %q", names)
	}
	before := len(files(t, fs, "backup/files"))
	for _, step := range []struct {
		owner   string
		keep    int
		removed int
		left    []string
	}{
		{"stranger", 1, 0, ids},
		{"mine", 3, 0, ids},
		{"mine", 1, 2, []string{ids[1], ids[3], ids[4]}},
		{"mine", 1, 0, []string{ids[1], ids[3], ids[4]}},
	} {
		p, err := prune("backup", step.owner, step.keep)
		if err != nil || len(p.Removed) != step.removed || (p.Freed > 0) != (step.removed > 0) {
			t.Fatalf("%+v: %+v, %v", step, p, err)
		}
		if left := files(t, fs, "backup/snapshots"); !slices.Equal(left, step.left) {
			t.Errorf("%+v: %q are left", step, left)
		}
		for _, id := range step.left {
			if _, err := backup.Check(t.Context(), fs, "backup", id, nil); err != nil {
				t.Error(err)
			}
		}
	}
	if after := len(files(t, fs, "backup/files")); after >= before {
		t.Errorf("%d contents before, %d after", before, after)
	}
}
