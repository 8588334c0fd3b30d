package http

import (
	"sync"
	"sync/atomic"

	"parley"
)

// renderCachePlaces is how many events are kept; those of a moment are few.
const renderCachePlaces = 64

// renderCache keeps the events that went last to agents with several streams: each is
// rendered for the first stream and goes out on the others as it is. All streams
// of an agent are its owner's, so they see the same.
//
// An event comes off when another needs its place, or with the next second.
type renderCache struct {
	places [renderCachePlaces]struct {
		mu    sync.Mutex
		event *sharedEvent
	}
}

// sharedEvent does not change but for marked: one of its streams, having written
// it, has noted the message as delivered.
type sharedEvent struct {
	agent    parley.AgentID
	position uint64
	bytes    []byte
	sender   parley.AgentID // of the message
	recorded atomic.Bool
}

// event gives the event at a position of an agent's feed, rendered by the first
// who asks. The others wait for that.
func (s *renderCache) event(agent parley.AgentID, position uint64, render func() ([]byte, parley.AgentID, error)) (*sharedEvent, error) {
	p := &s.places[(uint64(agent[15])+position)%renderCachePlaces]
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.event; e != nil && e.position == position && e.agent == agent {
		return e, nil
	}
	b, sender, err := render()
	if err != nil {
		return nil, err
	}
	p.event = &sharedEvent{agent: agent, position: position, bytes: b, sender: sender}
	return p.event, nil
}

// clear takes everything off.
func (s *renderCache) clear() {
	for i := range s.places {
		p := &s.places[i]
		p.mu.Lock()
		p.event = nil
		p.mu.Unlock()
	}
}
