package consensus

import "testing"

// TestFenceIsShared: callers share a fence until the loop begins with it. One that comes later
// needs a newer answer.
func TestFenceIsShared(t *testing.T) {
	r := &Runner{inbox: newQueue(), over: true} // it begins with nothing
	first := r.pendingFence()
	if r.pendingFence() != first {
		t.Error("a second caller has a fence of its own")
	}
	events := r.inbox.take()
	if len(events) != 1 {
		t.Fatalf("the loop has %d events", len(events))
	}
	events[0]()
	if r.pendingFence() == first {
		t.Error("a caller shares a fence that has begun")
	}
}
