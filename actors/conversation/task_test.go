package conversation_test

import (
	"slices"
	"testing"

	"parley/actors/actorstest"
	"parley/actors/conversation"
	"parley/client/parley"
)

// taskOf returns a new A2A task of alice's with bob.
func taskOf() *conversation.State {
	s := &conversation.State{}
	conversation.Evolve(s, &conversation.Started{Id: []byte("talk"), Initiator: agent("alice").Bytes(), Responder: agent("bob").Bytes(), MessageId: []byte("m0"), Task: true})
	return s
}

// replied decides a reply of bob's and folds it.
func replied(t *testing.T, s *conversation.State, c conversation.Reply) {
	t.Helper()
	c.From, c.To = agent("bob"), agent("alice")
	events, err := conversation.Decide(s, c, actorstest.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		conversation.Evolve(s, e)
	}
}

// TestNewestArtifacts: a state knows the newest 64 artifacts and how many there are, and does
// not grow with more.
func TestNewestArtifacts(t *testing.T) {
	s := taskOf()
	s.Task = false // a task that was not begun over A2A: an artifact does not end it
	var all []parley.MessageID
	for n := range 200 {
		id := parley.NewID[parley.MessageID](0, actorstest.Epoch, [10]byte{9: byte(n)})
		all = append(all, id)
		before := s.GetArtifacts()
		replied(t, s, conversation.Reply{MessageID: id, Outcome: conversation.Completed})
		kept := slices.Clone(all[max(0, len(all)-64):])
		slices.Reverse(kept)
		if !slices.Equal(s.NewestArtifacts(), kept) || s.GetArtifactCount() != int64(n+1) {
			t.Fatalf("of %d artifacts, %d are counted and %d known", n+1, s.GetArtifactCount(), len(s.NewestArtifacts()))
		}
		replied(t, s, conversation.Reply{MessageID: parley.MessageID{15: byte(n)}})
		if len(before) > 64*16 {
			t.Fatalf("the ids take %d bytes", len(before))
		}
	}
}

// TestFormerStateIsAnswered: a task of which only a former server counted the messages may have
// had a reply, so that none of its replies is the first one. One message alone had none.
func TestFormerStateIsAnswered(t *testing.T) {
	former := taskOf()
	former.Status, former.Messages = conversation.Open, 2
	replied(t, former, conversation.Reply{MessageID: parley.MessageID{15: 1}, Lone: true})
	fresh := taskOf()
	replied(t, fresh, conversation.Reply{MessageID: parley.MessageID{15: 1}, Lone: true})
	if former.GetLoneMessage() || former.GetStatus() != conversation.Open || !fresh.GetLoneMessage() || fresh.GetStatus() != conversation.Completed {
		t.Errorf("former: %v; fresh: %v", former, fresh)
	}
}
