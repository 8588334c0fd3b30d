package actors

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/record"
	"parley/journal"
)

const (
	// queueEntries and queueBytes bound how much of a tray is in memory, and on its
	// way to the disk, at once.
	queueEntries = 256
	queueBytes   = 1 << 20
	// drainAgainMin is the pause before an actor that failed to hear its words tries
	// again. It doubles with each failure, up to drainAgainMax.
	drainAgainMin = time.Second
	drainAgainMax = time.Minute
)

// drainQueue takes the words in the tray, each in a turn of its own that also strikes it
// out. It takes one page; if there is more, the actor is hinted again once the
// page is durable, so that a long tray fills neither memory nor the journal, and
// requests are served in between.
func (e *entity[S, C, E]) drainQueue() error {
	if e.page != nil && !e.page.released() {
		return nil // its release hints
	}
	page, more, err := e.queuePage()
	if err != nil {
		return err
	}
	for i := range page {
		then := func(error) {}
		if more && i == len(page)-1 {
			then = func(error) { e.engine.hint(e.handle.stream) }
		}
		if err := e.handleQueued(&page[i], then); err != nil {
			return err
		}
	}
	if e.page = nil; more {
		e.page = e.last
	}
	return nil
}

// queuePage reads the words that follow those that were heard.
func (e *entity[S, C, E]) queuePage() (page []journal.QueuedMessage, more bool, err error) {
	v := e.engine.journal.Latest()
	defer v.Close()
	size := 0
	err = v.Queue(e.handle.stream, e.heard, func(r journal.QueuedMessage) bool {
		if more = len(page) == e.engine.queueEntries || len(page) > 0 && size+len(r.Data) > queueBytes; more {
			return false
		}
		size += len(r.Data)
		page = append(page, r)
		return true
	})
	return page, more, err
}

// handleQueued takes one word. Where that fails nothing is struck out and nothing kept
// of the turn: the actor is dropped, and its next life hears the word again.
func (e *entity[S, C, E]) handleQueued(r *journal.QueuedMessage, then func(error)) error {
	t := e.begin()
	defer t.abandon()
	said, err := record.DecodeSagaMessage(e.handle.stream.Kind, r.Data)
	if err != nil {
		e.quarantine(t, r, err)
	} else if err := e.kind.handleQueued(t, said); err != nil {
		return err
	}
	t.entry.Handled = append(t.entry.Handled, r.Number)
	e.heard = r.Number
	t.finish(then)
	return nil
}

// quarantine keeps a word aside that cannot be decoded, byte for byte, in the
// entry that strikes it from the tray: no later word waits for it, and `parley
// verify` names it.
func (e *entity[S, C, E]) quarantine(t *turn[S, C, E], r *journal.QueuedMessage, why error) {
	s := e.handle.stream
	t.keep(journal.QuarantineTable, record.QuarantineKey(s, r.Number), quarantineRow(t.now, r.Data))
	t.after = append(t.after, func() {
		e.engine.quarantined.Add(1)
		e.engine.logger.Error("a stored word cannot be decoded and was put into quarantine: its effect is missing",
			"stream", record.StreamName(s), "number", r.Number, "bytes", len(r.Data), "error", why)
	})
}

// quarantineRow is the instant in milliseconds, and the word.
func quarantineRow(at time.Time, word []byte) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(word)), uint64(at.UnixMilli()))
	return append(b, word...)
}

// retries are the streams whose actors failed to do what they were hinted at. The
// disk may be well again soon, and what waits for an actor must not wait until
// somebody asks it for something. Each stream has one timer at most, however often
// its actor fails meanwhile.
type retries struct {
	mu      sync.Mutex
	streams map[journal.Stream]*retry
	count   atomic.Int64
	first   time.Duration
	// after is time.AfterFunc, unless a test has another.
	after func(time.Duration, func()) *time.Timer
}

// retry is one stream's next attempt.
type retry struct {
	pause time.Duration // before the attempt that is armed, or was last
	owes  hint          // what the actor is hinted at then; 0: no timer is armed
	timer *time.Timer
}

// failed has a stream's actor hinted again after a pause.
func (r *retries) failed(s journal.Stream, what hint, nudge func(journal.Stream, hint)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams == nil {
		r.streams = map[journal.Stream]*retry{}
	}
	next, known := r.streams[s]
	if !known {
		next = &retry{}
		r.streams[s] = next
		r.count.Store(int64(len(r.streams)))
	}
	armed := next.owes != 0
	if next.owes |= what; armed {
		return
	}
	next.pause = max(r.first, min(2*next.pause, drainAgainMax))
	next.timer = r.after(next.pause, func() {
		if owes := r.due(s, next); owes != 0 {
			nudge(s, owes)
		}
	})
}

// due takes what an attempt is to hint at; 0 if the stream's actor has passed.
func (r *retries) due(s journal.Stream, next *retry) (owes hint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[s] == next {
		owes, next.owes = next.owes, 0
	}
	return owes
}

// passed forgets that a stream's actor ever failed. It has done all it owed.
func (r *retries) passed(s journal.Stream) {
	if r.count.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if next, known := r.streams[s]; known {
		next.timer.Stop()
		delete(r.streams, s)
		r.count.Store(int64(len(r.streams)))
	}
}
