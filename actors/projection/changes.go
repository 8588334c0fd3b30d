package projection

import (
	"sync"

	"parley/client/parley"
	"parley/journal"
)

// change names what has changed: an agent, an organization or a group.
type change struct {
	kind journal.StreamKind
	id   parley.AnyID
}

// changes are what is to be read again, each once.
type changes struct {
	mu  sync.Mutex
	all map[change]struct{}
	// wake gets a value when something was added.
	wake chan struct{}
}

// observe adds what an entry has changed. Agents and organizations without a card are left
// out when they are read.
func (c *changes) observe(what journal.Change) {
	x := change{what.Stream.Kind, what.Stream.ID}
	switch what.Table {
	case journal.CardTable:
		x = change{journal.AgentStream, parley.IDFromBytes[parley.AnyID](what.Key)}
	case journal.PublicTable:
		x = change{journal.GroupStream, parley.IDFromBytes[parley.AnyID](what.Key)}
	}
	c.add(x)
}

func (c *changes) add(all ...change) {
	c.mu.Lock()
	for _, x := range all {
		c.all[x] = struct{}{}
	}
	c.mu.Unlock()
	signal(c.wake)
}

func (c *changes) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// take removes and returns at most n changes.
func (c *changes) take(n int) (now []change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.all {
		if len(now) == n {
			break
		}
		now = append(now, x)
		delete(c.all, x)
	}
	return now
}
