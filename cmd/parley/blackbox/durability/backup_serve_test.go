package durability

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// entries returns all paths below a directory.
func entries(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all[path] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestNoServerStartsInABackup: a server creates no store in a backup directory, in a part
// of one, or in an interrupted restore. It says what to do instead and creates no files.
func TestNoServerStartsInABackup(t *testing.T) {
	t.Parallel()
	data, _, _ := served(t)
	at := t.TempDir()
	backup, alone, half := filepath.Join(at, "backup"), filepath.Join(at, "alone"), filepath.Join(at, "half")
	kit.Succeeds(t, "backup", "--data", data, "--to", backup)
	if err := os.CopyFS(filepath.Join(alone, "snapshots"), os.DirFS(filepath.Join(backup, "snapshots"))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(half, "journal.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, words := range map[string][]string{
		backup:                             {"is a backup directory", "parley restore --from " + backup + " --data NEW-DIRECTORY"},
		filepath.Join(backup, "snapshots"): {"is a backup directory", "parley restore --from " + backup + " --data NEW-DIRECTORY"},
		filepath.Join(backup, "files"):     {"is a backup directory", "parley restore --from " + backup + " --data NEW-DIRECTORY"},
		alone:                              {"is a backup directory", "parley restore --from " + alone + " --data NEW-DIRECTORY"},
		half:                               {"a restore into it was cut short", "parley restore --from BACKUP"},
	} {
		before := entries(t, dir)
		kit.CheckMessage(t, dir, kit.Fails(t, dir), words...)
		if after := entries(t, dir); len(after) != len(before) {
			t.Errorf("%s had %v, has %v", dir, before, after)
		}
	}
	kit.Succeeds(t, "restore", "--from", backup, "--data", filepath.Join(at, "new"))
	serves(t, filepath.Join(at, "new"))
}
