package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The engine keeps large values in blob files beside its tables, and guards them less
// than tables (seen in v2.1.7):
//
//   - When it opens a directory it does not look whether they are there. The store
//     does (see BlobName).
//   - Where it meets a missing or damaged one it panics, or reports no damage
//     (github.com/cockroachdb/pebble/issues/5127). BlobFS checks what the engine reads
//     from a blob file before the engine does.
//   - Where the end of one cannot be written it panics: it closes the file twice.
//     BlobFS fails the table instead whose values the file should hold; a table that
//     cannot be written is given up and written again.

const (
	blobSuffix  = ".blob"
	tableSuffix = ".sst"
	// A blob file consists of blocks, each followed by the kind of its compression
	// (1 byte) and a checksum, and of a footer: a checksum, where the index is
	// (17 bytes), a format (1 byte), the number of the file, and a magic.
	blobChecksumBytes = 4
	blobFooterBytes   = 38
	blobNumberAt      = 22
)

// IsTable reports whether a file of this name holds rows of the engine: it is a
// table, or a blob file with the large values of tables.
func IsTable(name string) bool {
	return strings.HasSuffix(name, tableSuffix) || strings.HasSuffix(name, blobSuffix)
}

// BlobName is the name of the engine's blob file with a number.
func BlobName(number uint64) string { return fmt.Sprintf("%06d", number) + blobSuffix }

// BlobFS is a file system for one engine that checks what is read from blob files. A
// read of damaged bytes fails with ErrDamaged and the name of the file, and
// Monitor.Damage reports that file. It expects the engine's reads: whole blocks and
// whole footers.
type BlobFS struct {
	vfs.FS
	m *Monitor

	mu sync.Mutex
	// unfinished are the tables that are being written.
	unfinished map[*tableFile]bool
}

// BlobFS is below with checks of blob files.
func (m *Monitor) BlobFS(below vfs.FS) *BlobFS {
	return &BlobFS{FS: below, m: m, unfinished: map[*tableFile]bool{}}
}

// Unwrap is the file system below. The engine asks for it.
func (b *BlobFS) Unwrap() vfs.FS { return b.FS }

// Open checks the footer of a blob file.
func (b *BlobFS) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := b.FS.Open(path, opts...)
	digits, isBlob := strings.CutSuffix(b.PathBase(path), blobSuffix)
	number, notNumber := strconv.ParseUint(digits, 10, 64)
	if !isBlob || notNumber != nil {
		return f, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, b.m.damaged(path, errors.New("it is missing")) // the engine panics at fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file := &blobFile{File: f, m: b.m, path: path, number: number, size: info.Size()}
	footer := make([]byte, blobFooterBytes)
	if _, err := file.ReadAt(footer, max(0, file.size-blobFooterBytes)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return file, nil
}

// blobFile is a blob file that is open for reading.
type blobFile struct {
	vfs.File
	m      *Monitor
	path   string
	number uint64
	size   int64
}

// ReadAt reads a block with its trailer, or the footer, and checks it.
func (f *blobFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	switch {
	case n < len(b) && errors.Is(err, io.EOF):
		return n, f.m.damaged(f.path, fmt.Errorf("it ends after %d bytes", at+int64(n)))
	case n < len(b):
		return n, err
	}
	check := checkBlobBlock
	if at == f.size-blobFooterBytes {
		check = f.checkFooter
	}
	if err := check(b); err != nil {
		return 0, f.m.damaged(f.path, fmt.Errorf("%d bytes at %d: %w", len(b), at, err))
	}
	return n, nil
}

var errChecksum = errors.New("their checksum is another")

func checkBlobBlock(b []byte) error {
	if end := len(b) - blobChecksumBytes; end < 1 || blobChecksum(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return errChecksum
	}
	return nil
}

// checkFooter also finds one blob file under the name of another: the blocks of both
// are sound.
func (f *blobFile) checkFooter(b []byte) error {
	if len(b) != blobFooterBytes || blobChecksum(b[blobChecksumBytes:]) != binary.LittleEndian.Uint32(b) {
		return errChecksum
	}
	if number := binary.LittleEndian.Uint64(b[blobNumberAt:]); number != f.number {
		return fmt.Errorf("it was written as %s", BlobName(number))
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blobChecksum is the engine's checksum: CRC-32C, rotated and offset so that bytes
// which contain their own checksum are covered.
func blobChecksum(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}
