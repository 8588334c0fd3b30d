package importing

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	first := w.firstRecord(t)
	state := &conversation.State{}
	conversation.Evolve(state, first.Started())
	create, err := stream(rules.Conversation, rules.ConversationStream(t.id), state, events)
	if err != nil {
		return err
	}
	return w.add(&journal.Entry{Slot: t.id.Slot(), At: w.began(), Effects: []journal.Effect{create}})
}

// history returns the events of a conversation: its replies and the changes of its status.
func (w *writer) history(t *talk) (events []conversation.Event) {
	changes := t.changes
	change := func(after *message) {
		for len(changes) > 0 && changes[0].After == after.id {
			moved := &conversation.StatusChanged{By: changes[0].By.Bytes(), AtMs: changes[0].At.UnixMilli(), Reason: orEmpty(changes[0].Reason)}
			moved.Status, _ = conversation.ParseStatus(changes[0].Status)
			events, changes = append(events, moved), changes[1:]
		}
	}
	all := w.messages[t.firstMsg:t.lastMsg]
	change(&all[0])
	for i := 1; i < len(all); i++ {
		m := &all[i]
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
	last := m.id == w.messages[t.lastMsg-1].id
	if last && (len(t.changes) == 0 || t.changes[len(t.changes)-1].After != m.id) && m.id != w.messages[t.firstMsg].id {
		return t.updatedMs
	}
	return m.id.Time().UnixMilli()
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

func (w *writer) header(t *talk, m *message) *record.Message {
	from, to := &w.parties[m.from], &w.parties[m.to]
	return &record.Message{
		Id: m.id.Bytes(), ConversationId: t.id.Bytes(), From: from.id.Bytes(), To: to.id.Bytes(), FromOrg: from.org.Bytes(), ToOrg: to.org.Bytes(),
	}
}

// record reads a message again and returns it as it is stored.
func (w *writer) record(m *message) (*record.Message, error) {
	data := make([]byte, m.length)
	if _, err := w.source.ReadAt(data, m.offset); err != nil {
		return nil, err
	}
	in, err := decode[api.ExportedMessage](data)
	if err != nil || in.ID != m.id {
		return nil, fmt.Errorf("it changed while it was read: %w", err)
	}
	t := &w.talks[m.talk]
	r := w.header(t, m)
	if m.id == w.messages[t.firstMsg].id {
		r = w.firstRecord(t)
	}
	if !m.inReplyTo.Zero() {
		r.InReplyTo = m.inReplyTo.Bytes()
	}
	r.Type, r.SelfPayload = in.Type, orEmpty(in.SelfEncryptedPayload)
	carried, err := envelope(&in)
	if err == nil {
		r.Content = content.Encode(nil, carried)
	}
	return r, err
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
