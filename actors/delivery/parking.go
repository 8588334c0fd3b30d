package delivery

import (
	"maps"
	"slices"
	"sync"

	"parley/client/parley"
)

// parking holds the agents of suspended organizations whose webhooks are paused.
type parking struct {
	mu     sync.Mutex
	agents map[parley.OrgID]map[parley.AnyID]struct{}
}

// park records that an agent's webhooks wait until its organization is resumed. It then
// calls still again, because a resumption before that would have gone unnoticed, and
// returns its result.
func (p *parking) park(owner parley.OrgID, agent parley.AnyID, still func() (bool, error)) (bool, error) {
	p.mu.Lock()
	if p.agents[owner] == nil {
		p.agents[owner] = map[parley.AnyID]struct{}{}
	}
	p.agents[owner][agent] = struct{}{}
	p.mu.Unlock()
	waits, err := still()
	if !waits || err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.agents[owner], agent); len(p.agents[owner]) == 0 {
			delete(p.agents, owner)
		}
	}
	return waits, err
}

// orgs returns how many organizations have parked agents.
func (p *parking) orgs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.agents)
}

// unpark removes and returns the parked agents of an organization.
func (p *parking) unpark(owner parley.OrgID) []parley.AnyID {
	p.mu.Lock()
	defer p.mu.Unlock()
	agents := slices.Collect(maps.Keys(p.agents[owner]))
	delete(p.agents, owner)
	return agents
}
