package actors

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/client/parley"
)

// BenchmarkTurns reports the processor time of turns whose events and states have no generated
// encoding: changes of agents, and members who join and are removed in groups of fifty.
func BenchmarkTurns(b *testing.B) {
	b.Run("agent", func(b *testing.B) {
		r := newTestNode(b)
		_, ids := r.agents("acme", 100)
		turns(b, func(n int) error {
			unlisted := n/len(ids)%2 == 0
			_, err := r.node.Agents.Change(context.Background(), ids[n%len(ids)], agent.Change{Unlisted: &unlisted})
			return err
		})
	})
	b.Run("group", func(b *testing.B) {
		r := newTestNode(b)
		owner, ids := r.agents("acme", 200)
		groups := make([]*testGroup, 50)
		guests := make([]parley.AgentID, len(groups))
		for i := range groups {
			at := ids[i*4%len(ids):]
			groups[i] = must(r.createGroup(owner, at[0], fmt.Sprintf("group%d", i), group.Open, false))(b)
			guests[i] = ids[(i*4+1)%len(ids)]
			for n := range 48 {
				must(groups[i].join(ids[(i*4+2+n)%len(ids)]))(b)
			}
		}
		turns(b, func(n int) error {
			i := n % len(groups)
			if n/len(groups)%2 == 0 {
				_, err := groups[i].join(guests[i])
				return err
			}
			return groups[i].remove(guests[i], groups[i].by.Agent)
		})
	})
}

// turns makes each turn b.N times, one after another, and reports their processor time.
func turns(b *testing.B, turn func(n int) error) {
	used := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
	}
	b.ReportAllocs()
	before := used()
	for n := 0; n < b.N; n++ {
		if err := turn(n); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((used()-before)/float64(b.N), "µs-cpu/op")
}
