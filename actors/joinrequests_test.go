package actors

import (
	"context"
	"errors"
	"testing"

	"parley/actors/group"
	"parley/client/parley"
)

// TestJoinRequestsAreBounded: however many agents apply, a group has a bounded number
// of pending requests in memory. The control removes the bound, and all of them are
// pending.
func TestJoinRequestsAreBounded(t *testing.T) {
	const applicants = 40
	for name, row := range map[string]struct {
		queue group.Queue
		most  int
	}{
		"an organization's": {group.Queue{Group: 30, Org: 10}, 10},
		"the group's":       {group.Queue{Group: 30}, 30},
		"control":           {group.Queue{}, applicants},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestNode(t, withTuning(func(n *Node) { n.queue = row.queue }))
			owner, ids := r.agents("acme", applicants+1)
			c := must(r.createGroup(owner, ids[0], "board", group.Majority, false))(t)
			filed := 0
			for _, id := range ids[1:] {
				_, err := c.join(id)
				if err == nil {
					filed++
				} else if !errors.Is(err, group.ErrQueueFull) {
					t.Fatal(err)
				}
			}
			live := must(readGroup(context.Background(), r.node.Groups, c.id, func(s *group.State) int { return s.Live() }))(t)
			if filed != row.most || live != row.most {
				t.Errorf("%d of %d were filed, %d are live, want %d", filed, applicants, live, row.most)
			}
		})
	}
}

// TestPendingRequestsDelayStateStorage: a group with few members and many requests is
// stored as rarely as one with many members.
func TestPendingRequestsDelayStateStorage(t *testing.T) {
	r := newTestNode(t)
	kind := r.node.groups.kind()
	h := kind.Blank()
	light := kind.Weight(h)
	for range 800 {
		id := parley.NewID[parley.JoinRequestID](1, r.clock(), r.entropy())
		agent := parley.NewID[parley.AgentID](1, r.clock(), r.entropy())
		group.Evolve(h.State, &group.Filed{Request: &group.Request{Id: id.Bytes(), Agent: agent.Bytes(), Status: group.Pending}})
	}
	if heavy := kind.Weight(h); light != 0 || heavy != 800/groupStateMembers {
		t.Errorf("it weighs %d, and %d with 800 requests", light, heavy)
	}
}
