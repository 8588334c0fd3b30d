package conversation_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/conversation"
	"parley/client/parley"
)

var everybody = []string{"alice", "bob", "carol", "dave", "eve"}

// largeGroup is the metadata of conversations that have a mediator and an observer. No
// route creates one yet, but the rules handle them.
const largeGroup = `{"large":true}`

// crowding adds the mediator and the observer.
func crowding(s *conversation.State, e conversation.Event) {
	conversation.Evolve(s, e)
	if started, ok := e.(*conversation.Started); ok && string(started.Metadata) == largeGroup {
		s.Participants = append(
			s.Participants,
			&conversation.Participant{AgentId: agent("carol").Bytes(), Role: conversation.Mediator, JoinedMs: started.AtMs},
			&conversation.Participant{AgentId: agent("dave").Bytes(), Role: conversation.Observer, JoinedMs: started.AtMs},
		)
	}
}

var (
	wishes   = rapid.SampledFrom([]string{"reply", "move", "move", "reply", "broadcast", "move", "reply", "reply", "start"})
	groups   = rapid.SampledFrom([]string{"", "club", ""})
	metadata = rapid.SampledFrom([]string{"", `{"a":1}`, largeGroup})
	parents  = rapid.SampledFrom([]string{"", "parent"})
	couples  = rapid.SampledFrom([]string{"alice", "bob", "alice", "bob", "bob", "carol"})
	senders  = rapid.SampledFrom([]string{"alice", "bob", "carol", "dave", "eve"})
	messages = rapid.SampledFrom([]string{"m0", "m1", "m2"})
	types    = rapid.SampledFrom([]string{"a.v1.x", "a.v1.y"})
	// targets are the statuses, non-terminal ones first, and a word that is not a
	// status.
	targets = rapid.SampledFrom([]string{"open", "paused", "input_required", "rejected", "submitted", "completed", "failed", "canceled", "nonsense"})
	reasons = rapid.SampledFrom([]string{"", "so", "auth_required"})
	rarely  = rapid.Map(rapid.IntRange(0, 7), func(n int) bool { return n == 7 })
)

func wish(t *rapid.T, o *oracle, now time.Time) conversation.Command {
	kind := wishes.Draw(t, "wish")
	if !o.exists && rapid.Bool().Draw(t, "at last") {
		kind = "start"
	}
	switch kind {
	case "start":
		id := parley.NewID[parley.ConversationID](7, now, [10]byte{})
		return conversation.Start{
			ID: id, Initiator: agent("alice"), Responder: agent("bob"), Parent: actorstest.Named(parents.Draw(t, "parent")),
			Group:    actorstest.Named(groups.Draw(t, "group")),
			Metadata: []byte(metadata.Draw(t, "metadata")), MessageID: conversation.FirstMessageID(id),
			Task: rapid.Bool().Draw(t, "task"),
		}
	case "reply":
		return wishToReply(t, o, now)
	case "broadcast":
		return conversation.Broadcast{
			MessageID: parley.NextBroadcastID(o.last, now, [10]byte{}), From: agent(senders.Draw(t, "from")),
		}
	}
	c := conversation.ChangeStatus{Status: targets.Draw(t, "to"), Reason: reasons.Draw(t, "reason")}
	if terminal[c.Status] && !terminal[o.status] && !rarely.Draw(t, "the end") {
		c.Status = "paused"
	}
	for range rapid.IntRange(0, 3).Draw(t, "askers") {
		c.By = append(c.By, agent(o.speakers().Draw(t, "by")))
	}
	for range rapid.IntRange(0, 2).Draw(t, "admins") {
		c.Admins = append(c.Admins, agent(senders.Draw(t, "admin")))
	}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		c.Members = append(c.Members, agent(senders.Draw(t, "member")))
	}
	return c
}

// speakers returns mostly participants.
func (o *oracle) speakers() *rapid.Generator[string] {
	if o.metadata == largeGroup || !o.group.Zero() {
		return senders
	}
	return couples
}

// wishToReply replies to another agent. The server takes the other end of a message as
// recipient, and nobody can send a message to themselves.
func wishToReply(t *rapid.T, o *oracle, now time.Time) conversation.Reply {
	from, to := o.speakers().Draw(t, "from"), o.speakers().Draw(t, "to")
	if from == to {
		to = everybody[(slices.Index(everybody, from)+1)%len(everybody)]
	}
	c := conversation.Reply{
		MessageID: parley.NextID(o.last, now, [10]byte{}), From: agent(from), To: agent(to),
		InReplyTo: actorstest.Named(messages.Draw(t, "on")), Type: types.Draw(t, "type"), ToRevoked: rarely.Draw(t, "revoked"),
		Apart: rarely.Draw(t, "apart"), Outcome: rapid.SampledFrom([]conversation.Status{0, 0, conversation.Completed, conversation.Failed}).Draw(t, "outcome"),
		Lone: rarely.Draw(t, "lone"),
	}
	if rarely.Draw(t, "before") {
		c.Prior = &conversation.Prior{InReplyTo: actorstest.Named(messages.Draw(t, "posted on")), Type: types.Draw(t, "posted as")}
	}
	return c
}

var trial = actorstest.Trial[*conversation.State, conversation.Command, conversation.Event, *oracle]{
	Rules: actorstest.Rules[*conversation.State, conversation.Command, conversation.Event]{
		Zero: rules.Zero, Decide: rules.Decide, Evolve: crowding, Tag: rules.Tag, New: rules.New,
	},
	Oracle: func() *oracle { return &oracle{} }, Draw: wish, Look: look, Closer: acrossAndAfter,
	Pauses: []time.Duration{0, 999 * time.Microsecond, time.Millisecond, time.Hour, -time.Second},
	Cases: []string{
		"Start: started", "Start: a group's", "Start: again",
		"Broadcast: no conversation", "Broadcast: no group's", "Broadcast: over", "Broadcast: sent",
		"Reply: posted before", "Reply: another under the key", "Reply: no conversation", "Reply: no participant",
		"Reply: recipient revoked", "Reply: over", "Reply: the first", "Reply: posted",
		"Reply: the last", "Reply: the first and last", "Reply: opens it again",
		"Reply: kept apart", "Reply: in a group",
		"ChangeStatus: no conversation", "ChangeStatus: no participant", "ChangeStatus: not in that role",
		"ChangeStatus: not in the table", "ChangeStatus: over", "ChangeStatus: moved", "ChangeStatus: ended",
		"ChangeStatus: neither admin nor initiator", "ChangeStatus: by an admin", "ChangeStatus: not in the group",
	},
	Errors: map[string]error{
		"ErrRepeated": conversation.ErrRepeated, "ErrUnknown": conversation.ErrUnknown, "ErrNotParticipant": conversation.ErrNotParticipant,
		"ErrIdempotencyMismatch": conversation.ErrIdempotencyMismatch, "ErrRecipientRevoked": conversation.ErrRecipientRevoked,
		"ErrClosed": conversation.ErrClosed, "ErrRoleNotAllowed": conversation.ErrRoleNotAllowed,
		"ErrInvalidTransition": conversation.ErrInvalidTransition, "ErrNotMember": conversation.ErrNotMember,
	},
}

func TestOracle(t *testing.T) { trial.Run(t) }
