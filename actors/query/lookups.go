package query

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"parley"
	"parley/actors/agent"
	"parley/actors/org"
	"parley/actors/rules"
	"parley/journal"
)

// lookupsMax is how many records of each kind are kept at hand.
const lookupsMax = 100_000

// facts are the records of agents and organizations as others may know them:
// durable ones only. The acker puts a changed record here before the answer
// that changed it is released, so that a later request never sees the old one.
type lookups struct {
	journal journal.Journal
	agents  *stateCache[parley.AgentID, *agent.State]
	orgs    *stateCache[parley.OrgID, *org.State]
	// firsts is the first active agent of an organization: right for as long as
	// that agent is active, for later ones are younger.
	firsts  *otter.Cache[parley.OrgID, parley.AgentID]
	rosters *otter.Cache[parley.OrgID, *activeRoster]
	// names are rows that never change once they are there: slugs, names of
	// agents, poll tokens. That there is none is never kept.
	names *otter.Cache[nameOf, parley.AnyID]
	// groups are the owners of groups that exist, deleted or not.
	groups *otter.Cache[parley.GroupID, parley.OrgID]
}

// nameOf is a name in a table, among those of an owner if they are not unique
// without. Its row is found by the owner's bytes and the text after them.
type nameOf struct {
	table journal.Table
	owner parley.AnyID
	text  string
}

// fact is a record and the number of events folded into it. It is shared:
// nobody changes it.
type versioned[S rules.State] struct {
	seq   uint64
	state S
}

func newLookups(j journal.Journal) *lookups {
	return &lookups{
		journal: j,
		agents:  newStateCache[parley.AgentID, *agent.State](lookupsMax),
		orgs:    newStateCache[parley.OrgID, *org.State](lookupsMax),
		firsts:  otter.Must(&otter.Options[parley.OrgID, parley.AgentID]{MaximumSize: lookupsMax}),
		rosters: newRosters(),
		names:   otter.Must(&otter.Options[nameOf, parley.AnyID]{MaximumSize: lookupsMax}),
		groups:  otter.Must(&otter.Options[parley.GroupID, parley.OrgID]{MaximumSize: lookupsMax}),
	}
}

// shelf holds the records of one kind that are at hand. A record may leave it
// at any time.
type stateCache[K ~[16]byte, S rules.State] struct {
	cache *otter.Cache[K, versioned[S]]
	// changes counts what was published, by the last byte of its key. Whoever
	// has read rows shelves them only if nothing was published meanwhile: what
	// was may have left the shelf again, and is newer.
	changes [256]atomic.Uint64
}

func newStateCache[K ~[16]byte, S rules.State](size int) *stateCache[K, S] {
	return &stateCache[K, S]{cache: otter.Must(&otter.Options[K, versioned[S]]{MaximumSize: size})}
}

// publish puts a changed record on the shelf.
func (h *stateCache[K, S]) publish(key K, f versioned[S]) {
	h.changes[key[15]].Add(1)
	h.put(key, f, func() bool { return true })
}

// put keeps the record that has more events folded into it.
func (h *stateCache[K, S]) put(key K, f versioned[S], still func() bool) {
	h.cache.Compute(key, func(have versioned[S], found bool) (versioned[S], otter.ComputeOp) {
		if (found && have.seq >= f.seq) || !still() {
			return have, otter.CancelOp
		}
		return f, otter.WriteOp
	})
}

func load[K ~[16]byte, S rules.State](ctx context.Context, j journal.Journal, h *stateCache[K, S], key K, s journal.Stream, blank func() S) (state S, err error) {
	if f, ok := h.cache.GetIfPresent(key); ok {
		return f.state, nil
	}
	changes := h.changes[key[15]].Load()
	v := j.Latest()
	defer v.Close()
	seq, stored, err := v.State(s)
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
	if err := state.UnmarshalVT(stored); err != nil {
		return state, err
	}
	h.put(key, versioned[S]{seq, state}, func() bool { return h.changes[key[15]].Load() == changes })
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
