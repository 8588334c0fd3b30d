package disk

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// aheadChunk is how much of a log is written with zeros at a time, at most one part in
	// aheadShare of the disk. A sync that follows has that much more to write, so it bounds
	// the delay of one answer.
	aheadChunk = 256 << 10
	aheadShare = 256
	// One part in aheadLeast of a chunk is left when the next one is written.
	aheadLeast = 16
)

var zeros [aheadChunk]byte

// AheadFS writes the space beyond the end of a write-ahead log before the log needs it. A
// sync of a file that has grown writes its metadata too, which takes half as long again;
// a sync of what was overwritten does not. The engine's own logs gain this once they are
// recycled, so after the first ones.
//
// Readers take the zeros for the end of the log, as they do the rest of a recycled one.
// Without space for them the log grows as it is written.
type AheadFS struct {
	vfs.FS
	dir    string      // of the logs, as it is spelled in their paths
	chunk  int64       // written at a time
	scarce func() bool // the rest of the disk is for what is acknowledged
}

// aheadFS returns the Monitor's file system with logs that are written ahead.
func (m *Monitor) aheadFS() AheadFS {
	chunk := int64(aheadChunk)
	if usage, err := m.o.FS.GetDiskUsage(m.o.Dir); err == nil && usage.TotalBytes > 0 {
		chunk = min(chunk, int64(usage.TotalBytes/aheadShare))
	}
	return AheadFS{m.o.FS, m.o.FS.PathJoin(m.o.Dir), chunk, m.scarce}
}

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
	if _, kind, ok := fileOf(a.PathBase(path)); f == nil || !ok || kind != logFile || a.PathDir(path) != a.dir {
		return f
	}
	info, err := f.Stat()
	if err != nil {
		return f
	}
	return &aheadFile{File: f, fs: a, written: info.Size()}
}

// aheadFile is a log. One goroutine writes it.
type aheadFile struct {
	vfs.File
	fs AheadFS
	at int64 // where the next write goes
	// written is up to where the file has been written, by the log or ahead of it.
	written int64
}

// Write writes to the end of the log, and then ahead of it where little is left.
func (f *aheadFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.at += int64(n)
	f.written = max(f.written, f.at)
	if err == nil && f.written-f.at < f.fs.chunk/aheadLeast && !f.fs.scarce() {
		more, _ := f.File.WriteAt(zeros[:f.fs.chunk], f.written)
		f.written += int64(more)
	}
	return n, err
}
