package actors

import (
	"context"
	"fmt"
	"math"
	"slices"

	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// pagedList is a list that a client reads page by page. Cursors differ between
// variants; the pages do not.
type pagedList struct {
	title    string
	nextPage func(limit int) (lines []string, more bool, err error)
}

// booksMax and listenersMax bound the number of open lists and streams.
const booksMax, listenersMax = 6, 4

// readPage opens a list or reads the next page of an open one.
func (p *scriptRunner) readPage(ctx context.Context) {
	if len(p.messages) == 0 {
		p.note("nothing to read\n")
		return
	}
	if len(p.lists) == 0 || len(p.lists) < booksMax && !p.likely(3) {
		p.lists = append(p.lists, p.openList(ctx))
	}
	n := p.random.IntN(len(p.lists))
	b := p.lists[n]
	lines, more, err := b.nextPage(1 + p.random.IntN(4))
	for _, line := range lines {
		p.note("  %s\n", line)
	}
	if !more {
		p.lists = slices.Delete(p.lists, n, n+1)
	}
	p.noteResult(err, "leafs through %s, which %s", b.title, map[bool]string{true: "goes on", false: "ends here"}[more])
}

func (p *scriptRunner) openList(ctx context.Context) *pagedList {
	id, m, next := one(p, p.ids), one(p, p.messages), uint64(0)
	messages := func(page []query.Message, then uint64, err error) ([]string, bool, error) {
		var lines []string
		for _, m := range page {
			lines = append(lines, textAndReceipts(m))
		}
		next = then
		return lines, then != 0, err
	}
	switch draw := p.random.IntN(6); draw {
	case 0, 1, 2:
		only := []string{"", "", "acme.v1.note"}[draw]
		return &pagedList{fmt.Sprintf("the inbox of %s %s", id, only), func(limit int) ([]string, bool, error) {
			return messages(p.node.Messages.Inbox(ctx, id, next, limit, only, nil))
		}}
	case 3, 4:
		return &pagedList{fmt.Sprintf("%s, from the end %v", m.Conversation(), draw == 4), func(limit int) ([]string, bool, error) {
			return messages(p.node.Messages.Transcript(ctx, m.Conversation(), next, limit, draw == 4, nil))
		}}
	}
	return &pagedList{fmt.Sprintf("the conversations of %s", id), func(limit int) (lines []string, more bool, err error) {
		page, then, err := p.node.Messages.Conversations(ctx, id, next, limit)
		for _, c := range page {
			lines = append(lines, fmt.Sprintf("%s %s %d", c.ConversationID(), c.GetStatus(), c.GetMessages()))
		}
		next = then
		return lines, then != 0, err
	}}
}

// streamClient is a client of an agent's stream.
type streamClient struct {
	agent parley.AgentID
	sub   journal.Subscription
	// untransferredUpTo is the position up to which the stream skips transferred
	// messages.
	untransferredUpTo uint64
	// last is the id from which the client resumes. since lists what came after it: a
	// resumed stream sends that again, before anything else.
	last  parley.MessageID
	since []string
}

// toggleStream opens a stream or closes one.
func (p *scriptRunner) toggleStream(ctx context.Context) {
	if len(p.listeners) == listenersMax || len(p.listeners) > 0 && !p.likely(4) {
		n := p.random.IntN(len(p.listeners))
		p.listeners[n].sub.Close()
		p.listeners = slices.Delete(p.listeners, n, n+1)
		p.note("a stream ends\n")
		return
	}
	l := &streamClient{agent: one(p, p.ids)}
	last, resume := parley.MessageID{}, p.random.IntN(2) == 0
	if resume && p.likely(4) {
		if mine, _, err := p.node.Messages.Inbox(ctx, l.agent, 0, 10, "", nil); err == nil && len(mine) > 0 {
			last = one(p, mine).Record.MessageID()
		} else if len(p.messages) > 0 {
			last = one(p, p.messages).MessageID()
		}
	} else if resume && p.likely(2) {
		last = parley.MessageID{1: 1, 15: byte(p.random.IntN(250))} // unknown
	}
	start, err := p.node.Feeds.Resume(ctx, l.agent, last, resume)
	if err == nil {
		if l.last = start.Last; start.OnlyUntransferred {
			l.untransferredUpTo = p.node.Feeds.DurablePosition(l.agent)
		}
		l.since = p.upTo(l, start.After)
		l.sub = p.node.Feeds.Follow(l.agent, start.After, func() {})
		p.listeners = append(p.listeners, l)
	}
	p.noteResult(err, "a stream of %s after %s, only unseen %v, gap %v", l.agent, start.Last, start.OnlyUntransferred, start.Gap)
	if err == nil { // read what exists now: a stream resumed earlier would not skip it
		p.settle()
		p.noteStreamed(l, p.newEntries(l))
	}
}

// upTo returns what a stream resumed after l.last sends up to a position: what a client
// must get again although this stream begins after it.
func (p *scriptRunner) upTo(l *streamClient, position uint64) (lines []string) {
	start := must(p.node.Feeds.Resume(context.Background(), l.agent, l.last, true))(p.t)
	v := p.contents.View()
	defer v.Close()
	var entries []journal.FeedEntry
	err := v.Feed(l.agent, start.After, position, func(e journal.FeedEntry) bool { entries = append(entries, e); return true })
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range withoutGroupEvents(entries) {
		lines = append(lines, p.line(l, e))
	}
	return lines
}

// noteStreamed notes what a stream transfers, and records its receipts.
func (p *scriptRunner) noteStreamed(l *streamClient, entries []journal.FeedEntry) {
	for _, e := range entries {
		line := p.line(l, e)
		l.since = append(l.since, line)
		if !e.Kind.BringsMessage() {
			p.note("a stream carries %s\n", line)
			continue
		}
		m := p.asStored(e)
		if m.Receipts.TransferredAt != 0 && e.Position <= l.untransferredUpTo {
			continue
		}
		p.note("a stream carries %s\n", line)
		l.last, l.since = m.Record.MessageID(), nil
		if m.Receipts.TransferredAt == 0 {
			p.node.Receipts.RecordSoon(journal.RecordReceipt{
				Recipient: l.agent, Message: l.last, Position: e.Position, Receipts: journal.Receipts{TransferredAt: p.clock().UnixMilli()},
				Copy: m.Record.Copied(),
			})
			eventually(p.t, "the mark is there", func() bool { return p.asStored(e).Receipts.TransferredAt != 0 })
			p.settle()
		}
	}
}

// newEntries returns the feed entries that l has not received yet.
func (p *scriptRunner) newEntries(l *streamClient) (all []journal.FeedEntry) {
	newest := uint64(0)
	v := p.contents.View()
	err := v.Feed(l.agent, 0, math.MaxUint64, func(e journal.FeedEntry) bool { newest = e.Position; return true })
	v.Close()
	eventually(p.t, "the stream has caught up", func() bool {
		entries := []journal.FeedEntry(nil)
		if err == nil {
			entries, err = l.sub.Next(3)
		}
		all = append(all, entries...)
		return err != nil || len(entries) == 0 && l.sub.Position() >= newest
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return withoutGroupEvents(all)
}

// withoutGroupEvents removes events about groups and their members: events of several
// groups at the same time have no defined order. All of them are noted at the end.
func withoutGroupEvents(entries []journal.FeedEntry) []journal.FeedEntry {
	return slices.DeleteFunc(entries, func(e journal.FeedEntry) bool { return e.Kind == journal.GroupEntry })
}

func (p *scriptRunner) asStored(e journal.FeedEntry) query.Message {
	id := parley.MessageID(e.Ref)
	r := must(p.node.Messages.Get(context.Background(), id))(p.t).Record
	return must(p.node.Messages.GetFor(context.Background(), r.Recipient().Slot(), id))(p.t)
}

// line renders a feed entry as a stream shows it.
func (p *scriptRunner) line(l *streamClient, e journal.FeedEntry) (line string) {
	err := p.node.Feeds.Entries(context.Background(), l.agent, []journal.FeedEntry{e}, func(e journal.FeedEntry, m query.Message) error {
		status, _ := record.StatusNews(e.Note)
		line = fmt.Sprintf("%d %s %s", e.Kind, e.Ref, status)
		if e.Kind.BringsMessage() {
			line = "message " + messageText(m.Record)
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return line
}

// reconnect resumes a stream. It must repeat what came after the last message, and then
// send what is new.
func (p *scriptRunner) reconnect(l *streamClient) {
	start, err := p.node.Feeds.Resume(context.Background(), l.agent, l.last, true)
	if err != nil || start.Gap {
		p.t.Fatalf("resumed after %s: gap %v, %v", l.last, start.Gap, err)
	}
	l.sub, l.untransferredUpTo = p.node.Feeds.Follow(l.agent, start.After, func() {}), 0
	entries := p.newEntries(l)
	for n, was := range l.since {
		if n >= len(entries) || p.line(l, entries[n]) != was {
			p.t.Fatalf("resumed after %s, a stream does not repeat %q", l.last, was)
		}
	}
	p.noteStreamed(l, entries[len(l.since):])
}
