package persistence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/backup"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

func writeFile(t *testing.T, fs vfs.FS, name string, content []byte) {
	t.Helper()
	err := fs.MkdirAll(fs.PathDir(name), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(slices.Clone(content)) // under the race detector the disk overwrites what it is given
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// withFormat returns a disk with directory d, whose format row was changed, and a snapshot
// of it in directory backup.
func withFormat(t *testing.T, change func(made []byte) []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	s := mustOpen(t, "d", testOptions(fs, 2))
	key := layout.StoreKey(layout.FormatFamily)
	made, _, err := layout.Get(s.db, key)
	if err = errors.Join(err, s.db.Set(key, change(made), pebble.Sync)); err != nil {
		t.Fatal(err)
	}
	last, _, _, err := layout.LastHead(s.db, 0)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	hash := func(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }
	const taken = "20260314T120000.000Z"
	index := fmt.Sprintf("parley backup 1\ntaken %s\njournals 2\ncommits %d\ncopied 0\n", taken, last.Number)
	files := filesOf(t, fs)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if kindOf(name) != "other" && name != disk.WitnessName {
			writeFile(t, fs, "backup/files/"+hash(files[name]), files[name])
			index += fmt.Sprintf("file %s %d journal/%s\n", hash(files[name]), len(files[name]), name)
		}
	}
	writeFile(t, fs, "backup/snapshots/"+taken, []byte(index+"end "+hash([]byte(index))+"\n"))
	return fs
}

// otherFormat changes a format row to that of another version.
func otherFormat(version uint64) func([]byte) []byte {
	return func(made []byte) []byte { return append(layout.EncodeNumber(version), made[8:]...) }
}

// formatUses are the ways to read directory d, or the snapshot of it.
var formatUses = map[string]func(fs vfs.FS) (io.Closer, error){
	"open": func(fs vfs.FS) (io.Closer, error) { return Open("d", testOptions(fs, 0)) },
	"open and accept loss": func(fs vfs.FS) (io.Closer, error) {
		opts := testOptions(fs, 0)
		opts.AcceptLoss = true
		return Open("d", opts)
	},
	"open an archive": func(fs vfs.FS) (io.Closer, error) { return OpenArchive("d", testOptions(fs, 0)) },
	"restore": func(fs vfs.FS) (io.Closer, error) {
		_, err := backup.Restore(context.Background(), backup.RestoreOptions{FS: fs, From: "backup", To: "target"})
		return io.NopCloser(nil), err
	},
}

// TestOtherFormatsAreRefused: a directory of another format is refused by its number, also
// if losses are accepted or its witness is missing, and so is a snapshot of one. No file
// changes, and the directory does not count as damaged.
func TestOtherFormatsAreRefused(t *testing.T) {
	for _, version := range []uint64{layout.FormatVersion - 1, layout.FormatVersion + 1} {
		for _, witness := range []bool{true, false} {
			for how, use := range formatUses {
				fs := withFormat(t, otherFormat(version))
				if !witness {
					if err := fs.Remove("d/" + disk.WitnessName); err != nil {
						t.Fatal(err)
					}
				}
				before := filesOf(t, fs)
				used, err := use(fs)
				if err == nil {
					t.Errorf("format %d, %s: it is accepted", version, how)
					_ = used.Close()
					continue
				}
				want := fmt.Sprintf("has format %d; this program reads format %d: use the program that wrote it", version, layout.FormatVersion)
				if !strings.Contains(err.Error(), want) || errors.Is(err, ErrDamaged) || errors.Is(err, backup.ErrDamaged) {
					t.Errorf("%s: %v, want %q", how, err, want)
				}
				if after := filesOf(t, fs); !maps.EqualFunc(before, after, bytes.Equal) {
					t.Errorf("format %d, %s: the files %s became %s", version, how, sizes(before), sizes(after))
				}
				if _, err := fs.Stat("target"); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("format %d, %s: something was restored (%v)", version, how, err)
				}
			}
		}
	}
}

// TestOtherFormatsControl: the same directory is accepted if its row was not changed, and
// refused if it is no format row.
func TestOtherFormatsControl(t *testing.T) {
	for how, use := range formatUses {
		used, err := use(withFormat(t, func(made []byte) []byte { return made }))
		if err == nil {
			err = used.Close()
		}
		if err != nil {
			t.Errorf("%s: %v", how, err)
		}
		if _, err := use(withFormat(t, func(made []byte) []byte { return made[:10] })); err == nil || !strings.Contains(err.Error(), "not made by this program") {
			t.Errorf("%s, a row of 10 bytes: %v", how, err)
		}
	}
}

// TestFormatBeforeKeyring: a directory of another format is refused by its number, also if
// it has no keyring that this program can open.
func TestFormatBeforeKeyring(t *testing.T) {
	for change, want := range map[uint64]string{layout.FormatVersion - 1: "has format", layout.FormatVersion: "there is no keyring"} {
		opts := testOptions(withFormat(t, otherFormat(change)), 0)
		opts.OpenKeyring = func(disk.KeyringState) (Keyring, error) { return nil, errors.New("there is no keyring") }
		if _, err := Open("d", opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("format %d: %v, want %q", change, err, want)
		}
	}
}
