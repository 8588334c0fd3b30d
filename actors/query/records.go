package query

import (
	"github.com/maypok86/otter/v2"

	"parley"
	"parley/actors/record"
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
	m, err := ReadRecord(v, slot, id)
	if err == nil {
		s.put(id, m.Record)
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
	r, err := readBroadcast(v, slot, id)
	if err == nil {
		s.put(id, r)
	}
	return r, err
}

// forget drops all records.
func (s *recordCache) forget() {
	if s.records != nil {
		s.records.InvalidateAll()
	}
}

// put renders the content of a record, which nobody else has yet, and caches it.
func (s *recordCache) put(id parley.MessageID, r *record.Message) {
	if s.records != nil {
		r.Content = s.render(r)
		s.records.Set(id, r)
	}
}
