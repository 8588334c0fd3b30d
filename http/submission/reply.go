package submission

import (
	"errors"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/content"
	"parley/http/rest"
	"parley/journal"
)

var (
	ErrUnknownMessage = parley.ErrNotFound.Saying("There is no such message.")
	ErrForeignMessage = parley.ErrNotOwner.Saying("Your organization owns neither the sender nor the recipient.")
)

// Reply answers a message of the caller's. named is the agent that answers, nil for the
// default. It returns that agent too. // spec: POST /messages/{id}/reply
func (d *Desk) Reply(c *rest.Call, in *api.Reply, named *agent.State) (p actors.Posted, from *agent.State, err error) {
	original, err := d.node.Messages.GetRecord(c.Context(), in.ID.Slot(), in.ID)
	if original, err = Readable(c, original, err); err != nil {
		return p, nil, err
	}
	from, to, err := d.ends(c, original.Record, named)
	if err != nil {
		return p, nil, err
	}
	p, err = d.Continue(c, in, original, from, to, ViaAPI, nil)
	return p, from, err
}

// Continue posts a message of from's to the other end of an original, into its
// conversation. task is nil for a message that did not come over A2A.
func (d *Desk) Continue(c *rest.Call, in *api.Reply, original query.Message, from, to *agent.State, via string, task *Task) (p actors.Posted, err error) {
	e := &envelope{
		Envelope: content.Envelope{
			Type: in.Type, Payload: in.EncryptedPayload, Version: in.EncryptionVersion, SigningKid: in.SenderSigningKid,
			Metadata: in.Metadata, ContentType: in.ContentType, Schema: in.PayloadSchema, Attestations: in.SenderAttestations,
			Origin: d.OriginOf(c, from, via),
		},
		selfPayload: in.SelfEncryptedPayload, idempotencyKey: in.IdempotencyKey, messageSignature: in.MessageSignature,
	}
	if task != nil {
		e.Task, e.signatureErr = task.Members, task.Refusal
	}
	if err := d.checkSignatures(c, e, from); err != nil {
		return p, err
	}
	request := actors.ReplyTo{
		Conversation: original.Record.Conversation(), Host: original.Record.HostID(), From: from.AgentID(), To: to.AgentID(),
		Original: original.Record.MessageID(), Copy: original.Record.Copied(), ToRevoked: to.Revoked(),
		Apart: agent.Apart(from.GetGroups(), to.GetGroups()), Barred: agent.Bars(to, from, d.exchangesKeys(in.Type)), Outcome: d.outcome(in.Type), Continues: task != nil,
		Lone: task == nil && isLone(in.Metadata),
	}
	if request.From == original.Record.Recipient() {
		mine := original
		if mine.Position == 0 { // the replier's home differs from the conversation's
			if mine, err = d.node.Messages.GetRecord(c.Context(), request.From.Slot(), request.Original); err != nil {
				return p, err
			}
		}
		request.Reads, request.Position = mine.Position != 0, mine.Position
	}
	if request.Content, err = d.contentOf(c, e, from, to); err != nil {
		return p, err
	}
	return d.node.Messages.Reply(c.Context(), request)
}

// ends returns the agent that replies and the agent it replies to. The replier is the
// named agent, else the caller's agent that received the message, else the one that sent
// it.
func (d *Desk) ends(c *rest.Call, r *record.Message, named *agent.State) (from, to *agent.State, err error) {
	mine := r.Sender()
	if c.Caller.Owns(r.RecipientOrg(), r.Recipient()) {
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
	if from, err = d.node.Agents.Get(c.Context(), mine); err != nil {
		return nil, nil, err
	}
	if from.Revoked() {
		return nil, nil, access.ErrActingAgent
	}
	to, err = d.node.Agents.Get(c.Context(), other)
	return from, to, err
}

// Readable checks that the caller's organization owns the sender or the recipient of a
// message. To all others a message that was erased is unknown.
func Readable(c *rest.Call, m query.Message, err error) (query.Message, error) {
	erased := errors.Is(err, journal.ErrErased)
	switch {
	case errors.Is(err, parley.ErrNotFound):
		return m, ErrUnknownMessage
	case err != nil && !erased:
		return m, err
	case c.Caller.Owns(m.Record.SenderOrg(), m.Record.Sender()) || c.Caller.Owns(m.Record.RecipientOrg(), m.Record.Recipient()):
		return m, err
	case erased:
		return m, ErrUnknownMessage
	}
	return m, ErrForeignMessage
}
