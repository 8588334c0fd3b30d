package conversation_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/actors/actorstest"
	"parley/actors/conversation"
	"parley/client/parley"
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

// movesFrom returns the table's rows for a status.
func movesFrom(status string) []string {
	to := []string{}
	for row := range strings.Lines(statusTable) {
		if words := strings.Fields(row); len(words) == 2 && words[0] == status {
			to = append(to, words[1])
		}
	}
	return to
}

// allowed is movesFrom of every status; terminal lists the statuses that have none.
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
	group                parley.GroupID
	status, metadata     string
	createdMs, updatedMs int64
	messages             int
	last                 parley.MessageID
	parties              []party
	allowed              []string
	over                 bool
	posted               posted
	moved                moved
	broadcast            posted
	// results are the newest 64 of resultCount artifacts, alone says that a task was answered
	// by a message alone.
	results     []parley.MessageID
	resultCount int
	alone       bool
	// authorize: the initiator has to.
	authorize bool
}

type party struct {
	agent    parley.AgentID
	role     string
	joinedMs int64
}

// posted describes the newest reply or broadcast, moved the newest status change, both
// as the log keeps them.
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

// oracle is a conversation as the specification describes it.
type oracle struct {
	record
	exists, task bool
	answered     bool // by the responder
}

func (o *oracle) Visible(time.Time) any {
	seen := o.record
	if o.exists {
		seen.allowed, seen.over = o.allowed(), terminal[o.status]
		seen.results = slices.Clone(o.results[max(0, len(o.results)-64):])
		slices.Reverse(seen.results)
		seen.resultCount = len(o.results)
	}
	return seen
}

func look(l *life) any {
	s := l.State
	if !s.Exists() {
		return record{}
	}
	seen := record{
		id: s.ConversationID(), parent: s.ParentID(), group: s.GroupID(), status: s.GetStatus().String(), metadata: string(s.GetMetadata()),
		createdMs: s.GetCreatedMs(), updatedMs: s.UpdatedAt().UnixMilli(), messages: int(s.GetMessages()), last: s.LastMessage(),
		allowed: s.Allowed(), over: s.Terminal(), resultCount: int(s.GetArtifactCount()), alone: s.GetLoneMessage(), authorize: s.GetAuthRequired(),
	}
	if newest := s.NewestArtifacts(); len(newest) > 0 {
		seen.results = newest
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
		case *conversation.Broadcasted:
			if seen.broadcast == (posted{}) {
				seen.broadcast = posted{message: parley.MessageID(e.MessageId), from: parley.AgentID(e.From), atMs: e.AtMs}
			}
		case *conversation.StatusChanged:
			if seen.moved == (moved{}) {
				seen.moved = moved{to: e.Status.String(), reason: e.Reason, by: parley.AgentID(e.By), atMs: e.AtMs}
			}
		}
	}
	return seen
}

// acrossAndAfter checks each agent's counterpart, and that the next message id sorts
// after all others.
func acrossAndAfter(l *life, o *oracle) error {
	across := map[string]string{"alice": "bob", "bob": "alice"}
	for _, name := range everybody {
		want := ""
		if o.exists && o.group.Zero() {
			want = across[name]
		}
		if other, ok := l.State.Other(agent(name)); other != agent(want) || ok != (want != "") {
			return fmt.Errorf("across from %s: %v, %v", name, other, ok)
		}
	}
	next := l.State.NextMessageID(l.Now, [10]byte{})
	last := o.last
	if last == o.broadcast.message {
		last = parley.Copy(last, ^uint32(0))
	}
	if o.exists && (bytes.Compare(next[:], last[:]) <= 0 || next.Slot() != o.last.Slot()) {
		return fmt.Errorf("%v follows %v", next, o.last)
	}
	return nil
}

// allowed returns the next statuses. A group's conversation is never rejected.
func (o *oracle) allowed() []string {
	if o.group.Zero() {
		return allowed[o.status]
	}
	return slices.DeleteFunc(slices.Clone(allowed[o.status]), func(to string) bool { return to == "rejected" })
}

func (o *oracle) role(agent parley.AgentID) string {
	for _, p := range o.parties {
		if p.agent == agent {
			return p.role
		}
	}
	return ""
}

func (o *oracle) Predict(c conversation.Command, now time.Time) actorstest.Verdict {
	switch c := c.(type) {
	case conversation.Start:
		return o.start(c, now)
	case conversation.Reply:
		return o.reply(c, now)
	case conversation.ChangeStatus:
		return o.move(c, now)
	case conversation.Broadcast:
		return o.broadcastTo(c, now)
	}
	panic("no such command")
}

func (o *oracle) start(c conversation.Start, now time.Time) actorstest.Verdict {
	if o.exists {
		return actorstest.Accepted("again")
	}
	at := now.UnixMilli()
	o.exists, o.task = true, c.Task && c.Group.Zero()
	o.record = record{
		id: c.ID, parent: c.Parent, status: "submitted", metadata: string(c.Metadata), createdMs: at, updatedMs: at,
		messages: 1, last: c.MessageID,
		parties: []party{{c.Initiator, "initiator", at}, {c.Responder, "responder", at}}, group: c.Group,
	}
	if !c.Group.Zero() {
		o.parties = o.parties[:1]
	}
	if o.metadata == largeGroup {
		o.parties = append(o.parties, party{agent("carol"), "mediator", at}, party{agent("dave"), "observer", at})
	}
	if !c.Group.Zero() {
		return actorstest.Accepted("a group's")
	}
	return actorstest.Accepted("started")
}

// broadcastTo: a broadcast to a group is posted in its conversation until that ends.
func (o *oracle) broadcastTo(c conversation.Broadcast, now time.Time) actorstest.Verdict {
	switch {
	case !o.exists:
		return actorstest.Refused("no conversation", "404 not_found")
	case o.group.Zero():
		return actorstest.Refused("no group's", "404 not_found")
	case terminal[o.status]:
		return actorstest.Refused("over", "409 conversation_closed (current_status="+o.status+")")
	}
	o.messages, o.last, o.updatedMs = o.messages+1, c.MessageID, now.UnixMilli()
	o.broadcast = posted{message: c.MessageID, from: c.From, atMs: now.UnixMilli()}
	return actorstest.Accepted("sent")
}

// reply applies the checks in order: idempotency, existence of the conversation, access
// to it, then the state of the recipient and of the conversation.
func (o *oracle) reply(c conversation.Reply, now time.Time) actorstest.Verdict {
	switch {
	case c.Prior != nil && c.Prior.InReplyTo == c.InReplyTo && c.Prior.Type == c.Type:
		return actorstest.Refused("posted before", conversation.ErrRepeated.Error())
	case c.Prior != nil:
		return actorstest.Refused("another under the key", "409 idempotency_mismatch")
	case !o.exists:
		return actorstest.Refused("no conversation", "404 not_found")
	case o.group.Zero() && (o.role(c.From) == "" || o.role(c.To) == ""):
		return actorstest.Refused("no participant", "403 not_owner")
	case c.ToRevoked:
		return actorstest.Refused("recipient revoked", "410 gone")
	case c.Apart:
		return actorstest.Refused("kept apart", "403 isolated_agent")
	case terminal[o.status]:
		return actorstest.Refused("over", "409 conversation_closed (current_status="+o.status+")")
	}
	o.messages, o.last, o.updatedMs = o.messages+1, c.MessageID, now.UnixMilli()
	o.posted = posted{c.MessageID, c.InReplyTo, c.From, c.To, now.UnixMilli()}
	defer o.means(c)
	move := func(to string) { o.status, o.authorize, o.moved = to, false, moved{to, "", c.From, now.UnixMilli()} }
	if first := o.status == "submitted"; first || o.reopens(c) {
		move("open")
		if ends := o.ends(c); ends != "" {
			move(ends)
			return actorstest.Accepted("the first and last")
		}
		if !first {
			return actorstest.Accepted("opens it again")
		}
		return actorstest.Accepted("the first")
	}
	if ends := o.ends(c); ends != "" {
		move(ends)
		return actorstest.Accepted("the last")
	}
	if o.role(c.From) == "" {
		return actorstest.Accepted("in a group")
	}
	return actorstest.Accepted("posted")
}

// means notes what the responder's reply means for the task that is shown over A2A.
func (o *oracle) means(c conversation.Reply) {
	if o.role(c.From) != "responder" || !o.group.Zero() {
		return
	}
	switch {
	case o.answersAlone(c):
		o.alone = true
	case c.Outcome == conversation.Completed:
		o.results = append(o.results, c.MessageID)
	}
	o.answered = true
}

// answersAlone: the responder's first reply in a task may be all that it answers.
func (o *oracle) answersAlone(c conversation.Reply) bool {
	return o.task && !o.answered && o.role(c.From) == "responder" && c.Lone
}

// reopens: in a task, the initiator gives the input that was required.
func (o *oracle) reopens(c conversation.Reply) bool {
	return o.task && o.status == "input_required" && o.role(c.From) == "initiator"
}

// ends returns the status to which the responder's reply moves a task.
func (o *oracle) ends(c conversation.Reply) string {
	if o.answersAlone(c) {
		return "completed"
	}
	if !o.task || o.role(c.From) != "responder" || c.Outcome == 0 {
		return ""
	}
	return c.Outcome.String()
}

// move: only the responder can reject; initiator, responder and mediator can make all
// other changes. Of several requesting agents, the first one permitted makes the
// change. In a group an admin makes it, or the initiator while it is a member, and a
// group's conversation is never rejected.
func (o *oracle) move(c conversation.ChangeStatus, now time.Time) actorstest.Verdict {
	if !o.exists {
		return actorstest.Refused("no conversation", "404 not_found")
	}
	may, takePart, seated := []parley.AgentID{}, !o.group.Zero(), false
	for _, by := range c.By {
		role := o.role(by)
		if !o.group.Zero() {
			admin := slices.Contains(c.Admins, by)
			member := admin || slices.Contains(c.Members, by)
			if seated = seated || member; c.Status != "rejected" && (admin || member && role == "initiator") {
				may = append(may, by)
			}
			continue
		}
		takePart = takePart || role != ""
		if role == "responder" || c.Status != "rejected" && (role == "initiator" || role == "mediator") {
			may = append(may, by)
		}
	}
	switch {
	case !takePart:
		return actorstest.Refused("no participant", "403 not_owner")
	case !o.group.Zero() && !seated:
		return actorstest.Refused("not in the group", "403 not_member")
	case len(may) == 0 && !o.group.Zero():
		return actorstest.Refused("neither admin nor initiator", "403 role_not_allowed")
	case len(may) == 0:
		return actorstest.Refused("not in that role", "403 role_not_allowed")
	case !slices.Contains(o.allowed(), c.Status):
		because := "not in the table"
		if terminal[o.status] {
			because = "over"
		}
		return actorstest.Refused(because, fmt.Sprintf(
			"409 invalid_transition (allowed=[%s], current_status=%s)", strings.Join(o.allowed(), " "), o.status))
	}
	o.status, o.updatedMs = c.Status, now.UnixMilli()
	o.authorize = c.Status == "input_required" && c.Reason == "auth_required"
	o.moved = moved{c.Status, c.Reason, may[0], now.UnixMilli()}
	if o.role(may[0]) == "" {
		return actorstest.Accepted("by an admin")
	}
	if terminal[c.Status] {
		return actorstest.Accepted("ended")
	}
	return actorstest.Accepted("moved")
}
