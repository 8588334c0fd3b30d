//go:build unix

package server

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"parley/client/parley"
	"parley/cmd/parley/datadir"
)

// TestBackupStaysPrivate backs up the master key into a directory that others may write
// to, and into a private one. The controls remove the check of the directory, and the
// umask: then others could replace or read the key's file.
func TestBackupStaysPrivate(t *testing.T) {
	const private = 0o077 // the value that KeepFilesPrivate sets
	data := t.TempDir()
	h := testServer(t, "--data", data)
	key, err := os.ReadFile(filepath.Join(data, datadir.MasterKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	judged := func(to string) (string, error) { return datadir.BackupTarget(to, nil) }
	for name, c := range map[string]struct {
		umask   int // 0 means the value of KeepFilesPrivate
		mode    fs.FileMode
		target  func(string) (string, error)
		refused bool
		shown   bool // others may read a file with the key
	}{
		"own directory":          {0, 0o755, judged, false, false},
		"open directory":         {0, 0o777, judged, true, false},
		"control: not judged":    {0, 0o777, nil, false, false},
		"control: a usual umask": {0o022, 0o755, judged, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			to, err := filepath.EvalSymlinks(t.TempDir())
			if err == nil {
				err = os.Chmod(to, c.mode)
			}
			if err != nil {
				t.Fatal(err)
			}
			before := syscall.Umask(private)
			defer syscall.Umask(before)
			if datadir.KeepFilesPrivate(); c.umask != 0 {
				syscall.Umask(c.umask)
			}
			door := &datadir.Backup{Store: h.store, Data: data, Target: c.target}
			request := datadir.BackupRequest{To: to}
			if err = door.Check(request); err == nil {
				_, err = door.Take(context.Background(), request, nil)
			}
			if refused := (*parley.Refusal)(nil); errors.As(err, &refused) != c.refused || err != nil && !c.refused {
				t.Fatalf("the outcome is %v", err)
			}
			held, shown := whoseKey(t, to, key)
			if held == c.refused || shown != c.shown {
				t.Errorf("the directory has the key: %v, and others may read it: %v", held, shown)
			}
		})
	}
}

// whoseKey reports whether a file below a directory holds the key, and whether other
// users have a permission on such a file.
func whoseKey(t *testing.T, root string, key []byte) (held, shown bool) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(text, key) {
			return err
		}
		info, err := d.Info()
		if held = true; err == nil {
			shown = shown || info.Mode().Perm()&0o077 != 0
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return held, shown
}
