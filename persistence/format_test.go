package persistence

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/backup"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// formerDirectories are the directory d that a release of format 3 closed, and the same
// after other ways to end. A directory that was opened once has its format in the log
// only.
func formerDirectories(t *testing.T) map[string]vfs.FS {
	t.Helper()
	all := map[string]vfs.FS{"closed": formerDirectory(t), "flushed": formerDirectory(t), "without a witness": formerDirectory(t)}
	changeEngine(t, all["flushed"], (*pebble.DB).Flush)
	if err := all["without a witness"].Remove("d/" + disk.WitnessName); err != nil {
		t.Fatal(err)
	}
	return all
}

// formerDirectory is the directory in testdata/format3.tar.gz.
func formerDirectory(t *testing.T) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	packed, err := os.Open("testdata/format3.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	zipped, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, fs, "d/LOCK", nil)
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return fs
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, fs, "d/"+path.Base(header.Name), content)
	}
}

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

// changeEngine changes the rows of the closed directory d, of whatever format.
func changeEngine(t *testing.T, fs vfs.FS, change func(*pebble.DB) error) {
	t.Helper()
	db, err := pebble.Open("d", &pebble.Options{FS: fs, Merger: layout.Merger, FormatMajorVersion: disk.EngineFormat, Logger: engineLogger{&Store{opts: testOptions(nil, 1)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// formerBackup makes a backup directory with a snapshot of directory d.
func formerBackup(t *testing.T, fs vfs.FS, journals int, commits uint64) {
	t.Helper()
	hash := func(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }
	const taken = "20260314T120000.000Z"
	index := fmt.Sprintf("parley backup 1\ntaken %s\njournals %d\ncommits %d\ncopied 0\n", taken, journals, commits)
	files := filesOf(t, fs)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != "LOCK" && name != disk.WitnessName {
			writeFile(t, fs, "backup/files/"+hash(files[name]), files[name])
			index += fmt.Sprintf("file %s %d journal/%s\n", hash(files[name]), len(files[name]), name)
		}
	}
	writeFile(t, fs, "backup/snapshots/"+taken, []byte(index+"end "+hash([]byte(index))+"\n"))
}

// formerUses are the ways to read a directory, or a snapshot of it. A backup opens the
// store first.
var formerUses = map[string]func(fs vfs.FS) (io.Closer, error){
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

// TestFormerFormatIsRefused: a directory of format 3 is refused by its number, also if
// losses are accepted, and so is a snapshot of one. No file changes, and the directory
// does not count as damaged.
func TestFormerFormatIsRefused(t *testing.T) {
	for name, fs := range formerDirectories(t) {
		formerBackup(t, fs, 2, 1)
		for how, use := range formerUses {
			if name == "flushed" && how == "open" {
				continue // the witness misses the log
			}
			before := filesOf(t, fs)
			used, err := use(fs)
			if err == nil {
				t.Errorf("%s, %s: it is accepted", name, how)
				_ = used.Close()
				continue
			}
			if !strings.Contains(err.Error(), "has format 3; this program reads format 4") || errors.Is(err, ErrDamaged) || errors.Is(err, backup.ErrDamaged) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			if after := filesOf(t, fs); !maps.EqualFunc(before, after, bytes.Equal) {
				t.Errorf("%s, %s: the files %s became %s", name, how, sizes(before), sizes(after))
			}
			if _, err := fs.Stat("target"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s, %s: something was restored (%v)", name, how, err)
			}
		}
	}
}

// TestFormerFormatBeforeKeyring: the format is refused before the keyring, which such a
// directory does not have, is missed.
func TestFormerFormatBeforeKeyring(t *testing.T) {
	for name, fs := range formerDirectories(t) {
		for _, acceptLoss := range []bool{false, true} {
			if name == "flushed" && !acceptLoss {
				continue // the witness misses the log
			}
			opts := testOptions(fs, 0)
			opts.AcceptLoss = acceptLoss
			opts.OpenKeyring = func(disk.KeyringState) (Keyring, error) { return nil, errors.New("there is no keyring") }
			if _, err := Open("d", opts); err == nil || !strings.Contains(err.Error(), "has format 3") || strings.Contains(err.Error(), "keyring") {
				t.Errorf("%s, losses accepted %v: %v", name, acceptLoss, err)
			}
		}
	}
	opts := testOptions(vfs.NewMem(), 0)
	mustClose(t, mustOpen(t, "d", opts))
	opts.OpenKeyring = func(disk.KeyringState) (Keyring, error) { return nil, errors.New("there is no keyring") }
	if _, err := Open("d", opts); err == nil || !strings.Contains(err.Error(), "there is no keyring") {
		t.Errorf("control, of this format: %v", err)
	}
}

// TestFormerFormatControl: the same directory is accepted if its row claims the present
// format, and opening it changes its files.
func TestFormerFormatControl(t *testing.T) {
	for how, use := range formerUses {
		fs := formerDirectory(t)
		var last disk.Head
		changeEngine(t, fs, func(db *pebble.DB) error {
			key := layout.StoreKey(layout.FormatFamily)
			value, _, err := layout.Get(db, key)
			if err != nil {
				return err
			}
			value = bytes.Clone(value)
			binary.BigEndian.PutUint64(value, layout.FormatVersion)
			if err := db.Set(key, value, pebble.Sync); err != nil {
				return err
			}
			last, _, _, err = layout.LastHead(db, 0)
			return errors.Join(err, db.Flush())
		})
		formerBackup(t, fs, 2, last.Number)
		before := filesOf(t, fs)
		used, err := use(fs)
		if how == "open" {
			// The witness does not know what was written without it.
			if err == nil || strings.Contains(err.Error(), "format") {
				t.Errorf("%s: %v", how, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", how, err)
			continue
		}
		if err := used.Close(); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		if changed := !maps.EqualFunc(before, filesOf(t, fs), bytes.Equal); changed != (how == "open and accept loss") {
			t.Errorf("%s: the files have changed: %v", how, changed)
		}
	}
}
