package nodes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

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

// TestNodesGroupsUnderKills is TestGroupsUnderKills on three nodes, of which the leader or a
// follower is killed while clients go on. At the end all nodes show the same.
func TestNodesGroupsUnderKills(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	v := grouptest.NewDeployment(t, n.Server())
	for i := range 4 {
		victim, follower := n.Roles(t)
		if i%2 == 1 {
			victim = follower
		}
		v.RunThrough(time.Duration(150+rand.IntN(250))*time.Millisecond, func() {
			if err := n.StrikeKilled(victim, func() { time.Sleep(800 * time.Millisecond) }); err != nil {
				t.Fatal(err)
			}
			n.Ready(t)
		})
		v.RepeatRevocations()
		v.Settle()
	}
	t.Logf("%d requests, %d broadcasts, %d groups, %d agents left", v.Done.Load(), len(v.Sent), len(v.Groups), len(v.Agents))
	if v.Done.Load() < 100 || len(v.Sent) == 0 {
		t.Errorf("only %d requests and %d broadcasts", v.Done.Load(), len(v.Sent))
	}
	var faults []string
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if faults = broadcastFaults(v.Sent, v.Inboxes(n.Node(0))); len(faults) == 0 || time.Since(began) > 10*time.Second {
			break
		}
	}
	if len(faults) > 0 {
		t.Errorf("%d faults of broadcasts:\n%s", len(faults), strings.Join(faults[:min(len(faults), 10)], "\n"))
	}
	of := v.Views(n.Node(0))
	for i := 1; i < 3; i++ {
		for what, now := range v.Views(n.Node(i)) {
			if of[what] != now {
				t.Errorf("%s differs\non node a %s\non node %s %s", what, of[what], kit.NodeName(i), now)
			}
		}
	}
}
