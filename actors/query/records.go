package query

import (
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// recordCache caches the records of messages that pages have shown, because agents read
// their newest page again and again. A record never changes, so the cache is never
// stale. Receipts are not cached.
//
// The content of a cached record is rendered: pages show it far more often than it is
// read from the disk.
type recordCache struct {
	records *otter.Cache[parley.MessageID, *record.Message]
	render  func(*record.Message) []byte
	// forgotten counts the calls of forget.
	forgotten atomic.Uint64
}

// recordOverhead is about how many bytes a record takes besides its content: in memory,
// and in a page, where a decoded payload takes a third more.
const recordOverhead = 512

func newRecordCache(bytes int64, render func(*record.Message) []byte) *recordCache {
	if bytes <= 0 {
		return &recordCache{}
	}
	if render == nil {
		render = (*record.Message).GetContent
	}
	return &recordCache{render: render, records: otter.Must(&otter.Options[parley.MessageID, *record.Message]{
		MaximumWeight: uint64(bytes),
		Weigher: func(_ parley.MessageID, r *record.Message) uint32 {
			return uint32(recordOverhead + len(r.GetContent()) + len(r.GetSelfPayload()) + len(r.GetMetadata()))
		},
	})}
}

// record reads a message as the home of slot stores it. The record is shared and must
// not be changed.
func (s *recordCache) record(v journal.View, slot parley.Slot, id parley.MessageID) (*record.Message, error) {
	if s.records != nil {
		if r, ok := s.records.GetIfPresent(id); ok {
			return r, nil
		}
	}
	forgotten := s.forgotten.Load()
	m, err := ReadRecord(v, slot, id)
	if err == nil {
		s.put(id, m.Record, forgotten)
	}
	return m.Record, err
}

// broadcast is record for the record that all copies of a broadcast share.
func (s *recordCache) broadcast(v journal.View, slot parley.Slot, id parley.MessageID) (*record.Message, error) {
	if s.records != nil {
		if r, ok := s.records.GetIfPresent(id); ok {
			return r, nil
		}
	}
	forgotten := s.forgotten.Load()
	r, err := readBroadcast(v, slot, id)
	if err == nil {
		s.put(id, r, forgotten)
	}
	return r, err
}

// forget drops all records, those too that are being read: one of them may be erased.
func (s *recordCache) forget() {
	s.forgotten.Add(1)
	if s.records != nil {
		s.records.InvalidateAll()
	}
}

// put renders the content of a record, which nobody else has yet, and caches it, unless
// forget was called since it was read.
func (s *recordCache) put(id parley.MessageID, r *record.Message, forgotten uint64) {
	if s.records == nil {
		return
	}
	r.Content = s.render(r)
	s.records.Compute(id, func(have *record.Message, _ bool) (*record.Message, otter.ComputeOp) {
		if s.forgotten.Load() != forgotten {
			return have, otter.CancelOp
		}
		return r, otter.WriteOp
	})
	if s.forgotten.Load() != forgotten { // forget may have come between
		s.records.Invalidate(id)
	}
}
