package persistence

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/backup"
)

// TestBackupAt distinguishes backups and their parts from data directories, and
// from folders that only have the same names.
func TestBackupAt(t *testing.T) {
	fs := vfs.NewMem()
	s, _ := filled(t, fs, 10)
	snapshot := mustBackup(t, s, backup.Options{To: "all/backup"})
	mustClose(t, s)
	content := snapshot.Files[0].Sum
	for _, path := range []string{
		"bare/files/x", "bare/snapshots/x", "contents/files/" + content, "cut/files/" + content + ".tmp", "indexes/snapshots/" + snapshot.ID,
		"served/files/" + content, "served/snapshots/" + snapshot.ID, "served/journal/x",
		"pictures/files/cat.jpeg", "cloud/snapshots/monday", "restored/journal.tmp/x", "new/",
	} {
		if err := fs.MkdirAll(fs.PathDir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "/") {
			f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for dir, want := range map[string]string{
		"all/backup": "all/backup", "all/backup/": "all/backup/", "all/backup/files": "all/backup", "all/backup/snapshots/": "all/backup",
		"bare": "bare", "contents": "contents", "cut": "cut", "indexes": "indexes",
		"data": "", "served": "", "pictures": "", "cloud": "", "restored": "", "new": "", "all": "", "nowhere": "",
	} {
		if got := backup.At(fs, dir); got != want {
			t.Errorf("%s: the backup is at %q, want %q", dir, got, want)
		}
		if got := backup.RestoreCutShort(fs, dir); got != (dir == "restored") {
			t.Errorf("%s: a restore was interrupted: %t", dir, got)
		}
	}
}

// TestRestoreThatFailsLeavesDirectories: a refused restore removes the directories
// that it created, and no other.
func TestRestoreThatFailsLeavesDirectories(t *testing.T) {
	fs := vfs.NewMem()
	s, _ := filled(t, fs, 10)
	mustBackup(t, s, backup.Options{To: "backup"})
	mustClose(t, s)
	if err := fs.MkdirAll("there/empty", 0o700); err != nil {
		t.Fatal(err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 100, TotalBytes: 1 << 40})
	for _, to := range []string{"there/empty", "there/new", "new", "new/a/b"} {
		if _, err := backup.Restore(t.Context(), backup.RestoreOptions{FS: fs, From: "backup", To: to}); err == nil {
			t.Fatalf("%s: restored without space", to)
		}
	}
	if names, err := fs.List("there"); err != nil || len(names) != 1 || names[0] != "empty" {
		t.Errorf("the existing directory has %q, %v", names, err)
	}
	if names, err := fs.List("new"); err == nil {
		t.Errorf("the new directory was left, with %q", names)
	}
}
