package sealed

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"parley/client/parley"
	"parley/journal"
)

// A stored record is the length of its header (uvarint), the header, and the envelope of
// the content.

// sealRecord sets what is stored of a record.
func (c cipher) sealRecord(r *journal.Record) (err error) {
	header, content := r.Data[:r.Clear], r.Data[r.Clear:]
	stored := make([]byte, 0, binary.MaxVarintLen32+len(header)+ownersOf(r.Owners).SealedLen(len(content)))
	stored = append(binary.AppendUvarint(stored, uint64(len(header))), header...)
	r.Stored, err = c.seal(stored, content, r.Owners, recordFamily, ofRecord(r.ID, header))
	return err
}

// split divides a stored record. The error wraps ErrDamaged.
func split(stored []byte) (header, envelope []byte, err error) {
	length, n := binary.Uvarint(stored)
	if n <= 0 || length > uint64(len(stored)-n) {
		return nil, nil, fmt.Errorf("%w: a record of %d bytes", ErrDamaged, len(stored))
	}
	end := n + int(length)
	return stored[n:end], stored[end:], nil
}

// openedBytesMax is the size of the buffers that are kept for the next record.
const openedBytesMax = 64 << 10

var openBuffers = sync.Pool{New: func() any { return new([]byte) }}

// openRecord calls read with a record as it was before it was sealed. The record is only
// valid during the call. If the content was erased, read gets the header alone, and the
// error is journal.ErrErased unless read has one.
func (c cipher) openRecord(id parley.MessageID, stored []byte, read func(record []byte) error) error {
	header, envelope, err := split(stored)
	if err != nil {
		return err
	}
	buffer := openBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= openedBytesMax {
			openBuffers.Put(buffer)
		}
	}()
	record := append((*buffer)[:0], header...)
	opened, err := c.open(record, envelope, recordFamily, ofRecord(id, header))
	switch {
	case errors.Is(err, journal.ErrErased):
		return cmp.Or(read(record), err)
	case err != nil:
		return err
	}
	*buffer = opened
	return read(opened)
}
