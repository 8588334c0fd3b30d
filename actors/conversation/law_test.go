package conversation_test

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/conversation"
)

func TestLaws(t *testing.T) { actorstest.Obey(t, rules, draw, law) }

func draw(t *rapid.T, s *conversation.State) conversation.Command {
	likely := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) > 0 }
	name := rapid.SampledFrom([]string{"alice", "alice", "bob", "bob", "carol"})
	message := rapid.SampledFrom([]string{"m1", "m2", "m3"})
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if !s.Exists() && likely("start") {
		kind = 0
	}
	switch {
	case kind == 0:
		return conversation.Start{
			ID: actorstest.Named("talk"), Initiator: agent("alice"), Responder: agent("bob"), MessageID: actorstest.Named("m0"),
		}
	case kind < 6:
		c := conversation.Reply{
			MessageID: actorstest.Named(message.Draw(t, "message")), From: agent(name.Draw(t, "from")), To: agent(name.Draw(t, "to")),
			InReplyTo: actorstest.Named(message.Draw(t, "on")), Type: "a.v1.x", ToRevoked: !likely("active"),
		}
		if !likely("first") {
			c.Prior = &conversation.Prior{InReplyTo: actorstest.Named(message.Draw(t, "posted on")), Type: "a.v1.x"}
		}
		return c
	}
	return conversation.ChangeStatus{
		By:     rapid.SliceOfN(rapid.Map(name, agent), 1, 2).Draw(t, "by"),
		Status: rapid.SampledFrom(words()).Draw(t, "status"),
	}
}

func law(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	if len(turn.Events) > 0 && (turn.Err != nil || proto.Equal(before, after)) {
		t.Fatalf("%v, and yet %v and %v", turn.Events, turn.Err, after)
	}
	if before.Terminal() && len(turn.Events) > 0 {
		t.Fatalf("%v after the conversation had ended", turn.Events)
	}
	if before.Exists() && (!slices.EqualFunc(before.Participants, after.Participants, same) || before.CreatedMs != after.CreatedMs) {
		t.Fatalf("what never changes changed: %v, %v", before, after)
	}
	if before.GetMessages() > 1 && before.GetStatus() == conversation.Submitted {
		t.Fatal("a reply did not open the conversation")
	}
	switch c := turn.Command.(type) {
	case conversation.Start:
		if !after.Exists() || after.GetMessages() == 0 {
			t.Fatalf("started, and yet %v", after)
		}
	case conversation.Reply:
		lawOfReply(t, c, turn)
	case conversation.ChangeStatus:
		lawOfMove(t, c, turn)
	}
}

func same(a, b *conversation.Participant) bool { return proto.Equal(a, b) }

// A reply is posted if and only if two participants talk, the recipient is
// active and the conversation has not ended.
func lawOfReply(t *rapid.T, c conversation.Reply, turn turn) {
	s := turn.Before
	if c.Prior != nil {
		if repeated := c.Prior.InReplyTo == c.InReplyTo; errors.Is(turn.Err, conversation.ErrRepeated) != repeated || turn.Err == nil {
			t.Fatalf("remembered %v, got %v", c.Prior, turn.Err)
		}
		return
	}
	takesPart := func(a parley.AgentID) bool { return a == agent("alice") || a == agent("bob") }
	may := s.Exists() && takesPart(c.From) && takesPart(c.To) && !c.ToRevoked && !s.Terminal()
	if may != (turn.Err == nil) {
		t.Fatalf("may reply %v, got %v", may, turn.Err)
	}
	if may && (turn.After.GetMessages() != s.GetMessages()+1 || turn.After.LastMessage() != c.MessageID || turn.After.GetStatus() == conversation.Submitted) {
		t.Fatalf("posted, and yet %v", turn.After)
	}
}

// A move is made by one of those who ask, and only the responder declines.
func lawOfMove(t *rapid.T, c conversation.ChangeStatus, turn turn) {
	if turn.Err != nil {
		return
	}
	moved, ok := turn.Events[0].(*conversation.StatusChanged)
	if !ok || len(turn.Events) != 1 || turn.After.GetStatus().String() != c.Status || turn.Before.GetStatus() == turn.After.GetStatus() {
		t.Fatalf("asked for %s, got %v", c.Status, turn.Events)
	}
	by := parley.AgentID(moved.By)
	if !slices.Contains(c.By, by) || by == agent("carol") {
		t.Fatalf("%v asked, %v moved", c.By, by)
	}
	if moved.Status == conversation.Rejected && by != agent("bob") {
		t.Fatalf("%v declined", by)
	}
}
