package query

import (
	"testing"

	"parley/actors/agent"
	"parley/client/parley"
	"parley/journal"
)

// unobserved is a journal that nothing is read from and that never changes.
type unobserved struct{ journal.Journal }

func (unobserved) Observe(journal.Observer) (stop func()) { return func() {} }

// TestErasedNamesAreForgotten: after an erasure, no name of the organization, its agents or
// its groups is in memory; those of others are.
func TestErasedNamesAreForgotten(t *testing.T) {
	gone, kept := parley.OrgID{15: 1}, parley.OrgID{15: 2}
	ours, others := parley.AgentID{15: 3}, parley.AgentID{15: 4}
	q := New(Options{Journal: journal.Of(unobserved{})})
	l := q.reader.lookups
	add := func(org parley.OrgID, agent parley.AgentID) {
		for name, id := range map[nameOf]parley.AnyID{
			{journal.SlugTable, parley.AnyID{}, "slug" + org.String()}: parley.AnyID(org),
			{journal.NameTable, parley.AnyID(org), "agent"}:            parley.AnyID(agent),
			{journal.GroupNameTable, parley.AnyID(org), "group"}:       {15: 9},
			{journal.PollTable, parley.AnyID{}, "hash" + org.String()}: parley.AnyID(agent),
		} {
			l.names.Set(name, id)
		}
		l.groups.Set(parley.GroupID(org), org)
		l.oldest.Set(org, agent)
	}
	add(gone, ours)
	add(kept, others)
	q.ForgetErased(gone, []parley.AgentID{ours})
	for name, id := range l.names.All() {
		if id == parley.AnyID(gone) || id == parley.AnyID(ours) || name.owner == parley.AnyID(gone) {
			t.Errorf("%q is still there", name.text)
		}
	}
	if _, found := l.groups.GetIfPresent(parley.GroupID(gone)); found {
		t.Error("the owner of a group is still there")
	}
	if _, found := l.oldest.GetIfPresent(gone); found {
		t.Error("the first agent is still there")
	}
	names, groups, oldest := l.names.EstimatedSize(), l.groups.EstimatedSize(), l.oldest.EstimatedSize()
	if names != 4 || groups != 1 || oldest != 1 {
		t.Errorf("of the other organization there are %d names, %d groups, %d first agents", names, groups, oldest)
	}
}

// TestHeavyStates: a state that is larger than others leaves room for fewer of them.
func TestHeavyStates(t *testing.T) {
	kept := func(blocks int) int {
		c := newStateCache[parley.AgentID](100, weightOf)
		for n := range 100 {
			c.put(parley.AgentID{byte(n)}, &agent.State{Blocks: make([]*agent.Block, blocks)}, 0)
		}
		c.cache.CleanUp()
		return c.cache.EstimatedSize()
	}
	if light, heavy := kept(0), kept(10*blocksOfOne-blocksOfOne); light != 100 || heavy > 10 {
		t.Errorf("%d light states are kept, and %d heavy ones", light, heavy)
	}
}
