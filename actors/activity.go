package actors

import (
	"sync"

	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// activity remembers which agents have sent in the present hour and have a durable row
// that says so, so that a send writes the row only if it is the sender's first of an
// hour. An agent that it does not remember writes the same row again.
type activity struct {
	mu     sync.Mutex
	hour   uint32
	agents map[parley.AgentID]struct{}
}

// activeMax is how many agents are remembered. Beyond it, one is forgotten for each that
// is added.
const activeMax = 1 << 18

// has reports whether an agent's row of an hour is known to be durable.
func (a *activity) has(id parley.AgentID, hour uint32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, has := a.agents[id]
	return has && a.hour == hour
}

// add remembers that an agent's row of an hour is durable.
func (a *activity) add(id parley.AgentID, hour uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.agents == nil || a.hour != hour {
		a.hour, a.agents = hour, map[parley.AgentID]struct{}{}
	}
	if len(a.agents) >= activeMax {
		for one := range a.agents {
			delete(a.agents, one)
			break
		}
	}
	a.agents[id] = struct{}{}
}

// recordActivity adds the row with the hour of the sender's last message to the entry of
// a message, unless the row has this hour. Entries of one agent that are under way at
// once may all have the row.
func recordActivity[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], c *core, from parley.AgentID, org parley.OrgID) {
	hour := record.Hour(t.Now)
	m := c.memory.Load()
	if m.activity.has(from, hour) {
		return
	}
	t.AddEffects(journal.PutRow{Row: journal.Row{
		Slot: from.Slot(), Table: journal.ActivityTable, Key: from.Bytes(), Value: record.HourRow(hour), Owners: journal.OwnedBy(org),
	}})
	t.OnDurable(func() { m.activity.add(from, hour) })
}
