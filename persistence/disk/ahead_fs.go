package disk

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// aheadChunk is how much of a log is written with zeros at a time. A sync that follows
	// has that much more to write, so it bounds the delay of one answer.
	aheadChunk = 256 << 10
	// aheadLeast is how much of that is left when the next part is written.
	aheadLeast = 16 << 10
)

var zeros [aheadChunk]byte

// AheadFS writes the space beyond the end of a write-ahead log before the log needs it. A
// sync of a file that has grown writes its metadata too, which takes half as long again;
// a sync of what was overwritten does not. The engine's own logs gain this once they are
// recycled, so after the first ones.
//
// Readers take the zeros for the end of the log, as they do the rest of a recycled one.
// Failing to write them is no failure: the log grows as it would without them.
type AheadFS struct{ vfs.FS }

// Unwrap is the file system below. The engine asks for it.
func (a AheadFS) Unwrap() vfs.FS { return a.FS }

// Create writes ahead if path is a log.
func (a AheadFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := a.FS.Create(path, category)
	return a.ahead(f, path), err
}

// ReuseForWrite writes ahead once the log exceeds the file that it overwrites.
func (a AheadFS) ReuseForWrite(old, path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := a.FS.ReuseForWrite(old, path, category)
	return a.ahead(f, path), err
}

func (a AheadFS) ahead(f vfs.File, path string) vfs.File {
	if _, kind, ok := fileOf(a.PathBase(path)); f == nil || !ok || kind != logFile {
		return f
	}
	info, err := f.Stat()
	if err != nil {
		return f
	}
	return &aheadFile{File: f, written: info.Size()}
}

// aheadFile is a log. One goroutine writes it.
type aheadFile struct {
	vfs.File
	at int64 // where the next write goes
	// written is up to where the file has been written, by the log or ahead of it.
	written int64
}

// Write writes to the end of the log, and then ahead of it where little is left.
func (f *aheadFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.at += int64(n)
	if f.written = max(f.written, f.at); err == nil && f.written-f.at < aheadLeast {
		more, _ := f.File.WriteAt(zeros[:], f.written)
		f.written += int64(more)
	}
	return n, err
}
