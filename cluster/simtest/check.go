package simtest

import (
	"errors"
	"hash/fnv"
	"slices"

	"parley/cluster/consensus"
)

// checker knows what the cluster has promised so far.
type checker struct {
	sim     *sim
	entries []entry           // committed entries from index first on
	leaders map[uint64]uint64 // by term
	// acked is the newest index acknowledged in a term, newest of all terms.
	acked  map[uint64]uint64
	newest uint64
	// open proposals are not resolved, never proposals must not be applied.
	open, never map[uint64]bool
	found       map[uint64]uint64 // the index of a change
	healed      uint64            // the newest committed index when the faults ended
	enough      bool              // the healed cluster has worked long enough
}

// first is the first index of the log: the cluster begins with a state at 5.
const first = 6

// entry is what all nodes must agree about.
type entry struct {
	term, sum, tag uint64
	ordinal        uint64
	bytes          uint64 // of all payloads up to here
	hashed         bool
	chain, digest  uint64
}

func newChecker(s *sim) checker {
	return checker{
		sim: s, leaders: map[uint64]uint64{}, acked: map[uint64]uint64{},
		open: map[uint64]bool{}, never: map[uint64]bool{}, found: map[uint64]uint64{},
	}
}

func (c *checker) last() uint64 { return first + uint64(len(c.entries)) - 1 }

func (c *checker) entry(index uint64) *entry {
	if index < first || index > c.last() {
		return &entry{}
	}
	return &c.entries[index-first]
}

// committed checks an entry that a node takes for committed.
func (c *checker) committed(n *node, e consensus.Committed) {
	h := fnv.New64a()
	_, _ = h.Write(e.Payload)
	sum := h.Sum64()
	switch {
	case e.Index <= c.last():
		if known := c.entry(e.Index); known.term != e.Term || known.sum != sum {
			c.sim.violate("%v: the committed entry %d has changed", n, e.Index)
		}
		return
	case e.Index > c.last()+1:
		c.sim.violate("%v applies %d after %d", n, e.Index, c.last())
		return
	}
	one, before := entry{term: e.Term, sum: sum}, c.entry(c.last())
	one.bytes = before.bytes + uint64(len(e.Payload))
	if before.term == e.Term {
		one.ordinal = before.ordinal
	}
	if e.Payload != nil {
		one.ordinal++
		one.tag = decodeChange(e.Payload).Tag
		if c.never[one.tag] {
			c.sim.violate("%v: change %d was answered as never proposed, and stands at %d", n, one.tag, e.Index)
		}
		if at, twice := c.found[one.tag]; twice {
			c.sim.violate("%v: change %d stands at %d and %d", n, one.tag, at, e.Index)
		}
		c.found[one.tag] = e.Index
	}
	c.entries = append(c.entries, one)
}

// applied compares what two states have become by the same entries.
func (c *checker) applied(n *node, index, chain, digest uint64) {
	e := c.entry(index)
	if !e.hashed {
		e.hashed, e.chain, e.digest = true, chain, digest
	}
	if e.chain != chain || e.digest != digest {
		c.sim.violate("%v has another state at %d", n, index)
	}
}

func (c *checker) restored(n *node) {
	index, _, chain, digest := n.state.Sums()
	c.applied(n, index, chain, digest)
}

// step runs after everything that a node does.
func (c *checker) step(n *node) {
	if c.sim.Violation != nil {
		return
	}
	status, at := n.core.Status(), n.state.Applied()
	if status.Leader == n.id {
		c.leads(n, status.Term)
	}
	if at.Index >= c.last() {
		n.settled = true
	}
	c.knows(n)
	if at.Index >= first && at.Ordinal != c.entry(at.Index).ordinal {
		c.sim.violate("%v: %d proposals of term %d are applied, the state says %d", n, c.entry(at.Index).ordinal, at.Term, at.Ordinal)
	}
}

// knows checks what a node knows of the members: each holds the committed entry, durably, up to
// which it is known to hold the log.
func (c *checker) knows(n *node) {
	known := n.core.Known()
	if slices.Equal(known, n.checked) || c.sim.Defect != None {
		return
	}
	n.checked = known
	for _, s := range known {
		member := c.sim.nodes[s.ID]
		switch {
		case s.Diverged:
			c.sim.violate("%v takes node %d for diverged", n, s.ID)
		case s.Index < first || member == nil || member.gone || member.older:
		case s.Term != c.entry(s.Index).term:
			c.sim.violate("%v knows that node %d holds entry %d of term %d; that of term %d is committed", n, s.ID, s.Index, s.Term, c.entry(s.Index).term)
		case max(member.holds(), member.state.Durable()) < s.Index:
			c.sim.violate("%v knows that node %d holds entry %d; it holds %d", n, s.ID, s.Index, member.holds())
		}
	}
}

func (c *checker) leads(n *node, term uint64) {
	if other, known := c.leaders[term]; known && other != n.id {
		c.sim.violate("term %d has two leaders: %d and %d", term, other, n.id)
	}
	c.leaders[term] = n.id
}

// led checks that a new leader has all that was acknowledged before its term.
func (c *checker) led(n *node, e consensus.Event) {
	c.leads(n, e.Term)
	at := n.state.Applied()
	if at.Index < e.Index || at.Term < e.Term {
		c.sim.violate("%v leads before it has applied its term's first entry", n)
	}
	for term, index := range c.acked {
		if term < e.Term && index > at.Index {
			c.sim.violate("%v leads in term %d without entry %d, acknowledged in term %d", n, e.Term, index, term)
		}
	}
}

func (c *checker) proposed(tag uint64) { c.open[tag] = true }

// resolved checks an answer to a proposal.
func (c *checker) resolved(n *node, e consensus.Event) {
	s := c.sim
	if !c.open[e.Tag] {
		s.violate("%v answers change %d twice", n, e.Tag)
	}
	delete(c.open, e.Tag)
	switch {
	case errors.Is(e.Err, consensus.ErrNeverProposed):
		s.Never++
		c.never[e.Tag] = true
		if at, found := c.found[e.Tag]; found {
			s.violate("%v: change %d stands at %d, and is answered as never proposed", n, e.Tag, at)
		}
	case e.Err != nil:
		s.Unknown++
	default:
		s.Acknowledged++
		if at := n.state.Applied().Index; at < e.Index {
			s.violate("%v acknowledges entry %d before it is applied", n, e.Index)
		}
		if c.entry(e.Index).tag != e.Tag {
			s.violate("%v acknowledges change %d at %d, where another entry stands", n, e.Tag, e.Index)
		}
		c.acked[e.Term] = max(c.acked[e.Term], e.Index)
		c.newest = max(c.newest, e.Index)
	}
}

// fenced checks an answer to a fence.
func (c *checker) fenced(n *node, tag, index uint64, err error) {
	before, known := n.fences[tag]
	if !known {
		c.sim.violate("%v answers fence %d twice", n, tag)
	}
	delete(n.fences, tag)
	if err != nil {
		return
	}
	c.sim.Fences++
	if index < before {
		c.sim.violate("%v answers a fence with %d; %d was acknowledged before it began", n, index, before)
	}
	if at := n.state.Applied().Index; at < index {
		c.sim.violate("%v answers a fence with %d before it is applied", n, index)
	}
}

// cuts checks how far a leader lets logs be cut: no further than every member holds, as
// far as the leader knows, unless the member lags by more than the limit. The leader's
// estimate is coarse, and counts what is not committed and headers too, so a quarter of
// the limit counts.
func (c *checker) cuts(n *node, before uint64) {
	status := n.core.Status()
	if status.Floor == before {
		return
	}
	for _, p := range status.Progress {
		member := c.sim.nodes[p.ID]
		if !member.settled || member.gone {
			continue
		}
		held := p.Match
		if held == 0 {
			held = max(member.holds(), member.state.Durable())
		}
		if lag := c.entry(c.last()).bytes - c.entry(held).bytes; held < status.Floor && lag < limits.CatchUpBytes/4 {
			c.sim.violate("%v lets logs be cut at %d, but node %d has %d and lags by %d bytes only", n, status.Floor, member.id, held, lag)
		}
	}
}

// holds returns up to where the node's durable log agrees with what is committed.
func (n *node) holds() uint64 {
	c := &n.sim.check
	held := min(n.log.disk.last(), c.last())
	for held >= first {
		term, err := n.log.disk.term(held)
		if err != nil || term == c.entry(held).term {
			break
		}
		held--
	}
	return held
}

// settled reports whether the cluster has healed, worked and come to rest.
func (c *checker) settled() bool {
	leader := c.sim.group.leader()
	if leader == nil || len(leader.members().GetVotersOutgoing()) > 0 {
		return false
	}
	index, _, chain, digest := leader.state.Sums()
	enough, equal := c.newest > c.healed+20, index == c.last()
	for _, n := range c.sim.group.alive(leader) {
		i, _, ch, d := n.state.Sums()
		equal = equal && i == index && ch == chain && d == digest
		enough = enough && n.log.view.base.Index > c.healed
	}
	c.enough = c.enough || enough
	return c.enough && equal
}

// converged checks that the cluster came to rest.
func (c *checker) converged() {
	if c.settled() {
		return
	}
	c.sim.violate("the cluster does not heal: %d entries are committed, worked: %v", c.last(), c.enough)
	for _, n := range c.sim.all() {
		if n.core != nil {
			c.sim.trace("%v up %v gone %v: %+v, log from %d", n, n.up, n.gone, n.core.Status(), n.log.view.base.Index+1)
		}
	}
}
