package http

import (
	"cmp"
	"errors"
	"strings"

	"parley"
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/http/api"
	"parley/http/auth"
	"parley/http/rest"
	"parley/journal"
)

var (
	errUnknownMessage = parley.ErrNotFound.Saying("There is no such message.")
	errForeignMessage = parley.ErrNotOwner.Saying("Your organization owns neither the sender nor the recipient.")
	errReservedType   = parley.Refuse(parley.Unprocessable, "validation_error", "Value error, the type is in the reserved namespace and not one of its types").With("loc", "type")
	errGroupSync      = parley.Refuse(parley.Unprocessable, "validation_error", "Value error, group handles are not supported here").With("loc", "to_handle")
)

// coreTypes are the types of the reserved namespace, after "<brand>.v1.".
// // spec: Message types
var coreTypes = map[string]bool{
	"dm": true, "task_request": true, "task_response": true, "status_update": true, "negotiation": true, "receipt": true,
	"error": true, "capability_query": true, "capability_response": true, "payment_request": true, "payment_confirmation": true,
	"consent_request": true, "consent_grant": true, "consent_revoke": true, "identity_verification": true,
	"sender_key_distribution": true, "sender_key_request": true, "group_invite": true,
}

func (s messages) checkType(messageType string) error {
	word, reserved := strings.CutPrefix(messageType, s.Brand+".v1.")
	if reserved && !coreTypes[word] {
		return errReservedType
	}
	return nil
}

// sendMessage starts a conversation with a message. // spec: POST /messages
func (s messages) sendMessage(c *rest.Call, in *api.Send) (rest.Rendered, error) {
	if err := s.checkType(in.Type); err != nil {
		return rest.Rendered{}, err
	}
	from, err := s.sender(c, in)
	if err != nil {
		return rest.Rendered{}, err
	}
	var posted actors.Posted
	if to, ok := handleOfGroup(in); ok {
		posted, err = s.broadcast(c, in, from, to)
	} else {
		posted, err = s.send(c, in, from, "api")
	}
	if err != nil {
		return rest.Rendered{}, err
	}
	return s.renderPosted(c, posted, from), nil
}

// renderPosted renders the answer to a send or a reply. The answer to a repeat is marked
// as such.
func (s messages) renderPosted(c *rest.Call, p actors.Posted, from *agent.State) rest.Rendered {
	notePosted(c, p)
	v := s.viewerOf(c, from)
	out := c.Render(v.sizeBound(p.Message), func(b []byte) []byte {
		return appendMessage(b, query.Message{Record: p.Message, Receipts: p.Receipts}, v)
	})
	if p.Repeated {
		out.Code = 200
	}
	return out
}

// envelopeOf returns the envelope of a send.
func (s messages) envelopeOf(c *rest.Call, in *api.Send, from *agent.State, via string) *envelope {
	return &envelope{
		Type: in.Type, Payload: in.EncryptedPayload, Version: in.EncryptionVersion, SigningKid: in.SenderSigningKid,
		Metadata: in.Metadata, ContentType: in.ContentType, Schema: in.PayloadSchema, Attestations: in.SenderAttestations,
		SelfPayload: in.SelfEncryptedPayload, IdempotencyKey: in.IdempotencyKey, MessageSignature: in.MessageSignature,
		origin: s.originOf(c, from, via),
	}
}

// send resolves the recipient, asks the sender's actor, and returns the stored message.
func (s messages) send(c *rest.Call, in *api.Send, from *agent.State, via string) (actors.Posted, error) {
	e := s.envelopeOf(c, in, from, via)
	if err := s.checkSignatures(c, e, from); err != nil {
		return actors.Posted{}, err
	}
	to, err := s.recipient(c, in)
	if err != nil && !errors.Is(err, parley.ErrNotFound) {
		return actors.Posted{}, err
	}
	request := actors.DirectSend{From: from.AgentID(), ToKnown: to != nil, Metadata: in.ConversationMetadata}
	if to != nil {
		request.To, request.ToRevoked = to.AgentID(), to.Revoked()
		request.ToGroupsOnly = to.GetIncomingPolicy() == agent.GroupsOnly
		request.RecipientGroups, request.KeyExchange = to.GetGroups(), s.exchangesKeys(in.Type)
	}
	if request.Parent, request.ParentFact, err = s.parentOf(c, in, from); err != nil {
		return actors.Posted{}, err
	}
	if request.Content, err = s.contentOf(c, e, from, to); err != nil {
		return actors.Posted{}, err
	}
	return s.Node.Messages.Send(c.Context(), request)
}

// sender returns the agent that from_handle names, else the one in the header, else the
// organization's first active agent. // spec: Messaging
func (s messages) sender(c *rest.Call, in *api.Send) (*agent.State, error) {
	if in.FromHandle != nil {
		return s.acting(c, *in.FromHandle)
	}
	return s.actingOrFirst(c, in.ActingAgent)
}

// actingOrFirst returns the agent that was named, else the organization's first active
// one.
func (s *core) actingOrFirst(c *rest.Call, name string) (*agent.State, error) {
	if name != "" {
		return s.acting(c, name)
	}
	a, err := s.Node.Agents.FirstActive(c.Context(), c.Caller.Org)
	if errors.Is(err, parley.ErrNotFound) {
		return nil, errAgentRequired.With("candidates", []string{})
	}
	return a, err
}

func (s messages) recipient(c *rest.Call, in *api.Send) (*agent.State, error) {
	if in.ToAgentID != nil {
		return s.Node.Agents.Get(c.Context(), *in.ToAgentID)
	}
	return s.agentByHandle(c, *in.ToHandle)
}

// parentOf collects the facts about a parent conversation that the sender's rules need.
func (s messages) parentOf(c *rest.Call, in *api.Send, from *agent.State) (id parley.ConversationID, fact agent.ParentFact, err error) {
	if in.ParentConversationID == nil {
		return id, fact, nil
	}
	id, fact.Named = *in.ParentConversationID, true
	parent, err := s.Node.Messages.Conversation(c.Context(), id)
	if errors.Is(err, parley.ErrNotFound) {
		return id, fact, nil
	}
	fact.Known = err == nil
	fact.Participant = err == nil && (parent.Role(from.AgentID()) != 0 || !parent.GroupID().Zero() && from.In(parent.GroupID()))
	return id, fact, err
}

// contentFrom returns the content of an envelope without its body.
func (s messages) contentFrom(c *rest.Call, e *envelope) actors.Content {
	content := actors.Content{
		Type: e.Type, Key: e.IdempotencyKey, Forged: e.signatureErr, FromOrg: c.Caller.Org,
		DayLimit: s.allowed(c.Caller, quotaMessages),
	}
	if e.SelfPayload != nil {
		content.SelfPayload = *e.SelfPayload
	}
	return content
}

// contentOf returns the content of an envelope. to is nil if the recipient is unknown.
func (s messages) contentOf(c *rest.Call, e *envelope, from, to *agent.State) (actors.Content, error) {
	content := s.contentFrom(c, e)
	if to == nil {
		return content, nil
	}
	var err error
	e.senderHandle = parley.Handle{Name: from.GetName(), Slug: c.Caller.Slug, Domain: s.Domain}.String()
	if e.recipientHandle, err = s.handle(c.Context(), to); err != nil {
		return content, err
	}
	e.sender, e.recipient = from.AgentID(), to.AgentID()
	content.ToOrg = to.Owner()
	content.Body, err = writeContent(c, e)
	return content, err
}

// writeContent encodes the content and reserves memory for the answer too: once the
// message is stored it is too late to refuse.
func writeContent(c *rest.Call, e *envelope) ([]byte, error) {
	size := e.encodedBound()
	if err := c.Reserve(size); err != nil {
		return nil, err
	}
	said := c.WriteBuffer(size, func(b []byte) []byte { return encodeContent(b, e) }).Bytes
	answer := rest.PageFrame + messageFrame + contentSize(&record.Message{Type: e.Type, Content: said})
	if e.SelfPayload != nil {
		answer += len(*e.SelfPayload)
	}
	if !e.group.Zero() {
		answer += copyFrame
	}
	return said, c.Reserve(answer)
}

// checkSignatures verifies the signature over the request body, and attestations whose
// keys belong to agents of this server. A signature that does not verify is noted in e,
// to be judged after the idempotency key. An error means that the request cannot be
// judged.
func (s messages) checkSignatures(c *rest.Call, e *envelope, from *agent.State) error {
	if e.MessageSignature != nil {
		e.signatureErr = auth.CheckMessageSignature(s.Brand, from.GetSigningKey(), *e.MessageSignature, c.Body())
	}
	if len(e.Attestations) == 0 {
		return nil
	}
	var unsure error
	err := auth.CheckAttestations(e.Attestations, func(kid string) ([]byte, bool) {
		key, known, err := s.attestationKey(c, kid)
		unsure = errors.Join(unsure, err)
		return key, known
	})
	if unsure != nil {
		return unsure
	}
	bad := (*auth.AttestationError)(nil)
	if errors.As(err, &bad) {
		loc := []any{"body", "sender_attestations"}
		if bad.Index >= 0 {
			loc = append(loc, bad.Index)
		}
		return &rest.SchemaError{Faults: []rest.FieldError{{Loc: loc, Msg: "Value error, " + bad.Text, Type: rest.FaultValue}}}
	}
	e.signatureErr = cmp.Or(e.signatureErr, err)
	return nil
}

// attestationKey returns the Ed25519 key that a key id names: a thumbprint, or the DID
// URL of an agent of this server, whose fragment may be a thumbprint. Former keys count,
// because an attestation may be older than the rotation. For a key that its owner retired
// it returns nil, with which nothing verifies.
func (s messages) attestationKey(c *rest.Call, kid string) (key []byte, known bool, err error) {
	var a *agent.State
	wanted := kid
	if slug, name, fragment, ok := auth.ParseAgentDID(kid, s.Domain); ok {
		handle := parley.Handle{Name: name, Slug: slug, Domain: s.Domain}
		a, err = s.agentByHandle(c, handle.String())
		wanted = fragment
	} else {
		var id parley.AgentID
		if id, err = s.Node.Agents.ByKid(c.Context(), kid); err == nil {
			a, err = s.Node.Agents.Get(c.Context(), id)
		}
	}
	if errors.Is(err, parley.ErrNotFound) || errors.Is(err, parley.ErrBadHandle) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	switch key, ok := a.KeyByKid(wanted); {
	case ok && !key.Retired.IsZero():
		return nil, key.Curve == parley.Ed25519, nil
	case ok:
		return key.Raw, key.Curve == parley.Ed25519, nil
	}
	// A DID URL whose fragment is not a thumbprint names the current key.
	return a.GetSigningKey(), wanted != kid, nil
}

// replyMessage continues the conversation of a message. // spec: POST /messages/{id}/reply
func (s messages) replyMessage(c *rest.Call, in *api.Reply) (rest.Rendered, error) {
	if err := s.checkType(in.Type); err != nil {
		return rest.Rendered{}, err
	}
	var named *agent.State
	if in.ActingAgent != "" {
		var err error
		if named, err = s.acting(c, in.ActingAgent); err != nil {
			return rest.Rendered{}, err
		}
	}
	original, err := s.Node.Messages.GetRecord(c.Context(), in.ID.Slot(), in.ID)
	if original, err = readable(c, original, err); err != nil {
		return rest.Rendered{}, err
	}
	from, to, err := s.ends(c, original.Record, named)
	if err != nil {
		return rest.Rendered{}, err
	}
	e := &envelope{
		Type: in.Type, Payload: in.EncryptedPayload, Version: in.EncryptionVersion, SigningKid: in.SenderSigningKid,
		Metadata: in.Metadata, ContentType: in.ContentType, Schema: in.PayloadSchema, Attestations: in.SenderAttestations,
		SelfPayload: in.SelfEncryptedPayload, IdempotencyKey: in.IdempotencyKey, MessageSignature: in.MessageSignature,
		origin: s.originOf(c, from, "api"),
	}
	if err := s.checkSignatures(c, e, from); err != nil {
		return rest.Rendered{}, err
	}
	request := actors.ReplyTo{
		Conversation: original.Record.Conversation(), Host: original.Record.HostID(), From: from.AgentID(), To: to.AgentID(),
		Original: original.Record.MessageID(), Copy: original.Record.Copied(), ToRevoked: to.Revoked(),
		Apart: agent.Apart(from.GetGroups(), to.GetGroups()),
	}
	if request.From == original.Record.Recipient() {
		mine := original
		if mine.Position == 0 { // the replier's home differs from the conversation's
			if mine, err = s.Node.Messages.GetRecord(c.Context(), request.From.Slot(), request.Original); err != nil {
				return rest.Rendered{}, err
			}
		}
		request.Reads, request.Position = mine.Position != 0, mine.Position
	}
	if request.Content, err = s.contentOf(c, e, from, to); err != nil {
		return rest.Rendered{}, err
	}
	posted, err := s.Node.Messages.Reply(c.Context(), request)
	if err != nil {
		return rest.Rendered{}, err
	}
	return s.renderPosted(c, posted, from), nil
}

// ends returns the agent that replies and the agent it replies to. The replier is the
// named agent, else the caller's agent that received the message, else the one that sent
// it.
func (s messages) ends(c *rest.Call, r *record.Message, named *agent.State) (from, to *agent.State, err error) {
	mine := r.Sender()
	if r.RecipientOrg() == c.Caller.Org {
		mine = r.Recipient()
	}
	if named != nil {
		mine = named.AgentID()
	}
	other := r.Sender()
	switch mine {
	case r.Sender():
		other = r.Recipient()
	case r.Recipient():
	default:
		return nil, nil, parley.ErrNotOwner.Saying("The acting agent takes no part in this conversation.")
	}
	if from, err = s.Node.Agents.Get(c.Context(), mine); err != nil {
		return nil, nil, err
	}
	if from.Revoked() {
		return nil, nil, errActingAgent
	}
	to, err = s.Node.Agents.Get(c.Context(), other)
	return from, to, err
}

// readable checks that the caller's organization owns the sender or the recipient of a
// message. To all others a message that was erased is unknown.
func readable(c *rest.Call, m query.Message, err error) (query.Message, error) {
	erased := errors.Is(err, journal.ErrErased)
	switch {
	case errors.Is(err, parley.ErrNotFound):
		return m, errUnknownMessage
	case err != nil && !erased:
		return m, err
	case m.Record.SenderOrg() == c.Caller.Org || m.Record.RecipientOrg() == c.Caller.Org:
		return m, err
	case erased:
		return m, errUnknownMessage
	}
	return m, errForeignMessage
}

// getMessage returns a message. If the caller's organization owns the recipient, this
// delivers the message. If the acting agent is the recipient, it also marks it as read.
func (s inbox) getMessage(c *rest.Call, in *api.GetMessage) (rest.Rendered, error) {
	var acting *agent.State
	if in.ActingAgent != "" {
		var err error
		if acting, err = s.acting(c, in.ActingAgent); err != nil {
			return rest.Rendered{}, err
		}
	}
	m, err := s.Node.Messages.Get(c.Context(), in.ID)
	if m, err = readable(c, m, err); err != nil {
		return rest.Rendered{}, err
	}
	r, v := m.Record, s.viewerOf(c, acting)
	if err := c.Reserve(v.sizeBound(r)); err != nil { // before anything is marked
		return rest.Rendered{}, err
	}
	if r.RecipientOrg() == c.Caller.Org && !c.Head() {
		reads := acting == nil && r.SenderOrg() != c.Caller.Org
		if acting != nil {
			reads = acting.AgentID() == r.Recipient()
		}
		if m, err = s.carry(c, m, journal.InboxChannel, reads); err != nil {
			return rest.Rendered{}, err
		}
	}
	return c.Render(v.sizeBound(r), func(b []byte) []byte { return appendMessage(b, m, v) }), nil
}

// inbox returns a page of an agent's messages, newest first. It marks the messages that
// it transfers for the first time as delivered, and waits until that is stored.
func (s inbox) inbox(c *rest.Call, in *api.Inbox) (rest.Rendered, error) {
	if _, err := s.ownAgent(c, in.ID); err != nil {
		return rest.Rendered{}, err
	}
	only := ""
	if in.Type != nil {
		only = *in.Type
	}
	list := "inbox " + in.ID.String() + " " + only
	before, err := s.lists.Place(list, in.Cursor)
	if err != nil {
		return rest.Rendered{}, err
	}
	room := pageBudget{call: c, viewer: viewer{c.Caller.Org, in.ID, s.core}}
	page, next, err := s.Node.Messages.Inbox(c.Context(), in.ID, before, in.Limit, only, room.fits)
	if err != nil {
		return rest.Rendered{}, err
	}
	if !c.Head() {
		if err := s.recordTransfers(c, in.ID, page, journal.InboxChannel); err != nil {
			return rest.Rendered{}, err
		}
	}
	return c.Render(room.size(), func(b []byte) []byte {
		return appendPage(b, page, room.viewer, s.lists.Cursor(list, next))
	}), nil
}
