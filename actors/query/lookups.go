package query

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/org"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

const (
	// lookupsMax is how many records of each kind are cached.
	lookupsMax = 100_000
	// blocksOfOne is how many blocks of an agent count as one more record.
	blocksOfOne = 16
)

// lookups caches durable records of agents and organizations, and rows that name them.
// A record that changes is dropped before the answer to the change is released, whichever
// node answers, so no later request reads the old one. Nothing puts a record here but a read of
// what is stored: the answers to an actor's entries may be released in another order than theirs.
type lookups struct {
	journal journal.Reader
	agents  *stateCache[parley.AgentID, *agent.State]
	orgs    *stateCache[parley.OrgID, *org.State]
	// firsts holds the oldest active agent of each organization. It is valid as long as
	// that agent is active, because later agents are younger.
	firsts *otter.Cache[parley.OrgID, parley.AgentID]
	// oldest holds the first agent that each organization created, which never changes.
	oldest  *otter.Cache[parley.OrgID, parley.AgentID]
	rosters *otter.Cache[parley.OrgID, *activeRoster]
	// names holds rows that never change once they exist: slugs, names of agents and
	// groups, poll tokens. Missing rows are not cached.
	names *otter.Cache[nameOf, parley.AnyID]
	// groups holds the owners of groups, deleted or not.
	groups *otter.Cache[parley.GroupID, parley.OrgID]
	// changes counts the changes of agents, organizations and cards.
	changes atomic.Uint64
}

// nameOf is a name in a table. owner is zero where names are unique without one. The
// key of its row is the owner's bytes followed by text.
type nameOf struct {
	table journal.Table
	owner parley.AnyID
	text  string
}

// weightOf returns as how many records an agent counts.
func weightOf(a *agent.State) int { return 1 + len(a.GetBlocks())/blocksOfOne }

func newLookups(j journal.Reader) *lookups {
	f := &lookups{
		journal: j,
		agents:  newStateCache[parley.AgentID](lookupsMax, weightOf),
		orgs:    newStateCache[parley.OrgID](lookupsMax, func(*org.State) int { return 1 }),
		firsts:  otter.Must(&otter.Options[parley.OrgID, parley.AgentID]{MaximumSize: lookupsMax}),
		oldest:  otter.Must(&otter.Options[parley.OrgID, parley.AgentID]{MaximumSize: lookupsMax}),
		rosters: newRosters(),
		names:   otter.Must(&otter.Options[nameOf, parley.AnyID]{MaximumSize: lookupsMax}),
		groups:  otter.Must(&otter.Options[parley.GroupID, parley.OrgID]{MaximumSize: lookupsMax}),
	}
	return f
}

// changed drops a record that was changed, perhaps by another node.
func (f *lookups) changed(c journal.Change) {
	switch {
	case c.Table != 0: // a card, which is not cached
	case c.Stream.Kind == journal.AgentStream:
		f.agents.forget(parley.AgentID(c.Stream.ID))
	default:
		f.orgs.forget(parley.OrgID(c.Stream.ID))
	}
	f.changes.Add(1) // last: who sees the new number reads nothing old
}

// stateCache caches the states of one kind of aggregate. It may drop any of them at any
// time.
type stateCache[K ~[16]byte, S rules.State] struct {
	cache *otter.Cache[K, S]
	// changes counts changes by the last byte of their key. A state that was read is cached only
	// if nothing changed since before the read.
	changes [256]atomic.Uint64
}

func newStateCache[K ~[16]byte, S rules.State](weight uint64, weigh func(S) int) *stateCache[K, S] {
	return &stateCache[K, S]{cache: otter.Must(&otter.Options[K, S]{
		MaximumWeight: weight, Weigher: func(_ K, s S) uint32 { return uint32(weigh(s)) },
	})}
}

// forget drops a state. One that is being read is not cached.
func (h *stateCache[K, S]) forget(key K) {
	h.changes[key[15]].Add(1)
	h.cache.Invalidate(key)
}

// forgetAll drops all states. Those that are being read are not cached.
func (h *stateCache[K, S]) forgetAll() {
	for i := range h.changes {
		h.changes[i].Add(1)
	}
	h.cache.InvalidateAll()
}

// put caches a state that was read when there had been so many changes, unless there were more since.
func (h *stateCache[K, S]) put(key K, state S, changes uint64) {
	h.cache.Compute(key, func(have S, _ bool) (S, otter.ComputeOp) {
		if h.changes[key[15]].Load() != changes {
			return have, otter.CancelOp
		}
		return state, otter.WriteOp
	})
}

func load[K ~[16]byte, S rules.State](ctx context.Context, j journal.Reader, h *stateCache[K, S], key K, s journal.Stream, blank func() S) (state S, err error) {
	if known, ok := h.cache.GetIfPresent(key); ok {
		return known, nil
	}
	changes := h.changes[key[15]].Load()
	v := j.Latest()
	defer v.Close()
	_, stored, err := v.State(s)
	if err != nil {
		return state, err
	}
	if err := v.Durable(ctx); err != nil {
		return state, err
	}
	if stored == nil {
		return state, parley.ErrNotFound
	}
	state = blank()
	if err := encoding.Unmarshal(stored, state); err != nil {
		return state, err
	}
	h.put(key, state, changes)
	return state, nil
}

func (f *lookups) agent(ctx context.Context, id parley.AgentID) (*agent.State, error) {
	return load(ctx, f.journal, f.agents, id, rules.AgentStream(id), func() *agent.State { return &agent.State{} })
}

func (f *lookups) org(ctx context.Context, id parley.OrgID) (*org.State, error) {
	return load(ctx, f.journal, f.orgs, id, rules.OrgStream(id), func() *org.State { return &org.State{} })
}

// name is lookup for rows that never change.
func (q *reader) name(ctx context.Context, slot parley.Slot, name nameOf) (parley.AnyID, error) {
	if id, ok := q.lookups.names.GetIfPresent(name); ok {
		return id, nil
	}
	var key []byte
	if !name.owner.Zero() {
		key = name.owner.Bytes()
	}
	id, err := q.lookup(ctx, slot, name.table, append(key, name.text...))
	if err == nil {
		name.text = strings.Clone(name.text)
		q.lookups.names.Set(name, id)
	}
	return id, err
}

// forgetNames drops the names of an organization, its agents and its groups.
func (f *lookups) forgetNames(org parley.OrgID, agents []parley.AgentID) {
	named := map[parley.AnyID]bool{parley.AnyID(org): true}
	for _, id := range agents {
		named[parley.AnyID(id)] = true
	}
	for name, id := range f.names.All() {
		if named[id] || name.owner == parley.AnyID(org) {
			f.names.Invalidate(name)
		}
	}
	for id, owner := range f.groups.All() {
		if owner == org {
			f.groups.Invalidate(id)
		}
	}
}

func (q *reader) lookup(ctx context.Context, slot parley.Slot, table journal.Table, key []byte) (id parley.AnyID, err error) {
	err = q.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(slot, table, key)
		if err == nil && !found {
			return parley.ErrNotFound
		}
		id = parley.IDFromBytes[parley.AnyID](value)
		return err
	})
	return id, err
}
