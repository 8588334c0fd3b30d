package a2a

import (
	"sync"

	"parley"
)

// hub wakes those who follow a conversation when it has new events.
type hub struct {
	mu      sync.RWMutex
	follows map[parley.ConversationID]map[*follower]struct{}
}

// follower is one who follows a conversation. wake has room for one signal.
type follower struct{ wake chan struct{} }

func newHub() *hub { return &hub{follows: map[parley.ConversationID]map[*follower]struct{}{}} }

// follow returns a follower, whose wake gets a signal after each durable change from now on,
// until stop is called.
func (h *hub) follow(id parley.ConversationID) (f *follower, stop func()) {
	f = &follower{wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.follows[id] == nil {
		h.follows[id] = map[*follower]struct{}{}
	}
	h.follows[id][f] = struct{}{}
	return f, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.follows[id], f); len(h.follows[id]) == 0 {
			delete(h.follows, id)
		}
	}
}

// changed wakes those who follow a conversation.
func (h *hub) changed(id parley.ConversationID) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for f := range h.follows[id] {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}
