// Package cache keeps what queries read again and again: records of messages, and counts of feeds.
package cache

import (
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"parley/actors/record"
	"parley/client/parley"
)

// Records caches the records of messages that pages have shown, because agents read
// their newest page again and again. A record never changes, so the cache is never
// stale. Receipts are not cached.
//
// The content of a cached record is rendered: pages show it far more often than it is
// read from the disk.
type Records struct {
	records *otter.Cache[parley.MessageID, *record.Message]
	render  func(*record.Message) []byte
	// forgotten counts the calls of Forget.
	forgotten atomic.Uint64
}

// RecordOverhead is about how many bytes a record takes besides its content: in memory,
// and in a page, where a decoded payload takes a third more.
const RecordOverhead = 512

// NewRecords returns a cache of the given size; 0 disables it. render returns the content of a
// message as pages show it, nil keeps it as it is stored.
func NewRecords(bytes int64, render func(*record.Message) []byte) *Records {
	if bytes <= 0 {
		return &Records{}
	}
	if render == nil {
		render = (*record.Message).GetContent
	}
	return &Records{render: render, records: otter.Must(&otter.Options[parley.MessageID, *record.Message]{
		MaximumWeight: uint64(bytes),
		Weigher: func(_ parley.MessageID, r *record.Message) uint32 {
			return uint32(RecordOverhead + len(r.GetContent()) + len(r.GetSelfPayload()) + len(r.GetMetadata()))
		},
	})}
}

// Get returns a record, from read if it is not cached. The record is shared and must not be
// changed.
func (s *Records) Get(id parley.MessageID, read func() (*record.Message, error)) (*record.Message, error) {
	if s.records != nil {
		if r, ok := s.records.GetIfPresent(id); ok {
			return r, nil
		}
	}
	forgotten := s.forgotten.Load()
	r, err := read()
	if err == nil {
		s.put(id, r, forgotten)
	}
	return r, err
}

// Forget drops all records, those too that are being read: one of them may be erased.
func (s *Records) Forget() {
	s.forgotten.Add(1)
	if s.records != nil {
		s.records.InvalidateAll()
	}
}

// put renders the content of a record, which nobody else has yet, and caches it, unless
// forget was called since it was read.
func (s *Records) put(id parley.MessageID, r *record.Message, forgotten uint64) {
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
