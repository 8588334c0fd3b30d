package actors

import (
	"context"
	"fmt"
	"testing"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/journal"
)

// groupSagas are those of groups and their members.
var groupSagas = []saga{
	{name: "founding", given: (*client).founded, when: func(c *client) { c.convene("board", c.active[0], group.Open, true) }},
	{name: "seating", given: (*client).gathered, when: func(c *client) { c.come(1) }, later: true},
	{name: "voting in", given: func(c *client) {
		c.founded()
		c.convene("jury", c.active[0], group.Majority, false)
		c.come(1)
	}, when: func(c *client) { c.cast(); c.cast() }, later: true},
	{name: "inviting", given: func(c *client) {
		c.founded()
		c.convene("closed", c.active[0], group.Closed, false)
	}, when: func(c *client) { c.ask(c.clubs[0], c.active[1]) }},
	{name: "leaving", given: func(c *client) { c.gathered(); c.come(1) }, when: func(c *client) { c.goes(1) }, later: true},
	{name: "revoking a member", given: func(c *client) {
		c.gathered()
		c.come(1)
		c.convene("jury", c.active[0], group.Majority, false)
		c.comeTo(c.clubs[1], 1)
	}, when: func(c *client) {
		c.alter(1, agent.Revoke{}, func(s *agent.State) { s.RevokedMs, s.PollTokenHash = 1, nil })
	}, later: true},
	{name: "ending", given: func(c *client) { c.gathered(); c.come(1) }, when: func(c *client) {
		c.answered(c.node().Groups.Delete(context.Background(), c.clubs[0].id, group.Delete{By: group.Caller{Org: c.orgs[0], Agent: c.active[0].id}}))
	}, later: true},
	{name: "broadcasting", given: func(c *client) { c.gathered(); c.come(1) }, when: func(c *client) {
		for range 2 {
			c.spread(GroupSend{
				Content: Content{Type: "svc.v1.dm", Rendered: []byte("1:to all"), Key: "k", FromOrg: c.orgs[0]}, Group: c.clubs[0].id, From: c.active[0].id,
			})
		}
	}, later: true},
}

// gathered makes a group of one of two agents.
func (c *client) gathered() {
	c.founded()
	c.convene("board", c.active[0], group.Open, false)
}

// come has an agent join the first group, goes leave it.
func (c *client) come(n int) { c.comeTo(c.clubs[0], n) }

func (c *client) comeTo(g *crashClub, n int) {
	c.number = int(c.active[n].id[15]) % 2
	c.enter(g, c.active[n])
}

func (c *client) goes(n int) {
	c.number = int(c.active[n].id[15]) % 2
	c.leave(c.clubs[0], c.active[n])
}

// crowded makes a group that is larger than what goes out at once.
func (c *client) crowded() {
	c.gathered()
	for n := range journal.FanoutChunk + 20 {
		c.create(c.orgs[0], fmt.Sprint("crowd", n))
		c.come(n + 1)
	}
}

// TestABroadcastIsCutAfterItIsKept has more readers than are reached at once:
// whatever of it the disk has when the process dies, after a restart all of them
// have the message once, or none has.
func TestABroadcastIsCutAfterItIsKept(t *testing.T) {
	unraced(t)
	s := saga{name: "broadcasting to many", given: (*client).crowded, when: groupSagas[len(groupSagas)-1].when}
	for _, journals := range []int{1, 4} {
		if journals == 1 && !*sagasEverywhere {
			continue
		}
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			v := &crashVerdict{}
			s.run(t, v, journals, 0, 1, whole)
			v.judge(t)
			if v.tally.Distinct() < 10 {
				t.Errorf("only %d images differ", v.tally.Distinct())
			}
		})
	}
}
