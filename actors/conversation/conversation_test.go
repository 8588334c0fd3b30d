package conversation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"parley/actors/actorstest"
	"parley/actors/conversation"
	"parley/client/parley"
)

type (
	life = actorstest.Life[*conversation.State, conversation.Command, conversation.Event]
	turn = actorstest.Turn[*conversation.State, conversation.Command, conversation.Event]
)

var rules = actorstest.Rules[*conversation.State, conversation.Command, conversation.Event]{
	Zero:   func() *conversation.State { return &conversation.State{} },
	Decide: conversation.Decide, Evolve: conversation.Evolve, Tag: conversation.Tag, New: conversation.New,
}

func agent(name string) parley.AgentID { return actorstest.Named(name) }

func TestStories(t *testing.T) {
	actorstest.Tell(t, "testdata/stories", rules, parse, show)
}

func TestGroupStories(t *testing.T) {
	actorstest.Tell(t, "testdata/groups", rules, parse, show)
}

func parse(l *actorstest.Line, _ *life) conversation.Command {
	switch l.Verb {
	case "start":
		return conversation.Start{
			ID: parley.ConversationID(actorstest.Named("talk")), Initiator: agent(l.Text("by")), Responder: agent(l.Text("with")),
			Group: parley.GroupID(l.ID("group")), Parent: parley.ConversationID(l.ID("parent")), Metadata: []byte(l.Text("metadata")), MessageID: parley.MessageID(l.ID("message")),
			Task: l.Has("task"),
		}
	case "reply":
		c := conversation.Reply{
			MessageID: parley.MessageID(l.ID("message")), From: agent(l.Text("from")), To: agent(l.Text("to")),
			InReplyTo: parley.MessageID(l.ID("on")), Type: l.Text("type"), ToRevoked: l.Has("revoked"), Apart: l.Has("apart"),
			Lone: l.Has("lone"),
		}
		c.Outcome, _ = conversation.ParseStatus(l.Text("outcome"))
		if l.Has("posted-on") {
			c.Prior = &conversation.Prior{InReplyTo: parley.MessageID(l.ID("posted-on")), Type: l.Text("posted-type")}
		}
		return c
	case "move":
		c := conversation.ChangeStatus{Status: l.Text("to"), Reason: l.Text("because"), Apart: l.Has("apart")}
		for name := range strings.SplitSeq(l.Text("by"), ", ") {
			c.By = append(c.By, agent(name))
		}
		for name := range strings.SplitSeq(l.Text("admins"), ", ") {
			c.Admins = append(c.Admins, agent(name))
		}
		for name := range strings.SplitSeq(l.Text("members"), ", ") {
			c.Members = append(c.Members, agent(name))
		}
		return c
	case "broadcast":
		return conversation.Broadcast{MessageID: parley.MessageID(l.ID("message")), From: agent(l.Text("from"))}
	}
	panic("no such verb: " + l.Verb)
}

func show(life *life) string {
	s := life.State
	roles := []string{}
	for _, name := range []string{"alice", "bob", "carol"} {
		if role := s.Role(agent(name)); role != conversation.NoRole {
			roles = append(roles, name+" "+role.String())
		}
	}
	of := ""
	if s.GroupID() == actorstest.Named("club") {
		of = ", of the club"
	}
	if s.GetLoneMessage() {
		of += ", answered by a message alone"
	}
	if s.GetAuthRequired() {
		of += ", for an authorization"
	}
	if n := s.GetArtifactCount(); n > 0 {
		of += fmt.Sprintf(", %d of %d artifacts known", len(s.NewestArtifacts()), n)
	}
	return fmt.Sprintf("%s, %d messages, %s, idle for %v%s",
		s.GetStatus(), s.GetMessages(), strings.Join(roles, ", "), life.Now.Sub(s.UpdatedAt()), of)
}

// TestMatrix prints the allowed changes between statuses, requested by the responder,
// the only party that may make all of them.
func TestMatrix(t *testing.T) {
	datadriven.RunTest(t, "testdata/matrix.golden", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "matrix" {
			t.Fatalf("unknown directive %q", d.Cmd)
		}
		out := strings.Builder{}
		row(&out, "from \\ to", words())
		for _, from := range words() {
			cells := make([]string, 0, 8)
			for _, to := range words() {
				cells = append(cells, cell(t, from, to))
			}
			row(&out, from, cells)
		}
		return out.String()
	})
}

func row(out *strings.Builder, head string, cells []string) {
	line := fmt.Sprintf("%-14s", head)
	for _, c := range cells {
		line += fmt.Sprintf(" %-14s", c)
	}
	out.WriteString(strings.TrimRight(line, " ") + "\n")
}

// words returns the eight statuses in the order of their numbers.
func words() []string {
	words := make([]string, 0, 8)
	for n := conversation.Submitted; n <= conversation.Rejected; n++ {
		words = append(words, n.String())
	}
	return words
}

// cell returns the outcome of a change from one status to another.
func cell(t *testing.T, from, to string) string {
	status, ok := conversation.ParseStatus(from)
	if !ok {
		t.Fatalf("%q is no status", from)
	}
	s := &conversation.State{}
	conversation.Evolve(s, &conversation.Started{Id: []byte("talk"), Initiator: agent("alice").Bytes(), Responder: agent("bob").Bytes()})
	conversation.Evolve(s, &conversation.StatusChanged{Status: status})
	events, err := conversation.Decide(s, conversation.ChangeStatus{By: []parley.AgentID{agent("bob")}, Status: to}, actorstest.Epoch)
	if slices.Contains(s.Allowed(), to) != (err == nil) {
		t.Fatalf("%s to %s: allowed: %v, error: %v", from, to, s.Allowed(), err)
	}
	switch {
	case err != nil && s.Terminal():
		return "closed"
	case err != nil:
		return "-"
	}
	if moved := events[0].(*conversation.StatusChanged); moved.Status.String() != to {
		t.Fatalf("asked for %s, got %v", to, moved)
	}
	return "yes"
}

// TestOther: the two ends of a conversation are each other's counterpart; a mediator
// has none.
func TestOther(t *testing.T) {
	s := &conversation.State{}
	conversation.Evolve(s, &conversation.Started{Id: []byte("talk"), Initiator: agent("alice").Bytes(), Responder: agent("bob").Bytes()})
	s.Participants = append(s.Participants, &conversation.Participant{AgentId: agent("carol").Bytes(), Role: conversation.Mediator})
	for name, want := range map[string]string{"alice": "bob", "bob": "alice", "carol": "", "dave": ""} {
		other, ok := s.Other(agent(name))
		if other != agent(want) || ok != (want != "") {
			t.Errorf("counterpart of %s: %v, %v", name, other, ok)
		}
	}
}

// TestMessageIDs: message ids of a conversation have its slot and sort in the order of
// creation, even if the clock jumps back.
func TestMessageIDs(t *testing.T) {
	entropy := parley.CountingEntropy()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := parley.NextID(parley.ConversationID{6: 0x7a, 7: 0xbc}, at, entropy())
	last := conversation.FirstMessageID(id)
	s := &conversation.State{LastMessageId: last.Bytes()}
	if last.Slot() != 0xabc || conversation.StartedBy(last) != id || parley.ConversationID(last) == id {
		t.Fatalf("%v starts %v, not %v", last, conversation.StartedBy(last), id)
	}
	for _, jump := range []time.Duration{0, time.Second, -time.Hour, time.Millisecond, -time.Millisecond} {
		at = at.Add(jump)
		next := s.NextMessageID(at, entropy())
		if next.Slot() != id.Slot() || next.String() <= last.String() {
			t.Fatalf("after %v: %v does not follow %v", jump, next, last)
		}
		last, s.LastMessageId = next, next.Bytes()
	}
}

func TestGolden(t *testing.T) {
	id, message, group := actorstest.Named("talk"), actorstest.Named("first"), actorstest.Named("club")
	alice, bob, at := agent("alice").Bytes(), agent("bob").Bytes(), actorstest.Epoch.UnixMilli()
	actorstest.Golden(
		t, "testdata/events.golden", rules,
		&conversation.State{
			Id: id[:], Status: conversation.Rejected, Parent: id[:], Metadata: []byte(`{"a":1}`),
			Participants: []*conversation.Participant{{AgentId: alice, Role: conversation.Mediator, JoinedMs: at}},
			CreatedMs:    at, UpdatedMs: at + 1, LastMessageId: message[:], Messages: 2, Group: group[:], Owner: group[:], OtherOwner: id[:], Task: true,
			Artifacts: message[:], ArtifactCount: 65, LoneMessage: true, Unanswered: 3, AuthRequired: true,
		},
		[]conversation.Event{
			&conversation.Started{
				Id: id[:], Initiator: alice, Responder: bob, Parent: id[:], Metadata: []byte(`{"a":1}`), MessageId: message[:], AtMs: at,
				Group: group[:], Owner: group[:], OtherOwner: id[:], Task: true,
			},
			&conversation.Posted{MessageId: message[:], From: alice, To: bob, InReplyTo: message[:], AtMs: at, Meaning: conversation.Meaning_unanswered},
			&conversation.StatusChanged{Status: conversation.Open, By: bob, Reason: "why", AtMs: at, AuthRequired: true},
			&conversation.Broadcasted{MessageId: message[:], From: alice, AtMs: at},
		},
	)
}
