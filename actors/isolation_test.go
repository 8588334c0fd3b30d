package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/rules"
	"parley/client/parley"
)

// isolationFixture has pairs of groups, one of each isolated, and for each
// pair an agent that wants to join both.
type isolationFixture struct {
	*testNode
	owner  parley.OrgID
	agents []parley.AgentID
	pairs  [][2]*testGroup
}

// each runs do for the numbers below n, several concurrently.
func each(n int, do func(int)) {
	var next atomic.Int64
	var working sync.WaitGroup
	for range 16 {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	working.Wait()
}

func newIsolationFixture(r *testNode, pairs int) *isolationFixture {
	x := &isolationFixture{testNode: r, pairs: make([][2]*testGroup, pairs)}
	// A new agent founds the isolated group of each pair; a few agents found all
	// others.
	const founders = 20
	x.owner = r.org("acme").Org.OrgID()
	all := make([]parley.AgentID, 2*pairs+founders)
	each(len(all), func(i int) { all[i] = r.agent(x.owner, fmt.Sprint("a", i)) })
	awaitIdleStore(r.t, r.store) // so that all agents exist at their homes
	x.agents = all[:pairs]
	each(2*pairs, func(i int) {
		founder, isolated := all[pairs+i/2], i%2 == 1
		if !isolated {
			founder = all[2*pairs+i/2%founders]
		}
		c, err := r.createGroup(x.owner, founder, fmt.Sprint("g", i), group.Open, isolated)
		if err != nil {
			r.t.Error(err)
		}
		x.pairs[i/2][i%2] = c
	})
	return x
}

// race makes each agent join both groups of its pair concurrently. It returns how many
// joined both, how many neither, and how many joined each kind.
func (x *isolationFixture) race() (both, neither int, won [2]int) {
	var mu sync.Mutex
	each(len(x.pairs), func(i int) {
		var in [2]bool
		var joining sync.WaitGroup
		for n, c := range x.pairs[i] {
			joining.Go(func() {
				_, err := c.join(x.agents[i])
				if in[n] = err == nil; err != nil && !errors.Is(err, group.ErrIsolationConflict) {
					x.t.Error(err)
				}
			})
		}
		joining.Wait()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case in[0] && in[1]:
			both++
		case !in[0] && !in[1]:
			neither++
		case in[0]:
			won[0]++
		default:
			won[1]++
		}
	})
	return both, neither, won
}

// confused returns the number of agents that are not in exactly one group, or whose
// memberships differ between agent and groups.
func (x *isolationFixture) confused() (n int) {
	for i, c := range x.pairs {
		a := must(host.Query[*agent.State](x.node.engine, rules.AgentStream(x.agents[i]), host.GetState{}))(x.t)
		for _, one := range c {
			member := must(readGroup(context.Background(), x.node.Groups, one.id, func(s *group.State) bool {
				_, ok := s.Member(x.agents[i])
				return ok
			}))(x.t)
			if member != a.In(one.id) {
				n++
			}
		}
		if len(a.GetGroups()) != 1 {
			n++
		}
	}
	return n
}

// TestIsolationHasOneWinner: an agent that two groups admit concurrently ends up in
// only one of them if one is isolated.
func TestIsolationHasOneWinner(t *testing.T) {
	pairs := 1000
	if testing.Short() || raceDetector {
		pairs = 50
	}
	eachJournal(t, func(t *testing.T, r *testNode) {
		x := newIsolationFixture(r, pairs)
		both, neither, won := x.race()
		t.Logf("%d pairs: open groups got %d, isolated ones %d", pairs, won[0], won[1])
		if both+neither > 0 {
			t.Errorf("%d agents joined both groups, %d neither", both, neither)
		}
		if won[0] == 0 || won[1] == 0 {
			t.Error("there was no race")
		}
		if n := x.confused(); n > 0 {
			t.Errorf("%d agents are not in exactly one group, or agent and group disagree", n)
		}
		r.restart()
		if n := x.confused(); n > 0 {
			t.Errorf("after a restart: %d", n)
		}
	})
}

// TestIsolationControl: agents that do not check their memberships join both.
func TestIsolationControl(t *testing.T) {
	skipUnderRace(t)
	careless := func(n *Node) {
		k := n.agents.kind()
		decide := k.Rules.Decide
		k.Rules.Decide = func(s *agent.State, c agent.Command, now time.Time) ([]agent.Event, error) {
			if _, enters := c.(agent.Enter); enters {
				s = proto.CloneOf(s)
				s.Groups = nil
			}
			return decide(s, c, now)
		}
		host.Register(n.engine, k)
	}
	r := newTestNode(t, withJournals(4), withTuning(careless))
	x := newIsolationFixture(r, 20)
	if both, _, _ := x.race(); both == 0 || x.confused() == 0 {
		t.Error("no agent joined both groups")
	}
	if got := failedChecks(verifyStore(t, r)); fmt.Sprint(got) != "[isolation]" {
		t.Errorf("the checks %q reported it", got)
	}
	r.close() // before the verification at the end, which would report faults
}
