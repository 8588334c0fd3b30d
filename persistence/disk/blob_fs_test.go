package disk

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// brokenFS fails the operations of one kind on blob files.
type brokenFS struct {
	vfs.FS
	fails string
}

type brokenFile struct {
	vfs.File
	fails string
}

var errBroken = errors.New("broken")

func (b brokenFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := b.FS.Create(path, category)
	if b.PathBase(path) == BlobName(7) {
		return brokenFile{f, b.fails}, err
	}
	return f, err
}

func (f brokenFile) when(name string, do func() error) error {
	if name == f.fails {
		return errBroken
	}
	return do()
}

func (f brokenFile) Sync() error     { return f.when("sync", f.File.Sync) }
func (f brokenFile) SyncData() error { return f.when("sync data", f.File.SyncData) }
func (f brokenFile) Close() error {
	return errors.Join(f.File.Close(), f.when("close", func() error { return nil }))
}

func (f brokenFile) Write(b []byte) (n int, err error) {
	err = f.when("write", func() error { n, err = f.File.Write(b); return err })
	return n, err
}

func (f brokenFile) SyncTo(n int64) (whole bool, err error) {
	err = f.when("sync to", func() error { whole, err = f.File.SyncTo(n); return err })
	return whole, err
}

// writeAll does to a file what the engine may do, and returns all errors.
func writeAll(f vfs.File) error {
	_, wrote := f.Write([]byte("bytes"))
	_, synced := f.SyncTo(3)
	return errors.Join(wrote, synced, f.SyncData(), f.Sync(), f.Close())
}

// TestBlobThatCannotBeWritten: whatever fails while a blob file is written, the table
// that is written for the same purpose fails, and the blob file does not. Other
// tables are written, and so are all if nothing fails.
func TestBlobThatCannotBeWritten(t *testing.T) {
	for _, fails := range []string{"nothing", "write", "sync", "sync data", "sync to", "close"} {
		m := NewMonitor(Options{Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
		fs := m.BlobFS(brokenFS{vfs.NewMem(), fails})
		make := func(name string, category vfs.DiskWriteCategory) vfs.File {
			f, err := fs.Create(name, category)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		finished := make("000001.sst", "flush")
		if err := writeAll(finished); err != nil {
			t.Fatal(err)
		}
		table, other := make("000005.sst", "flush"), make("000006.sst", "compaction")
		if err := writeAll(make(BlobName(7), "flush")); err != nil {
			t.Errorf("%s fails, and the engine gets %v", fails, err)
		}
		if err := writeAll(table); errors.Is(err, errBroken) != (fails != "nothing") {
			t.Errorf("%s fails, and its table gets %v", fails, err)
		}
		if err := writeAll(other); err != nil {
			t.Errorf("%s fails, and another table gets %v", fails, err)
		}
		if err := writeAll(make(BlobName(7), "flush")); errors.Is(err, errBroken) != (fails != "nothing") {
			t.Errorf("%s fails without a table, and the engine gets %v", fails, err)
		}
	}
}

// TestBlobOnlyTableCloses: a table that does no more than close fails as well.
func TestBlobOnlyTableCloses(t *testing.T) {
	m := NewMonitor(Options{Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	fs := m.BlobFS(brokenFS{vfs.NewMem(), "close"})
	table, err := fs.Create("000005.sst", "flush")
	if err != nil {
		t.Fatal(err)
	}
	blob, err := fs.Create(BlobName(7), "flush")
	if err = errors.Join(err, blob.Close()); err != nil {
		t.Fatal(err)
	}
	if err := table.Close(); !errors.Is(err, errBroken) {
		t.Errorf("the table is closed with %v", err)
	}
}
