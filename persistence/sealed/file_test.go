package sealed

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
	"parley/persistence/seal"
)

// A file is replaced whole or not at all, and what a failed write left is removed.
func TestFileIsReplaced(t *testing.T) {
	mem := vfs.NewCrashableMem()
	if err := disk.MakeDirectory(mem, "data"); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 1)
	f := NewFile(mem, "data/file", r.cipher().sealer)
	read := func(from vfs.FS) string {
		file, err := NewFile(from, "data/file", nil).Open()
		if errors.Is(err, fs.ErrNotExist) {
			return "none"
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(file)
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	write := func(text string, fails error) func(io.Writer) error {
		return func(to io.Writer) error {
			_, err := io.WriteString(to, text)
			if crashed := read(mem.CrashClone(vfs.CrashCloneCfg{})); crashed != read(mem) {
				t.Errorf("a crash while %q is written leaves %q", text, crashed)
			}
			return errors.Join(err, fails)
		}
	}
	expect(t, "the file", read(mem), "none")
	if err := f.Replace(write("first", nil)); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the disk is full")
	if err := f.Replace(write("half", failed)); !errors.Is(err, failed) {
		t.Errorf("a failed write: %v", err)
	}
	expect(t, "the file after a failed write", read(mem), "first")
	if names, err := mem.List("data"); err != nil || len(names) != 1 {
		t.Errorf("a failed write leaves %q: %v", names, err)
	}
	if err := f.Replace(write("second", nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, "the file after a crash", read(mem.CrashClone(vfs.CrashCloneCfg{})), "second")
}

// A block opens in its place and for its organization only, and not after that was erased.
func TestFileBlocks(t *testing.T) {
	r := newRig(t, 1)
	f := NewFile(vfs.NewMem(), "file", r.cipher().sealer)
	a, b := r.org(), r.org()
	plain := []byte("the words of a card")
	content, err := f.Seal(a, 3, plain)
	if err != nil || bytes.Contains(content, plain[:8]) {
		t.Fatalf("%q %v", content, err)
	}
	opened, err := f.Unseal(a, 3, content)
	if err != nil || !bytes.Equal(opened, plain) {
		t.Fatalf("%q %v", opened, err)
	}
	if _, err := f.Unseal(a, 4, content); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("in another place: %v", err)
	}
	if _, err := f.Unseal(b, 3, content); !errors.Is(err, ErrDamaged) {
		t.Errorf("for another organization: %v", err)
	}
	r.erase(a)
	if opened, err := f.Unseal(a, 3, content); opened != nil || err != nil {
		t.Errorf("of an erased organization: %q %v", opened, err)
	}
	if content, err := f.Seal(a, 3, plain); content != nil || err != nil {
		t.Errorf("for an erased organization: %q %v", content, err)
	}
}
