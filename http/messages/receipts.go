package messages

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
	"parley/journal"
)

// carry records that a message was delivered to its recipient through a channel (0 for
// none that transfers the body) and, if reads is set, that it was read.
func (s Inbox) carry(c *rest.Call, m query.Message, by journal.Channel, reads bool) (query.Message, error) {
	return s.carryAt(c.Context(), c.Now(), m, by, reads)
}

// carryAt is carry for callers that are no request any more.
func (s Inbox) carryAt(ctx context.Context, now time.Time, m query.Message, by journal.Channel, reads bool) (query.Message, error) {
	if m.Receipts.ReadAt != 0 || (m.Receipts.TransferredAt != 0 && !reads) {
		return m, nil
	}
	to := m.Record.Recipient()
	m, err := s.Node.Messages.GetFor(ctx, to.Slot(), m.Record.MessageID())
	if err != nil {
		return m, err
	}
	if m.Position == 0 {
		return m, nil // not in the recipient's feed yet: a later transfer records the receipt
	}
	receipt, fresh := receiptFor(&m, by, reads, now)
	if !fresh {
		return m, nil
	}
	unmarked := m.Receipts
	if err = s.Node.Receipts.Record(ctx, to, []journal.RecordReceipt{receipt}); err != nil && s.unmarkable(err) {
		m.Receipts, err = unmarked, nil
	}
	return m, err
}

// Transferred records that messages reached their recipients over the A2A bridge. If the
// disk takes no writes, they stay untransferred.
func (s Inbox) Transferred(ctx context.Context, now time.Time, messages []query.Message) error {
	for _, m := range messages {
		if _, err := s.carryAt(ctx, now, m, journal.BridgeChannel, false); err != nil {
			return err
		}
	}
	return nil
}

// unmarkable reports whether a receipt was refused because the disk takes no writes. The
// message is returned all the same, still as untransferred, and will be transferred
// again.
func (s Inbox) unmarkable(err error) bool {
	return errors.Is(err, parley.ErrOverloaded) && s.Node.Trouble() != nil
}

// receiptFor updates a message's receipts and returns the receipt to store, if any.
func receiptFor(m *query.Message, by journal.Channel, reads bool, now time.Time) (receipt journal.RecordReceipt, fresh bool) {
	at, receipts := now.UnixMilli(), journal.Receipts{}
	if m.Receipts.TransferredAt == 0 {
		receipts.TransferredAt, receipts.TransferredBy = at, by
	}
	if reads && m.Receipts.ReadAt == 0 {
		receipts.ReadAt = at
	}
	m.Receipts = m.Receipts.Earliest(receipts)
	return journal.RecordReceipt{
		Recipient: m.Record.Recipient(), Message: m.Record.MessageID(), Position: m.Position, Receipts: receipts,
		Copy: m.Record.Copied(), Sender: m.Record.Sender(),
	}, receipts != journal.Receipts{}
}

// recordTransfers records the receipts for a page of an agent's messages. If the disk
// takes no writes, the messages are returned all the same, still as untransferred.
func (s Inbox) recordTransfers(c *rest.Call, agent parley.AgentID, page []query.Message, by journal.Channel) error {
	var receipts []journal.RecordReceipt
	var before []journal.Receipts
	for i := range page {
		was := page[i].Receipts
		if receipt, fresh := receiptFor(&page[i], by, false, c.Now()); fresh {
			receipts, before = append(receipts, receipt), append(before, was)
		}
	}
	err := s.Node.Receipts.Record(c.Context(), agent, receipts)
	if err == nil || !s.unmarkable(err) {
		return err
	}
	for i := range page {
		id := page[i].Record.MessageID()
		if k := slices.IndexFunc(receipts, func(m journal.RecordReceipt) bool { return m.Message == id }); k >= 0 {
			page[i].Receipts = before[k]
		}
	}
	return nil
}

// recordShown records that messages on a page of a conversation were shown to the agent that
// received them. What has not arrived in its inbox stays as it is.
func (s Inbox) recordShown(c *rest.Call, agent parley.AgentID, page []query.Message, shown func(*record.Message) bool) error {
	var ids []parley.MessageID
	at := map[parley.MessageID]int{}
	for i, m := range page {
		if m.Receipts.TransferredAt == 0 && shown(m.Record) {
			ids, at[m.Record.MessageID()] = append(ids, m.Record.MessageID()), i
		}
	}
	if len(ids) == 0 {
		return nil
	}
	arrived, err := s.Node.Messages.Arrived(c.Context(), agent, ids)
	if err != nil {
		return err
	}
	if err := s.recordTransfers(c, agent, arrived, journal.TranscriptChannel); err != nil {
		return err
	}
	for _, m := range arrived {
		page[at[m.Record.MessageID()]].Receipts = m.Receipts
	}
	return nil
}

// errNotTheirs refuses a message that the caller's agent did not receive.
var errNotTheirs = parley.ErrNotFound.Saying("There is no such message in the agent's inbox.")

var errNotRecipient = parley.ErrNotOwner.Saying("The message was sent to somebody else.")

// Read marks a message as read by its recipient. // docs: delivery.md
func (s Inbox) Read(c *rest.Call, in *api.ReadMessage) (rest.Rendered, error) {
	var acting *agent.State
	if in.ActingAgent != "" {
		var err error
		if acting, err = s.Agents.Acting(c, in.ActingAgent); err != nil {
			return rest.Rendered{}, err
		}
	}
	m, err := s.Node.Messages.Get(c.Context(), in.ID)
	if m, err = submission.Readable(c, m, err); err != nil {
		return rest.Rendered{}, err
	}
	to := m.Record.Recipient()
	if !c.Caller.Owns(m.Record.RecipientOrg(), to) || acting != nil && acting.AgentID() != to {
		return rest.Rendered{}, errNotRecipient
	}
	if m.Receipts.ReadAt == 0 {
		if m, err = s.Node.Messages.GetFor(c.Context(), to.Slot(), m.Record.MessageID()); err != nil {
			return rest.Rendered{}, err
		}
		if m.Position == 0 { // not in the recipient's feed yet: there is nothing to mark
			return rest.Rendered{}, parley.ErrOverloaded
		}
		if receipt, fresh := receiptFor(&m, 0, true, c.Now()); fresh {
			if err := s.Node.Receipts.Record(c.Context(), to, []journal.RecordReceipt{receipt}); err != nil {
				return rest.Rendered{}, err
			}
		}
	}
	v := s.viewer(c.Caller.Principal, to)
	return c.Render(v.SizeBound(m.Record), func(b []byte) []byte { return view.AppendMessage(b, s.Agents.ToView(c.Context(), m), v) }), nil
}

// Acknowledge marks messages of an agent's inbox as read: the named ones, or all up to
// one. // docs: delivery.md
func (s Inbox) Acknowledge(c *rest.Call, in *api.Ack) (*api.Acked, error) {
	if _, err := s.Agents.Own(c, in.ID); err != nil {
		return nil, err
	}
	if in.UpTo == nil {
		n, err := s.ackNamed(c, in)
		return &api.Acked{Acked: n}, err
	}
	position, err := s.Node.Messages.PositionIn(c.Context(), in.ID, *in.UpTo)
	if err != nil {
		return nil, notTheirs(err)
	}
	n, err := s.Node.Receipts.ReadUpTo(c.Context(), in.ID, position, c.Draining())
	return &api.Acked{Acked: n, UpTo: in.UpTo}, err
}

func notTheirs(err error) error {
	if errors.Is(err, parley.ErrNotFound) {
		return errNotTheirs
	}
	return err
}

func (s Inbox) ackNamed(c *rest.Call, in *api.Ack) (int, error) {
	messages, err := s.Node.Messages.InInbox(c.Context(), in.ID, in.IDs)
	if err != nil {
		return 0, notTheirs(err)
	}
	var receipts []journal.RecordReceipt
	for i := range messages {
		if messages[i].Receipts.ReadAt != 0 {
			continue
		}
		if receipt, fresh := receiptFor(&messages[i], 0, true, c.Now()); fresh {
			receipts = append(receipts, receipt)
		}
	}
	return len(receipts), s.Node.Receipts.Record(c.Context(), in.ID, receipts)
}
