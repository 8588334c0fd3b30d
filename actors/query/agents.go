package query

import (
	"context"

	"parley"
	"parley/actors/agent"
	"parley/journal"
)

// ByKid finds the agent that was the first to have the key of this thumbprint.
func (q *Agents) ByKid(ctx context.Context, kid string) (parley.AgentID, error) {
	id, err := q.lookup(ctx, parley.SlotOf(kid), journal.KidTable, []byte(kid))
	return parley.AgentID(id), err
}

// Get is the record of an agent, active or revoked; parley.ErrNotFound if
// there is none. It is shared and must not be changed.
func (q *Agents) Get(ctx context.Context, id parley.AgentID) (*agent.State, error) {
	return q.lookups.agent(ctx, id)
}

// ByName finds an agent, active or revoked, by organization and name.
func (q *Agents) ByName(ctx context.Context, owner parley.OrgID, name string) (parley.AgentID, error) {
	id, err := q.name(ctx, owner.Slot(), nameOf{journal.NameTable, parley.AnyID(owner), name})
	return parley.AgentID(id), err
}

// ByPollToken finds the active agent whose poll token has this SHA-256.
func (q *Agents) ByPollToken(ctx context.Context, hash []byte) (parley.AgentID, error) {
	// The row never names another agent; whether the token holds the agent tells.
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

// Each calls fn with the organization's agents, oldest first, until it
// returns false.
func (q *Agents) Each(ctx context.Context, owner parley.OrgID, fn func(*agent.State) bool) error {
	return q.agents.EachFrom(ctx, owner, 0, func(_ uint64, a *agent.State) bool { return fn(a) })
}

// EachFrom is Agents from a place in the organization's roster on, and tells each
// agent's place. An agent keeps its place, and no other ever has it.
func (q *Agents) EachFrom(ctx context.Context, owner parley.OrgID, from uint64, fn func(place uint64, a *agent.State) bool) error {
	_, err := q.roster(ctx, owner, from, fn)
	return err
}

// FirstActive is the organization's oldest active agent, which acts where none
// is named. // spec: Messaging
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
	if !awaited { // an older one may follow
		q.lookups.firsts.Set(owner, first.AgentID())
	}
	return first, nil
}
