package actors

import (
	"context"
	"fmt"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
)

// groupStore is a full store with groups.
type groupStore struct {
	*fullStore
	board, cell, jury *testGroup
	pair              *testGroup // of two agents
}

// newGroupStore fills a store by using every feature of groups once.
func newGroupStore(t *testing.T, journals int, options ...option) *groupStore {
	w := &fullStore{manual: newManualClock(noon)}
	began := time.Now()
	w.testNode = newTestNode(t, append(options, withJournals(journals), withClock(w.manual.now), func(r *testNode) {
		r.journalClock = func() time.Time { return noon.Add(time.Since(began)) }
	})...)
	w.owner = w.org("acme").Org.OrgID()
	for n := range 10 {
		w.agents = append(w.agents, w.agent(w.owner, fmt.Sprintf("g%d", n)))
	}
	v := &groupStore{fullStore: w}
	v.board = v.found("board", w.agents[0], group.Majority, true, false)
	v.cell = v.found("cell", w.agents[6], group.Open, true, true)
	v.pair = v.found("pair", w.agents[0], group.Open, false, false)
	v.jury = v.found("jury", w.agents[1], group.Unanimity, false, false)
	v.enroll()
	v.converse()
	v.leave()
	v.seal()
	v.awaitIdle()
	return v
}

func (v *groupStore) found(name string, founder parley.AgentID, policy group.Policy, public, isolated bool) *testGroup {
	v.t.Helper()
	v.manual.advance(time.Second)
	made := must(v.node.Groups.Create(context.Background(), NewGroup{Key: name, Found: group.Found{
		Org: v.owner, Founder: founder, Name: name, Policy: policy, VoteHours: 72, Public: public, Isolated: isolated,
	}}))(v.t)
	return &testGroup{v.testNode, v.owner, made.ID, group.Caller{Org: v.owner, Agent: founder}}
}

// enroll admits members in every possible way, and rejects some.
func (v *groupStore) enroll() {
	t, a := v.t, v.agents
	wants := must(v.board.join(a[1]))(t).Request
	must(v.board.vote(wants.RequestID(), a[0], true))(t)
	nominee := must(v.board.invite(a[2]))(t)
	must(v.board.vote(nominee.RequestID(), a[1], true))(t) // approved: now an invitation
	must(v.board.join(a[2]))(t)
	refused := must(v.board.join(a[3]))(t).Request
	must(v.board.vote(refused.RequestID(), a[0], false))(t)
	must(v.board.vote(refused.RequestID(), a[1], false))(t)
	must(v.board.join(a[4]))(t) // stays undecided
	must(v.node.Groups.ChangeRole(context.Background(), v.board.id, group.ChangeRole{Agent: a[1], By: v.board.by, Role: group.Admin}))(t)
	must(v.cell.join(a[7]))(t)
	must(v.pair.join(a[2]))(t)
	if _, err := v.pair.join(a[7]); err == nil {
		t.Fatal("an agent of an isolated group joined another")
	}
	must(v.jury.join(a[5]))(t) // by an agent that will be revoked
	must(v.jury.invite(a[8]))(t)
}

// converse sends, replies and changes statuses.
func (v *groupStore) converse() {
	t, a := v.t, v.agents
	say := func(c *testGroup, from parley.AgentID, text, key string) *record.Message {
		v.manual.advance(time.Second)
		return must(c.say(from, text, key))(t).Message
	}
	first := say(v.board, a[0], "one", "k1")
	v.fullStore.messages = append(v.fullStore.messages, first, say(v.board, a[1], "two", ""))
	v.awaitIdle()
	mine := v.inbox(a[2])
	answer := answerTo(v.owner, mine[0].Record, "answer", "k")
	answer.Host, answer.Reads, answer.Position, answer.Copy = v.board.id, true, mine[0].Position, true
	posted := must(v.reply(answer))(t).Message
	again := answerTo(v.owner, posted, "and again", "")
	again.Host = v.board.id
	must(v.reply(again))(t)
	for _, status := range []string{"paused", "open"} {
		must(v.node.Messages.ChangeStatus(context.Background(), ChangeStatus{Conversation: first.Conversation(), Host: v.board.id, By: []parley.AgentID{a[1]}, Status: status}))(t)
	}
	wants := must(v.board.join(a[3]))(t).Request // again
	for _, by := range a[:2] {
		must(v.board.vote(wants.RequestID(), by, true))(t)
	}
	say(v.board, a[3], "three", "")
	must(v.node.Messages.ChangeStatus(context.Background(), ChangeStatus{Conversation: first.Conversation(), Host: v.board.id, By: []parley.AgentID{a[0]}, Status: "completed"}))(t)
	say(v.board, a[2], "four", "") // in another conversation
	for n := range 3 {
		say(v.pair, a[0], fmt.Sprint("to one ", n), "")
		say(v.cell, a[7], fmt.Sprint("within ", n), "")
	}
}

// leave ends memberships in every possible way, and deletes a group.
func (v *groupStore) leave() {
	t, a, ctx := v.t, v.agents, context.Background()
	short := v.found("short", a[9], group.Closed, true, false)
	must(short.invite(a[8]))(t)
	if err := v.node.Groups.Delete(ctx, short.id, group.Delete{By: short.by}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ who, by parley.AgentID }{{a[3], a[3]}, {a[2], a[0]}} {
		if err := v.board.remove(c.who, c.by); err != nil {
			t.Fatal(err)
		}
	}
	must(v.board.say(a[1], "five", ""))(t)
	nominee := must(v.board.invite(a[2]))(t)
	must(v.board.vote(nominee.RequestID(), a[1], true))(t)
	must(v.board.join(a[2]))(t)
	open, private := group.Open, false
	if err := v.node.Groups.Change(ctx, v.board.id, group.Change{By: v.board.by, Policy: &open}); err != nil {
		t.Fatal(err)
	}
	must(v.board.join(a[5]))(t)
	must(v.board.say(a[5], "six", ""))(t)
	must(v.node.Agents.Change(ctx, a[5], agent.Revoke{}))(t)
	if err := v.node.Groups.Change(ctx, v.cell.id, group.Change{By: v.cell.by, Public: &private}); err != nil {
		t.Fatal(err)
	}
}

// awaitIdle waits until outboxes and queues are empty.
func (v *groupStore) awaitIdle() { awaitIdleStore(v.t, v.store) }

// seal begins an MLS group, adds and removes members, and leaves one outside.
func (v *groupStore) seal() {
	t, a := v.t, v.agents
	c := v.found("sealed", a[8], group.Open, false, false)
	for _, who := range []parley.AgentID{a[0], a[1], a[3]} {
		must(c.join(who))(t)
	}
	c.mustCommit(a[8], []parley.AgentID{a[0], a[1]}, nil)
	v.manual.advance(time.Second)
	if err := c.tell(a[0], "sealed", 1); err != nil {
		t.Fatal(err)
	}
	if err := c.remove(a[1], a[1]); err != nil {
		t.Fatal(err)
	}
	c.mustCommit(a[0], nil, []parley.AgentID{a[1]})
	if err := c.tell(a[8], "sealed again", 2); err != nil {
		t.Fatal(err)
	}
}
