package submission

import (
	"cmp"
	"errors"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/content"
	"parley/http/rest"
	"parley/journal"
)

// Options configure a Desk. All fields are required.
type Options struct {
	Node   *actors.Node
	Agents *access.Agents
	// Domain is the service domain in handles, Brand the word in message types.
	Domain, Brand string
	// DayLimit returns how many messages a caller's organization may send a day; nil
	// means no limit.
	DayLimit func(rest.Caller) *int
	// PairRate returns how many messages a minute the agents of a caller may exchange with one
	// other; 0 means no limit.
	PairRate func(rest.Caller) int
}

// Desk submits messages.
type Desk struct {
	node          *actors.Node
	agents        *access.Agents
	domain, brand string
	dayLimit      func(rest.Caller) *int
	pairRate      func(rest.Caller) int
}

// New returns a Desk.
func New(o Options) *Desk { return &Desk{o.Node, o.Agents, o.Domain, o.Brand, o.DayLimit, o.PairRate} }

// Ways by which a message comes, see api.Provenance.
const (
	ViaAPI    = "api"
	ViaSync   = "sync"
	ViaA2A    = "a2a"
	ViaGroup  = "group"
	ViaSystem = "system"
)

// envelope is a message on its way to the actor that decides it.
type envelope struct {
	content.Envelope
	selfPayload      *string
	idempotencyKey   string
	messageSignature *string
	// signatureErr is the refusal of signatures that do not verify, nil if they do. A
	// repeat is answered even if it is set.
	signatureErr error
	group        bool
}

// OriginOf returns what the server vouches for of a sender.
func (d *Desk) OriginOf(c *rest.Call, from *agent.State, via string) content.Origin {
	return content.Origin{
		Server: d.domain, At: c.Now(), Slug: c.Caller.Slug, Tier: c.Caller.Tier, Oversight: from.GetHumanOversight(), Via: via,
	}
}

func (d *Desk) envelopeOf(c *rest.Call, in *api.Send, from *agent.State, via string) *envelope {
	return &envelope{
		Envelope: content.Envelope{
			Type: in.Type, Payload: in.EncryptedPayload, Version: in.EncryptionVersion, SigningKid: in.SenderSigningKid,
			Metadata: in.Metadata, ContentType: in.ContentType, Schema: in.PayloadSchema, Attestations: in.SenderAttestations,
			Origin: d.OriginOf(c, from, via),
		},
		selfPayload: in.SelfEncryptedPayload, idempotencyKey: in.IdempotencyKey, messageSignature: in.MessageSignature,
	}
}

// Sender returns the agent that from_handle names, else the one in the header, else the
// organization's first active agent. // spec: Messaging
func (d *Desk) Sender(c *rest.Call, in *api.Send) (*agent.State, error) {
	if in.FromHandle != nil {
		return d.agents.Acting(c, *in.FromHandle)
	}
	return d.agents.ActingOrFirst(c, in.ActingAgent)
}

func (d *Desk) recipient(c *rest.Call, in *api.Send) (*agent.State, error) {
	if in.ToAgentID != nil {
		return d.node.Agents.Get(c.Context(), *in.ToAgentID)
	}
	return d.agents.ByHandle(c, *in.ToHandle)
}

// Task says that a message came over A2A.
type Task struct {
	// Members of metadata.a2a, see content.Envelope.
	Members []byte
	// Refusal is the refusal of the content, nil if it may be sent. A repeat is answered
	// even if it is set.
	Refusal error
	// oldest: the sender is the oldest agent of its organization.
	oldest bool
}

// Send resolves the recipient, asks the sender's actor, and returns the stored message.
// task is nil for a message that did not come over A2A.
func (d *Desk) Send(c *rest.Call, in *api.Send, from *agent.State, via string, task *Task) (actors.Posted, error) {
	e := d.envelopeOf(c, in, from, via)
	if err := d.checkSignatures(c, e, from); err != nil {
		return actors.Posted{}, err
	}
	to, err := d.recipient(c, in)
	if err != nil && !errors.Is(err, parley.ErrNotFound) {
		return actors.Posted{}, err
	}
	request := actors.DirectSend{From: from.AgentID(), ToKnown: to != nil, Metadata: in.ConversationMetadata}
	if task != nil {
		request.Task, request.Oldest, e.Task = true, task.oldest, task.Members
		e.signatureErr = cmp.Or(e.signatureErr, task.Refusal)
	}
	if to != nil {
		request.To, request.ToRevoked = to.AgentID(), to.Revoked()
		request.ToGroupsOnly = to.GetIncomingPolicy() == agent.GroupsOnly
		request.ToBlocks = agent.Blocks(to, from.AgentID(), from.Owner())
		request.RecipientGroups, request.KeyExchange = to.GetGroups(), d.exchangesKeys(in.Type)
	}
	if request.Parent, request.ParentFact, err = d.parentOf(c, in, from); err != nil {
		return actors.Posted{}, err
	}
	if request.Content, err = d.contentOf(c, e, from, to); err != nil {
		return actors.Posted{}, err
	}
	return d.node.Messages.Send(c.Context(), request)
}

// Broadcast sends to every member of a group except the sender. find returns the group,
// whose handle is to. // spec: Messaging
func (d *Desk) Broadcast(c *rest.Call, in *api.Send, from *agent.State, to parley.Handle, find func() (parley.GroupID, error)) (actors.Posted, error) {
	e := d.envelopeOf(c, in, from, ViaGroup)
	if err := d.checkSignatures(c, e, from); err != nil {
		return actors.Posted{}, err
	}
	id, err := find()
	if err != nil { // no send is remembered for this error
		return actors.Posted{}, cmp.Or(e.signatureErr, err)
	}
	request := actors.GroupSend{Group: id, From: from.AgentID(), Metadata: in.ConversationMetadata, MLS: mlsHeader(in, id)}
	if request.Parent, request.ParentFact, err = d.parentOf(c, in, from); err != nil {
		return actors.Posted{}, err
	}
	request.Content = d.contentFrom(c, e)
	e.group, e.RecipientHandle, e.SenderHandle = true, to.String(), d.senderHandle(c, from)
	if request.Body, err = writeContent(c, e); err != nil {
		return actors.Posted{}, err
	}
	return d.node.Messages.Broadcast(c.Context(), request)
}

// parentOf collects the facts about a parent conversation that the sender's rules need.
func (d *Desk) parentOf(c *rest.Call, in *api.Send, from *agent.State) (id parley.ConversationID, fact agent.ParentFact, err error) {
	if in.ParentConversationID == nil {
		return id, fact, nil
	}
	id, fact.Named = *in.ParentConversationID, true
	parent, err := d.node.Messages.Conversation(c.Context(), id)
	if errors.Is(err, journal.ErrErased) {
		first, err := d.node.Messages.GetRecord(c.Context(), id.Slot(), conversation.FirstMessageID(id))
		_, err = Readable(c, first, err)
		if errors.Is(err, parley.ErrNotFound) { // it is unknown to strangers
			err = nil
		}
		return id, fact, err
	}
	if errors.Is(err, parley.ErrNotFound) {
		return id, fact, nil
	}
	fact.Known = err == nil
	fact.Participant = err == nil && (parent.Role(from.AgentID()) != 0 || !parent.GroupID().Zero() && from.In(parent.GroupID()))
	return id, fact, err
}
