package importing

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/http/api"
	"parley/http/content"
	"parley/journal"
)

// writeTalks writes what happened in each conversation after its first message, which
// stands for the start.
func (w *writer) writeTalks() error {
	for i := range w.talks {
		if err := w.writeTalk(&w.talks[i]); err != nil {
			return fmt.Errorf("conversation %s: %w", w.talks[i].id, err)
		}
	}
	return nil
}

func (w *writer) writeTalk(t *talk) error {
	events := w.history(t)
	if len(events) == 0 {
		return nil
	}
	state := &conversation.State{}
	if t.group == nil {
		conversation.Evolve(state, w.firstRecord(t).Started())
	}
	create, err := stream(rules.Conversation, rules.ConversationStream(t.id), state, events)
	if err != nil {
		return err
	}
	return w.add(&journal.Entry{Slot: t.id.Slot(), At: w.began(), Effects: []journal.Effect{create}})
}

// history returns the stored events of a conversation: its replies and the changes of its
// status, in a group also the start and the broadcasts.
func (w *writer) history(t *talk) (events []conversation.Event) {
	changes := t.changes
	change := func(after *message) {
		for len(changes) > 0 && changes[0].After == after.posted() {
			moved := &conversation.StatusChanged{By: changes[0].By.Bytes(), AtMs: changes[0].At.UnixMilli(), Reason: orEmpty(changes[0].Reason)}
			moved.Status, _ = conversation.ParseStatus(changes[0].Status)
			events, changes = append(events, moved), changes[1:]
		}
	}
	all := w.messages[t.firstMsg:t.lastMsg]
	start := 1
	if t.group != nil {
		start = copiesAt(all, 0)
		events = append(events, w.hostedStart(t))
	}
	change(&all[0])
	for i := start; i < len(all); i++ {
		m := &all[i]
		if m.copied {
			events = append(events, &conversation.Broadcasted{MessageId: m.posted().Bytes(), From: w.parties[m.from].id.Bytes(), AtMs: w.postedMs(t, m)})
			i += copiesAt(all, i) - 1
			change(m)
			continue
		}
		events = append(events, &conversation.Posted{
			MessageId: m.id.Bytes(), From: w.parties[m.from].id.Bytes(), To: w.parties[m.to].id.Bytes(), InReplyTo: m.inReplyTo.Bytes(), AtMs: w.postedMs(t, m),
		})
		change(m)
	}
	return events
}

// postedMs returns when a message was posted. That of the last event of a conversation is
// when it was updated, which is otherwise than its id says if the clock went back.
func (w *writer) postedMs(t *talk, m *message) int64 {
	last := m.posted() == w.messages[t.lastMsg-1].posted()
	if last && (len(t.changes) == 0 || t.changes[len(t.changes)-1].After != m.posted()) && m.posted() != w.messages[t.firstMsg].posted() {
		return t.updatedMs
	}
	return m.id.Time().UnixMilli()
}

// posted returns the id that the event of a message has: of a copy, that of the broadcast.
func (m *message) posted() parley.MessageID {
	if m.copied {
		return m.id.Broadcast()
	}
	return m.id
}

// hostedStart returns the event that begins a conversation in a group.
func (w *writer) hostedStart(t *talk) *conversation.Started {
	first := &w.messages[t.firstMsg]
	e := &conversation.Started{
		Id: t.id.Bytes(), Initiator: w.parties[first.from].id.Bytes(), MessageId: first.posted().Bytes(), AtMs: t.createdMs,
		Group: t.group.state.ID.Bytes(), Owner: w.org.ID.Bytes(), Metadata: t.metadata,
	}
	if !t.parent.Zero() {
		e.Parent = t.parent.Bytes()
	}
	return e
}

// firstRecord returns the header of the first message of a conversation, with what it says
// of the conversation.
func (w *writer) firstRecord(t *talk) *record.Message {
	r := w.header(t, &w.messages[t.firstMsg])
	r.Metadata, r.Task = t.metadata, t.task
	if !t.parent.Zero() {
		r.Parent = t.parent.Bytes()
	}
	return r
}

// header returns the header of a message. That of a copy is the header of the broadcast, of
// which m is the first copy.
func (w *writer) header(t *talk, m *message) *record.Message {
	from, to := &w.parties[m.from], &w.parties[m.to]
	r := &record.Message{
		Id: m.posted().Bytes(), ConversationId: t.id.Bytes(), From: from.id.Bytes(), To: to.id.Bytes(), FromOrg: from.org.Bytes(), ToOrg: to.org.Bytes(),
	}
	if t.group != nil {
		r.Host = t.group.state.ID.Bytes()
	}
	if m.copied {
		r.Group, r.Recipients, r.FirstSeat = r.Host, uint32(m.recipients), m.id.Seat()
	}
	return r
}

// record reads a message again and returns it as it is stored. counted is whether it counts
// against the quota of its sender's organization: the notices of groups do not.
func (w *writer) record(m *message) (r *record.Message, counted bool, err error) {
	data := make([]byte, m.length)
	if _, err := w.source.ReadAt(data, m.offset); err != nil {
		return nil, false, err
	}
	in, err := decode[api.ExportedMessage](data)
	if err != nil || in.ID != m.id {
		return nil, false, fmt.Errorf("it changed while it was read: %w", err)
	}
	t := &w.talks[m.talk]
	r = w.header(t, m)
	if t.group == nil && m.id == w.messages[t.firstMsg].id {
		r = w.firstRecord(t)
	}
	if !m.inReplyTo.Zero() {
		r.InReplyTo = m.inReplyTo.Bytes()
	}
	r.Type, r.SelfPayload = in.Type, orEmpty(in.SelfEncryptedPayload)
	carried, err := envelope(&in)
	if err != nil {
		return nil, false, err
	}
	r.Content = content.Encode(nil, carried)
	return r, carried.Via != "system" || !w.ofRestored(in.Metadata), nil
}

// ofRestored reports whether a notice is about a join request of a group that is restored.
func (w *writer) ofRestored(metadata []byte) bool {
	var notice struct {
		Invite struct {
			Group parley.GroupID `json:"group_id"`
		} `json:"group_invite"`
	}
	return json.Unmarshal(metadata, &notice) == nil && w.groups[notice.Invite.Group] != nil
}

// envelope returns what a message carries.
func envelope(in *api.ExportedMessage) (*content.Envelope, error) {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(in.Metadata, &members); err != nil {
		return nil, err
	}
	from, err := decode[api.Provenance](members["provenance"])
	if err != nil {
		return nil, fmt.Errorf("metadata.provenance: %w", err)
	}
	e := &content.Envelope{
		Type: in.Type, Payload: in.EncryptedPayload, Version: in.EncryptionVersion, SigningKid: in.SenderSigningKid, Metadata: in.Metadata,
		ContentType: in.ContentType, Schema: in.PayloadSchema, Attestations: in.SenderAttestations,
		SenderHandle: orEmpty(in.SenderHandle), RecipientHandle: orEmpty(in.RecipientHandle),
		Origin: content.Origin{
			Server: from.Server, At: from.ReceivedAt.Time, Slug: from.OrgSlug, Tier: from.TrustTier, Oversight: from.HumanOversight, Via: from.Via,
		},
	}
	if in.GroupHandle != nil {
		e.RecipientHandle = *in.GroupHandle
	}
	if from.Via == "a2a" {
		e.Task = taskMembers(members["a2a"], in)
	}
	return e, nil
}

// taskMembers returns the members of metadata.a2a that are stored: without the ids that
// follow from the conversation.
func taskMembers(a2a jsontext.Value, in *api.ExportedMessage) []byte {
	id := in.ConversationID.String()
	rest, ok := bytes.CutPrefix(a2a, []byte(`{"task_id":"`+id+`",`))
	if !ok {
		return nil
	}
	rest = bytes.TrimPrefix(rest, []byte(`"context_id":"`+id+`",`))
	return bytes.TrimSuffix(rest, []byte(`}`))
}
