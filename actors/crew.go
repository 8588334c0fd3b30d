package actors

import "sync"

// crewIdleMax is how many goroutines wait for work when there is none.
const crewIdleMax = 64

// throughput is how many messages one actor handles before others get a turn.
const throughput = 300

// crew runs mailboxes on goroutines that stay. An actor whose messages come one
// by one would else begin each of them on a new goroutine, whose small stack
// has to be grown to what a turn needs: that cost more than the turn.
//
// The number of goroutines is not bounded: one that waits for the disk must not
// keep another actor from running. Only how many wait idle is.
type crew struct {
	mu     sync.Mutex
	idle   []*worker
	closed bool
}

// worker is one goroutine of the crew.
type worker struct{ work chan func() }

// Throughput is part of the actor system's contract with its dispatcher.
func (*crew) Throughput() int { return throughput }

// Schedule runs fn soon, on the goroutine that fell idle last.
func (c *crew) Schedule(fn func()) {
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

func (c *crew) serve(fn func()) {
	w := &worker{work: make(chan func(), 1)}
	for ok := true; ok; {
		fn()
		if !c.rest(w) {
			return
		}
		fn, ok = <-w.work
	}
}

// rest puts a worker with the idle ones, unless there are enough.
func (c *crew) rest(w *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= crewIdleMax {
		return false
	}
	c.idle = append(c.idle, w)
	return true
}

// close sends the idle ones home. What is scheduled later still runs.
func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, w := range c.idle {
		close(w.work)
	}
	c.idle = nil
}
