package streams

import (
	"sync"
	"sync/atomic"

	"parley/client/parley"
)

// renderCachePlaces is how many events are kept. Few are current at a time.
const renderCachePlaces = 64

// renderCache keeps the latest events of agents with several streams: each is rendered
// for the first stream and sent on the others unchanged. All streams of an agent belong
// to its owner, so they see the same; those of limited credentials do not take part.
//
// An event is dropped when another needs its place, or after a second.
type renderCache struct {
	places [renderCachePlaces]struct {
		mu    sync.Mutex
		event *sharedEvent
	}
}

// sharedEvent does not change except for marked, which is set once one of the streams has
// written it and recorded the message as delivered.
type sharedEvent struct {
	agent    parley.AgentID
	position uint64
	bytes    []byte
	sender   parley.AgentID // of the message
	recorded atomic.Bool
}

// event returns the event at a position of an agent's feed. The first caller renders it,
// the others wait.
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

// clear drops all events.
func (s *renderCache) clear() {
	for i := range s.places {
		p := &s.places[i]
		p.mu.Lock()
		p.event = nil
		p.mu.Unlock()
	}
}
