package query

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/maypok86/otter/v2"

	"parley/actors/agent"
	"parley/client/parley"
	"parley/journal"
)

// activeRoster is the part of an organization's roster that is known: the agents at
// places before next, without those that were already revoked. It keeps requests from
// reading all agents that the organization ever had. It is shared and must not be
// changed.
type activeRoster struct {
	next   uint64
	agents []rosterAgent
}

type rosterAgent struct {
	place uint64
	id    parley.AgentID
}

// rosterAgentsMax bounds the agents in all cached rosters; each takes 24 bytes.
// RosterRevokedMax is how many agents of a cached roster may have been revoked before
// it is rewritten without them.
const (
	rosterAgentsMax  = 1 << 20
	RosterRevokedMax = 64
)

func newRosters() *otter.Cache[parley.OrgID, *activeRoster] {
	return otter.Must(&otter.Options[parley.OrgID, *activeRoster]{
		MaximumWeight: rosterAgentsMax,
		Weigher:       func(_ parley.OrgID, r *activeRoster) uint32 { return uint32(1 + len(r.agents)) },
	})
}

// EachActive calls fn for each active agent of an organization, oldest first, from a
// place in its roster on, until fn returns false.
func (q *Agents) EachActive(ctx context.Context, owner parley.OrgID, from uint64, fn func(place uint64, a *agent.State) bool) error {
	_, err := q.activeRoster(ctx, owner, from, fn)
	return err
}

// activeRoster is EachActive. awaited is set as for roster. The cached roster ends
// before the first agent that could not be read: an agent whose first entry is on its
// way to its home may be readable later.
func (q *Agents) activeRoster(ctx context.Context, owner parley.OrgID, from uint64, fn func(uint64, *agent.State) bool) (awaited bool, err error) {
	known, found := q.lookups.rosters.GetIfPresent(owner)
	if !found || q.limits.ForgetRosters {
		known = &activeRoster{}
	}
	first, _ := slices.BinarySearchFunc(known.agents, from, func(a rosterAgent, place uint64) int { return cmp.Compare(a.place, place) })
	var revoked []int
	for i := first; i < len(known.agents); i++ {
		a, err := q.agents.Get(ctx, known.agents[i].id)
		switch {
		case parley.IsRefusal(err): // its home does not have it yet
			awaited = true
		case err != nil:
			return awaited, err
		case a.Revoked():
			revoked = append(revoked, i)
		case !fn(known.agents[i].place, a):
			q.learnRoster(owner, known, revoked, nil, known.next)
			return awaited, nil
		}
	}
	if from > known.next { // there is a gap to what is cached
		return q.roster(ctx, owner, from, func(place uint64, a *agent.State) bool { return a.Revoked() || fn(place, a) })
	}
	var fresh []rosterAgent
	next := known.next
	later, err := q.rosterPlaces(ctx, owner, max(from, known.next), func(place uint64, a *agent.State, sure bool) bool {
		if sure {
			next = place + 1
		}
		if a.Revoked() {
			return true
		}
		if sure {
			fresh = append(fresh, rosterAgent{place, a.AgentID()})
		}
		return fn(place, a)
	})
	q.learnRoster(owner, known, revoked, fresh, next)
	return awaited || later, err
}

// learnRoster caches what a query has read, if that is worth a copy.
func (q *Agents) learnRoster(owner parley.OrgID, known *activeRoster, revoked []int, fresh []rosterAgent, next uint64) {
	if next == known.next && len(revoked) <= RosterRevokedMax {
		return
	}
	agents := make([]rosterAgent, 0, len(known.agents)-len(revoked)+len(fresh))
	from := 0
	for _, i := range revoked {
		agents, from = append(agents, known.agents[from:i]...), i+1
	}
	agents = append(append(agents, known.agents[from:]...), fresh...)
	q.lookups.rosters.Set(owner, &activeRoster{next, agents})
}

// RosterPage is how many places of a roster are read at once.
const RosterPage = 64

// roster is EachFrom. awaited is set if an agent of the roster could not be read
// because its first entry is still on its way to its home.
func (q *Agents) roster(ctx context.Context, owner parley.OrgID, from uint64, fn func(uint64, *agent.State) bool) (awaited bool, err error) {
	return q.rosterPlaces(ctx, owner, from, func(place uint64, a *agent.State, _ bool) bool { return fn(place, a) })
}

// rosterPlaces is roster; sure tells fn that every agent before this one could be read.
func (q *Agents) rosterPlaces(ctx context.Context, owner parley.OrgID, from uint64, fn func(place uint64, a *agent.State, sure bool) bool) (awaited bool, err error) {
	var beyond []byte
	if from > 0 {
		beyond = binary.BigEndian.AppendUint64(owner.Bytes(), from-1)
	}
	for more := true; more; {
		var ids []parley.AgentID
		var places []uint64
		more = false
		err := q.view(ctx, func(v journal.View) error {
			return v.Rows(owner.Slot(), journal.RosterTable, owner[:], beyond, false, func(key, value []byte) bool {
				if more = len(ids) == RosterPage; more {
					return false
				}
				ids, beyond = append(ids, parley.IDFromBytes[parley.AgentID](value)), append(beyond[:0], key...)
				places = append(places, binary.BigEndian.Uint64(key[len(owner):]))
				return true
			})
		})
		if err != nil {
			return awaited, err
		}
		for i, id := range ids {
			a, unknown := q.agents.Get(ctx, id)
			switch {
			case unknown != nil && !parley.IsRefusal(unknown):
				return awaited, unknown
			case unknown != nil:
				awaited = true
			case !fn(places[i], a, !awaited):
				return awaited, nil
			}
		}
	}
	return awaited, nil
}

// Kept returns how many agents an organization's cached roster holds. Only tests need
// it.
func (q *Agents) Kept(owner parley.OrgID) int {
	known, found := q.lookups.rosters.GetIfPresent(owner)
	if !found {
		return 0
	}
	return len(known.agents)
}
