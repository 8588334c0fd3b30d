package actors

import (
	"context"
	"fmt"
	"slices"

	"parley"
	"parley/actors/query"
	"parley/actors/record"
	"parley/journal"
)

// book is a list that a client leafs through, page by page. The cursor lies in
// leaf; how it is numbered differs from way to way, what it leads to does not.
type book struct {
	title string
	leaf  func(limit int) (lines []string, more bool, err error)
}

// booksMax and listenersMax bound what is open at a time.
const booksMax, listenersMax = 6, 4

// leaf opens a book or turns a page of one that is open.
func (p *player) leaf(ctx context.Context) {
	if len(p.messages) == 0 {
		p.note("nothing to read\n")
		return
	}
	if len(p.books) == 0 || len(p.books) < booksMax && !p.likely(3) {
		p.books = append(p.books, p.book(ctx))
	}
	n := p.random.IntN(len(p.books))
	b := p.books[n]
	lines, more, err := b.leaf(1 + p.random.IntN(4))
	for _, line := range lines {
		p.note("  %s\n", line)
	}
	if !more {
		p.books = slices.Delete(p.books, n, n+1)
	}
	p.say(err, "leafs through %s, which %s", b.title, map[bool]string{true: "goes on", false: "ends here"}[more])
}

func (p *player) book(ctx context.Context) *book {
	id, m, next := one(p, p.ids), one(p, p.messages), uint64(0)
	messages := func(page []query.Message, then uint64, err error) ([]string, bool, error) {
		var lines []string
		for _, m := range page {
			lines = append(lines, withMarks(m))
		}
		next = then
		return lines, then != 0, err
	}
	switch draw := p.random.IntN(6); draw {
	case 0, 1, 2:
		only := []string{"", "", "acme.v1.note"}[draw]
		return &book{fmt.Sprintf("the inbox of %s %s", id, only), func(limit int) ([]string, bool, error) {
			return messages(p.node.Messages.Inbox(ctx, id, next, limit, only, nil))
		}}
	case 3, 4:
		return &book{fmt.Sprintf("%s, from the end %v", m.Conversation(), draw == 4), func(limit int) ([]string, bool, error) {
			return messages(p.node.Messages.Transcript(ctx, m.Conversation(), next, limit, draw == 4, nil))
		}}
	}
	return &book{fmt.Sprintf("the conversations of %s", id), func(limit int) (lines []string, more bool, err error) {
		page, then, err := p.node.Messages.Conversations(ctx, id, next, limit)
		for _, c := range page {
			lines = append(lines, fmt.Sprintf("%s %s %d", c.ConversationID(), c.GetStatus(), c.GetMessages()))
		}
		next = then
		return lines, then != 0, err
	}}
}

// listener is a client at an agent's stream.
type listener struct {
	agent parley.AgentID
	sub   journal.Subscription
	// untransferredUpTo is where the stream passes over what was carried before.
	unseenUpTo uint64
	// last is the id that the client resumes from, since what came after it: that
	// comes again with a resumed stream, before anything else.
	last  parley.MessageID
	since []string
}

// tuneIn begins a stream or ends one.
func (p *player) tuneIn(ctx context.Context) {
	if len(p.listeners) == listenersMax || len(p.listeners) > 0 && !p.likely(4) {
		n := p.random.IntN(len(p.listeners))
		p.listeners[n].sub.Close()
		p.listeners = slices.Delete(p.listeners, n, n+1)
		p.note("a stream ends\n")
		return
	}
	l := &listener{agent: one(p, p.ids)}
	last, resume := parley.MessageID{}, p.random.IntN(2) == 0
	if resume && p.likely(4) {
		if mine, _, err := p.node.Messages.Inbox(ctx, l.agent, 0, 10, "", nil); err == nil && len(mine) > 0 {
			last = one(p, mine).Record.MessageID()
		} else if len(p.messages) > 0 {
			last = one(p, p.messages).MessageID()
		}
	} else if resume && p.likely(2) {
		last = parley.MessageID{1: 1, 15: byte(p.random.IntN(250))} // nobody's
	}
	start, err := p.node.Feeds.Resume(ctx, l.agent, last, resume)
	if err == nil {
		if l.last = start.Last; start.OnlyUntransferred {
			l.unseenUpTo = p.node.Feeds.DurablePosition(l.agent)
		}
		l.since = p.upTo(l, start.After)
		l.sub = p.node.Feeds.Follow(l.agent, start.After, func() {})
		p.listeners = append(p.listeners, l)
	}
	p.say(err, "a stream of %s after %s, only unseen %v, gap %v", l.agent, start.Last, start.OnlyUntransferred, start.Gap)
	if err == nil { // what is there already: resumed before that, it would not be passed over
		p.settle()
		p.listen(l, p.newEntries(l))
	}
}

// upTo is what a stream resumed after l.last carries up to a position: what a
// client is to get again although this stream begins after it.
func (p *player) upTo(l *listener, position uint64) (lines []string) {
	start := must(p.node.Feeds.Resume(context.Background(), l.agent, l.last, true))(p.t)
	v := p.store.View()
	defer v.Close()
	var entries []journal.FeedEntry
	err := v.Feed(l.agent, start.After, position, func(e journal.FeedEntry) bool { entries = append(entries, e); return true })
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range withoutNews(entries) {
		lines = append(lines, p.line(l, e))
	}
	return lines
}

// listen notes what a stream carries, and marks it.
func (p *player) listen(l *listener, entries []journal.FeedEntry) {
	for _, e := range entries {
		line := p.line(l, e)
		l.since = append(l.since, line)
		if !e.Kind.BringsMessage() {
			p.note("a stream carries %s\n", line)
			continue
		}
		m := p.asStored(e)
		if m.Receipts.TransferredAt != 0 && e.Position <= l.unseenUpTo {
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

// newEntries are those of the feed that l was not given yet.
func (p *player) newEntries(l *listener) (all []journal.FeedEntry) {
	newest := uint64(0)
	v := p.store.View()
	err := v.FeedBefore(l.agent, 0, func(e journal.FeedEntry) bool { newest = e.Position; return false })
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
	return withoutNews(all)
}

// withoutNews leaves out what groups tell of their members: what several tell at
// the same time has no order among each other. All of it is noted at the end.
func withoutNews(entries []journal.FeedEntry) []journal.FeedEntry {
	return slices.DeleteFunc(entries, func(e journal.FeedEntry) bool { return e.Kind == journal.GroupEntry })
}

func (p *player) asStored(e journal.FeedEntry) query.Message {
	id := parley.MessageID(e.Ref)
	r := must(p.node.Messages.Get(context.Background(), id))(p.t).Record
	return must(p.node.Messages.GetFor(context.Background(), r.Recipient().Slot(), id))(p.t)
}

// line is a feed entry as a stream tells of it.
func (p *player) line(l *listener, e journal.FeedEntry) (line string) {
	err := p.node.Feeds.Entries(context.Background(), l.agent, []journal.FeedEntry{e}, func(e journal.FeedEntry, m query.Message) error {
		status, _ := record.StatusNews(e.Note)
		line = fmt.Sprintf("%d %s %s", e.Kind, e.Ref, status)
		if e.Kind.BringsMessage() {
			line = "message " + wording(m.Record)
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return line
}

// reconnect resumes a stream. What came after the last message comes again, and
// then what is new.
func (p *player) reconnect(l *listener) {
	start, err := p.node.Feeds.Resume(context.Background(), l.agent, l.last, true)
	if err != nil || start.Gap {
		p.t.Fatalf("resumed after %s: gap %v, %v", l.last, start.Gap, err)
	}
	l.sub, l.unseenUpTo = p.node.Feeds.Follow(l.agent, start.After, func() {}), 0
	entries := p.newEntries(l)
	for n, was := range l.since {
		if n >= len(entries) || p.line(l, entries[n]) != was {
			p.t.Fatalf("resumed after %s, a stream does not carry %q again", l.last, was)
		}
	}
	p.listen(l, entries[len(l.since):])
}
