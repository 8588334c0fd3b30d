package blackbox

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// views are all listings of groups and inboxes as one node shows them.
func (v *groupDeployment) views(s *Server) map[string]string {
	out := map[string]string{}
	see := func(a *Answer) *Answer {
		out[a.Asked] = fmt.Sprint(a.Status)
		if a.Status != 410 {
			out[a.Asked] = string(a.Want(200).Raw)
		}
		return a
	}
	for _, r := range v.groups {
		by := r.by.Org.On(s)
		see(by.Get(r.path("")))
		see(by.Get(r.path("/members?limit=100")))
		see(by.Get(r.path("/requests?status=all&limit=100")))
	}
	for _, g := range slices.Concat(v.agents, v.gone) {
		see(g.On(s).Get(g.Path("")))
		out["inbox of "+g.ID] = fmt.Sprint(g.On(s).Everything())
	}
	return out
}

// broadcastFaults compares the inboxes with the broadcasts that were acknowledged: each is in
// as many inboxes as it has recipients, in none twice, and any two in the same order.
func broadcastFaults(said map[string]int, inboxes map[string][]string) (faults []string) {
	times, after := map[string]int{}, map[[2]string]string{}
	for of, inbox := range inboxes {
		seen := map[string]bool{}
		for i, payload := range inbox {
			if seen[payload] {
				faults = append(faults, fmt.Sprintf("%s has %s twice", of, payload))
			}
			seen[payload] = true
			times[payload]++
			for _, former := range inbox[:i] {
				after[[2]string{former, payload}] = of
				if other := after[[2]string{payload, former}]; other != "" {
					faults = append(faults, fmt.Sprintf("%s and %s have %s and %s in different orders", of, other, former, payload))
				}
			}
		}
	}
	for payload, n := range said {
		if times[payload] != n {
			faults = append(faults, fmt.Sprintf("%s had %d recipients, and is in %d inboxes", payload, n, times[payload]))
		}
	}
	return faults
}

func TestBroadcastFaultsControl(t *testing.T) {
	t.Parallel()
	said := map[string]int{"1": 2, "2": 1}
	for faulty, inboxes := range map[bool][]map[string][]string{
		false: {{"a": {"1", "2"}, "b": {"1"}}, {"a": {"1"}, "b": {"3", "1", "2"}}},
		true:  {{"a": {"1"}, "b": {"1"}}, {"a": {"2", "1"}}, {"a": {"1", "2", "1"}}, {"a": {"1", "2"}, "b": {"2", "1"}}},
	} {
		for _, got := range inboxes {
			if faults := broadcastFaults(said, got); (len(faults) > 0) != faulty {
				t.Errorf("%v: %v", got, faults)
			}
		}
	}
}

// inboxes are the payloads of broadcasts in all inboxes of a node, oldest first.
func (v *groupDeployment) inboxes(s *Server) map[string][]string {
	out := map[string][]string{}
	for _, g := range slices.Concat(v.agents, v.gone) {
		for _, m := range slices.Backward(g.On(s).Everything()) {
			out[g.Name+" "+g.ID] = append(out[g.Name+" "+g.ID], Text(m, "encrypted_payload"))
		}
	}
	return out
}

// TestNodesGroupsUnderKills is TestGroupsUnderKills on three nodes, of which the leader or a
// follower is killed while clients go on. At the end all nodes show the same.
func TestNodesGroupsUnderKills(t *testing.T) {
	t.Parallel()
	n := StartNodes(t, 3)
	v := newGroupDeployment(t, n.Server())
	for i := range 4 {
		victim, follower := n.Roles(t)
		if i%2 == 1 {
			victim = follower
		}
		v.runThrough(time.Duration(150+rand.IntN(250))*time.Millisecond, func() {
			if err := n.StrikeKilled(victim, func() { time.Sleep(800 * time.Millisecond) }); err != nil {
				t.Fatal(err)
			}
			n.Ready(t)
		})
		v.repeatRevocations()
		v.settle()
	}
	t.Logf("%d requests, %d broadcasts, %d groups, %d agents left", v.done.Load(), len(v.said), len(v.groups), len(v.agents))
	if v.done.Load() < 100 || len(v.said) == 0 {
		t.Errorf("only %d requests and %d broadcasts", v.done.Load(), len(v.said))
	}
	var faults []string
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if faults = broadcastFaults(v.said, v.inboxes(n.Node(0))); len(faults) == 0 || time.Since(began) > 10*time.Second {
			break
		}
	}
	if len(faults) > 0 {
		t.Errorf("%d faults of broadcasts:\n%s", len(faults), strings.Join(faults[:min(len(faults), 10)], "\n"))
	}
	of := v.views(n.Node(0))
	for i := 1; i < 3; i++ {
		for what, now := range v.views(n.Node(i)) {
			if of[what] != now {
				t.Errorf("%s differs\non node a %s\non node %s %s", what, of[what], NodeName(i), now)
			}
		}
	}
}
