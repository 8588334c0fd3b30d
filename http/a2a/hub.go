package a2a

import (
	"sync"

	"parley/client/parley"
	"parley/http/limit"
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

// wakeAll wakes all who follow a conversation: any may have changed, or is gone.
func (h *hub) wakeAll() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, followers := range h.follows {
		for f := range followers {
			select {
			case f.wake <- struct{}{}:
			default:
			}
		}
	}
}

// openStreams holds the streams that are open.
type openStreams struct {
	mu  sync.Mutex
	all map[*taskStream]struct{}
	// of counts them by the agent that began the task.
	of map[parley.AgentID]int
	// onNodes counts those of other nodes too, nil on a node on its own.
	onNodes *limit.Concurrency
}

// add adds a stream, unless its agent has as many as the limit allows (nil: any number).
func (o *openStreams) add(st *taskStream, limit *int) (used int, added bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if used, added = o.onNodes.Open(st.agent, o.of[st.agent], limit); !added {
		return used, false
	}
	o.all[st] = struct{}{}
	o.of[st.agent]++
	return used, true
}

func (o *openStreams) remove(st *taskStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, st)
	o.of[st.agent]--
	o.onNodes.Close(st.agent, o.of[st.agent])
	if o.of[st.agent] == 0 {
		delete(o.of, st.agent)
	}
}

func (o *openStreams) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

// end ends the streams of an organization or a credential.
func (o *openStreams) end(id [16]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for st := range o.all {
		if id == st.caller.Org || id == st.caller.ClientID {
			st.over.Do(func() { close(st.ended) })
		}
	}
}
