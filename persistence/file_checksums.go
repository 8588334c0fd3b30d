package persistence

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

// The engine goes by the files that it finds. A log that is gone, or ends where
// a record ends, looks to it like one that never held more; a manifest is read up
// to the first byte that makes no sense; and without the marker that names the
// manifest it begins anew. So the witness also says of these files how far they
// were written when that was last on the disk, and with what hash: a directory
// that holds less is not opened.
//
// What is said of a log is said when it is finished; the end of the newest one is
// the business of the commits' heads. A log is struck out before it is removed,
// and a manifest counts as the one in use only when its marker cannot get lost
// any more: so a loss of power at any moment leaves nothing amiss.

// fileHashesMax is how many files of one kind the witness can tell of. The engine
// keeps a handful.
const fileHashesMax = 72

// fileHashBytes is the size of a mark in the witness.
const fileHashBytes = 24

// fileHash is how far a file was written: its first bytes, and their hash.
type fileHash struct {
	number, bytes, sum uint64
}

// fileChecksums is what the engine's files have to hold at the least.
type fileChecksums struct {
	mu sync.Mutex
	// current is the manifest in use, 0 where that is not known: then nothing is
	// said of manifests.
	current uint64
	// manifests up to the last sync, and logs that are finished.
	manifests, logs []fileHash
	// open is the log that is being written, 0 after an orderly stop.
	open uint64
	// moving is the manifest of a marker whose directory was not synced yet.
	moving uint64
}

// set puts a mark in the place of one of the same file.
func set(marks []fileHash, m fileHash) []fileHash {
	marks = strike(marks, m.number)
	if len(marks) == fileHashesMax {
		marks = marks[1:]
	}
	return append(marks, m)
}

func strike(marks []fileHash, number uint64) []fileHash {
	return slices.DeleteFunc(slices.Clone(marks), func(m fileHash) bool { return m.number == number })
}

func find(marks []fileHash, number uint64) (fileHash, bool) {
	i := slices.IndexFunc(marks, func(m fileHash) bool { return m.number == number })
	if i < 0 {
		return fileHash{}, false
	}
	return marks[i], true
}

// synced notes how far a manifest is on the disk.
func (v *fileChecksums) synced(m fileHash) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.manifests = set(v.manifests, m)
}

// begun notes the log that is written from now on, finished one that is written
// to its end.
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

// forget strikes a log out, and reports whether it was there.
func (v *fileChecksums) forget(number uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := len(v.logs)
	v.logs = strike(v.logs, number)
	return len(v.logs) < before
}

// drop strikes out a manifest that is no more.
func (v *fileChecksums) drop(number uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.manifests = strike(v.manifests, number)
}

// move notes that a marker names a manifest, settle that it cannot get lost.
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

// reset says that nothing is known.
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
	for _, marks := range [][]fileHash{v.manifests, v.logs} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(marks)))
		for _, m := range marks {
			b = binary.BigEndian.AppendUint64(b, m.number)
			b = binary.BigEndian.AppendUint64(b, m.bytes)
			b = binary.BigEndian.AppendUint64(b, m.sum)
		}
	}
	return b
}

// decode reads what append wrote and gives what follows it.
func (v *fileChecksums) decode(b []byte) (rest []byte, ok bool) {
	if len(b) < 16 {
		return nil, false
	}
	v.current, v.open, b = number64(b, 0), number64(b, 8), b[16:]
	for _, marks := range []*[]fileHash{&v.manifests, &v.logs} {
		if len(b) < 8 || number64(b, 0) > fileHashesMax {
			return nil, false
		}
		n := int(number64(b, 0))
		if b = b[8:]; len(b) < n*fileHashBytes {
			return nil, false
		}
		for ; n > 0; n-- {
			*marks = append(*marks, fileHash{number64(b, 0), number64(b, 8), number64(b, 16)})
			b = b[fileHashBytes:]
		}
	}
	return b, true
}

// known reports whether anything was ever noted.
func (v *fileChecksums) known() bool { return v.current != 0 }

// check holds the files of a directory against the inventory. manifest is the
// name of the one that the marker names. It reports whether every log that there
// is is finished and whole, so that its end need not be looked for.
func (v *fileChecksums) check(fs vfs.FS, dir, manifest string) (whole bool, err error) {
	number, _, ok := fileOf(manifest)
	m, listed := find(v.manifests, number)
	switch {
	case !ok || number < v.current || number == v.current && !listed:
		return false, fmt.Errorf("%w: the marker in %s names %s, and %s was in use: a file marker.manifest.* is not what it was", ErrDamaged, dir, manifest, manifestName(v.current))
	case listed:
		if err := m.check(fs, fs.PathJoin(dir, manifest)); err != nil {
			return false, err
		}
	} // else it is so new that the witness had not followed
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

// check reads as much of a file as was written.
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

// fileKind is what sort of the engine's files it is, of those that are followed.
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

// hashingWriter follows what is written to a file from its beginning.
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

// now is how far the file is written.
func (p *hashingWriter) now() fileHash {
	p.sum = p.digest.Sum64()
	return p.fileHash
}
