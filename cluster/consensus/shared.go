package consensus

import (
	"context"
	"sync"
)

// sharedFence gathers callers that want a fence until the loop begins with it, so that the
// loop has one to answer, however many requests are served.
type sharedFence struct {
	mu   sync.Mutex
	next *pendingFence
}

// pendingFence is a fence for several callers. The other fields are written before done is
// closed.
type pendingFence struct {
	done       chan struct{}
	index, led uint64
	err        error
}

// Fence returns an index such that everything acknowledged before the call, by any
// node, is at or below it. This node has applied it when Fence returns.
func (r *Runner) Fence(ctx context.Context) (uint64, error) { return r.fence(ctx, 0) }

// Confirm returns nil if this node led in a term at some instant after the call.
func (r *Runner) Confirm(ctx context.Context, term uint64) error {
	_, err := r.fence(ctx, term)
	return err
}

// fence waits for a fence. Unless term is 0, it fails with ErrNotLeader if this node does not
// lead in that term by then. One that does has led in it all the time, so it was in that
// term that a majority answered the fence.
func (r *Runner) fence(ctx context.Context, term uint64) (uint64, error) {
	p := r.pendingFence()
	select {
	case <-p.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-r.done:
		return 0, ErrStopped
	}
	if p.err == nil && term != 0 && p.led != term {
		return 0, ErrNotLeader
	}
	return p.index, p.err
}

// pendingFence returns a fence that has not begun.
func (r *Runner) pendingFence() *pendingFence {
	s := &r.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		p := &pendingFence{done: make(chan struct{})}
		s.next = p
		r.inbox.push(0, false, func() { r.begin(p) })
	}
	return s.next
}

// begin begins with a fence, in the loop. Callers that come from now on wait for another one.
func (r *Runner) begin(p *pendingFence) {
	r.shared.mu.Lock()
	r.shared.next = nil
	r.shared.mu.Unlock()
	if r.over {
		return
	}
	r.core.Fence(r.expect(func(index uint64, err error) {
		p.index, p.led, p.err = index, r.led, err
		close(p.done)
	}))
}
