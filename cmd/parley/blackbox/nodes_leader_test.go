package blackbox

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLeaderRemoved hands the leadership over by command, and removes the node that leads:
// asked through another node, and through itself. Messages go on with those that are left. A
// join that cannot succeed leaves no member behind.
func TestLeaderRemoved(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	one, other := pair(t, n.server())
	one.send(other)

	token, err := n.node(0).operate("cluster", "token")
	if err != nil {
		t.Fatal(token, err)
	}
	fails(t, t.TempDir(), "--cluster-listen", n.node(1).flag("--cluster-listen"), "--join", n.node(0).flag("--cluster-listen"), "--join-token", strings.TrimSpace(token))
	if status := n.node(0).clusterStatus(t); len(status.Nodes) != 3 || len(status.Groups[0].Learners) > 0 {
		t.Errorf("a node whose address is taken is a member: %+v", status)
	}

	before := n.leader()
	if said, err := n.follower().operate("cluster", "balance"); err != nil || !strings.Contains(said, "leads") {
		t.Errorf("balance says %q, %v", said, err)
	}
	if n.leader() == before {
		t.Error("the leadership is where it was")
	}

	left := n.all
	for _, through := range []string{"another node", "itself"} {
		leader := n.leader()
		asked := leader
		if through == "another node" {
			asked = n.follower()
		}
		if said, err := asked.operate("cluster", "remove", leader.flag("--node-name")); err != nil {
			t.Errorf("removed through %s: %s%v", through, said, err)
		}
		n.avoid(leader, true)
		left = slices.DeleteFunc(slices.Clone(left), func(s *server) bool { return s == leader })
		left[0].eventuallyStatus(t, "the leader is removed", func(c clusterStatus) bool {
			return c.voters() == len(left) && c.state(leader.flag("--node-name")) == "" && c.Groups[0].Leader != nil
		})
		client.CloseIdleConnections()
		one.send(other)
		if err := leader.drain(15 * time.Second); err != nil {
			t.Error(err)
		}
		n.consistsOf(left...)
	}
	if rows := len(other.everything()); rows != 3 {
		t.Errorf("the inbox has %d messages", rows)
	}
	if said, err := left[0].operate("cluster", "balance"); err == nil {
		t.Errorf("a node alone hands over: %s", said)
	}
}

// TestLeaderThatJoinedMeanwhile: a node that was down while another one joined and came to lead
// does not know its leader. It follows all the same.
func TestLeaderThatJoinedMeanwhile(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	one, other := pair(t, n.server())
	n.ready(t)
	away := n.node(2)
	away.kill()
	must(t, n.add(3))
	joined := n.node(3)
	joined.eventuallyStatus(t, "four voters", func(c clusterStatus) bool { return c.voters() == 4 })
	eventually(t, "the new node leads", func() bool {
		_, err := joined.operate("cluster", "balance", "--to", joined.flag("--node-name"))
		return err == nil && n.leader() == joined
	})
	one, other = one.on(joined), other.on(joined)
	sent := text(one.send(other), "id")
	must(t, away.begin(away.addr))
	n.ready(t)
	if n.leader() != joined {
		t.Log("another node leads by now")
	}
	if !slices.ContainsFunc(other.on(away).everything(), func(m map[string]any) bool { return text(m, "id") == sent }) {
		t.Error("it does not show the message")
	}
}
