package actors

import (
	"context"
	"fmt"
	"testing"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/journal"
)

// groupSagas are the sagas of groups and their members.
var groupSagas = []saga{
	{name: "founding", prepare: (*client).prepareOrg, do: func(c *client) { c.createGroup("board", c.active[0], group.Open, true) }},
	{name: "seating", prepare: (*client).prepareGroup, do: func(c *client) { c.joinFirstGroup(1) }, later: true},
	{name: "voting in", prepare: func(c *client) {
		c.prepareOrg()
		c.createGroup("jury", c.active[0], group.Majority, false)
		c.joinFirstGroup(1)
	}, do: func(c *client) { c.vote(); c.vote() }, later: true},
	{name: "inviting", prepare: func(c *client) {
		c.prepareOrg()
		c.createGroup("closed", c.active[0], group.Closed, false)
	}, do: func(c *client) { c.invite(c.groups[0], c.active[1]) }},
	{name: "leaving", prepare: func(c *client) { c.prepareGroup(); c.joinFirstGroup(1) }, do: func(c *client) { c.leaveFirstGroup(1) }, later: true},
	{name: "revoking a member", prepare: func(c *client) {
		c.prepareGroup()
		c.joinFirstGroup(1)
		c.createGroup("jury", c.active[0], group.Majority, false)
		c.joinGroup(c.groups[1], 1)
	}, do: func(c *client) {
		c.changeAgent(1, agent.Revoke{}, func(s *agent.State) { s.RevokedMs, s.PollTokenHash = 1, nil })
	}, later: true},
	{name: "ending", prepare: func(c *client) { c.prepareGroup(); c.joinFirstGroup(1) }, do: func(c *client) {
		c.answered(c.node().Groups.Delete(context.Background(), c.groups[0].id, group.Delete{By: group.Caller{Org: c.orgs[0], Agent: c.active[0].id}}))
	}, later: true},
	{name: "broadcasting", prepare: func(c *client) { c.prepareGroup(); c.joinFirstGroup(1) }, do: func(c *client) {
		for range 2 {
			c.sendToGroup(GroupSend{
				Content: Content{Type: "svc.v1.dm", Body: []byte("1:to all"), Key: "k", FromOrg: c.orgs[0]}, Group: c.groups[0].id, From: c.active[0].id,
			})
		}
	}, later: true},
}

// prepareGroup creates a group with one of two agents.
func (c *client) prepareGroup() {
	c.prepareOrg()
	c.createGroup("board", c.active[0], group.Open, false)
}

// joinFirstGroup makes an agent join the first group.
func (c *client) joinFirstGroup(n int) { c.joinGroup(c.groups[0], n) }

func (c *client) joinGroup(g *crashGroup, n int) {
	c.number = int(c.active[n].id[15]) % 2
	c.join(g, c.active[n])
}

func (c *client) leaveFirstGroup(n int) {
	c.number = int(c.active[n].id[15]) % 2
	c.leave(c.groups[0], c.active[n])
}

// prepareLargeGroup creates a group with more members than one fan-out step reaches.
func (c *client) prepareLargeGroup() {
	c.prepareGroup()
	for n := range journal.FanoutChunk + 20 {
		c.create(c.orgs[0], fmt.Sprint("large", n))
		c.joinFirstGroup(n + 1)
	}
}

// TestBroadcastSurvivesACrashAfterAnyEntry broadcasts to more members than one step
// reaches. After a crash and a restart either every member has the message once, or
// none has it.
func TestBroadcastSurvivesACrashAfterAnyEntry(t *testing.T) {
	skipUnderRace(t)
	s := saga{name: "broadcasting to many", prepare: (*client).prepareLargeGroup, do: groupSagas[len(groupSagas)-1].do}
	for _, journals := range []int{1, 4} {
		if journals == 1 && !*exhaustive {
			continue
		}
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			v := &crashResult{}
			s.run(t, v, journals, 0, 1, unchanged)
			v.check(t)
			if v.tally.Distinct() < 10 {
				t.Errorf("only %d images differ", v.tally.Distinct())
			}
		})
	}
}
