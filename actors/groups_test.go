package actors

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/query"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// testGroup is a group of a test node.
type testGroup struct {
	*testNode
	owner parley.OrgID
	id    parley.GroupID
	by    group.Caller // its founder
}

func (r *testNode) createGroup(owner parley.OrgID, founder parley.AgentID, name string, policy group.Policy, isolated bool) (*testGroup, error) {
	made, err := r.node.Groups.Create(context.Background(), NewGroup{Found: group.Found{
		Org: owner, Founder: founder, Name: name, Policy: policy, VoteHours: 72, Isolated: isolated,
	}})
	return &testGroup{r, owner, made.ID, group.Caller{Org: owner, Agent: founder}}, err
}

// readGroup reads a group as it is stored, after everything sent to it before.
func readGroup[R any](ctx context.Context, gs *Groups, id parley.GroupID, read func(*group.State) R) (r R, err error) {
	if _, err := gs.View(ctx, id, group.GetView{}); err != nil {
		return r, err
	}
	v := gs.journal.View()
	defer v.Close()
	s := &group.State{}
	if _, _, err := rules.Group.Load(rules.StoredIn(v), rules.GroupStream(id), s); err != nil {
		return r, err
	}
	return read(s), nil
}

func (c *testGroup) join(a parley.AgentID) (Joined, error) {
	return c.node.Groups.Join(context.Background(), c.id, group.Join{Agent: a, Org: c.owner})
}

func (c *testGroup) vote(id parley.JoinRequestID, by parley.AgentID, approve bool) (Voted, error) {
	return c.node.Groups.Vote(context.Background(), c.id, group.CastVote{
		Request: id, By: group.Caller{Org: c.owner, Agent: by}, Approve: approve,
	})
}

func (c *testGroup) remove(a, by parley.AgentID) error {
	return c.node.Groups.RemoveMember(context.Background(), c.id, group.Remove{Agent: a, By: group.Caller{Org: c.owner, Agent: by}})
}

func (c *testGroup) invite(a parley.AgentID) (*group.Request, error) {
	return c.node.Groups.Invite(context.Background(), c.id, Invitation{
		Invite: group.Invite{By: c.by, Agent: a, Message: "come"},
		Notice: Content{Type: "svc.v1.group_invite", Body: []byte(BlankRequestID)},
	})
}

func (c *testGroup) say(from parley.AgentID, text, key string) (Posted, error) {
	return c.node.Messages.Broadcast(context.Background(), GroupSend{
		Content: Content{Type: "svc.v1.dm", Body: []byte(text), Key: key, FromOrg: c.owner}, Group: c.id, From: from,
	})
}

func (c *testGroup) members() []parley.AgentID {
	c.t.Helper()
	all, err := readGroup(context.Background(), c.node.Groups, c.id, func(s *group.State) (ids []parley.AgentID) {
		for _, m := range s.Members() {
			ids = append(ids, m.Agent)
		}
		return ids
	})
	return must(all, err)(c.t)
}

func eachJournal(t *testing.T, run func(*testing.T, *testNode)) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) { run(t, newTestNode(t, withJournals(journals))) })
	}
}

func TestGroupSeats(t *testing.T) {
	eachJournal(t, func(t *testing.T, r *testNode) {
		owner, a := r.agents("acme", 4)
		c := must(r.createGroup(owner, a[0], "board", group.Majority, false))(t)
		if got := c.members(); len(got) != 1 || got[0] != a[0] {
			t.Fatalf("members at the start: %v", got)
		}
		filed := must(c.join(a[1]))(t)
		if filed.Request == nil || filed.Request.GetStatus() != group.Pending {
			t.Fatalf("an applicant: %+v", filed)
		}
		v := must(c.vote(filed.Request.RequestID(), a[0], true))(t)
		if v.Request.GetStatus() != group.Approved || len(c.members()) != 2 {
			t.Fatalf("after the vote: %v, %v", v.Request, c.members())
		}
		nominated := must(c.invite(a[2]))(t)
		inbox := r.inbox(a[2])
		if len(inbox) != 1 || string(inbox[0].Record.GetContent()) != nominated.RequestID().String() {
			t.Fatalf("the nominee's inbox: %v", inbox)
		}
		concerns := must(r.node.Groups.Concerns(context.Background(), a[2]))(t)
		if len(concerns) != 1 || concerns[0] != (Concern{nominated.RequestID(), c.id}) {
			t.Fatalf("live requests about the nominee: %v", concerns)
		}
		r.restart()
		if _, err := c.join(a[2]); err != nil {
			t.Fatal(err)
		}
		must(c.vote(nominated.RequestID(), a[1], true))(t)
		if got := c.members(); len(got) != 3 {
			t.Fatalf("members at the end: %v", got)
		}
		if got := must(r.node.Groups.Concerns(context.Background(), a[2]))(t); len(got) != 0 {
			t.Fatalf("still live: %v", got)
		}
		if err := c.remove(a[1], a[1]); err != nil {
			t.Fatal(err)
		}
		if s := must(r.node.Agents.Get(context.Background(), a[1]))(t); s.In(c.id) {
			t.Fatal("the agent that left still has a membership")
		}
	})
}

func TestGroupRevocation(t *testing.T) {
	eachJournal(t, func(t *testing.T, r *testNode) {
		owner, a := r.agents("acme", 3)
		c := must(r.createGroup(owner, a[0], "board", group.Open, false))(t)
		must(c.join(a[1]))(t)
		d := must(r.createGroup(owner, a[1], "other", group.Majority, false))(t)
		must(d.join(a[0]))(t)
		must(r.node.Agents.Change(context.Background(), a[0], agent.Revoke{}))(t)
		eventually(t, "the revoked agent has left", func() bool { return len(c.members()) == 1 })
		eventually(t, "its request is canceled", func() bool {
			live, err := readGroup(context.Background(), r.node.Groups, d.id, func(s *group.State) int { return len(s.Requests()) })
			return err == nil && live == 0
		})
		role, err := readGroup(context.Background(), r.node.Groups, c.id, func(s *group.State) group.Role {
			m, _ := s.Member(a[1])
			return m.Role
		})
		if err != nil || role != group.Admin {
			t.Fatalf("the new admin is %v, %v", role, err)
		}
	})
}

func TestBroadcast(t *testing.T) {
	eachJournal(t, func(t *testing.T, r *testNode) {
		const many = 300
		owner, a := r.agents("acme", many)
		c := must(r.createGroup(owner, a[0], "large", group.Open, false))(t)
		var joining sync.WaitGroup
		for _, id := range a[1:] {
			joining.Go(func() {
				if _, err := c.join(id); err != nil {
					t.Error(err)
				}
			})
		}
		joining.Wait()
		first := must(c.say(a[0], "hello", "k"))(t)
		again := must(c.say(a[0], "hello", "k"))(t)
		if !again.Repeated || again.Message.MessageID() != first.Message.MessageID() || first.Message.GetRecipients() != many-1 {
			t.Fatalf("first %v, again %v", first.Message, again.Message)
		}
		second := must(c.say(a[5], "so am I", ""))(t)
		if second.Message.Conversation() != first.Message.Conversation() {
			t.Fatal("another conversation")
		}
		for i, id := range a {
			wanted := 2
			if i == 0 || i == 5 {
				wanted = 1
			}
			var inbox []query.Message
			eventually(t, "all copies have come", func() bool { inbox = r.inbox(id); return len(inbox) >= wanted })
			if len(inbox) != wanted {
				t.Fatalf("agent %d has %d copies, want %d", i, len(inbox), wanted)
			}
			for _, m := range inbox {
				if m.Record.Recipient() != id || m.Record.RecipientOrg() != owner || m.Position == 0 {
					t.Fatalf("agent %d got %v", i, m)
				}
				read := must(r.node.Messages.Get(context.Background(), m.Record.MessageID()))(t)
				if read.Record.Recipient() != id || string(read.Record.GetContent()) != string(m.Record.GetContent()) {
					t.Fatalf("agent %d reads %v", i, read)
				}
			}
		}
		answerCopy(t, c, a)
	})
}

// answerCopy reads a copy and replies to it, and checks which members see what.
func answerCopy(t *testing.T, c *testGroup, a []parley.AgentID) {
	t.Helper()
	r, owner := c.testNode, c.owner
	mine := r.inbox(a[7])[1]
	if err := r.node.Receipts.Record(context.Background(), a[7], []journal.RecordReceipt{{
		Recipient: a[7], Message: mine.Record.MessageID(), Position: mine.Position, Receipts: journal.Receipts{TransferredAt: 5, ReadAt: 6}, Copy: true,
	}}); err != nil {
		t.Fatal(err)
	}
	if m := must(r.node.Messages.Get(context.Background(), mine.Record.MessageID()))(t); m.Receipts.ReadAt != 6 {
		t.Fatalf("the receipts of a copy: %+v", m.Receipts)
	}
	answer := answerTo(owner, mine.Record, "hi", "")
	answer.Host = c.id
	posted := must(r.reply(answer))(t)
	if posted.Message.Recipient() != a[0] || len(posted.Message.GetGroup()) != 0 || posted.Message.HostID() != c.id {
		t.Fatalf("the reply: %v", posted.Message)
	}
	if s := must(r.node.Messages.Conversation(context.Background(), posted.Message.Conversation()))(t); s.GetStatus() != conversation.Open {
		t.Fatalf("the conversation is %v", s.GetStatus())
	}
	for i, wanted := range map[int]int{0: 3, 5: 2, 7: 3, 9: 2} {
		page, _, err := r.node.Messages.TranscriptOf(context.Background(), posted.Message.Conversation(), c.id, a[i], 0, 50, false, nil)
		if err != nil || len(page) != wanted {
			t.Fatalf("agent %d sees %d rows, want %d: %v", i, len(page), wanted, err)
		}
	}
	r.restart()
	if page := r.inbox(a[9]); len(page) != 2 {
		t.Fatalf("after a restart there are %d rows", len(page))
	}
}

// TestTransferredCopiesAreNotScannedAgain: a stream begins at the first untransferred
// copy. The position up to which all are transferred is stored, and later copies are
// not skipped because of it.
func TestTransferredCopiesAreNotScannedAgain(t *testing.T) {
	r := newTestNode(t, withTuning(func(n *Node) { n.queries.Limits().TransferredStep = 1 }))
	owner, a := r.agents("acme", 2)
	c := must(r.createGroup(owner, a[0], "board", group.Open, false))(t)
	must(c.join(a[1]))(t)
	mark := func(m query.Message) {
		t.Helper()
		if err := r.node.Receipts.Record(context.Background(), a[1], []journal.RecordReceipt{{
			Recipient: a[1], Message: m.Record.MessageID(), Position: m.Position, Receipts: journal.Receipts{TransferredAt: 1}, Copy: true,
		}}); err != nil {
			t.Fatal(err)
		}
	}
	begins := func(want uint64) {
		t.Helper()
		s := must(r.node.Feeds.Resume(context.Background(), a[1], parley.MessageID{}, false))(t)
		if s.After != want {
			t.Fatalf("a stream begins after %d, want %d", s.After, want)
		}
		eventually(t, "it is noted", func() bool {
			value, found, err := r.store.Row(a[1].Slot(), journal.TransferredTable, a[1][:])
			return err == nil && found && binary.BigEndian.Uint64(value) == want
		})
	}
	for range 3 {
		must(c.say(a[0], "all", ""))(t)
	}
	inbox := r.inbox(a[1])
	begins(inbox[2].Position - 1)
	mark(inbox[2])
	mark(inbox[0])
	begins(inbox[1].Position - 1)
	mark(inbox[1])
	must(r.send(direct(owner, a[0], a[1], "you", "")))(t)
	begins(r.inbox(a[1])[0].Position - 1)
	must(c.say(a[0], "all again", ""))(t)
	r.restart()
	r.node.queries.Limits().TransferredStep = 1
	begins(r.inbox(a[1])[1].Position - 1)
}

// TestSilentInvitation: an invitation of which its agent must not hear brings nothing, and the
// store is in order.
func TestSilentInvitation(t *testing.T) {
	r := newTestNode(t)
	owner, a := r.agents("acme", 2)
	c := must(r.createGroup(owner, a[0], "board", group.Majority, false))(t)
	for _, withdrawn := range []bool{true, false} {
		request := must(c.node.Groups.Invite(context.Background(), c.id, Invitation{
			Invite: group.Invite{By: c.by, Agent: a[1], Message: "come", Silent: true},
			Notice: Content{Type: "svc.v1.group_invite", Body: []byte(BlankRequestID)},
		}))(t)
		if withdrawn {
			if err := c.node.Groups.EndRequest(context.Background(), c.id, group.EndRequest{By: c.by, Request: request.RequestID()}); err != nil {
				t.Error(err)
			}
		}
	}
	if page := must2(r.node.Messages.Inbox(context.Background(), a[1], 0, 10, "", nil))(t); len(page) > 0 {
		t.Errorf("the inbox has %v", page)
	}
}
