package consensus

import "sync"

// reply lets the loop continue with what a worker has done.
func (r *Runner) reply(err error, then func()) {
	r.inbox.push(0, false, func() {
		switch {
		case err != nil:
			r.err = err
		case !r.over:
			then()
		}
	})
}

// written is a record in the log: how many were appended with it, and its number.
type written struct{ count, number uint64 }

// sync waits for the disk. One of these goroutines may overtake another, which then
// finds its record reported already: what is durable is so with all before it.
func (r *Runner) sync() {
	for w := range r.number {
		err := r.config.Log.Sync(w.number)
		r.reply(err, func() {
			for ; r.synced < w.count; r.synced++ {
				r.begun = r.begun[1:]
				r.core.Synced()
			}
			r.waiting(r.begun)
		})
	}
}

// apply applies batches and restores snapshots, in order.
func (r *Runner) apply() {
	for range r.tasks.ready {
		for _, task := range r.tasks.take() {
			task()
		}
	}
}

func (r *Runner) restore(content Snapshot) {
	err := r.config.State.Restore(content)
	at := r.config.State.Applied()
	r.reply(err, func() { r.core.Restored(at) })
}

func (r *Runner) closed(m Message) {
	if err := m.Content.Close(); err != nil {
		r.config.Options.Logger.Error("cannot close a snapshot", "error", err)
	}
	if m.Closed != nil {
		m.Closed()
	}
}

// queue holds functions for one goroutine. Pushing never blocks.
type queue struct {
	mu     sync.Mutex
	ready  chan struct{}
	events []func()
	bytes  int
	closed bool
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// push adds a function, unless the queue is closed, or is full and bounded is set. It
// reports whether it did.
func (q *queue) push(bytes int, bounded bool, event func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || bounded && (q.bytes+bytes > inboxBytes || len(q.events) >= inboxEvents) {
		return false
	}
	q.events, q.bytes = append(q.events, event), q.bytes+bytes
	if len(q.events) == 1 {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns all functions.
func (q *queue) take() []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events, q.bytes = nil, 0
	return events
}

// close rejects further functions.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	close(q.ready)
}
