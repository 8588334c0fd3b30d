package persistence

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestBackupAt tells backups and their parts from data directories and from
// folders that only bear the same names.
func TestBackupAt(t *testing.T) {
	fs := vfs.NewMem()
	s, _ := filled(t, fs, 10)
	snapshot := mustBackup(t, s, BackupOptions{To: "all/backup"})
	mustClose(t, s)
	content := snapshot.Files[0].Sum
	for _, path := range []string{
		"bare/files/x", "bare/snapshots/x", "contents/files/" + content, "cut/files/" + content + unfinished, "indexes/snapshots/" + snapshot.ID,
		"served/files/" + content, "served/snapshots/" + snapshot.ID, "served/journal/x",
		"pictures/files/cat.jpeg", "cloud/snapshots/monday", "restored/" + restoring + "/x", "new/",
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
		if got := BackupAt(fs, dir); got != want {
			t.Errorf("%s: the backup is at %q, want %q", dir, got, want)
		}
		if got := RestoreCutShort(fs, dir); got != (dir == "restored") {
			t.Errorf("%s: a restore was cut short: %t", dir, got)
		}
	}
}
