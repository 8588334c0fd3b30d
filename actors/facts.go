package actors

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

// factsMax is how many records of each kind are kept at hand.
const factsMax = 100_000

// facts are the records of agents and organizations as others may know them:
// durable ones only. The acker puts a changed record here before the answer
// that changed it is released, so that a later request never sees the old one.
type facts struct {
	journal journal.Journal
	agents  *shelf[parley.AgentID, *agent.State]
	orgs    *shelf[parley.OrgID, *org.State]
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
type fact[S rules.State] struct {
	seq   uint64
	state S
}

func newFacts(j journal.Journal) *facts {
	return &facts{
		journal: j,
		agents:  newShelf[parley.AgentID, *agent.State](factsMax),
		orgs:    newShelf[parley.OrgID, *org.State](factsMax),
		firsts:  otter.Must(&otter.Options[parley.OrgID, parley.AgentID]{MaximumSize: factsMax}),
		rosters: newRosters(),
		names:   otter.Must(&otter.Options[nameOf, parley.AnyID]{MaximumSize: factsMax}),
		groups:  otter.Must(&otter.Options[parley.GroupID, parley.OrgID]{MaximumSize: factsMax}),
	}
}

// shelf holds the records of one kind that are at hand. A record may leave it
// at any time.
type shelf[K ~[16]byte, S rules.State] struct {
	cache *otter.Cache[K, fact[S]]
	// changes counts what was published, by the last byte of its key. Whoever
	// has read rows shelves them only if nothing was published meanwhile: what
	// was may have left the shelf again, and is newer.
	changes [256]atomic.Uint64
}

func newShelf[K ~[16]byte, S rules.State](size int) *shelf[K, S] {
	return &shelf[K, S]{cache: otter.Must(&otter.Options[K, fact[S]]{MaximumSize: size})}
}

// publish puts a changed record on the shelf.
func (h *shelf[K, S]) publish(key K, f fact[S]) {
	h.changes[key[15]].Add(1)
	h.put(key, f, func() bool { return true })
}

// put keeps the record that has more events folded into it.
func (h *shelf[K, S]) put(key K, f fact[S], still func() bool) {
	h.cache.Compute(key, func(have fact[S], found bool) (fact[S], otter.ComputeOp) {
		if (found && have.seq >= f.seq) || !still() {
			return have, otter.CancelOp
		}
		return f, otter.WriteOp
	})
}

func known[K ~[16]byte, S rules.State](ctx context.Context, j journal.Journal, h *shelf[K, S], key K, s journal.Stream, blank func() S) (state S, err error) {
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
	h.put(key, fact[S]{seq, state}, func() bool { return h.changes[key[15]].Load() == changes })
	return state, nil
}

func (f *facts) agent(ctx context.Context, id parley.AgentID) (*agent.State, error) {
	return known(ctx, f.journal, f.agents, id, rules.AgentStream(id), func() *agent.State { return &agent.State{} })
}

func (f *facts) org(ctx context.Context, id parley.OrgID) (*org.State, error) {
	return known(ctx, f.journal, f.orgs, id, rules.OrgStream(id), func() *org.State { return &org.State{} })
}

// publishAgent makes an agent's stored state known to others. seq counts the
// events folded into it.
func publishAgent(f *facts, seq uint64, stored []byte) {
	s := &agent.State{}
	if s.UnmarshalVT(stored) == nil {
		f.agents.publish(s.AgentID(), fact[*agent.State]{seq, s})
	}
}

// Agent is the record of an agent, active or revoked; parley.ErrNotFound if
// there is none. It is shared and must not be changed.
func (n *Node) Agent(ctx context.Context, id parley.AgentID) (*agent.State, error) {
	return n.facts.agent(ctx, id)
}

// Org is the record of an organization as last durable; its count of active
// agents may lag behind. It is shared and must not be changed.
func (n *Node) Org(ctx context.Context, id parley.OrgID) (*org.State, error) {
	return n.facts.org(ctx, id)
}

// OrgBySlug finds an organization by its slug.
func (n *Node) OrgBySlug(ctx context.Context, slug string) (parley.OrgID, error) {
	id, err := n.name(ctx, parley.SlotOf(slug), nameOf{table: journal.SlugTable, text: slug})
	return parley.OrgID(id), err
}

// AgentByName finds an agent, active or revoked, by organization and name.
func (n *Node) AgentByName(ctx context.Context, owner parley.OrgID, name string) (parley.AgentID, error) {
	id, err := n.name(ctx, owner.Slot(), nameOf{journal.NameTable, parley.AnyID(owner), name})
	return parley.AgentID(id), err
}

// AgentByPollToken finds the active agent whose poll token has this SHA-256.
func (n *Node) AgentByPollToken(ctx context.Context, hash []byte) (parley.AgentID, error) {
	// The row never names another agent; whether the token holds the agent tells.
	id, err := n.name(ctx, parley.SlotOf(string(hash)), nameOf{table: journal.PollTable, text: string(hash)})
	if err != nil {
		return parley.AgentID{}, err
	}
	a, err := n.Agent(ctx, parley.AgentID(id))
	if err == nil && (a.Revoked() || string(a.GetPollTokenHash()) != string(hash)) {
		err = parley.ErrNotFound // regenerated or revoked since
	}
	return parley.AgentID(id), err
}

// OrgByClient finds the organization that a credential was made for. It reads the
// row each time: how long it takes does not tell which clients there are.
func (n *Node) OrgByClient(ctx context.Context, client parley.ClientID) (parley.OrgID, error) {
	id, err := n.lookup(ctx, client.Slot(), journal.ClientTable, client.Bytes())
	return parley.OrgID(id), err
}

// name is lookup for rows that never change.
func (n *Node) name(ctx context.Context, slot parley.Slot, name nameOf) (parley.AnyID, error) {
	if id, ok := n.facts.names.GetIfPresent(name); ok {
		return id, nil
	}
	var key []byte
	if !name.owner.Zero() {
		key = name.owner.Bytes()
	}
	id, err := n.lookup(ctx, slot, name.table, append(key, name.text...))
	if err == nil {
		name.text = strings.Clone(name.text)
		n.facts.names.Set(name, id)
	}
	return id, err
}

func (n *Node) lookup(ctx context.Context, slot parley.Slot, table journal.Table, key []byte) (id parley.AnyID, err error) {
	err = n.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(slot, table, key)
		if err == nil && !found {
			return parley.ErrNotFound
		}
		id = parley.IDFromBytes[parley.AnyID](value)
		return err
	})
	return id, err
}

func nameKey(owner parley.OrgID, name string) []byte { return append(owner.Bytes(), name...) }

// Agents calls fn with the organization's agents, oldest first, until it
// returns false.
func (n *Node) Agents(ctx context.Context, owner parley.OrgID, fn func(*agent.State) bool) error {
	return n.AgentsFrom(ctx, owner, 0, func(_ uint64, a *agent.State) bool { return fn(a) })
}

// AgentsFrom is Agents from a place in the organization's roster on, and tells each
// agent's place. An agent keeps its place, and no other ever has it.
func (n *Node) AgentsFrom(ctx context.Context, owner parley.OrgID, from uint64, fn func(place uint64, a *agent.State) bool) error {
	_, err := n.roster(ctx, owner, from, fn)
	return err
}

// FirstActive is the organization's oldest active agent, which acts where none
// is named. // spec: Messaging
func (n *Node) FirstActive(ctx context.Context, owner parley.OrgID) (*agent.State, error) {
	if id, ok := n.facts.firsts.GetIfPresent(owner); ok {
		if a, err := n.Agent(ctx, id); err == nil && !a.Revoked() {
			return a, nil
		}
	}
	var first *agent.State
	awaited, err := n.activeRoster(ctx, owner, 0, func(_ uint64, a *agent.State) bool {
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
		n.facts.firsts.Set(owner, first.AgentID())
	}
	return first, nil
}
