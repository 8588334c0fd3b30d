package disk

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Create makes a file. Of a table and a blob file it follows the writing.
func (b *BlobFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := b.FS.Create(path, category)
	switch {
	case err != nil:
		return nil, err
	case strings.HasSuffix(path, tableSuffix):
		t := &tableFile{File: f, fs: b, category: category}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unfinished[t] = true
		return t, nil
	case strings.HasSuffix(path, blobSuffix):
		return &newBlobFile{File: f, fs: b, category: category}, nil
	}
	return f, nil
}

// fail makes the tables fail that are being written for the same purpose as a blob
// file that cannot be written. The engine begins a table before its blob file and
// finishes it afterwards, so the table that refers to the blob file is among them. It
// returns the error if there is no table.
func (b *BlobFS) fail(category vfs.DiskWriteCategory, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	failed := 0
	for t := range b.unfinished {
		if t.category == category {
			t.failure.CompareAndSwap(nil, &failure{err: fmt.Errorf("its blob file: %w", err)})
			failed++
		}
	}
	if failed == 0 {
		return err
	}
	return nil
}

// newBlobFile is a blob file that is being written. Once an operation has failed, it
// does nothing and reports success: its table fails.
type newBlobFile struct {
	vfs.File
	fs       *BlobFS
	category vfs.DiskWriteCategory
	failed   bool
}

func (f *newBlobFile) try(do func() error) error {
	if f.failed {
		return nil
	}
	err := do()
	if err != nil {
		err = f.fs.fail(f.category, err)
		f.failed = err == nil
	}
	return err
}

func (f *newBlobFile) Write(b []byte) (n int, err error) {
	err = f.try(func() error {
		n, err = f.File.Write(b)
		return err
	})
	if err == nil {
		n = len(b)
	}
	return n, err
}

func (f *newBlobFile) Sync() error     { return f.try(f.File.Sync) }
func (f *newBlobFile) SyncData() error { return f.try(f.File.SyncData) }

func (f *newBlobFile) SyncTo(length int64) (whole bool, err error) {
	err = f.try(func() error {
		whole, err = f.File.SyncTo(length)
		return err
	})
	return whole, err
}

func (f *newBlobFile) Close() error {
	if f.failed {
		_ = f.File.Close()
		return nil
	}
	return f.try(f.File.Close)
}

// tableFile is a table that is being written.
type tableFile struct {
	vfs.File
	fs       *BlobFS
	category vfs.DiskWriteCategory
	failure  atomic.Pointer[failure]
}

// err is why the table must fail, nil if it must not.
func (f *tableFile) err() error {
	if failed := f.failure.Load(); failed != nil {
		return failed.err
	}
	return nil
}

func (f *tableFile) Write(b []byte) (int, error) {
	if err := f.err(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *tableFile) Sync() error {
	if err := f.err(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *tableFile) SyncData() error {
	if err := f.err(); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *tableFile) Close() error {
	f.fs.mu.Lock()
	delete(f.fs.unfinished, f)
	f.fs.mu.Unlock()
	err := f.File.Close()
	if failed := f.err(); failed != nil {
		return failed
	}
	return err
}
