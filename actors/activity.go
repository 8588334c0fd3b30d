package actors

import (
	"sync"

	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// activity remembers which agents have sent in the present hour, or which credentials have got
// tokens, and have a row that says so: only the first time in an hour writes it. One that is not
// remembered writes the same row again.
type activity[ID comparable] struct {
	mu     sync.Mutex
	hour   uint32
	active map[ID]struct{}
}

// activeMax is how many are remembered. Beyond it, one is forgotten for each that is added.
const activeMax = 1 << 18

// has reports whether the row of an hour is known to be durable.
func (a *activity[ID]) has(id ID, hour uint32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, has := a.active[id]
	return has && a.hour == hour
}

// add remembers that the row of an hour is durable.
func (a *activity[ID]) add(id ID, hour uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.active == nil || a.hour != hour {
		a.hour, a.active = hour, map[ID]struct{}{}
	}
	if len(a.active) >= activeMax {
		for one := range a.active {
			delete(a.active, one)
			break
		}
	}
	a.active[id] = struct{}{}
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

// NoteToken writes the row with the hour in which a credential last got a token, unless the row is
// known to have this hour. It does not wait. Under overload the row is not written.
func (orgs *Orgs) NoteToken(id parley.OrgID, client parley.ClientID) {
	now := orgs.clock()
	m, row := orgs.memory.Load(), journal.Row{
		Slot: id.Slot(), Table: journal.TokenTable, Key: record.TokenKey(id, client), Value: record.HourRow(record.Hour(now)), Owners: journal.OwnedBy(id),
	}
	if m.tokens.has(client, record.Hour(now)) {
		return
	}
	release, err := orgs.journal.Admit(row.Slot, len(row.Key)+len(row.Value))
	if err != nil {
		return
	}
	orgs.journal.Append(&journal.Entry{Slot: row.Slot, Rows: []journal.Row{row}, At: now, Release: func(err error) {
		if release(); err == nil {
			m.tokens.add(client, record.Hour(now))
		}
	}})
}
