package actors

import (
	"context"
	"sync/atomic"
	"testing"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/host"
	"parley/client/parley"
)

// countingRouter counts the requests that change something: in a cluster, each goes to the node that leads.
type countingRouter struct{ changes, queries atomic.Int64 }

func (c *countingRouter) Ask(r host.Request, here func(host.Request) (any, error)) (any, error) {
	if _, query := r.Content.(host.ReadOnly); query {
		c.queries.Add(1)
	} else {
		c.changes.Add(1)
	}
	return here(r)
}

// TestOneAsk: what other actors have to finish is awaited where the first of them decides, so it is one
// request from any node, and the answer is that of the end.
func TestOneAsk(t *testing.T) {
	counted := &countingRouter{}
	r := newTestNode(t, withTuning(func(n *Node) { n.engine.Router = counted }))
	owner, ids := r.agents("acme", 4)
	var g, other *testGroup
	var request parley.JoinRequestID
	for _, step := range []struct {
		name    string
		queries int64
		do      func() error
	}{
		{"create", 0, func() (err error) {
			g, err = r.createGroup(owner, ids[0], "voting", group.Majority, false)
			return err
		}},
		{"create another", 1, func() (err error) { // whether the founder has left the first one is asked
			other, err = r.createGroup(owner, ids[0], "open", group.Open, false)
			return err
		}},
		{"join", 0, func() error {
			joined, err := other.join(ids[1])
			if err == nil && joined.Member == nil {
				t.Error("a join of an open group has no seat")
			}
			return err
		}},
		{"request", 1, func() error {
			joined, err := g.join(ids[1])
			if err == nil {
				request = joined.Request.RequestID()
			}
			return err
		}},
		{"vote", 0, func() error {
			voted, err := g.vote(request, ids[0], true)
			if err == nil && voted.Request.GetStatus() != group.Approved {
				t.Errorf("the vote left the request %v", voted.Request)
			}
			return err
		}},
		{"remove", 0, func() error { return g.remove(ids[1], ids[0]) }},
		{"revoke", 0, func() error {
			_, err := r.node.Agents.Change(context.Background(), ids[1], agent.Revoke{})
			return err
		}},
		{"delete", 0, func() error {
			return g.node.Groups.Delete(context.Background(), g.id, group.Delete{By: g.by})
		}},
	} {
		counted.changes.Store(0)
		counted.queries.Store(0)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if changes, queries := counted.changes.Load(), counted.queries.Load(); changes != 1 || queries != step.queries {
			t.Errorf("%s: %d requests and %d queries, want 1 and %d", step.name, changes, queries, step.queries)
		}
	}
	if left := other.members(); len(left) != 1 {
		t.Errorf("a revoked agent is a member still: %v", left)
	}
	founder, err := r.node.Agents.Get(context.Background(), ids[0])
	if err != nil || founder.In(g.id) || !founder.In(other.id) {
		t.Errorf("the founder is in %v, %v", founder.GetGroups(), err)
	}
}
