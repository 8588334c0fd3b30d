package conversation_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/conversation"
)

// statusTable is the table of the specification, row by row: from, to.
// // spec: Conversation status
const statusTable = `
	submitted open
	submitted rejected
	submitted canceled
	submitted failed
	open paused
	open input_required
	open completed
	open failed
	open canceled
	paused open
	paused completed
	paused failed
	paused canceled
	input_required open
	input_required completed
	input_required failed
	input_required canceled`

// movesFrom are the table's rows of a status.
func movesFrom(status string) []string {
	to := []string{}
	for row := range strings.Lines(statusTable) {
		if words := strings.Fields(row); len(words) == 2 && words[0] == status {
			to = append(to, words[1])
		}
	}
	return to
}

// allowed is movesFrom of every status, terminal those that have none.
var allowed, terminal = func() (map[string][]string, map[string]bool) {
	moves, ends := map[string][]string{}, map[string]bool{}
	for _, status := range []string{"submitted", "open", "paused", "input_required", "completed", "failed", "canceled", "rejected"} {
		moves[status] = movesFrom(status)
		ends[status] = len(moves[status]) == 0
	}
	return moves, ends
}()

// record is what a conversation shows. // spec: Conversation
type record struct {
	id, parent           parley.ConversationID
	status, metadata     string
	createdMs, updatedMs int64
	messages             int
	last                 parley.MessageID
	parties              []party
	allowed              []string
	over                 bool
	posted               posted
	moved                moved
}

type party struct {
	agent    parley.AgentID
	role     string
	joinedMs int64
}

// posted is the newest reply, moved the newest move, as the log keeps them.
type posted struct {
	message, on parley.MessageID
	from, to    parley.AgentID
	atMs        int64
}

type moved struct {
	to, reason string
	by         parley.AgentID
	atMs       int64
}

// oracle is a conversation as the specification tells of it.
type oracle struct {
	record
	exists bool
}

func (o *oracle) Sight(time.Time) any {
	seen := o.record
	if o.exists {
		seen.allowed, seen.over = allowed[o.status], terminal[o.status]
	}
	return seen
}

func look(l *life) any {
	s := l.State
	if !s.Exists() {
		return record{}
	}
	seen := record{
		id: s.ConversationID(), parent: s.ParentID(), status: s.GetStatus().String(), metadata: string(s.GetMetadata()),
		createdMs: s.GetCreatedMs(), updatedMs: s.UpdatedAt().UnixMilli(), messages: int(s.GetMessages()), last: s.LastMessage(),
		allowed: s.Allowed(), over: s.Terminal(),
	}
	for _, p := range s.GetParticipants() {
		seen.parties = append(seen.parties, party{p.Agent(), p.GetRole().String(), p.JoinedAt().UnixMilli()})
	}
	for _, e := range slices.Backward(l.History) {
		switch e := e.(type) {
		case *conversation.Posted:
			if seen.posted == (posted{}) {
				seen.posted = posted{
					message: parley.MessageID(e.MessageId), on: parley.MessageID(e.InReplyTo),
					from: parley.AgentID(e.From), to: parley.AgentID(e.To), atMs: e.AtMs,
				}
			}
		case *conversation.StatusChanged:
			if seen.moved == (moved{}) {
				seen.moved = moved{to: e.Status.String(), reason: e.Reason, by: parley.AgentID(e.By), atMs: e.AtMs}
			}
		}
	}
	return seen
}

// acrossAndAfter holds who is across from whom, and that the next message sorts
// behind all others.
func acrossAndAfter(l *life, o *oracle) error {
	across := map[string]string{"alice": "bob", "bob": "alice"}
	for _, name := range everybody {
		want := ""
		if o.exists {
			want = across[name]
		}
		if other, ok := l.State.Other(agent(name)); other != agent(want) || ok != (want != "") {
			return fmt.Errorf("across from %s: %v, %v", name, other, ok)
		}
	}
	next := l.State.NextMessageID(l.Now, [10]byte{})
	if o.exists && (bytes.Compare(next[:], o.last[:]) <= 0 || next.Slot() != o.last.Slot()) {
		return fmt.Errorf("%v follows %v", next, o.last)
	}
	return nil
}

func (o *oracle) role(agent parley.AgentID) string {
	for _, p := range o.parties {
		if p.agent == agent {
			return p.role
		}
	}
	return ""
}

func (o *oracle) Foretell(c conversation.Command, now time.Time) actorstest.Verdict {
	switch c := c.(type) {
	case conversation.Start:
		return o.start(c, now)
	case conversation.Reply:
		return o.reply(c, now)
	case conversation.ChangeStatus:
		return o.move(c, now)
	}
	panic("no such command")
}

func (o *oracle) start(c conversation.Start, now time.Time) actorstest.Verdict {
	if o.exists {
		return actorstest.Taken("again")
	}
	at := now.UnixMilli()
	o.exists = true
	o.record = record{
		id: c.ID, parent: c.Parent, status: "submitted", metadata: string(c.Metadata), createdMs: at, updatedMs: at,
		messages: 1, last: c.MessageID,
		parties: []party{{c.Initiator, "initiator", at}, {c.Responder, "responder", at}},
	}
	if o.metadata == crowded {
		o.parties = append(o.parties, party{agent("carol"), "mediator", at}, party{agent("dave"), "observer", at})
	}
	return actorstest.Taken("started")
}

// reply goes through the contract's order of checks: idempotency, existence of
// the conversation, access to it, then what has become of the other end and of it.
func (o *oracle) reply(c conversation.Reply, now time.Time) actorstest.Verdict {
	switch {
	case c.Prior != nil && c.Prior.InReplyTo == c.InReplyTo && c.Prior.Type == c.Type:
		return actorstest.Refused("posted before", conversation.ErrRepeated.Error())
	case c.Prior != nil:
		return actorstest.Refused("another under the key", "409 idempotency_mismatch")
	case !o.exists:
		return actorstest.Refused("no conversation", "404 not_found")
	case o.role(c.From) == "" || o.role(c.To) == "":
		return actorstest.Refused("no participant", "403 not_owner")
	case c.ToRevoked:
		return actorstest.Refused("recipient revoked", "410 gone")
	case terminal[o.status]:
		return actorstest.Refused("over", "409 conversation_closed (current_status="+o.status+")")
	}
	o.messages, o.last, o.updatedMs = o.messages+1, c.MessageID, now.UnixMilli()
	o.posted = posted{c.MessageID, c.InReplyTo, c.From, c.To, now.UnixMilli()}
	if o.status == "submitted" {
		o.status, o.moved = "open", moved{"open", "", c.From, now.UnixMilli()}
		return actorstest.Taken("the first")
	}
	return actorstest.Taken("posted")
}

// move: rejected by a responder only, any other by initiator, responder or
// mediator; of several agents that one may ask for, the first that may.
func (o *oracle) move(c conversation.ChangeStatus, now time.Time) actorstest.Verdict {
	if !o.exists {
		return actorstest.Refused("no conversation", "404 not_found")
	}
	may, takePart := []parley.AgentID{}, false
	for _, by := range c.By {
		role := o.role(by)
		takePart = takePart || role != ""
		if role == "responder" || c.Status != "rejected" && (role == "initiator" || role == "mediator") {
			may = append(may, by)
		}
	}
	switch {
	case !takePart:
		return actorstest.Refused("no participant", "403 not_owner")
	case len(may) == 0:
		return actorstest.Refused("not in that role", "403 role_not_allowed")
	case !slices.Contains(allowed[o.status], c.Status):
		because := "not in the table"
		if terminal[o.status] {
			because = "over"
		}
		return actorstest.Refused(because, fmt.Sprintf(
			"409 invalid_transition (allowed=[%s], current_status=%s)", strings.Join(allowed[o.status], " "), o.status))
	}
	o.status, o.updatedMs = c.Status, now.UnixMilli()
	o.moved = moved{c.Status, c.Reason, may[0], now.UnixMilli()}
	if terminal[c.Status] {
		return actorstest.Taken("ended")
	}
	return actorstest.Taken("moved")
}

var everybody = []string{"alice", "bob", "carol", "dave", "eve"}

// crowded is the metadata of conversations that have a mediator and an observer.
// No route makes one yet; the rules know them all the same.
const crowded = `{"crowd":true}`

// crowding seats the two.
func crowding(s *conversation.State, e conversation.Event) {
	conversation.Evolve(s, e)
	if started, ok := e.(*conversation.Started); ok && string(started.Metadata) == crowded {
		s.Participants = append(
			s.Participants,
			&conversation.Participant{AgentId: agent("carol").Bytes(), Role: conversation.Mediator, JoinedMs: started.AtMs},
			&conversation.Participant{AgentId: agent("dave").Bytes(), Role: conversation.Observer, JoinedMs: started.AtMs},
		)
	}
}

var (
	wishes   = rapid.SampledFrom([]string{"reply", "move", "move", "reply", "move", "reply", "reply", "start"})
	metadata = rapid.SampledFrom([]string{"", `{"a":1}`, crowded})
	parents  = rapid.SampledFrom([]string{"", "parent"})
	couples  = rapid.SampledFrom([]string{"alice", "bob", "alice", "bob", "bob", "carol"})
	crowds   = rapid.SampledFrom([]string{"alice", "bob", "carol", "dave", "eve"})
	messages = rapid.SampledFrom([]string{"m0", "m1", "m2"})
	types    = rapid.SampledFrom([]string{"a.v1.x", "a.v1.y"})
	// targets are the statuses, those that go on first, and a word that is none.
	targets = rapid.SampledFrom([]string{"open", "paused", "input_required", "rejected", "submitted", "completed", "failed", "canceled", "nonsense"})
	reasons = rapid.SampledFrom([]string{"", "so"})
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
			Metadata: []byte(metadata.Draw(t, "metadata")), MessageID: conversation.FirstMessageID(id, now, [10]byte{}),
		}
	case "reply":
		return wishToReply(t, o, now)
	}
	c := conversation.ChangeStatus{Status: targets.Draw(t, "to"), Reason: reasons.Draw(t, "reason")}
	if terminal[c.Status] && !terminal[o.status] && !rarely.Draw(t, "the end") {
		c.Status = "paused"
	}
	for range rapid.IntRange(0, 3).Draw(t, "askers") {
		c.By = append(c.By, agent(o.speakers().Draw(t, "by")))
	}
	return c
}

// speakers are, for the most part, those who take part.
func (o *oracle) speakers() *rapid.Generator[string] {
	if o.metadata == crowded {
		return crowds
	}
	return couples
}

// wishToReply is to another than oneself: the door takes the other end of a
// message, and no message is to oneself.
func wishToReply(t *rapid.T, o *oracle, now time.Time) conversation.Reply {
	from, to := o.speakers().Draw(t, "from"), o.speakers().Draw(t, "to")
	if from == to {
		to = everybody[(slices.Index(everybody, from)+1)%len(everybody)]
	}
	c := conversation.Reply{
		MessageID: parley.NextID(o.last, now, [10]byte{}), From: agent(from), To: agent(to),
		InReplyTo: actorstest.Named(messages.Draw(t, "on")), Type: types.Draw(t, "type"), ToRevoked: rarely.Draw(t, "revoked"),
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
		"Start: started", "Start: again",
		"Reply: posted before", "Reply: another under the key", "Reply: no conversation", "Reply: no participant",
		"Reply: recipient revoked", "Reply: over", "Reply: the first", "Reply: posted",
		"ChangeStatus: no conversation", "ChangeStatus: no participant", "ChangeStatus: not in that role",
		"ChangeStatus: not in the table", "ChangeStatus: over", "ChangeStatus: moved", "ChangeStatus: ended",
	},
	Errors: map[string]error{
		"ErrRepeated": conversation.ErrRepeated, "ErrUnknown": conversation.ErrUnknown, "ErrNotParticipant": conversation.ErrNotParticipant,
		"ErrIdempotencyMismatch": conversation.ErrIdempotencyMismatch, "ErrRecipientRevoked": conversation.ErrRecipientRevoked,
		"ErrClosed": conversation.ErrClosed, "ErrRoleNotAllowed": conversation.ErrRoleNotAllowed,
		"ErrInvalidTransition": conversation.ErrInvalidTransition,
	},
}

func TestOracle(t *testing.T) { trial.Run(t) }
