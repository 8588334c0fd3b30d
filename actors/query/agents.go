package query

import (
	"context"

	"parley/actors/agent"
	"parley/client/parley"
	"parley/journal"
)

// ByKid returns the id of the agent that can be found by the RFC 7638 thumbprint of a
// key; parley.ErrNotFound if there is none.
func (q *Agents) ByKid(ctx context.Context, kid string) (parley.AgentID, error) {
	id, err := q.lookup(ctx, parley.SlotOf(kid), journal.KidTable, []byte(kid))
	return parley.AgentID(id), err
}

// Get returns an agent, active or revoked; parley.ErrNotFound if there is none. The
// state is shared and must not be changed.
func (q *Agents) Get(ctx context.Context, id parley.AgentID) (*agent.State, error) {
	return q.lookups.agent(ctx, id)
}

// ByName returns the id of an organization's agent with a name, active or revoked.
func (q *Agents) ByName(ctx context.Context, owner parley.OrgID, name string) (parley.AgentID, error) {
	id, err := q.name(ctx, owner.Slot(), nameOf{journal.NameTable, parley.AnyID(owner), name})
	return parley.AgentID(id), err
}

// ByPollToken returns the active agent whose poll token has this SHA-256.
func (q *Agents) ByPollToken(ctx context.Context, hash []byte) (parley.AgentID, error) {
	// The row never names another agent, but it stays when the token is replaced.
	id, err := q.name(ctx, parley.SlotOf(string(hash)), nameOf{table: journal.PollTable, text: string(hash)})
	if err != nil {
		return parley.AgentID{}, err
	}
	a, err := q.agents.Get(ctx, parley.AgentID(id))
	if err == nil && (a.Revoked() || string(a.GetPollTokenHash()) != string(hash)) {
		err = parley.ErrNotFound // regenerated or revoked since
	}
	return parley.AgentID(id), err
}

// Each calls fn for each agent of an organization, oldest first, until fn returns
// false.
func (q *Agents) Each(ctx context.Context, owner parley.OrgID, fn func(*agent.State) bool) error {
	return q.agents.EachFrom(ctx, owner, 0, func(_ uint64, a *agent.State) bool { return fn(a) })
}

// EachFrom is Each from a place in the organization's roster on. It passes each agent's
// place to fn. An agent keeps its place, and places are not reused.
func (q *Agents) EachFrom(ctx context.Context, owner parley.OrgID, from uint64, fn func(place uint64, a *agent.State) bool) error {
	_, err := q.roster(ctx, owner, from, fn)
	return err
}

// Oldest returns the first agent that an organization created, active or revoked.
func (q *Agents) Oldest(ctx context.Context, owner parley.OrgID) (id parley.AgentID, err error) {
	if id, ok := q.lookups.oldest.GetIfPresent(owner); ok {
		return id, nil
	}
	err = q.view(ctx, func(v journal.View) error {
		return v.Rows(owner.Slot(), journal.RosterTable, owner[:], nil, false, func(_, value []byte) bool {
			id = parley.IDFromBytes[parley.AgentID](value)
			return false
		})
	})
	if err == nil && id.Zero() {
		err = parley.ErrNotFound
	}
	if err == nil {
		q.lookups.oldest.Set(owner, id)
	}
	return id, err
}

// FirstActive returns the organization's oldest active agent, which acts when a request
// names none. // spec: Messaging
func (q *Agents) FirstActive(ctx context.Context, owner parley.OrgID) (*agent.State, error) {
	if id, ok := q.lookups.firsts.GetIfPresent(owner); ok {
		if a, err := q.agents.Get(ctx, id); err == nil && !a.Revoked() {
			return a, nil
		}
	}
	var first *agent.State
	awaited, err := q.activeRoster(ctx, owner, 0, func(_ uint64, a *agent.State) bool {
		first = a
		return false
	})
	if err == nil && first == nil {
		err = parley.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if !awaited { // an older agent may still appear
		q.lookups.firsts.Set(owner, first.AgentID())
	}
	return first, nil
}
