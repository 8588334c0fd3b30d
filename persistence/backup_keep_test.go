package persistence

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestBackupKeepsOthers: pruning touches neither the snapshots of another owner, nor
// those that name none, nor what no backup has written.
func TestBackupKeepsOthers(t *testing.T) {
	fs := vfs.NewMem()
	s, c := filled(t, fs, 10)
	var others []*Snapshot
	for _, owner := range []string{"", "other", "other"} {
		c.write(t, s)
		others = append(others, mustBackup(t, s, BackupOptions{To: "backup", Owner: owner}))
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
	var last *Snapshot
	for range 3 {
		c.write(t, s)
		last = mustBackup(t, s, BackupOptions{To: "backup", Owner: "mine", Keep: 1})
	}
	mustClose(t, s)
	left, err := Snapshots(fs, "backup")
	if err != nil || len(left) != len(others)+1 || left[3].ID != last.ID || left[3].Owner != "mine" {
		t.Fatalf("%d snapshots are left (%v)", len(left), err)
	}
	for i, snapshot := range left {
		if i < len(others) && (snapshot.ID != others[i].ID || snapshot.Owner != others[i].Owner) {
			t.Errorf("%v is left, and %v was taken", snapshot, others[i])
		}
		if _, err := CheckBackup(context.Background(), fs, "backup", snapshot.ID, nil); err != nil {
			t.Error(err)
		}
	}
	for _, path := range foreign {
		if _, err := fs.Stat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestBackupKeepsOthersControl: where all snapshots are of one owner, as they were
// before each had one, Keep deletes those of all servers.
func TestBackupKeepsOthersControl(t *testing.T) {
	fs := vfs.NewMem()
	s, c := filled(t, fs, 10)
	for range 3 {
		c.write(t, s)
		mustBackup(t, s, BackupOptions{To: "backup", Owner: "anybody"})
	}
	mustBackup(t, s, BackupOptions{To: "backup", Owner: "anybody", Keep: 1})
	mustClose(t, s)
	if left, err := Snapshots(fs, "backup"); err != nil || len(left) != 1 {
		t.Errorf("%d snapshots are left (%v)", len(left), err)
	}
}
