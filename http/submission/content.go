package submission

import (
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/record"
	"parley/client/parley"
	"parley/http/content"
	"parley/http/rest"
)

// contentFrom returns the content of an envelope without its body.
func (d *Desk) contentFrom(c *rest.Call, e *envelope) actors.Content {
	out := actors.Content{
		Type: e.Type, Key: e.idempotencyKey, Forged: e.signatureErr, FromOrg: c.Caller.Org,
		DayLimit: d.dayLimit(c.Caller), PairRate: d.pairRate(c.Caller), Update: e.Type == d.brand+".v1."+StatusUpdate,
	}
	if e.selfPayload != nil {
		out.SelfPayload = *e.selfPayload
	}
	out.Sent = len(e.Payload) + len(out.SelfPayload) + len(e.Metadata) + len(e.Attestations) + len(e.Task)
	return out
}

// contentOf returns the content of an envelope. to is nil if the recipient is unknown.
func (d *Desk) contentOf(c *rest.Call, e *envelope, from, to *agent.State) (actors.Content, error) {
	out := d.contentFrom(c, e)
	if to == nil {
		return out, nil
	}
	var err error
	e.SenderHandle = d.senderHandle(c, from)
	if e.RecipientHandle, err = d.agents.Handle(c.Context(), to); err != nil {
		return out, err
	}
	out.ToOrg = to.Owner()
	out.Body, err = writeContent(c, e)
	return out, err
}

func (d *Desk) senderHandle(c *rest.Call, from *agent.State) string {
	return parley.Handle{Name: from.GetName(), Slug: c.Caller.Slug, Domain: d.domain}.String()
}

// writeContent encodes the content and reserves memory for the answer too: once the
// message is stored it is too late to refuse.
func writeContent(c *rest.Call, e *envelope) ([]byte, error) {
	size := e.EncodedBound()
	if err := c.Reserve(size); err != nil {
		return nil, err
	}
	said := c.WriteBuffer(size, func(b []byte) []byte { return content.Encode(b, &e.Envelope) }).Bytes
	answer := rest.PageFrame + content.MessageFrame + content.Size(&record.Message{Type: e.Type, Content: said})
	if e.selfPayload != nil {
		answer += len(*e.selfPayload)
	}
	if e.group {
		answer += content.CopyFrame
	}
	return said, c.Reserve(answer)
}
