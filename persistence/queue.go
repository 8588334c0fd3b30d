package persistence

import (
	"sync"

	"parley"
)

// item is an entry on its way, or the part of one that a lane carries.
type item struct {
	*parley.Entry
	// lane is set on parts that came by lane.
	lane *parcel
	// cost in bytes, for batching.
	cost int
	err  error
	// parcels are the parts for other homes, numbered by apply.
	parcels []*parcel
	// announced are the feed entries the item made, to be published.
	announced []announced
	told      []parley.Stream
}

// record is the text of a message that the item carries.
func (it *item) record(id parley.MessageID) []byte {
	for _, r := range it.Records {
		if r.ID == id {
			return r.Data
		}
	}
	return nil
}

// position is where a message that the item carries went in its recipient's
// feed, 0 if that feed is elsewhere.
func (it *item) position(id parley.MessageID) uint64 {
	for _, a := range it.announced {
		if a.entry.Kind == parley.MessageEntry && parley.MessageID(a.entry.Ref) == id {
			return a.entry.Position
		}
	}
	return 0
}

type announced struct {
	agent parley.AgentID
	entry parley.FeedEntry
}

// queue holds what waits for the writer. It does not refuse: space in it is
// admitted at the doors, before anything happens.
type queue struct {
	mu     sync.Mutex
	items  []*item
	wake   chan struct{}
	closed bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(it *item) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.items = append(q.items, it)
	q.mu.Unlock()
	q.signal()
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// take moves up to countMax items of at most bytesMax together, at least one,
// into dst. It returns false when the queue is closed and empty.
func (q *queue) take(dst []*item, countMax, bytesMax int) ([]*item, bool) {
	for {
		q.mu.Lock()
		n, bytes := 0, 0
		for n < len(q.items) && n < countMax {
			if bytes += q.items[n].cost; n > 0 && bytes > bytesMax {
				break
			}
			n++
		}
		if n > 0 {
			dst = append(dst, q.items[:n]...)
			rest := copy(q.items, q.items[n:])
			clear(q.items[rest:])
			q.items = q.items[:rest]
			q.mu.Unlock()
			return dst, true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return dst, false
		}
		<-q.wake
	}
}
