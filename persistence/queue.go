package persistence

import (
	"runtime"
	"sync"
	"time"

	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/layout"
)

// item is a journal entry, or an outbox message that arrived, in the queue.
type item struct {
	apply.Item
	// late: items that are not late may pass it, see queue.
	late bool
	// cost in bytes, for batching.
	cost int
	// arrived is called when an outbox message is durable here, nil for an entry.
	arrived func()
}

// copyCost is the cost of one feed entry of a fan-out: about as many bytes as are
// written in the time that its rows take.
const copyCost = 512

// lateBytesMax of late items go into one batch, so that a fan-out to many agents
// delays nothing else.
const lateBytesMax = 1024 * copyCost

const (
	// gatherFor is how long items that gather wait for others, so that one commit and one
	// sync store them all.
	gatherFor = 2 * time.Millisecond
	// gatherItems and gatherBytes of them wait no longer.
	gatherItems = batchEntriesMax / 4
	gatherBytes = batchBytesMax / 4
)

// queue holds the items that wait for the writer. It refuses nothing: Admit
// reserved the space before.
//
// Outbox messages that no answer waits for are late: other items pass them, except
// messages of the same outbox. A late item never passes an item that was there
// before it.
//
// Items whose entries gather wait until one comes that does not, until there are
// gatherItems or gatherBytes of them, or for gatherFor. They pass nothing, and nothing
// passes them.
type queue struct {
	mu    sync.Mutex
	items []*item
	late  []lateItem
	// lateFrom counts the late messages by source.
	lateFrom map[int]int
	// pushed and taken count the items that are not late.
	pushed, taken uint64
	// prompt counts the items in items that do not gather, and cost is the cost of all.
	prompt, cost int
	wake         chan struct{}
	closed       bool
}

// gathers reports whether an item may wait for others.
func (it *item) gathers() bool { return it.Entry != nil && it.Gather }

// lateItem waits until the items that were pushed before it are taken.
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
	if it.Message != nil && (it.late || q.lateFrom[it.Message.Source] > 0) {
		q.lateFrom[it.Message.Source]++
		q.late = append(q.late, lateItem{it, q.pushed})
	} else {
		q.pushed++
		q.items = append(q.items, it)
		q.cost += it.cost
		if !it.gathers() {
			q.prompt++
		}
	}
	// The first item that gathers begins the wait. The next ones need not wake the writer.
	wake := q.due() || len(q.items) == 1
	q.mu.Unlock()
	if wake {
		q.signal()
	}
	return true
}

// due reports whether there is an item that need not wait for others. The caller holds mu.
func (q *queue) due() bool {
	return q.closed || q.prompt > 0 || len(q.items) >= gatherItems || q.cost >= gatherBytes ||
		len(q.late) > 0 && q.late[0].after <= q.taken
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

// take moves up to countMax items of at most bytesMax together, at least one, into
// dst, and as many late items as fit beside them. It returns false when the queue
// is closed and empty.
func (q *queue) take(dst []*item, countMax, bytesMax int) ([]*item, bool) {
	var gathered <-chan time.Time
	for expired := false; ; {
		q.mu.Lock()
		if expired || q.due() {
			dst = q.takeLate(q.takeItems(dst, countMax, bytesMax))
		}
		waiting, closed := len(q.items) > 0, q.closed
		q.mu.Unlock()
		if len(dst) > 0 || closed {
			return dst, len(dst) > 0
		}
		if waiting && gathered == nil {
			gathered = time.After(gatherFor)
		}
		select {
		case <-q.wake:
			runtime.Gosched() // what is runnable may append: it shares the commit
		case <-gathered:
			expired = true
		}
	}
}

// takeItems adds items that are not late to dst.
func (q *queue) takeItems(dst []*item, countMax, bytesMax int) []*item {
	n, bytes := 0, 0
	for n < len(q.items) && n < countMax {
		if bytes += q.items[n].cost; n > 0 && bytes > bytesMax {
			break
		}
		n++
	}
	for _, it := range q.items[:n] {
		q.cost -= it.cost
		if !it.gathers() {
			q.prompt--
		}
	}
	dst = append(dst, q.items[:n]...)
	q.items = shift(q.items, n)
	q.taken += uint64(n)
	return dst
}

// takeLate adds late items to dst.
func (q *queue) takeLate(dst []*item) []*item {
	n, bytes := 0, 0
	for n < len(q.late) && q.late[n].after <= q.taken {
		if bytes += q.late[n].cost; n > 0 && bytes > lateBytesMax {
			break
		}
		source := q.late[n].Message.Source
		if q.lateFrom[source]--; q.lateFrom[source] == 0 {
			delete(q.lateFrom, source)
		}
		dst = append(dst, q.late[n].item)
		n++
	}
	q.late = shift(q.late, n)
	return dst
}

// shift removes the first n elements and keeps the memory.
func shift[T any](all []T, n int) []T {
	rest := copy(all, all[n:])
	clear(all[rest:])
	return all[:rest]
}

func entryCost(e *journal.Entry) int {
	n := len(e.State)
	for _, f := range e.Events {
		n += len(f.Data)
	}
	for _, c := range e.Hosted {
		n += 64*len(c.Events) + len(c.State)
		for _, f := range c.Events {
			n += len(f.Data)
		}
	}
	for _, r := range e.Records {
		n += len(r.Data)
	}
	for _, r := range e.Rows {
		n += len(r.Key) + len(r.Value)
	}
	for _, w := range e.Effects {
		switch w := w.(type) {
		case journal.EnqueueFor:
			n += len(w.Data)
		case journal.DropFeed:
			n += 64 * len(w.Messages)
		case journal.PutRow:
			n += len(w.Key) + len(w.Value)
		case journal.Fanout:
			// The first chunk is written with the entry, the others as outbox
			// messages.
			n += copyCost*min(len(w.To), journal.FanoutChunk) + layout.SeatBytes*len(w.To)
		case journal.CreateStream:
			n += len(w.State)
			for _, f := range w.Events {
				n += len(f.Data)
			}
		case journal.AppendFeed, journal.AddToList, journal.RecordReceipt: // nothing beyond what any effect costs
		}
	}
	return n + 64*(1+len(e.Events)+len(e.Rows)+len(e.Effects))
}
