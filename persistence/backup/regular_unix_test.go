//go:build unix

package backup

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"parley/persistence/disk"
)

// TestRestoreOpensNoPipe puts a pipe, whose opening waits for a writer, where a restore and a check
// read a file.
func TestRestoreOpensNoPipe(t *testing.T) {
	taken := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	name := taken.Format(snapshotName)
	good := File{Name: "journal/000001.sst", Size: 1, Sum: sum(nil)}
	keyring := disk.KeyringState{Identity: [16]byte{1}}
	for what, s := range map[string]Snapshot{
		"index":   {},
		"content": {Taken: taken, Files: []File{good}},
		"keyring": {Taken: taken, Keyring: keyring},
	} {
		from := t.TempDir()
		pipe := map[string]string{
			"index": filepath.Join(from, indexFolder, name), "content": filepath.Join(from, contentFolder, good.Sum),
			"keyring": filepath.Join(keyringPath(orDefault(nil), from, keyring), "00.a"),
		}[what]
		for _, dir := range []string{filepath.Join(from, indexFolder), filepath.Dir(pipe)} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		if what != "index" {
			if err := os.WriteFile(filepath.Join(from, indexFolder, name), s.encode(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 2)
		go func() {
			_, err := Restore(t.Context(), RestoreOptions{From: from, To: filepath.Join(from, "to")})
			ended <- err
			_, err = Check(t.Context(), nil, from, "", nil)
			ended <- err
		}()
		for range 2 {
			select {
			case err := <-ended:
				if !errors.Is(err, ErrDamaged) {
					t.Errorf("%s: %v", what, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: the pipe was opened", what)
			}
		}
	}
}
