package query

import (
	"context"
	"errors"
	"time"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
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

// ErrNoCard is returned for an agent that has no card.
var ErrNoCard = parley.ErrNotFound.Saying("The agent has no card.")

// Card returns an agent's card; ErrNoCard if it has none. A revoked agent has none.
func (q *Agents) Card(ctx context.Context, id parley.AgentID) (card *record.Card, err error) {
	err = q.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(id.Slot(), journal.CardTable, id[:])
		if err != nil {
			return err
		}
		if !found {
			return ErrNoCard
		}
		card = &record.Card{}
		return card.UnmarshalVT(value)
	})
	return card, err
}

// Changes returns a number that is another one once the answer to a change of an agent, an
// organization or a card is out.
func (q *Agents) Changes() uint64 { return q.lookups.changes.Load() }

// LastActive returns the hour in which an agent last sent a message; zero if it has not.
// It is also zero if the agent has sent nothing since servers record the hour.
// // spec: Directory and discovery (all public, no auth)
func (q *Agents) LastActive(ctx context.Context, id parley.AgentID) (at time.Time, err error) {
	err = q.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(id.Slot(), journal.ActivityTable, id[:])
		if found && err == nil {
			at, _ = record.HourOf(value)
		}
		return err
	})
	return at, err
}

// EachCard calls fn with every card, those that are not public included, in no order,
// until fn returns false. If it returns an error, the cards that fn got must not be
// shown.
func (q *Agents) EachCard(ctx context.Context, fn func(parley.AgentID, *record.Card) bool) error {
	return q.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Table(journal.CardTable, func(key, value []byte) bool {
			card := &record.Card{}
			if bad = card.UnmarshalVT(value); bad != nil {
				return false
			}
			return fn(parley.IDFromBytes[parley.AgentID](key), card)
		})
		return errors.Join(scan, bad)
	})
}

// keyLogScan is how many events of an agent one call of KeyLog reads at most.
const keyLogScan = 4096

// KeyLog returns entries of an agent in the key log, oldest first, of its events after the
// event number after. There are at most limit of them, fewer if many events are not about
// keys. last is the number of the last event that was read; more says that there are later
// ones. address is the agent's name@slug.
func (q *Agents) KeyLog(ctx context.Context, id parley.AgentID, address string, after uint64, limit int) (entries []parley.KeyLogEntry, last uint64, more bool, err error) {
	var bad error
	last = after
	err = q.view(ctx, func(v journal.View) error {
		read := 0
		err := v.Events(rules.AgentStream(id), after+1, false, func(seq uint64, _ int64, f journal.StoredEvent) bool {
			if more = len(entries) == limit || read == keyLogScan; more {
				return false
			}
			last, read = seq, read+1
			var e agent.Event
			if e, bad = rules.Agent.Decode(f); bad != nil {
				return false
			}
			if entry, logged := agent.KeyLogEntry(id, address, e); logged {
				entries = append(entries, entry)
			}
			return true
		})
		return errors.Join(err, bad)
	})
	return entries, last, more, err
}

// KeyPackages returns how many of an agent's MLS KeyPackages others can claim now, and
// whether there is one of last resort besides. // docs: mls.md
func (q *Agents) KeyPackages(ctx context.Context, id parley.AgentID) (available int, lastResort bool, err error) {
	err = q.view(ctx, func(v journal.View) error {
		_, stored, err := v.State(rules.AgentStream(id))
		if err != nil {
			return err
		}
		s := &agent.State{}
		if err := encoding.Unmarshal(stored, s); err != nil {
			return err
		}
		available, lastResort = int(s.GetKeyPackages()), s.GetLastResort()
		now := uint64(q.clock().Unix())
		over := func(of bool) (n int, err error) { // rows are in the order in which they expire
			err = v.Rows(id.Slot(), journal.KeyPackageTable, record.KeyPackagesOf(id, of), nil, false, func(key, _ []byte) bool {
				k, ok := record.ParseKeyPackageKey(key)
				if !ok || k.NotAfter >= now {
					return false
				}
				n++
				return true
			})
			return n, err
		}
		expired, err := over(false)
		if err != nil {
			return err
		}
		resorts, err := over(true)
		available, lastResort = available-expired, lastResort && resorts == 0
		return err
	})
	return available, lastResort, err
}
