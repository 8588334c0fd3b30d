package raftlog

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// reader reads the records of one segment in order.
type reader struct {
	file     vfs.File
	path     string
	seed     uint32
	at, size int64
	// until is the number of the last record if a later segment says so, otherwise 0.
	until uint64
}

func openReader(fs vfs.FS, s segment, id uint64) (*reader, error) {
	f, err := fs.Open(s.path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &reader{file: f, path: s.path, seed: seedOf(id, s.number), size: info.Size(), until: s.until}, nil
}

func (r *reader) close() error { return r.file.Close() }

// next reads the record at r.at. ok says whether there is one with a right checksum.
func (r *reader) next() (rec stored, ok bool, err error) {
	var header [headerBytes]byte
	if r.size-r.at < headerBytes {
		return stored{}, false, nil
	}
	if err := r.read(header[:], r.at); err != nil {
		return stored{}, false, err
	}
	size := recordBytes(header[:])
	if size == 0 || size > r.size-r.at {
		return stored{}, false, nil
	}
	b := make([]byte, size)
	if err := r.read(b, r.at); err != nil {
		return stored{}, false, err
	}
	if rec, ok = unframe(b, r.seed); ok {
		r.at += size
	}
	return rec, ok, nil
}

func (r *reader) read(b []byte, at int64) error {
	if n, err := r.file.ReadAt(b, at); n < len(b) && err != nil {
		return fmt.Errorf("%s cannot be read at %d: %w", r.path, at, err)
	}
	return nil
}

// base reads the first record. ok says whether it is one that can begin a segment.
func (r *reader) base() (rec stored, s summary, ok bool, err error) {
	if rec, ok, err = r.next(); ok {
		s, ok = decodeBase(rec.payload)
	}
	return rec, s, ok, err
}

// visit passes turns to f until that returns false, or until the segment ends.
func (r *reader) visit(f func(turn) bool) (more bool, err error) {
	for {
		rec, ok, err := r.next()
		switch {
		case err != nil:
			return false, err
		case !ok && r.until > 0:
			return false, r.damaged("a record cannot be read")
		case !ok:
			return true, nil
		}
		if rec.payload[0] != kindBase {
			t, err := decodeTurn(rec.payload)
			if err != nil {
				return false, r.damaged(err.Error())
			}
			if !f(t) {
				return false, nil
			}
		}
		if rec.head.Number == r.until {
			return true, nil
		}
	}
}

// proven looks behind r.at for records that follow number after, and returns the highest
// number that one of them says is durable.
func (r *reader) proven(after uint64) (synced uint64, err error) {
	b := make([]byte, r.size-r.at)
	if err := r.read(b, r.at); err != nil && len(b) > 0 {
		return 0, err
	}
	for at := 0; at+headerBytes <= len(b); at++ {
		number := binary.BigEndian.Uint64(b[at+8:])
		if number < after || number > after+uint64(len(b)) {
			continue
		}
		size := recordBytes(b[at:])
		if size == 0 || size > int64(len(b)-at) {
			continue
		}
		if rec, ok := unframe(b[at:at+int(size)], r.seed); ok {
			synced = max(synced, rec.synced)
		}
	}
	return synced, nil
}

func (r *reader) damaged(why string) error {
	return fmt.Errorf("%w: %s at offset %d: %s", disk.ErrDamaged, r.path, r.at, why)
}
