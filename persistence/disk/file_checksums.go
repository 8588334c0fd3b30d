package disk

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The engine trusts the files that it finds. A log that is missing, or that ends
// at the end of a record, looks to it like a log that never held more; a manifest
// is read up to the first invalid byte; without the marker that names the manifest
// the engine starts a new database. So the witness also records how many bytes of
// these files were last known to be synced, and their hash. A directory that
// holds less is not opened.
//
// A log is recorded when it is finished; the commit heads cover the end of the
// newest one. A log is removed from the list before the file is removed, and a
// manifest counts as the one in use only once its marker is durable. So a power
// failure at any moment leaves the list consistent with the files.

// fileHashesMax is how many files of one kind the witness can record. The engine
// keeps a handful.
const fileHashesMax = 72

// fileHashBytes is the size of a fileHash in the witness. The other two are the sizes of
// an empty list and of the longest one.
const (
	fileHashBytes    = 24
	fileChecksumsMin = 32
	fileChecksumsMax = fileChecksumsMin + 2*fileHashesMax*fileHashBytes
)

// fileHash covers the first bytes of a file: their count and their hash.
type fileHash struct {
	number, bytes, sum uint64
}

// fileChecksums is what the engine's files must hold at the least.
type fileChecksums struct {
	mu sync.Mutex
	// current is the manifest in use, 0 if unknown: then no manifest is checked.
	current uint64
	// manifests up to the last sync, and logs that are finished.
	manifests, logs []fileHash
	// open is the log that is being written, 0 after an orderly stop.
	open uint64
	// moving is the manifest of a marker whose directory was not synced yet.
	moving uint64
}

// set replaces the hash of the same file, or adds it.
func set(hashes []fileHash, m fileHash) []fileHash {
	hashes = strike(hashes, m.number)
	if len(hashes) == fileHashesMax {
		hashes = hashes[1:]
	}
	return append(hashes, m)
}

func strike(hashes []fileHash, number uint64) []fileHash {
	return slices.DeleteFunc(slices.Clone(hashes), func(m fileHash) bool { return m.number == number })
}

func find(hashes []fileHash, number uint64) (fileHash, bool) {
	i := slices.IndexFunc(hashes, func(m fileHash) bool { return m.number == number })
	if i < 0 {
		return fileHash{}, false
	}
	return hashes[i], true
}

// synced records the part of a manifest that is durable.
func (v *fileChecksums) synced(m fileHash) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.manifests = set(v.manifests, m)
}

// begun records the log that is written from now on, finished a log that is
// complete.
func (v *fileChecksums) begun(number uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = number
}

func (v *fileChecksums) finished(m fileHash) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.logs = set(v.logs, m)
	if v.open == m.number {
		v.open = 0
	}
}

// forget removes a log from the list, and reports whether it was there.
func (v *fileChecksums) forget(number uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := len(v.logs)
	v.logs = strike(v.logs, number)
	return len(v.logs) < before
}

// drop removes a manifest from the list.
func (v *fileChecksums) drop(number uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.manifests = strike(v.manifests, number)
}

// move records that a marker names a manifest, settle that the marker is durable.
func (v *fileChecksums) move(number uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.moving = number
}

func (v *fileChecksums) settle() (news bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	news = v.moving != 0
	if news {
		v.current, v.moving = v.moving, 0
	}
	return news
}

// reset forgets everything.
func (v *fileChecksums) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.current, v.moving, v.open, v.manifests, v.logs = 0, 0, 0, nil, nil
}

func (v *fileChecksums) append(b []byte) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	b = binary.BigEndian.AppendUint64(b, v.current)
	b = binary.BigEndian.AppendUint64(b, v.open)
	for _, hashes := range [][]fileHash{v.manifests, v.logs} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(hashes)))
		for _, m := range hashes {
			b = binary.BigEndian.AppendUint64(b, m.number)
			b = binary.BigEndian.AppendUint64(b, m.bytes)
			b = binary.BigEndian.AppendUint64(b, m.sum)
		}
	}
	return b
}

// decode reads what append wrote and returns the bytes after it.
func (v *fileChecksums) decode(b []byte) (rest []byte, ok bool) {
	if len(b) < 16 {
		return nil, false
	}
	v.current, v.open, b = binary.BigEndian.Uint64(b[0:]), binary.BigEndian.Uint64(b[8:]), b[16:]
	for _, hashes := range []*[]fileHash{&v.manifests, &v.logs} {
		if len(b) < 8 || binary.BigEndian.Uint64(b[0:]) > fileHashesMax {
			return nil, false
		}
		n := int(binary.BigEndian.Uint64(b[0:]))
		if b = b[8:]; len(b) < n*fileHashBytes {
			return nil, false
		}
		for ; n > 0; n-- {
			*hashes = append(*hashes, fileHash{binary.BigEndian.Uint64(b[0:]), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])})
			b = b[fileHashBytes:]
		}
	}
	return b, true
}

// known reports whether a manifest was ever recorded as the one in use.
func (v *fileChecksums) known() bool { return v.current != 0 }

// check compares the files of a directory with the list; see WitnessRecord.CheckFiles.
func (v *fileChecksums) check(fs vfs.FS, dir, manifest string) (whole bool, err error) {
	number, _, ok := fileOf(manifest)
	m, listed := find(v.manifests, number)
	switch {
	case !ok || number < v.current || number == v.current && !listed:
		return false, fmt.Errorf("%w: the marker in %s names %s, and %s was in use: a file marker.manifest.* has changed", ErrDamaged, dir, manifest, manifestName(v.current))
	case listed:
		if err := m.check(fs, fs.PathJoin(dir, manifest)); err != nil {
			return false, err
		}
	} // else it is so new that the witness had not recorded it
	for _, m := range v.logs {
		if err := m.check(fs, fs.PathJoin(dir, logName(m.number))); err != nil {
			return false, err
		}
	}
	names, err := fs.List(dir)
	if err != nil {
		return false, err
	}
	whole = v.open == 0
	for _, name := range names {
		if number, kind, ok := fileOf(name); ok && kind == logFile {
			_, listed := find(v.logs, number)
			whole = whole && listed
		}
	}
	return whole, nil
}

// check compares the first bytes of a file with their hash.
func (m fileHash) check(fs vfs.FS, path string) error {
	f, err := fs.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %s cannot be read: %w", ErrDamaged, path, err)
	}
	defer func() { _ = f.Close() }()
	sum := xxhash.New()
	switch n, err := io.Copy(sum, io.LimitReader(f, int64(m.bytes))); {
	case err != nil:
		return fmt.Errorf("%w: %s cannot be read: %w", ErrDamaged, path, err)
	case uint64(n) < m.bytes:
		return fmt.Errorf("%w: %s has %d bytes, and %d were written", ErrDamaged, path, n, m.bytes)
	case sum.Sum64() != m.sum:
		return fmt.Errorf("%w: %s is not what was written", ErrDamaged, path)
	}
	return nil
}

// fileKind is the kind of an engine file whose checksum is kept.
type fileKind uint8

const (
	logFile fileKind = iota + 1
	manifestFile
	markerFile
)

const (
	logSuffix      = ".log"
	manifestPrefix = "MANIFEST-"
	markerPrefix   = "marker.manifest."
)

func logName(number uint64) string      { return fmt.Sprintf("%06d", number) + logSuffix }
func manifestName(number uint64) string { return manifestPrefix + fmt.Sprintf("%06d", number) }

// fileOf reads the name of one of the engine's files; the number of a marker is
// that of the manifest it names.
func fileOf(name string) (number uint64, kind fileKind, ok bool) {
	text := ""
	if rest, found := strings.CutSuffix(name, logSuffix); found {
		text, kind = rest, logFile
	} else if rest, found := strings.CutPrefix(name, manifestPrefix); found {
		text, kind = rest, manifestFile
	} else if rest, found := strings.CutPrefix(name, markerPrefix); found {
		_, value, _ := strings.Cut(rest, ".")
		text, kind = strings.TrimPrefix(value, manifestPrefix), markerFile
	}
	number, err := strconv.ParseUint(text, 10, 64)
	return number, kind, err == nil
}

// hashingWriter hashes what is written to a file from its beginning.
type hashingWriter struct {
	kind fileKind
	fileHash
	digest *xxhash.Digest
}

func newHashingWriter(number uint64, kind fileKind) *hashingWriter {
	return &hashingWriter{kind: kind, fileHash: fileHash{number: number}, digest: xxhash.New()}
}

func (p *hashingWriter) wrote(b []byte) {
	_, _ = p.digest.Write(b)
	p.bytes += uint64(len(b))
}

// now covers all that was written so far.
func (p *hashingWriter) now() fileHash {
	p.sum = p.digest.Sum64()
	return p.fileHash
}

// IsLog reports whether a file of this name is one of the engine's logs.
func IsLog(name string) bool {
	_, kind, ok := fileOf(name)
	return ok && kind == logFile
}
