package query

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/maypok86/otter/v2"

	"parley"
	"parley/actors/agent"
	"parley/journal"
)

// activeRoster is what is known of an organization's list of agents, which also
// holds those that were revoked: the active ones at the places before next, and
// some that were revoked since. Who makes and revokes agents again and again must
// not have each request look at all of them. It is shared: nobody changes it.
type activeRoster struct {
	next   uint64
	agents []rosterAgent
}

type rosterAgent struct {
	place uint64
	id    parley.AgentID
}

// rosterAgentsMax bounds the agents of all organizations whose rosters are known;
// each takes 24 bytes. RosterRevokedMax bounds the revoked ones that a roster keeps
// once they were met.
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

// EachActive calls fn with the organization's active agents, oldest first, from a
// place in its roster on, until it returns false.
func (q *Agents) EachActive(ctx context.Context, owner parley.OrgID, from uint64, fn func(place uint64, a *agent.State) bool) error {
	_, err := q.activeRoster(ctx, owner, from, fn)
	return err
}

// activeRoster is ActiveAgents, and tells what roster tells. A place is passed for
// good only when its agent was seen: one on the way to its home may follow later.
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
		case parley.IsRefusal(err): // it was seen before its own home had it
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
	if from > known.next { // what lies between is not known
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

// learnRoster keeps what a look has shown, if that is worth a copy.
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

// RosterPage is how many places of an organization's list are read at once.
const RosterPage = 64

// roster is AgentsFrom, and tells whether an agent was passed over that is promised
// to the roster and on its way to its own home.
func (q *Agents) roster(ctx context.Context, owner parley.OrgID, from uint64, fn func(uint64, *agent.State) bool) (awaited bool, err error) {
	return q.rosterPlaces(ctx, owner, from, func(place uint64, a *agent.State, _ bool) bool { return fn(place, a) })
}

// rosterPlaces is roster, and tells fn whether no agent was passed over before.
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

// Kept is how many agents of an organization are known as active, or were when they
// were last looked at.
func (q *Agents) Kept(owner parley.OrgID) int {
	known, found := q.lookups.rosters.GetIfPresent(owner)
	if !found {
		return 0
	}
	return len(known.agents)
}
