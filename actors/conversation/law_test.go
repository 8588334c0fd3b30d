package conversation_test

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/conversation"
	"parley/client/parley"
)

func TestLaws(t *testing.T) { actorstest.Obey(t, rules, draw, law) }

func draw(t *rapid.T, s *conversation.State) conversation.Command {
	likely := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) > 0 }
	name := rapid.SampledFrom([]string{"alice", "alice", "bob", "bob", "carol"})
	message := rapid.SampledFrom([]string{"m1", "m2", "m3"})
	kind := rapid.IntRange(0, 11).Draw(t, "kind")
	if !s.Exists() && likely("start") {
		kind = 0
	}
	switch {
	case kind == 0:
		return conversation.Start{
			ID: actorstest.Named("talk"), Initiator: agent("alice"), Responder: agent("bob"), MessageID: actorstest.Named("m0"),
			Group: actorstest.Named(rapid.SampledFrom([]string{"", "club"}).Draw(t, "group")),
		}
	case kind < 6:
		c := conversation.Reply{
			MessageID: actorstest.Named(message.Draw(t, "message")), From: agent(name.Draw(t, "from")), To: agent(name.Draw(t, "to")),
			InReplyTo: actorstest.Named(message.Draw(t, "on")), Type: "a.v1.x", ToRevoked: !likely("active"),
			Apart: !likely("in reach"),
		}
		if !likely("first") {
			c.Prior = &conversation.Prior{InReplyTo: actorstest.Named(message.Draw(t, "posted on")), Type: "a.v1.x"}
		}
		return c
	case kind < 8:
		return conversation.Broadcast{MessageID: actorstest.Named(message.Draw(t, "message")), From: agent(name.Draw(t, "from"))}
	}
	return conversation.ChangeStatus{
		Admins:  rapid.SliceOfN(rapid.Map(name, agent), 0, 2).Draw(t, "admins"),
		Members: rapid.SliceOfN(rapid.Map(name, agent), 0, 3).Draw(t, "members"),
		By:      rapid.SliceOfN(rapid.Map(name, agent), 1, 2).Draw(t, "by"),
		Status:  rapid.SampledFrom(words()).Draw(t, "status"),
	}
}

func law(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	if len(turn.Events) > 0 && (turn.Err != nil || proto.Equal(before, after)) {
		t.Fatalf("events %v, but error %v and state %v", turn.Events, turn.Err, after)
	}
	if before.Terminal() && len(turn.Events) > 0 {
		t.Fatalf("%v after the conversation had ended", turn.Events)
	}
	if before.Exists() && (!slices.EqualFunc(before.Participants, after.Participants, same) || before.CreatedMs != after.CreatedMs) {
		t.Fatalf("an immutable field changed: %v, %v", before, after)
	}
	ofGroup := !before.GroupID().Zero()
	if before.Exists() && (before.GroupID() != after.GroupID() || ofGroup != (len(before.Participants) == 1)) {
		t.Fatalf("conversation of group %v: %v", before.GroupID(), after)
	}
	if !ofGroup && before.GetMessages() > 1 && before.GetStatus() == conversation.Submitted {
		t.Fatal("a reply did not open the conversation")
	}
	if ofGroup && (after.GetStatus() == conversation.Rejected || slices.Contains(after.Allowed(), "rejected")) {
		t.Fatalf("a group's conversation in status %v may become %v", after.GetStatus(), after.Allowed())
	}
	switch c := turn.Command.(type) {
	case conversation.Start:
		if !after.Exists() || after.GetMessages() == 0 {
			t.Fatalf("started, but the state is %v", after)
		}
	case conversation.Reply:
		lawOfReply(t, c, turn)
	case conversation.ChangeStatus:
		lawOfMove(t, c, turn)
	case conversation.Broadcast:
		lawOfBroadcast(t, c, turn)
	}
}

// lawOfBroadcast: a broadcast is accepted if and only if the conversation is a group's
// and has not ended. It does not change the status.
func lawOfBroadcast(t *rapid.T, c conversation.Broadcast, turn turn) {
	before, after := turn.Before, turn.After
	if may := !before.GroupID().Zero() && !before.Terminal(); may != (turn.Err == nil) || may != (len(turn.Events) == 1) {
		t.Fatalf("broadcast allowed: %v, got %v, %v", may, turn.Events, turn.Err)
	}
	if turn.Err == nil && (after.GetMessages() != before.GetMessages()+1 || after.LastMessage() != c.MessageID || after.GetStatus() != before.GetStatus()) {
		t.Fatalf("broadcast, but the state is %v", after)
	}
}

func same(a, b *conversation.Participant) bool { return proto.Equal(a, b) }

// lawOfReply: a reply is posted if and only if both parties take part (in a group, are
// members), the recipient is active and reachable, and the conversation has not ended.
func lawOfReply(t *rapid.T, c conversation.Reply, turn turn) {
	s := turn.Before
	if c.Prior != nil {
		if repeated := c.Prior.InReplyTo == c.InReplyTo; errors.Is(turn.Err, conversation.ErrRepeated) != repeated || turn.Err == nil {
			t.Fatalf("repeat of %v, got %v", c.Prior, turn.Err)
		}
		return
	}
	takesPart := func(a parley.AgentID) bool {
		return a == agent("alice") || a == agent("bob") || !s.GroupID().Zero()
	}
	may := s.Exists() && takesPart(c.From) && takesPart(c.To) && !c.ToRevoked && !c.Apart && !s.Terminal()
	if may != (turn.Err == nil) {
		t.Fatalf("reply allowed: %v, got %v", may, turn.Err)
	}
	if may && (turn.After.GetMessages() != s.GetMessages()+1 || turn.After.LastMessage() != c.MessageID || turn.After.GetStatus() == conversation.Submitted) {
		t.Fatalf("posted, but the state is %v", turn.After)
	}
}

// lawOfMove: the status is changed by one of the requesting agents, and only the
// responder can reject. In a group an admin changes it, or the initiator while it is a
// member.
func lawOfMove(t *rapid.T, c conversation.ChangeStatus, turn turn) {
	if turn.Err != nil {
		return
	}
	moved, ok := turn.Events[0].(*conversation.StatusChanged)
	if !ok || len(turn.Events) != 1 || turn.After.GetStatus().String() != c.Status || turn.Before.GetStatus() == turn.After.GetStatus() {
		t.Fatalf("asked for %s, got %v", c.Status, turn.Events)
	}
	by := parley.AgentID(moved.By)
	ofGroup := !turn.Before.GroupID().Zero()
	if may := by != agent("carol"); !slices.Contains(c.By, by) || !ofGroup && !may {
		t.Fatalf("requested by %v, changed by %v", c.By, by)
	}
	if seated := slices.Contains(c.Members, by); ofGroup && (by != agent("alice") || !seated) && !slices.Contains(c.Admins, by) {
		t.Fatalf("%v changed the status, is not among the admins %v; seated: %v", by, c.Admins, seated)
	}
	if moved.Status == conversation.Rejected && (by != agent("bob") || ofGroup) {
		t.Fatalf("%v rejected the conversation", by)
	}
}
