package actors

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
)

// useGroups uses every feature of groups that stores something.
func (l *releaseScenario) useGroups(acme, globex parley.OrgID, alice, carol, bob, erin parley.AgentID) {
	ctx := context.Background()
	owners := map[parley.AgentID]parley.OrgID{alice: acme, carol: acme, bob: globex, erin: globex}
	admin := group.Caller{Org: acme, Agent: alice}
	found := func(name string, founder parley.AgentID, policy group.Policy, isolated bool) parley.GroupID {
		made := must(l.node.Groups.Create(ctx, NewGroup{Key: name, Found: group.Found{
			Org: acme, Founder: founder, Name: name, Description: "a group", Policy: policy, Public: true, Isolated: isolated, VoteHours: 72,
		}}))(l.t)
		l.awaitArrival()
		return made.ID
	}
	join := func(id parley.GroupID, who parley.AgentID) Joined {
		joined := must(l.node.Groups.Join(ctx, id, group.Join{Agent: who, Org: owners[who], Message: "let me in"}))(l.t)
		l.awaitArrival()
		return joined
	}
	vote := func(id parley.GroupID, request parley.JoinRequestID, by parley.AgentID, approve bool) {
		must(l.node.Groups.Vote(ctx, id, group.CastVote{Request: request, By: group.Caller{Org: owners[by], Agent: by}, Approve: approve}))(l.t)
		l.awaitArrival()
	}
	say := func(id parley.GroupID, from parley.AgentID, text, key string) *record.Message {
		posted := must(l.node.Messages.Broadcast(ctx, GroupSend{
			Content: Content{Type: "svc.v1.dm", Body: []byte(text), SelfPayload: "QQ", Key: key, FromOrg: owners[from]}, Group: id, From: from, Metadata: []byte("{}"),
		}))(l.t)
		l.awaitArrival()
		return posted.Message
	}
	board := found("board", alice, group.Majority, false)
	vote(board, join(board, bob).Request.RequestID(), alice, true)
	nominated := l.invite(board, admin, carol)
	vote(board, nominated, bob, true) // approved
	join(board, carol)
	pending := l.invite(board, admin, erin)
	join(board, erin)               // consents
	vote(board, pending, bob, true) // the vote that seats it
	first := say(board, alice, "to all", "group-key")
	mine := must2(l.node.Messages.Inbox(ctx, bob, 0, 1, "", nil))(l.t)[0]
	answer := answerTo(globex, mine.Record, "answer to all", "group-answer")
	answer.ToOrg, answer.Host, answer.Reads, answer.Position, answer.Copy = acme, board, true, mine.Position, true
	must(l.node.Messages.Reply(ctx, answer))(l.t)
	l.awaitArrival()
	say(board, bob, "so am I", "")
	must(l.node.Messages.ChangeStatus(ctx, ChangeStatus{Conversation: first.Conversation(), Host: board, By: []parley.AgentID{alice}, Status: "completed"}))(l.t)
	l.awaitArrival()
	say(board, erin, "anew", "")
	must(l.node.Groups.ChangeRole(ctx, board, group.ChangeRole{Agent: bob, By: admin, Role: group.Admin}))(l.t)
	for _, who := range []parley.AgentID{erin, carol} {
		by := group.Caller{Org: owners[who], Agent: who}
		if who == erin {
			by = admin
		}
		if err := l.node.Groups.RemoveMember(ctx, board, group.Remove{Agent: who, By: by}); err != nil {
			l.t.Fatal(err)
		}
		l.awaitArrival()
	}
	for n := range 60 { // enough for its state to be stored
		if err := l.node.Groups.Change(ctx, board, group.Change{By: admin, Description: proto.String(fmt.Sprint("described ", n))}); err != nil {
			l.t.Fatal(err)
		}
	}
	l.awaitArrival()
	confined := join(board, carol).Request.RequestID()
	found("cell", carol, group.Open, true)
	vote(board, confined, alice, true)
	vote(board, confined, bob, true) // it cannot take the seat
	l.invite(board, admin, erin)     // stays undecided
	ended := found("ended", erin, group.Closed, false)
	if err := l.node.Groups.Delete(ctx, ended, group.Delete{By: group.Caller{Org: acme, Agent: erin}}); err != nil {
		l.t.Fatal(err)
	}
	l.awaitArrival()
	l.useMLS(found("sealed", alice, group.Open, false), acme, alice, bob, erin, join)
}

// useMLS begins an MLS group. One member leaves, its leaf is removed, and it comes back; the
// other has not acknowledged its Welcome.
func (l *releaseScenario) useMLS(id parley.GroupID, owner parley.OrgID, alice, bob, erin parley.AgentID, join func(parley.GroupID, parley.AgentID) Joined) {
	for _, who := range []parley.AgentID{bob, erin} {
		join(id, who)
	}
	c := &testGroup{&testNode{t: l.t, node: l.node}, owner, id, group.Caller{Org: owner, Agent: alice}}
	c.mustCommit(alice, []parley.AgentID{bob}, nil)
	if err := c.tell(alice, "sealed for one", 1); err != nil {
		l.t.Fatal(err)
	}
	c.mustCommit(bob, []parley.AgentID{erin}, nil)
	if err := c.remove(bob, bob); err != nil {
		l.t.Fatal(err)
	}
	l.awaitArrival()
	c.mustCommit(erin, nil, []parley.AgentID{bob})
	join(id, bob)
}

func (l *releaseScenario) invite(id parley.GroupID, by group.Caller, who parley.AgentID) parley.JoinRequestID {
	l.t.Helper()
	r := must(l.node.Groups.Invite(context.Background(), id, Invitation{
		Invite: group.Invite{By: by, Agent: who, Message: "come"},
		Notice: Content{Type: noticeType, Body: []byte(BlankRequestID)},
	}))(l.t)
	l.awaitArrival()
	return r.RequestID()
}

// answersIn renders what readers of a group see.
func answersIn(t testing.TB, node *Node, id parley.GroupID, say func(string, ...any)) {
	t.Helper()
	ctx := context.Background()
	told := must(readGroup(ctx, node.Groups, id, func(s *group.State) []string {
		b, err := encoding.Marshal(s)
		whole := &group.Snapshot{}
		if err != nil || encoding.Unmarshal(b, whole) != nil {
			return []string{"cannot be read"}
		}
		lines := []string{oneLine(whole)}
		for _, l := range s.Abandoned() {
			lines = append(lines, fmt.Sprintf("  a leaf of seat %d is left", l.GetSeat()))
		}
		for _, m := range s.Members() {
			lines = append(lines, fmt.Sprintf("  member %s is %s, %s, since %s", m.ID(s.ID), m.Agent, m.Role, m.JoinedAt()))
		}
		return lines
	}))(t)
	say("group %s:", id)
	for _, line := range told {
		say("  %s", line)
	}
	settled := must2(node.Groups.SettledRequests(ctx, id, parley.JoinRequestID{}, 100))(t)
	for _, r := range settled {
		say("  settled %s", oneLine(r))
	}
	commits, _, err := node.Groups.MLSCommits(ctx, id, 0, 100, 100, 1<<20, nil)
	for _, m := range commits {
		say("  commit of epoch %d: %q, %v", m.Epoch, m.GetCommit(), err)
	}
	info := must(node.Groups.MLSGroupInfo(ctx, id, nil))(t)
	if info != nil {
		say("  information of epoch %d: %q", info.GetEpoch(), info.GetGroupInfo())
	}
	for _, g := range must(node.Groups.Listed(ctx, []parley.GroupID{id}))(t) {
		say("  shown as %s", oneLine(g))
	}
}
