package blackbox

import (
	"errors"
	"sync"
	"testing"
)

// fail ends all nodes at once, as a power failure does.
func (n *nodes) fail() {
	var ending sync.WaitGroup
	for _, s := range n.all {
		ending.Go(s.kill)
	}
	ending.Wait()
}

// recoverAll starts all nodes at once, and returns when each listens.
func (n *nodes) recoverAll() error {
	var starting sync.WaitGroup
	failed := make([]error, len(n.all))
	for i, s := range n.all {
		starting.Go(func() { failed[i] = s.again() })
	}
	starting.Wait()
	return errors.Join(failed...)
}

// TestAllReplaced replaces all nodes in turn, as docs/cluster.md says. Then the power of all
// fails, long before a store has flushed: the voters of the last flush are gone, and each node
// starts all the same.
func TestAllReplaced(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	one, other := pair(t, n.server())
	one.send(other)
	for i := range n.all {
		replaceLost(t, n, i)
		one.on(n.node((i + 1) % 3)).send(other)
	}
	n.ready(t)
	n.fail()
	must(t, n.recoverAll())
	n.ready(t)
	for i := range n.all {
		if rows := other.on(n.node(i)).everything(); len(rows) != 4 {
			t.Errorf("node %d shows %d of 4 messages", i, len(rows))
		}
	}
}
