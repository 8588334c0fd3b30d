package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Content is what a sender sends, validated and encoded by the HTTP layer.
type Content struct {
	Type string
	// Body is what the HTTP layer encoded of the message; actors do not look inside. The
	// caller may reuse its memory once the request is answered without error.
	Body []byte
	// SelfPayload is the sender's own sealed copy, "" for none.
	SelfPayload string
	// Key is the Idempotency-Key, "" for none.
	Key string
	// Forged is the refusal of the request's signatures, nil if they verify, or another
	// one of its content. It is the answer unless the key was used before. It is nil or a
	// *parley.Refusal, because no other error could cross a network.
	Forged error
	// FromOrg owns the sender, ToOrg the recipient.
	FromOrg, ToOrg parley.OrgID
	// DayLimit is how many messages FromOrg may send a day; nil means no limit.
	DayLimit *int
	// Sent is how many bytes of it the sender sent: payload, own copy, metadata, attestations.
	Sent int
	// PairRate is how many messages a minute two agents may exchange, 0 for any number. In an
	// A2A task, Updates do not count.
	PairRate int
	Update   bool
}

// DirectSend is a message from one agent to another that starts a conversation, with the
// lookups that the sender's rules need.
type DirectSend struct {
	Content
	From, To parley.AgentID
	// Lookups of the recipient; To is zero if the recipient is unknown.
	ToKnown, ToRevoked, ToGroupsOnly, ToBlocks bool
	RecipientGroups                            []*agent.Membership
	// KeyExchange: the message distributes or requests a sender key.
	KeyExchange bool
	Parent      parley.ConversationID
	// ParentFact is the lookup of Parent.
	ParentFact agent.ParentFact
	// Metadata of the new conversation: a JSON object, or empty.
	Metadata []byte
	// Task: the conversation is an A2A task.
	Task bool
	// Oldest: From is the oldest agent of its organization, which keeps the claims of
	// others, see TaskClaim. It is set for A2A tasks only.
	Oldest bool
}

// ReplyTo is a message into the conversation of another message.
type ReplyTo struct {
	Content
	Conversation parley.ConversationID
	// Host is the group that hosts the conversation; zero for a conversation of two
	// agents.
	Host      parley.GroupID
	From, To  parley.AgentID
	Original  parley.MessageID
	ToRevoked bool
	// Apart is a lookup: isolation keeps From and To from talking.
	Apart bool
	// Barred is a lookup: To blocks From.
	Barred bool
	// Continues: the caller named no original, see conversation.Reply.
	Continues bool
	// Copy: the original is a copy of a broadcast.
	Copy bool
	// Reads is set if the reply shows that From has read the original.
	Reads bool
	// Position of the original in From's feed.
	Position uint64
	// Outcome is the status to which a reply of this type moves an A2A task, 0 for none.
	Outcome conversation.Status
	// Lone: the reply asks to be the whole answer to an A2A task, see conversation.Reply.
	Lone bool
}

// ChangeStatus changes the status of a conversation.
type ChangeStatus struct {
	Conversation parley.ConversationID
	// Host is the group that hosts the conversation; zero for a conversation of two
	// agents.
	Host   parley.GroupID
	By     []parley.AgentID
	Status string
	Reason string
	// Apart and Barred are lookups, see conversation.ChangeStatus.
	Apart, Barred bool
}

// Posted is a stored message.
type Posted struct {
	Message  *record.Message
	Receipts journal.Receipts
	// Repeated: an earlier request with the same key stored it.
	Repeated bool
	// Held: nothing is stored, because another agent has claimed the key.
	Held bool
}

// idempotencyRecord is stored for an idempotency key: the message that the key created,
// and the values that a repeat must match.
type idempotencyRecord struct {
	message parley.MessageID
	// about is the recipient of a direct send, or the original of a reply.
	about [16]byte
	kind  string
}

// Send starts a conversation with a first message. It returns when the message is on
// stable storage. // spec: Messaging
func (ms *Messages) Send(ctx context.Context, s DirectSend) (Posted, error) {
	p, err := host.Ask[Posted](ctx, ms.engine, rules.AgentStream(s.From), len(s.Body)+len(s.SelfPayload), s)
	return ms.completeRepeat(ctx, p, err)
}

// Reply continues a conversation.
func (ms *Messages) Reply(ctx context.Context, r ReplyTo) (Posted, error) {
	p, err := host.Ask[Posted](ctx, ms.engine, decidingStream(r.Conversation, r.Host), len(r.Body)+len(r.SelfPayload), r)
	if now, closed := ms.closedWithOwner(ctx, r.Conversation, r.Host, err); closed {
		err = now.Closed()
	}
	return ms.completeRepeat(ctx, p, err)
}

// closedWithOwner reports whether a request failed because the owner of the group that
// hosts the conversation was erased, and returns the conversation.
func (ms *Messages) closedWithOwner(ctx context.Context, id parley.ConversationID, host parley.GroupID, failure error) (*conversation.State, bool) {
	if host.Zero() || !errors.Is(failure, journal.ErrErased) {
		return nil, false
	}
	now, err := ms.Conversation(ctx, id)
	return now, err == nil && now.Terminal()
}

// ChangeStatus changes the status of a conversation.
func (ms *Messages) ChangeStatus(ctx context.Context, c ChangeStatus) (*conversation.State, error) {
	changed, err := host.Ask[*conversation.State](ctx, ms.engine, decidingStream(c.Conversation, c.Host), 0, c)
	if now, closed := ms.closedWithOwner(ctx, c.Conversation, c.Host, err); closed {
		err = now.NoTransition()
	}
	return changed, err
}

// decidingStream returns the stream of the actor that decides in a conversation: the
// conversation's, or that of the group that hosts it.
func decidingStream(id parley.ConversationID, host parley.GroupID) journal.Stream {
	if host.Zero() {
		return rules.ConversationStream(id)
	}
	return rules.GroupStream(host)
}

// completeRepeat reads the stored message for the answer to a repeat.
func (ms *Messages) completeRepeat(ctx context.Context, p Posted, err error) (Posted, error) {
	if err != nil || !p.Repeated {
		return p, err
	}
	id := parley.IDFromBytes[parley.MessageID](p.Message.GetId())
	m, err := ms.Get(ctx, id)
	return Posted{Message: m.Record, Receipts: m.Receipts, Repeated: true}, err
}

func idempotencyKey(day uint32, scope []byte, key string) []byte {
	k := binary.BigEndian.AppendUint32(make([]byte, 0, 5+len(scope)+len(key)), day)
	return append(append(append(k, byte(len(scope))), scope...), key...)
}

func (r idempotencyRecord) encode() []byte {
	return append(append(append(make([]byte, 0, 32+len(r.kind)), r.message[:]...), r.about[:]...), r.kind...)
}

// aheadMax is by how much a clock may have been ahead.
const aheadMax = 2 * time.Hour

// daysOfKeys are the days under which an idempotency key that counts may be stored: from
// yesterday to today, or around midnight to tomorrow, by a clock that has been set back since, or
// by that of a node which led before.
func daysOfKeys(now time.Time) (newest, oldest uint32) {
	return journal.Day(now.Add(aheadMax)), journal.Day(now) - (journal.OnceDays - 1)
}

// findIdempotencyRecord looks up an idempotency key. It returns nil if there is none.
func findIdempotencyRecord[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], scope []byte, key string) (*idempotencyRecord, error) {
	if key == "" {
		return nil, nil
	}
	newest, oldest := daysOfKeys(t.Now)
	for day := newest; day >= oldest; day-- {
		value, found, err := t.Row(journal.OnceTable, idempotencyKey(day, scope, key))
		if err != nil {
			return nil, err
		}
		if found && len(value) >= 32 {
			return &idempotencyRecord{parley.MessageID(value[:16]), [16]byte(value[16:32]), string(value[32:])}, nil
		}
	}
	return nil, nil
}

// findRepeat looks up the idempotency key of a send. If there is none, it returns the
// refusal of signatures that do not verify.
func findRepeat[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], scope []byte, c *Content) (*idempotencyRecord, error) {
	known, err := findIdempotencyRecord(t, scope, c.Key)
	if err == nil && known == nil {
		err = c.Forged
	}
	return known, err
}

// putIdempotencyRecord stores what an idempotency key has created. It belongs to the
// owners of that, because it has a part of it: the type of a message, the name of a group.
func putIdempotencyRecord[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], scope []byte, key string, r idempotencyRecord, by journal.Owners) {
	if key != "" {
		t.PutOwnedRow(journal.OnceTable, idempotencyKey(journal.Day(t.Now), scope, key), r.encode(), by)
	}
}

func repeatAnswer(r *idempotencyRecord) Posted {
	return Posted{Message: &record.Message{Id: r.message.Bytes()}, Repeated: true}
}

// send applies the sender's rules to a direct send and starts the conversation.
func (ms *Messages) send(t *agentTurn, s *DirectSend) (any, error) {
	if err := requireSum(t, ms.core, s.FromOrg); err != nil {
		return nil, err
	}
	if held, err := heldByOther(t, s); err != nil || held {
		return Posted{Held: held}, err
	}
	known, err := findRepeat(t, s.From[:], &s.Content)
	if err != nil {
		return nil, err
	}
	ask := agent.Send{
		Type: s.Type, Recipient: s.To, RecipientKnown: s.ToKnown, RecipientRevoked: s.ToRevoked,
		RecipientOrg: s.ToOrg, RecipientGroupsOnly: s.ToGroupsOnly, RecipientBlocks: s.ToBlocks, RecipientGroups: s.RecipientGroups, KeyExchange: s.KeyExchange, Parent: s.ParentFact,
	}
	if known != nil {
		ask.Prior = &agent.Prior{MessageID: known.message, Recipient: known.about, Type: known.kind}
	}
	grant := func() error { return grantBetween(t, ms.core, &s.Content, direction{s.From, s.To}) }
	if err := t.DecideIf(ask, grant); errors.Is(err, agent.ErrRepeated) {
		return repeatAnswer(known), nil
	} else if err != nil {
		return nil, err
	}
	record := newConversation(t, ms.entropy(), s.From, s.To, &s.Content)
	record.Metadata, record.Task = s.Metadata, s.Task
	if !s.Parent.Zero() {
		record.Parent = s.Parent.Bytes()
	}
	if err := appendMessage(t, record, s.To); err != nil {
		return nil, err
	}
	recordActivity(t, ms.core, s.From, s.FromOrg)
	putIdempotencyRecord(t, s.From[:], s.Key, idempotencyRecord{record.MessageID(), s.To, s.Type}, record.Owners())
	return Posted{Message: record}, nil
}

// newConversation returns the record of the first message of a new conversation between
// two agents, and adds the conversation to the sender's list. The message is the start:
// the conversation's stream has no event until something else happens.
func newConversation[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], random [10]byte, from, to parley.AgentID, c *Content) *record.Message {
	id := parley.NewID[parley.ConversationID](t.Entry.Slot, t.Now, random)
	t.AddEffects(journal.AddToList{Agent: from, Conversation: id})
	return newRecord(conversation.FirstMessageID(id), id, from, to, c)
}

// newRecord returns the record of a message. It shares the memory of the body.
func newRecord(id parley.MessageID, in parley.ConversationID, from, to parley.AgentID, c *Content) *record.Message {
	ids := make([]byte, 0, 6*len(id)) // one allocation for all ids
	next := func(id parley.AnyID) []byte {
		ids = append(ids, id[:]...)
		return ids[len(ids)-len(id) : len(ids) : len(ids)]
	}
	return &record.Message{
		Id: next(parley.AnyID(id)), ConversationId: next(parley.AnyID(in)), From: next(parley.AnyID(from)), To: next(parley.AnyID(to)),
		FromOrg: next(parley.AnyID(c.FromOrg)), ToOrg: next(parley.AnyID(c.ToOrg)),
		Type: c.Type, Content: c.Body, SelfPayload: c.SelfPayload,
	}
}

// appendMessage adds a message to the journal entry: its record, and its entry in the
// recipient's feed.
func appendMessage[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], record *record.Message, to parley.AgentID) error {
	encoded, err := record.Encode()
	if err != nil {
		return err
	}
	t.Entry.Records = append(t.Entry.Records, encoded)
	t.AddEffects(journal.AppendFeed{
		To: to, Kind: journal.MessageEntry, Ref: parley.AnyID(encoded.ID), Note: journal.TypeHash(record.Type), Begins: record.Starts(),
	})
	return nil
}

type conversationTurn = host.Turn[*conversation.State, conversation.Command, conversation.Event]

// conversationStateEvery bounds the events that a reader folds to get a conversation's
// status.
const conversationStateEvery = 32

func (ms *Messages) kind() *host.Kind[*conversation.State, conversation.Command, conversation.Event] {
	return &host.Kind[*conversation.State, conversation.Command, conversation.Event]{
		Stream: journal.ConversationStream, Rules: rules.Conversation, StateEvery: conversationStateEvery,
		Blank: func() *conversation.State { return &conversation.State{} },
		Handle: func(t *conversationTurn, request any) (any, error) {
			if !t.State.GroupID().Zero() { // the group's actor decides
				return nil, conversation.ErrUnknown
			}
			switch r := request.(type) {
			case ReplyTo:
				before := t.State.GetStatus()
				answer, err := reply(ms, t, &r, t.State, t.DecideIf)
				if t.State.GetStatus() != before {
					announceStatus(t)
				}
				return answer, err
			case ChangeStatus:
				return ms.changeStatus(t, r)
			}
			panic("conversation: unknown request")
		},
	}
}

// reply decides a reply in a conversation and posts it. judge applies the rules and then
// calls grant, which may still refuse the reply.
func reply[S rules.State, C any, E rules.Event](ms *Messages, t *host.Turn[S, C, E], r *ReplyTo, in *conversation.State, judge func(conversation.Command, func() error) error) (any, error) {
	if err := requireSum(t, ms.core, r.FromOrg); err != nil {
		return nil, err
	}
	scope := append(r.Conversation.Bytes(), r.From[:]...)
	known, err := findRepeat(t, scope, &r.Content)
	if err != nil {
		return nil, err
	}
	ask := conversation.Reply{
		From: r.From, To: r.To, InReplyTo: r.Original, Type: r.Type, ToRevoked: r.ToRevoked, Apart: r.Apart, Barred: r.Barred, Outcome: r.Outcome, Lone: r.Lone, Continues: r.Continues,
		MessageID: in.NextMessageID(t.Now, ms.entropy()),
	}
	if known != nil {
		ask.Prior = &conversation.Prior{MessageID: known.message, InReplyTo: known.about, Type: known.kind}
	}
	if r.Update && in.GetTask() {
		r.PairRate = 0
	}
	grant := func() error { return grantBetween(t, ms.core, &r.Content, direction{r.From, r.To}) }
	if err := judge(ask, grant); errors.Is(err, conversation.ErrRepeated) {
		return repeatAnswer(known), nil
	} else if err != nil {
		return nil, err
	}
	record := newRecord(ask.MessageID, r.Conversation, r.From, r.To, &r.Content)
	record.InReplyTo = r.Original.Bytes()
	if r.Host.Zero() {
		record.Turn = uint32(in.GetMessages())
	} else {
		record.Host = r.Host.Bytes()
	}
	if err := appendMessage(t, record, r.To); err != nil {
		return nil, err
	}
	recordActivity(t, ms.core, r.From, r.FromOrg)
	if r.Reads {
		at := t.Now.UnixMilli()
		t.AddEffects(ms.receipts.Effect(journal.RecordReceipt{
			Recipient: r.From, Message: r.Original, Position: r.Position, Receipts: journal.Receipts{TransferredAt: at, ReadAt: at}, Copy: r.Copy, Sender: r.To,
		}))
	}
	putIdempotencyRecord(t, scope, r.Key, idempotencyRecord{ask.MessageID, r.Original, r.Type}, record.Owners())
	return Posted{Message: record}, nil
}

func (ms *Messages) changeStatus(t *conversationTurn, c ChangeStatus) (any, error) {
	if err := t.Decide(conversation.ChangeStatus{By: c.By, Status: c.Status, Reason: c.Reason, Apart: c.Apart, Barred: c.Barred}); err != nil {
		return nil, err
	}
	announceStatus(t)
	return proto.CloneOf(t.State), nil
}

// announceStatus adds each change of status of the turn to every participant's feed, marked
// as its own for the agent that asked for it. A reply may open an A2A task and end it.
// // spec: Agent stream
func announceStatus(t *conversationTurn) {
	for _, e := range t.Events {
		moved, ok := e.(*conversation.StatusChanged)
		if !ok {
			continue
		}
		by := parley.IDFromBytes[parley.AgentID](moved.GetBy())
		for _, p := range t.State.GetParticipants() {
			t.AddEffects(journal.AppendFeed{
				To: p.Agent(), Kind: journal.StatusEntry, Ref: t.Entry.Stream.ID, Note: statusNote(moved.GetStatus(), p.Agent() == by),
			})
		}
	}
}

// statusChangedBy returns the agent that asked for the last change of status among
// events.
func statusChangedBy(events []conversation.Event) (by parley.AgentID) {
	for _, e := range events {
		if moved, ok := e.(*conversation.StatusChanged); ok {
			by = parley.IDFromBytes[parley.AgentID](moved.GetBy())
		}
	}
	return by
}

func statusNote(status conversation.Status, own bool) []byte {
	note := []byte(status.String())
	if own {
		note = append(note, record.OwnStatus)
	}
	return note
}
