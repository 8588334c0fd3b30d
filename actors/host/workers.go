package host

import "sync"

// idleWorkersMax is how many goroutines stay when there is no work.
const idleWorkersMax = 64

// throughput is how many messages an actor handles before it yields the processor.
const throughput = 300

// workerPool runs mailboxes on goroutines that it reuses. A new goroutine for each
// message would start with a small stack, and growing that to what a turn needs cost
// more than the turn.
//
// The number of goroutines is not bounded, because one that waits for the disk must
// not keep other actors from running. Only the number of idle ones is.
type workerPool struct {
	mu     sync.Mutex
	idle   []*worker
	closed bool
}

// worker is one goroutine of the pool.
type worker struct{ work chan func() }

// Throughput implements actor.Dispatcher.
func (*workerPool) Throughput() int { return throughput }

// Schedule implements actor.Dispatcher. It runs fn on the goroutine that fell idle
// last: its memory is warm.
func (c *workerPool) Schedule(fn func()) {
	c.mu.Lock()
	last := len(c.idle) - 1
	if last < 0 {
		c.mu.Unlock()
		go c.serve(fn)
		return
	}
	w := c.idle[last]
	c.idle[last] = nil
	c.idle = c.idle[:last]
	c.mu.Unlock()
	w.work <- fn
}

func (c *workerPool) serve(fn func()) {
	w := &worker{work: make(chan func(), 1)}
	for ok := true; ok; {
		fn()
		if !c.rest(w) {
			return
		}
		fn, ok = <-w.work
	}
}

// rest adds a worker to the idle ones, unless there are enough.
func (c *workerPool) rest(w *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= idleWorkersMax {
		return false
	}
	c.idle = append(c.idle, w)
	return true
}

// close ends the idle workers. What is scheduled later still runs.
func (c *workerPool) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, w := range c.idle {
		close(w.work)
	}
	c.idle = nil
}
