package messages

import "sync"

// Erasures wakes requests that wait for an agent when an organization was erased: it may
// be the agent's.
type Erasures struct {
	mu      sync.Mutex
	waiting map[chan struct{}]struct{}
}

// follow returns a channel that gets a signal for each erasure until stop is called.
func (n *Erasures) follow() (wake <-chan struct{}, stop func()) {
	signal := make(chan struct{}, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = map[chan struct{}]struct{}{}
	}
	n.waiting[signal] = struct{}{}
	return signal, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.waiting, signal)
	}
}

// Announce signals that an organization was erased.
func (n *Erasures) Announce() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for signal := range n.waiting {
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}
