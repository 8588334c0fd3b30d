package persistence

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/journal"
	"parley/persistence/layout"
)

// A snapshot is transferred as rows, so that the nodes need not have the same version of the
// engine:
//
//	magic     8
//	journals  1
//	frames    kind(1) | length of the payload(4) | CRC-32C of the payload(4) | payload
//
// Rows follow each other in the order of their keys, in frames of kind frameOfRows, each as
// length of key | key | length of value | value, lengths as varints. The last frame, of kind
// frameOfEnd, holds the number of rows(8).
const (
	snapshotMagic = "PARLEYS1"
	frameOfRows   = 'R'
	frameOfEnd    = 'E'
	frameHeader   = 9
	// frameBytes is the size from which on a frame is sent. It exceeds that by one row.
	frameBytes = 1 << 20
	// frameBytesMax bounds a frame that is received.
	frameBytesMax = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// groupSpan are the keys of the rows that all replicas have in common: all but those of the
// directory.
func groupSpan() pebble.KeyRange {
	return pebble.KeyRange{Start: []byte{0}, End: layout.StoreKey(0)[:2]}
}

// Snapshot is the content of a replica at one place of the order. It must be closed.
type Snapshot struct {
	store *Store
	rows  *pebble.Iterator
	at    layout.GroupPosition
}

// Snapshot returns the content of the replica as it is now. It does not wait for the disk:
// the row of the position is among the newest. A replica whose content is being replaced
// returns journal.ErrBehind.
func (r *Replica) Snapshot() (*Snapshot, error) {
	s := r.store
	if !s.enter() {
		return nil, journal.ErrClosed
	}
	instant := s.instant()
	at, err := layout.ReadGroupPosition(instant)
	span := groupSpan()
	var rows *pebble.Iterator
	if err == nil {
		rows, err = instant.NewIter(&pebble.IterOptions{LowerBound: span.Start, UpperBound: span.End})
	}
	if err = errors.Join(err, instant.Close()); err != nil {
		if rows != nil {
			_ = rows.Close()
		}
		s.readers.Add(-1)
		return nil, err
	}
	return &Snapshot{store: s, rows: rows, at: at}, nil
}

// Position is the place of the order.
func (x *Snapshot) Position() layout.GroupPosition { return x.at }

// Close releases what the snapshot holds.
func (x *Snapshot) Close() error {
	if x.rows == nil {
		return nil
	}
	err := x.rows.Close()
	x.rows = nil
	x.store.readers.Add(-1)
	return err
}

// WriteTo writes the snapshot, for Receive of another replica. It gives up with
// journal.ErrClosed when the store is closed.
func (x *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &frameWriter{to: bufio.NewWriter(w), payload: make([]byte, 0, frameBytes+4096)}
	out.write(append([]byte(snapshotMagic), byte(x.store.homes)))
	rows := uint64(0)
	for ok := x.rows.First(); ok && out.err == nil; ok = x.rows.Next() {
		select {
		case <-x.store.closing:
			return out.written, journal.ErrClosed
		default:
		}
		value, err := x.rows.ValueAndErr()
		if err != nil {
			return out.written, err
		}
		out.row(x.rows.Key(), value)
		rows++
	}
	out.flush(frameOfRows)
	out.payload = binary.BigEndian.AppendUint64(out.payload, rows)
	out.flush(frameOfEnd)
	return out.written, errors.Join(x.rows.Error(), out.err, out.to.Flush())
}

type frameWriter struct {
	to      *bufio.Writer
	payload []byte
	written int64
	err     error
}

func (f *frameWriter) write(b []byte) {
	if f.err == nil {
		var n int
		n, f.err = f.to.Write(b)
		f.written += int64(n)
	}
}

func (f *frameWriter) row(key, value []byte) {
	f.payload = append(binary.AppendUvarint(f.payload, uint64(len(key))), key...)
	f.payload = append(binary.AppendUvarint(f.payload, uint64(len(value))), value...)
	if len(f.payload) >= frameBytes {
		f.flush(frameOfRows)
	}
}

// flush sends a frame, unless it is empty.
func (f *frameWriter) flush(kind byte) {
	if len(f.payload) == 0 {
		return
	}
	header := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(f.payload)))
	f.write(binary.BigEndian.AppendUint32(header, crc32.Checksum(f.payload, castagnoli)))
	f.write(f.payload)
	f.payload = f.payload[:0]
}

// errSnapshot means that what was received is no snapshot, not all of one, or not for this
// store.
var errSnapshot = errors.New("persistence: a snapshot cannot be taken")

// readSnapshot gives the rows of a snapshot of a store with so many journals to row, in the
// order of their keys. The slices are valid until row returns.
func readSnapshot(r io.Reader, journals layout.Homes, row func(key, value []byte) error) error {
	in := bufio.NewReader(r)
	begin := make([]byte, len(snapshotMagic)+1)
	if _, err := io.ReadFull(in, begin); err != nil {
		return fmt.Errorf("%w: it ends too early: %w", errSnapshot, err)
	}
	if string(begin[:len(snapshotMagic)]) != snapshotMagic {
		return fmt.Errorf("%w: it does not begin as one", errSnapshot)
	}
	if n := begin[len(snapshotMagic)]; layout.Homes(n) != journals {
		return fmt.Errorf("%w: it is of %d journals, the data directory was made with %d", errSnapshot, n, journals)
	}
	last := groupSpan().Start
	var payload []byte
	for rows := uint64(0); ; {
		kind, next, err := readFrame(in, payload)
		if err != nil {
			return err
		}
		payload = next
		if kind == frameOfEnd {
			if len(payload) != 8 || binary.BigEndian.Uint64(payload) != rows {
				return fmt.Errorf("%w: it has %d rows, and says otherwise", errSnapshot, rows)
			}
			return nil
		}
		for rest := payload; len(rest) > 0; rows++ {
			var key, value []byte
			var ok bool
			if key, value, rest, ok = cutRow(rest); !ok || bytes.Compare(key, last) <= 0 || bytes.Compare(key, groupSpan().End) >= 0 {
				return fmt.Errorf("%w: row %d cannot be read, or is out of order", errSnapshot, rows+1)
			}
			if err := row(key, value); err != nil {
				return err
			}
			last = append(last[:0:0], key...)
		}
	}
}

// readFrame reads a frame, into the memory of another one if there is room.
func readFrame(in io.Reader, into []byte) (kind byte, payload []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: it ends too early: %w", errSnapshot, err)
	}
	kind = header[0]
	size := binary.BigEndian.Uint32(header[1:])
	if kind != frameOfRows && kind != frameOfEnd || size > frameBytesMax {
		return 0, nil, fmt.Errorf("%w: it has a frame of kind %d with %d bytes", errSnapshot, kind, size)
	}
	payload = slices.Grow(into[:0], int(size))[:size]
	if _, err := io.ReadFull(in, payload); err != nil {
		return 0, nil, fmt.Errorf("%w: it ends too early: %w", errSnapshot, err)
	}
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(header[5:]) {
		return 0, nil, fmt.Errorf("%w: a checksum does not match", errSnapshot)
	}
	return kind, payload, nil
}

// cutRow takes a row off the front of a frame.
func cutRow(b []byte) (key, value, rest []byte, ok bool) {
	if key, b, ok = cutBytes(b); !ok {
		return nil, nil, nil, false
	}
	value, rest, ok = cutBytes(b)
	return key, value, rest, ok
}

func cutBytes(b []byte) (cut, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
