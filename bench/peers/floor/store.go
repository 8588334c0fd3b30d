package main

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/google/uuid"

	"parley/bench/peers/plain"
)

// Rows are m/<id> with the message as it is answered, and i/<recipient><sequence,
// inverted> with the id, so that the newest message of an inbox comes first.
const (
	messagePrefix = "m/"
	inboxPrefix   = "i/"
)

// store is one Pebble database. Every commit is synced; Pebble groups concurrent commits
// into one fsync.
type store struct {
	db *pebble.DB
	// sequence orders inboxes. It starts at the clock, so that after a restart new
	// messages come first.
	sequence atomic.Uint64
}

func openStore(dir string) (*store, error) {
	options := &pebble.Options{
		MemTableSize: 64 << 20, MemTableStopWritesThreshold: 4, CacheSize: 256 << 20,
		FormatMajorVersion: pebble.FormatNewest,
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}
	s := &store{db: db}
	s.sequence.Store(uint64(time.Now().UnixNano()))
	return s, nil
}

// Put implements plain.Store: both rows in one batch.
func (s *store) Put(id uuid.UUID, recipient int64, _ *plain.Message, body []byte) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	if err := batch.Set(append([]byte(messagePrefix), id[:]...), body, nil); err != nil {
		return err
	}
	place := binary.BigEndian.AppendUint64(inboxOf(recipient), ^s.sequence.Add(1))
	if err := batch.Set(place, id[:], nil); err != nil {
		return err
	}
	return batch.Commit(pebble.Sync)
}

// Page implements plain.Store.
func (s *store) Page(recipient int64, limit int, each func(body []byte)) (err error) {
	rows, err := s.db.NewIter(&pebble.IterOptions{LowerBound: inboxOf(recipient), UpperBound: inboxOf(recipient + 1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	key := make([]byte, len(messagePrefix), len(messagePrefix)+len(uuid.UUID{}))
	copy(key, messagePrefix)
	for n, ok := 0, rows.First(); ok && n < limit; n, ok = n+1, rows.Next() {
		body, done, err := s.db.Get(append(key, rows.Value()...))
		if err != nil {
			return err
		}
		each(body)
		done.Close()
	}
	return rows.Error()
}

func inboxOf(recipient int64) []byte {
	key := make([]byte, 0, len(inboxPrefix)+16)
	return binary.BigEndian.AppendUint64(append(key, inboxPrefix...), uint64(recipient))
}
