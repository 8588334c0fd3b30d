package query

import (
	"github.com/maypok86/otter/v2"

	"parley"
	"parley/actors/record"
	"parley/journal"
)

// shown keeps messages at hand that pages of inboxes have shown: agents look at
// their newest page again and again. A record never changes once it is there, so
// that nothing here is ever out of date; marks are not part of it.
type recordCache struct {
	records *otter.Cache[parley.MessageID, *record.Message]
}

// recordOverhead is about what a record takes besides its content.
const recordOverhead = 512

func newRecordCache(bytes int64) *recordCache {
	if bytes <= 0 {
		return &recordCache{}
	}
	return &recordCache{otter.Must(&otter.Options[parley.MessageID, *record.Message]{
		MaximumWeight: uint64(bytes),
		Weigher: func(_ parley.MessageID, r *record.Message) uint32 {
			return uint32(recordOverhead + len(r.GetContent()) + len(r.GetSelfPayload()))
		},
	})}
}

// record reads a message for a reader at slot. It is shared: nobody changes it.
func (s *recordCache) record(v journal.View, slot parley.Slot, id parley.MessageID) (*record.Message, error) {
	if s.records != nil {
		if r, ok := s.records.GetIfPresent(id); ok {
			return r, nil
		}
	}
	m, err := ReadRecord(v, slot, id)
	if err == nil && s.records != nil {
		s.records.Set(id, m.Record)
	}
	return m.Record, err
}

// broadcast reads the record of a broadcast for a reader at slot, as record does:
// all its copies share it.
func (s *recordCache) broadcast(v journal.View, slot parley.Slot, id parley.MessageID) (*record.Message, error) {
	if s.records != nil {
		if r, ok := s.records.GetIfPresent(id); ok {
			return r, nil
		}
	}
	r, err := readBroadcast(v, slot, id)
	if err == nil && s.records != nil {
		s.records.Set(id, r)
	}
	return r, err
}
