package persistence

import (
	"sync"

	"parley"
	"parley/journal"
)

// item is an entry in the queue, or an outbox message that arrived from a journal.
type item struct {
	*journal.Entry
	// outbox is set on outbox messages.
	outbox *outboxMessage
	// late: items that are not late may pass it, see queue.
	late bool
	// cost in bytes, for batching.
	cost int
	err  error
	// behind: earlier feed entries of the stream for agents here are still under
	// way. Else began says that chunk block of a fan-out is written with the entry.
	behind, began bool
	block         uint32
	// outgoing are the outbox messages of the entry, numbered by apply.
	outgoing []*outboxMessage
	// announced are the feed entries the item made, to be published.
	announced []announced
	fanned    []fanned
	queued    []journal.Stream
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
		if a.entry.Kind == journal.MessageEntry && parley.MessageID(a.entry.Ref) == id {
			return a.entry.Position
		}
	}
	return 0
}

type announced struct {
	agent parley.AgentID
	entry journal.FeedEntry
}

// lateBytesMax of late items go into one batch, so that a fan-out to very many
// agents delays nothing else.
const lateBytesMax = 1024 * copyCost

// queue holds the items that wait for the writer. It does not refuse: space in it is
// reserved by Admit, before anything happens.
//
// Outbox messages that no answer waits for are late: other items pass them, except
// messages of the same outbox. A late item never passes an item before it.
type queue struct {
	mu    sync.Mutex
	items []*item
	late  []lateItem
	// lateFrom counts the late messages by source.
	lateFrom map[int]int
	// pushed and taken count what is not late.
	pushed, taken uint64
	wake          chan struct{}
	closed        bool
}

// lateItem is an item that waits until as many were taken as had come before it.
type lateItem struct {
	*item
	after uint64
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1), lateFrom: map[int]int{}} }

func (q *queue) push(it *item) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	if it.outbox != nil && (it.late || q.lateFrom[it.outbox.source] > 0) {
		q.lateFrom[it.outbox.source]++
		q.late = append(q.late, lateItem{it, q.pushed})
	} else {
		q.pushed++
		q.items = append(q.items, it)
	}
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
// into dst, and as many late ones as fit beside them. It returns false when the
// queue is closed and empty.
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
		dst = append(dst, q.items[:n]...)
		q.items = shift(q.items, n)
		q.taken += uint64(n)
		if dst = q.takeLate(dst); len(dst) > 0 {
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

// takeLate adds late items to dst.
func (q *queue) takeLate(dst []*item) []*item {
	n, bytes := 0, 0
	for n < len(q.late) && q.late[n].after <= q.taken {
		if bytes += q.late[n].cost; n > 0 && bytes > lateBytesMax {
			break
		}
		source := q.late[n].outbox.source
		if q.lateFrom[source]--; q.lateFrom[source] == 0 {
			delete(q.lateFrom, source)
		}
		dst = append(dst, q.late[n].item)
		n++
	}
	q.late = shift(q.late, n)
	return dst
}

// shift takes the first n away and keeps the memory.
func shift[T any](all []T, n int) []T {
	rest := copy(all, all[n:])
	clear(all[rest:])
	return all[:rest]
}
