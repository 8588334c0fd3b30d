package host

import (
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/record"
	"parley/journal"
)

const (
	// QueueMessages and queueBytes bound how much of a durable queue is in memory,
	// and on its way to the disk, at once.
	QueueMessages = 256
	queueBytes    = 1 << 20
	// retryPauseMin is the pause before an actor that failed to handle its queue tries
	// again. It doubles with each failure, up to retryPauseMax.
	retryPauseMin = time.Second
	retryPauseMax = time.Minute
)

// drainQueue handles the messages in the actor's durable queue, each in a turn of its
// own whose entry also removes it. It handles one page. If there is more, the actor is
// hinted again once the page is durable: a long queue fills neither memory nor the
// journal, and requests are served in between.
func (e *entity[S, C, E]) drainQueue() error {
	if e.page != nil && !e.page.Released() {
		return nil // its release hints
	}
	page, more, err := e.queuePage()
	if err != nil {
		return err
	}
	then := func(error) {}
	if more {
		then = func(error) { e.engine.nudge(e.handle.stream, toDrain) }
	}
	if e.kind.HandlePage != nil {
		err = e.handlePage(page, then)
	} else {
		err = e.handleEach(page, then)
	}
	if err != nil {
		return err
	}
	if e.page = nil; more {
		e.page = e.last
	}
	return nil
}

// handleEach handles each message of a page in a turn of its own. then is called when the
// last one is durable.
func (e *entity[S, C, E]) handleEach(page []journal.QueuedMessage, then func(error)) error {
	for i := range page {
		after := func(error) {}
		if i == len(page)-1 {
			after = then
		}
		if err := e.handleQueued(&page[i], after); err != nil {
			return err
		}
	}
	return nil
}

// handlePage handles all messages of a page in one turn.
func (e *entity[S, C, E]) handlePage(page []journal.QueuedMessage, then func(error)) error {
	if len(page) == 0 {
		return nil
	}
	t := e.begin()
	defer t.abandon()
	messages := make([]*record.SagaMessage, 0, len(page))
	for i := range page {
		m, err := record.DecodeSagaMessage(e.handle.stream.Kind, page[i].Data)
		if err != nil {
			e.quarantine(t, &page[i], err)
		} else {
			messages = append(messages, m)
		}
		t.Entry.Handled = append(t.Entry.Handled, page[i].Number)
	}
	if err := e.kind.HandlePage(t, messages); err != nil {
		return err
	}
	e.handled = page[len(page)-1].Number
	t.commit(then)
	return nil
}

// queuePage reads the messages after those that were handled.
func (e *entity[S, C, E]) queuePage() (page []journal.QueuedMessage, more bool, err error) {
	v := e.engine.journal.Latest()
	defer v.Close()
	size := 0
	err = v.Queue(e.handle.stream, e.handled, func(r journal.QueuedMessage) bool {
		if more = len(page) == e.engine.QueueMessages || len(page) > 0 && size+len(r.Data) > queueBytes; more {
			return false
		}
		size += len(r.Data)
		page = append(page, r)
		return true
	})
	return page, more, err
}

// handleQueued handles one message. If that fails, nothing of the turn is kept and the
// message stays: the actor is dropped, and its next activation tries again.
func (e *entity[S, C, E]) handleQueued(r *journal.QueuedMessage, then func(error)) error {
	said, malformed := record.DecodeSagaMessage(e.handle.stream.Kind, r.Data)
	if malformed == nil && e.kind.GatherQueued != nil {
		if err := e.kind.GatherQueued(e.state, said); err != nil {
			return err
		}
	}
	t := e.begin()
	defer t.abandon()
	if malformed != nil {
		e.quarantine(t, r, malformed)
	} else if err := e.kind.HandleQueued(t, said); err != nil {
		return err
	}
	t.Entry.Handled = append(t.Entry.Handled, r.Number)
	e.handled = r.Number
	t.commit(then)
	return nil
}

// quarantine stores a message that cannot be decoded, byte for byte, in the entry that
// removes it from the queue. Later messages do not wait for it, and `parley verify`
// reports it.
func (e *entity[S, C, E]) quarantine(t *Turn[S, C, E], r *journal.QueuedMessage, why error) {
	s := e.handle.stream
	t.PutRow(journal.QuarantineTable, record.QuarantineKey(s, r.Number), record.QuarantineRow(t.Now, r.Data))
	t.OnDurable(func() {
		e.engine.quarantined.Add(1)
		e.engine.Logger.Error("a message between actors cannot be decoded and was put into quarantine: its effect is missing",
			"stream", record.StreamName(s), "number", r.Number, "bytes", len(r.Data), "error", why)
	})
}

// retries are the streams whose actors failed to do what they were hinted at. They are
// hinted again after a pause, because nothing else may reach them for a long time.
// Each stream has one timer at most, however often its actor fails meanwhile.
type retries struct {
	mu      sync.Mutex
	streams map[journal.Stream]*retry
	count   atomic.Int64
	first   time.Duration
	// after is time.AfterFunc, unless a test has another.
	after func(time.Duration, func()) *time.Timer
}

// retry is the next attempt of one stream.
type retry struct {
	pause time.Duration // before the attempt that is armed, or was the last
	owes  hint          // the hints of that attempt; 0: no timer is armed
	timer *time.Timer
}

// failed arms the next attempt of a stream.
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
	next.pause = max(r.first, min(2*next.pause, retryPauseMax))
	next.timer = r.after(next.pause, func() {
		if owes := r.due(s, next); owes != 0 {
			nudge(s, owes)
		}
	})
}

// due takes the hints of an attempt; 0 if the stream's actor has succeeded meanwhile.
func (r *retries) due(s journal.Stream, next *retry) (owes hint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[s] == next {
		owes, next.owes = next.owes, 0
	}
	return owes
}

// passed forgets the failures of a stream, whose actor has done all it was hinted at.
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
