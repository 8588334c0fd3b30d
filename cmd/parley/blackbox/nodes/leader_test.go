package nodes

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestLeaderRemoved hands the leadership over by command, and removes the node that leads:
// asked through another node, and through itself. Messages go on with those that are left. A
// join that cannot succeed leaves no member behind.
func TestLeaderRemoved(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	one, other := kit.Pair(t, n.Server())
	one.Send(other)

	token, err := n.Node(0).Operate("cluster", "token")
	if err != nil {
		t.Fatal(token, err)
	}
	kit.Fails(t, t.TempDir(), "--cluster-listen", n.Node(1).Flag("--cluster-listen"), "--join", n.Node(0).Flag("--cluster-listen"), "--join-token", strings.TrimSpace(token))
	if status := clusterStatusOf(t, n.Node(0)); len(status.Nodes) != 3 || len(status.Groups[0].Learners) > 0 {
		t.Errorf("a node whose address is taken is a member: %+v", status)
	}

	before := n.Leader()
	if said, err := n.Follower().Operate("cluster", "balance"); err != nil || !strings.Contains(said, "leads") {
		t.Errorf("balance says %q, %v", said, err)
	}
	if n.Leader() == before {
		t.Error("the leadership is where it was")
	}

	left := n.All
	for _, through := range []string{"another node", "itself"} {
		leader := n.Leader()
		asked := leader
		if through == "another node" {
			asked = n.Follower()
		}
		if said, err := asked.Operate("cluster", "remove", leader.Flag("--node-name")); err != nil {
			t.Errorf("removed through %s: %s%v", through, said, err)
		}
		n.Avoid(leader, true)
		left = slices.DeleteFunc(slices.Clone(left), func(s *kit.Server) bool { return s == leader })
		eventuallyStatus(t, left[0], "the leader is removed", func(c clusterStatus) bool {
			return c.voters() == len(left) && c.state(leader.Flag("--node-name")) == "" && c.Groups[0].Leader != nil
		})
		kit.Client.CloseIdleConnections()
		one.Send(other)
		if err := leader.Drain(15 * time.Second); err != nil {
			t.Error(err)
		}
		n.ConsistsOf(left...)
	}
	if rows := len(other.Everything()); rows != 3 {
		t.Errorf("the inbox has %d messages", rows)
	}
	if said, err := left[0].Operate("cluster", "balance"); err == nil {
		t.Errorf("a node alone hands over: %s", said)
	}
}

// TestLeaderThatJoinedMeanwhile: a node that was down while another one joined and came to lead
// does not know its leader. It follows all the same.
func TestLeaderThatJoinedMeanwhile(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	one, other := kit.Pair(t, n.Server())
	n.Ready(t)
	away := n.Node(2)
	away.Kill()
	kit.Must(t, n.Add(3))
	joined := n.Node(3)
	eventuallyStatus(t, joined, "four voters", func(c clusterStatus) bool { return c.voters() == 4 })
	kit.Eventually(t, "the new node leads", func() bool {
		_, err := joined.Operate("cluster", "balance", "--to", joined.Flag("--node-name"))
		return err == nil && n.Leader() == joined
	})
	one, other = one.On(joined), other.On(joined)
	sent := kit.Text(one.Send(other), "id")
	kit.Must(t, away.Begin(away.Addr))
	n.Ready(t)
	if n.Leader() != joined {
		t.Log("another node leads by now")
	}
	if !slices.ContainsFunc(other.On(away).Everything(), func(m map[string]any) bool { return kit.Text(m, "id") == sent }) {
		t.Error("it does not show the message")
	}
}
