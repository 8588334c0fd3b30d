package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parley/actors/agent"
	"parley/actors/query"
	"parley/client/parley"
	"parley/journal"
)

// activeAgents returns at most the given number of active agents, starting at a
// position.
func (r *testNode) activeAgents(list func(context.Context, parley.OrgID, uint64, func(uint64, *agent.State) bool) error, owner parley.OrgID, from uint64, most int) (found []string) {
	r.t.Helper()
	if err := list(context.Background(), owner, from, func(place uint64, a *agent.State) bool {
		if !a.Revoked() {
			found = append(found, fmt.Sprint(place, " ", a.GetName()))
		}
		return len(found) < most
	}); err != nil {
		r.t.Fatal(err)
	}
	return found
}

// TestActiveAgentsMatchTheRoster creates and revokes agents, and lists them from any
// position and up to any number.
func TestActiveAgentsMatchTheRoster(t *testing.T) {
	onOneAndFour(t, func(t *testing.T, journals int) {
		r, draw := newTestNode(t, withJournals(journals)), rand.New(rand.NewPCG(1, 2))
		owner := r.org("acme").Org.OrgID()
		var active []parley.AgentID
		for i := range 400 {
			if len(active) > 0 && draw.IntN(9) < 4 {
				at := draw.IntN(len(active))
				must(r.node.Agents.Change(context.Background(), active[at], agent.Revoke{}))(t)
				active = slices.Delete(active, at, at+1)
			} else {
				active = append(active, r.agent(owner, fmt.Sprint("agent-", i)))
			}
			if draw.IntN(3) > 0 {
				continue
			}
			from, most := uint64(draw.IntN(500)*draw.IntN(2)), 1+draw.IntN(60)
			want, got := r.activeAgents(r.node.Agents.EachFrom, owner, from, most), r.activeAgents(r.node.Agents.EachActive, owner, from, most)
			if !slices.Equal(want, got) {
				t.Fatalf("after %d steps, from %d: %v, want %v", i, from, got, want)
			}
		}
	})
}

// TestRevokedAgentsAreReadOnce: requests do not repeatedly read the agents that an
// organization has revoked.
func TestRevokedAgentsAreReadOnce(t *testing.T) {
	const many = 3 * query.RosterRevokedMax
	for name, forgets := range map[string]bool{"known": false, "control": true} {
		t.Run(name, func(t *testing.T) {
			o := &countingJournal{}
			r := newTestNode(t, withTuning(func(n *Node) { n.queries.Limits().ForgetRosters = forgets }), withWrap(func(j journal.Journal) journal.Journal { o.Journal = j; return journal.Of(o) }))
			owner, ids := r.agents("acme", many)
			for _, id := range ids[:many-1] {
				must(r.node.Agents.Change(context.Background(), id, agent.Revoke{}))(t)
			}
			awaitKeyLog(t, r.node, ids...)
			look := func() { r.activeAgents(r.node.Agents.EachActive, owner, 0, many) }
			look()
			read := o.reads(look)
			if !forgets && read > 0 || forgets && read < many {
				t.Errorf("the second listing reads %d rows", read)
			}
			if n := r.node.Agents.Kept(owner); n > 1 {
				t.Errorf("%d agents are cached", n)
			}
		})
	}
	t.Run("revoked since", func(t *testing.T) {
		r := newTestNode(t)
		owner, ids := r.agents("acme", many)
		r.activeAgents(r.node.Agents.EachActive, owner, 0, many)
		for _, id := range ids {
			must(r.node.Agents.Change(context.Background(), id, agent.Revoke{}))(t)
		}
		r.activeAgents(r.node.Agents.EachActive, owner, 0, many)
		if n := r.node.Agents.Kept(owner); n > query.RosterRevokedMax {
			t.Errorf("%d agents are cached", n)
		}
	})
}
