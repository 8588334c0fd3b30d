package load

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// nap is the longest sleep of a worker that ignores cancellation. Longer sleeps wait
	// for cancellation too, which costs a lock that all workers share.
	nap = 100 * time.Millisecond
	// reasonsKept bounds the different reasons that one worker counts; further ones count
	// as reasonsElse.
	reasonsKept = 32
	reasonsElse = "other"
	// breaksBorne is how many consecutive operations may break their connection before
	// the patience of the plan applies.
	breaksBorne = 5
	// firstPause is doubled after each failed dial, up to longestPause.
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

var errEnded = errors.New("the system ends each connection after an answer")

// worker performs its share of the operations. All fields except the connection belong to
// its goroutine until that has ended.
type worker struct {
	run        *run
	index      int
	connection connection
	// tick is the number of the next arrival in an open loop.
	tick  float64
	parts Parts

	operations, failures int64
	reasons              map[string]int64
	// owes is set while an operation of Plan.Operations has not succeeded yet.
	owes bool
	// last is when the last measured operation was answered.
	last time.Time
	// breaks counts consecutive operations that broke the connection, since broken.
	breaks int
	broken time.Time
	timer  *time.Timer
}

func newWorker(r *run, index int) *worker {
	w := &worker{
		run: r, index: index,
		parts:   Parts{into: r.shared[index%len(r.shared)]},
		reasons: make(map[string]int64),
	}
	if r.plan.Rate > 0 {
		w.tick = float64(index)
	}
	return w
}

// work performs operations until the arrivals of the window are served or the run is
// stopped. It fails if it cannot replace a broken connection.
func (w *worker) work() error {
	for n := 0; ; n++ {
		due, sent, more := w.await()
		if !more {
			return nil
		}
		if ends, may := w.connection.client.(interface{ Ended() bool }); may && ends.Ended() {
			if err := w.redial(sent, errEnded); err != nil || w.run.ctx.Err() != nil {
				return err
			}
		}
		w.parts.intended, w.parts.measured = due, !due.Before(w.run.begin)
		err := w.connection.client.Do(w.run.ctx, n, &w.parts)
		answered := time.Now()
		if err == nil {
			w.breaks, w.owes = 0, false
			if w.parts.measured {
				w.succeed(due, sent, answered)
			}
			continue
		}
		if w.run.stopped.Load() || w.run.ctx.Err() != nil {
			return nil
		}
		refused, isRefused := asRefused(err)
		if w.parts.measured {
			reason := refused.Reason
			if !isRefused {
				reason = firstWords(err)
			}
			w.fail(reason, answered)
		}
		if n := w.run.plan.Operations; n > 0 && w.run.refused.Add(1) > n/10+100 {
			return fmt.Errorf("load: too many operations failed, the last: %w", err)
		}
		if isRefused {
			w.breaks = 0
			continue
		}
		if err := w.redial(answered, err); err != nil || w.run.ctx.Err() != nil {
			return err
		}
	}
}

// await returns the intended and the actual start of the next operation, or false if
// there is none.
func (w *worker) await() (due, sent time.Time, more bool) {
	r := w.run
	if r.stopped.Load() {
		return due, sent, false
	}
	now := time.Now()
	if n := r.plan.Operations; n > 0 {
		w.owes = w.owes || r.taken.Add(1) <= n
		return now, now, w.owes
	}
	if r.plan.Rate == 0 {
		return now, now, now.Before(r.end)
	}
	due = w.arrival()
	for r.plan.SkipBusy && due.Before(now) {
		due = w.arrival()
	}
	if !due.Before(r.end) {
		return due, now, false
	}
	if due.After(now) {
		if !w.sleep(due, now) {
			return due, now, false
		}
		return due, time.Now(), true
	}
	if r.plan.Overtime > 0 && now.Sub(r.end) > r.plan.Overtime {
		w.giveUp(due, now)
		return due, now, false
	}
	return due, now, true
}

// sleep waits until due. It returns false if the run was stopped first.
func (w *worker) sleep(due, now time.Time) bool {
	left := due.Sub(now)
	if left <= nap {
		time.Sleep(left)
		return !w.run.stopped.Load()
	}
	if w.timer == nil {
		w.timer = time.NewTimer(left)
	} else {
		w.timer.Reset(left)
	}
	select {
	case <-w.timer.C:
		return true
	case <-w.run.ctx.Done():
		return false
	}
}

func (w *worker) succeed(due, sent, answered time.Time) {
	w.operations++
	w.last = answered
	w.parts.into.operation(due, sent, answered)
	w.run.meter.operations.Add(1)
}

func (w *worker) fail(reason string, at time.Time) {
	w.failures++
	w.last = at
	if _, known := w.reasons[reason]; !known && len(w.reasons) >= reasonsKept {
		reason = reasonsElse
	}
	w.reasons[reason]++
	w.run.meter.failures.Add(1)
}

// giveUp counts the current arrival and all later ones as never sent. Their wait so far
// is a lower bound of their latency.
func (w *worker) giveUp(due, now time.Time) {
	for ; due.Before(w.run.end); due = w.arrival() {
		if due.Before(w.run.begin) {
			continue
		}
		w.fail(NeverSent, now)
		w.parts.into.neverSent(now.Sub(due))
	}
}

// redial replaces the connection that an operation broke because of cause. When the
// plan's patience is over, it fails, and the run with it. If the run is stopped
// meanwhile, redial does not fail: the loop of work notices.
func (w *worker) redial(now time.Time, cause error) error {
	w.connection.drop()
	if w.breaks == 0 {
		w.broken = now
	}
	w.breaks++
	patience := w.run.plan.Patience
	if w.breaks > breaksBorne && now.Sub(w.broken) > patience {
		return fmt.Errorf("load: worker %d: %d operations in a row broke their connection: %w", w.index, w.breaks, cause)
	}
	pause := firstPause
	for i := 1; i < w.breaks && pause < longestPause; i++ {
		pause = min(2*pause, longestPause)
	}
	if w.breaks > 1 && !w.sleep(now.Add(pause), now) {
		return nil
	}
	for deadline := now.Add(patience); ; pause = min(2*pause, longestPause) {
		client, err := w.run.dial(w.run.ctx, w.index)
		if err == nil {
			w.connection.put(client)
			return nil
		}
		now = time.Now()
		if w.run.stopped.Load() || w.run.ctx.Err() != nil {
			return nil
		}
		if now.Add(pause).After(deadline) {
			return fmt.Errorf("load: worker %d is not connected again within %v: %w", w.index, patience, err)
		}
		if !w.sleep(now.Add(pause), now) {
			return nil
		}
	}
}

// arrival returns the worker's next arrival: of equal gaps those with the numbers index,
// index+clients and so on.
func (w *worker) arrival() time.Time {
	at := time.Duration(w.tick * 1e9 / w.run.plan.Rate)
	w.tick += float64(w.run.plan.Clients)
	return w.run.start.Add(at)
}

// connection holds a worker's client. Only the worker uses and replaces it; a
// cancellation may shut it at any time.
type connection struct {
	client Client
	lock   sync.Mutex
	// open is the client while it must still be closed; final means that no other client
	// follows.
	open  Client
	final bool
}

// put sets the client, or closes it if the connection is shut.
func (c *connection) put(client Client) {
	c.client = client
	c.lock.Lock()
	shut := c.final
	if !shut {
		c.open = client
	}
	c.lock.Unlock()
	if shut {
		_ = client.Close()
	}
}

// drop closes the client; another may follow.
func (c *connection) drop() { c.end(false) }

// shut closes the client and every client that is put later.
func (c *connection) shut() { c.end(true) }

func (c *connection) end(final bool) {
	c.lock.Lock()
	client := c.open
	c.open = nil
	c.final = c.final || final
	c.lock.Unlock()
	if client != nil {
		// Ignore the error: the connection is no longer needed, and nothing measured
		// depends on it.
		_ = client.Close()
	}
}

func asRefused(err error) (Refused, bool) {
	var refused Refused
	ok := errors.As(err, &refused)
	return refused, ok
}

// firstWords derives a reason from an error: at most eight words and no addresses, which
// differ from one connection to the next.
func firstWords(err error) string {
	text := err.Error()
	var network *net.OpError
	if errors.As(err, &network) && network.Err != nil {
		text = network.Op + ": " + network.Err.Error()
	}
	words := strings.Fields(text)
	return strings.Join(words[:min(len(words), 8)], " ")
}
