package streams

import (
	"context"
	"errors"
	"strconv"

	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/http/content"
	"parley/http/view"
	"parley/journal"
)

// feedSource is what one stream shows: the feed of an agent, rendered for its owner.
// It is all of a stream that knows agents and messages.
type feedSource struct {
	streams *Streams
	agent   parley.AgentID
	caller  parley.Principal
	client  parley.ClientID
	// onlyReads: what is written does not count as transferred.
	onlyReads bool
	// untransferredUpTo is a position. Up to there, the stream shows only messages
	// that are not transferred yet.
	untransferredUpTo uint64
}

// render reads the message of an entry, if it has one, and appends the entry to a batch.
func (s *feedSource) render(g *batch, e journal.FeedEntry) error {
	return s.streams.Node.Feeds.Entries(context.Background(), s.agent, []journal.FeedEntry{e}, func(e journal.FeedEntry, m query.Message) error {
		s.gather(g, e, m)
		return nil
	})
}

// gather appends an entry to a batch: its event, and the receipt of its message if that
// is not transferred yet.
func (s *feedSource) gather(g *batch, e journal.FeedEntry, m query.Message) {
	before := len(g.bytes)
	if g.bytes = s.appendEvent(g.bytes, e, m); len(g.bytes) == before {
		return
	}
	g.events++
	if s.transfers(e, m) {
		g.transfers = append(g.transfers, transfer{receipt: s.receiptOf(e, m.Record.Sender())})
	}
}

// appendEvent appends the event of an entry. An entry of an unknown kind has none.
func (s *feedSource) appendEvent(b []byte, e journal.FeedEntry, m query.Message) []byte {
	switch e.Kind {
	case journal.StatusEntry:
		return appendStatusEvent(b, e)
	case journal.GroupEntry:
		return appendGroupEvent(b, e)
	case journal.WebhookEntry:
		return appendWebhookEvent(b, e)
	case journal.MessageEntry, journal.CopyEntry:
		return appendMessageEvent(b, s.streams.Agents.ToView(context.Background(), m), view.Viewer{Principal: s.caller, Agent: s.agent, Logger: s.streams.Logger})
	}
	return b
}

// transfers reports whether an entry brings a message that is transferred by being written.
func (s *feedSource) transfers(e journal.FeedEntry, m query.Message) bool {
	return e.Kind.BringsMessage() && !m.Receipts.Transferred() && !s.onlyReads
}

// plain reports whether the stream shows what others of the agent show, and records its receipts as they do.
func (s *feedSource) plain() bool { return s.caller.Only == nil && !s.onlyReads }

func (s *feedSource) receiptOf(e journal.FeedEntry, sender parley.AgentID) journal.RecordReceipt {
	return journal.RecordReceipt{
		Recipient: s.agent, Message: parley.MessageID(e.Ref), Position: e.Position, Copy: e.Kind == journal.CopyEntry, Sender: sender,
	}
}

// readPage reads and renders stored entries beyond position from, up to upTo, until the
// page is full. It returns the position of the last one.
func (s *feedSource) readPage(p *page, from, upTo uint64) (to uint64, err error) {
	p.events = make([]pageEvent, 0, min(batchMax, upTo-from))
	return s.streams.Node.Feeds.Backlog(context.Background(), s.agent, from, upTo, batchMax, bufferBytes, func(e journal.FeedEntry, m query.Message) error {
		if m.Receipts.Transferred() && e.Position <= s.untransferredUpTo {
			return nil // transferred before this stream began
		}
		before := len(p.bytes)
		if p.bytes = s.appendEvent(p.bytes, e, m); len(p.bytes) == before {
			return nil
		}
		p.events = append(p.events, pageEvent{position: e.Position, end: len(p.bytes)})
		if s.transfers(e, m) {
			p.events[len(p.events)-1].receipt = s.receiptOf(e, m.Record.Sender())
		}
		return nil
	})
}

// permitted reports whether the agent and the credential are still live, and the
// organization is not suspended. An open stream outlives its token.
func (s *feedSource) permitted() bool {
	ctx := context.Background()
	a, err := s.streams.Node.Agents.Get(ctx, s.agent)
	if err != nil || a.Revoked() {
		return err != nil && !gone(err)
	}
	o, err := s.streams.Node.Orgs.Get(ctx, s.caller.Org)
	if err != nil {
		return !gone(err)
	}
	return o.Credential(s.client).Live(s.streams.Clock()) && !o.Suspended()
}

func appendStatusEvent(b []byte, e journal.FeedEntry) []byte {
	b = content.AppendID(append(b, "event: status\ndata: {\"conversation_id\":"...), e.Ref)
	status, _ := record.StatusNews(e.Note)
	b = content.AppendText(append(b, `,"status":`...), status)
	return append(b, "}\n\n"...)
}

// appendWebhookEvent appends that the server disabled a webhook of the agent.
func appendWebhookEvent(b []byte, e journal.FeedEntry) []byte {
	b = content.AppendID(append(b, "event: webhook\ndata: {\"webhook_id\":"...), e.Ref)
	b = content.AppendText(append(b, `,"disabled_reason":`...), record.DisablingNews(e.Note).String())
	return append(b, "}\n\n"...)
}

// appendGroupEvent appends a change of a group. A change of an unknown kind has no event.
func appendGroupEvent(b []byte, e journal.FeedEntry) []byte {
	kind, request := record.GroupNews(e.Note)
	if kind == "" {
		return b
	}
	b = content.AppendID(append(b, "event: group\ndata: {\"group_id\":"...), e.Ref)
	if epoch, mls := record.MLSNews(e.Note); mls {
		b = content.AppendText(append(b, `,"kind":`...), kind)
		b = strconv.AppendUint(append(b, `,"epoch":`...), epoch, 10)
		return append(b, "}\n\n"...)
	}
	b = append(b, `,"request_id":`...)
	if request.Zero() {
		b = append(b, `null`...)
	} else {
		b = content.AppendID(b, parley.AnyID(request))
	}
	b = content.AppendText(append(b, `,"kind":`...), kind)
	return append(b, "}\n\n"...)
}

func appendMessageEvent(b []byte, m view.Message, v view.Viewer) []byte {
	b, _ = m.Record.MessageID().AppendText(append(b, "id: "...))
	b = append(b, "\nevent: message\ndata: "...)
	b = view.AppendMessage(b, m, v)
	return append(b, "\n\n"...)
}

// gone reports whether a read says that there is nothing, or nothing any more. Other errors
// pass.
func gone(err error) bool {
	return errors.Is(err, parley.ErrNotFound) || errors.Is(err, parley.ErrGone)
}
