package actors

import (
	"context"
	"errors"
	"time"

	"parley/actors/conversation"
	"parley/actors/query"
	"parley/client/parley"
	"parley/journal"
)

// readOn reads pages of all kinds, and records some receipts, until the writers have
// finished.
func (c *client) readOn(done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(c.rng.IntN(400)) * time.Microsecond):
			c.read()
		}
	}
}

func (c *client) read() {
	ctx := context.Background()
	a, ok := pick(c, &c.active)
	if !ok {
		return
	}
	switch c.rng.IntN(5) {
	case 0, 1:
		c.page(a, c.rng.IntN(3) == 0)
	case 2:
		list, _, err := c.node().Messages.Conversations(ctx, a.id, 0, 100)
		if c.answered(err) {
			for _, s := range list {
				c.sawState(s)
			}
		}
	case 3:
		if m, ok := pick(c, &c.pool); ok {
			c.transcript(m.Conversation())
		}
	default:
		c.readAgent(a)
	}
}

// page reads two pages of an inbox, and records receipts of some messages if mark is
// set.
func (c *client) page(a *crashAgent, mark bool) {
	ctx := context.Background()
	before := uint64(0)
	for range 2 {
		page, next, err := c.node().Messages.Inbox(ctx, a.id, before, 8, "", nil)
		if !c.answered(err) {
			return
		}
		c.sawMessages(page...)
		var marks []journal.RecordReceipt
		at := c.clock().UnixMilli()
		for i := range page {
			if i > 0 && c.rng.IntN(2) == 0 {
				continue
			}
			page[i].Receipts = journal.Receipts{TransferredAt: at}
			if c.rng.IntN(2) == 0 {
				page[i].Receipts.ReadAt = at
			}
			marks = append(marks, journal.RecordReceipt{Recipient: a.id, Message: page[i].Record.MessageID(), Position: page[i].Position, Receipts: page[i].Receipts, Copy: page[i].Record.Copied()})
		}
		if mark && c.answered(c.node().Receipts.Record(ctx, a.id, marks)) {
			c.sawMessages(page...)
		}
		if before = next; next == 0 {
			return
		}
	}
}

// shownState is a state of a conversation that a client was shown.
type shownState struct {
	id       parley.ConversationID
	messages int64
	status   conversation.Status
}

func (w *workload) sawState(s *conversation.State) {
	w.claimOnce(shownState{s.ConversationID(), s.GetMessages(), s.GetStatus()}, func(k *knownFacts) { k.state(s) })
}

// shownRows is a transcript that a client was shown.
type shownRows struct {
	id   parley.ConversationID
	rows int
}

// transcript reads a conversation from its first row on.
func (c *client) transcript(id parley.ConversationID) {
	rows, _, err := c.node().Messages.Transcript(context.Background(), id, 0, 200, false, nil)
	if !c.answered(err) {
		return
	}
	var ids []parley.MessageID
	for _, m := range rows {
		ids = append(ids, m.Record.MessageID())
		c.sawMessages(query.Message{Record: m.Record}) // its receipts are those that the conversation has
		c.claimOnce(shownOnce{m.Record.MessageID(), 0, m.Receipts, true}, func(k *knownFacts) { k.sent(m) })
	}
	c.claimOnce(shownRows{id, len(ids)}, func(k *knownFacts) { k.transcript(id, ids) })
}

// shownCount is a count that a poll returned.
type shownCount struct {
	id      parley.AgentID
	counted int
}

// readAgent looks up an agent by everything that identifies it.
func (c *client) readAgent(a *crashAgent) {
	ctx := context.Background()
	now, err := c.node().Agents.Get(ctx, a.id)
	if !c.answered(err, parley.ErrNotFound) || err != nil {
		return // not created at its home yet
	}
	c.sawAgent(now)
	full := fullName{a.owner, a.name}
	if id, err := c.node().Agents.ByName(ctx, a.owner, a.name); c.answered(err) {
		c.claimOnce(full, func(k *knownFacts) { k.name(full, id) })
	}
	id, err := c.node().Agents.ByPollToken(ctx, now.GetPollTokenHash())
	if c.answered(err, parley.ErrNotFound) && err == nil && id != a.id {
		c.t.Errorf("the poll token of %s is that of %s", a.id, id)
	}
	if counted, err := c.node().Messages.CountSince(ctx, a.id, 0); c.answered(err) {
		c.claimOnce(shownCount{a.id, counted}, func(k *knownFacts) { k.counted[a.id] = max(k.counted[a.id], counted) })
	}
	start, err := c.node().Feeds.Resume(ctx, a.id, parley.MessageID{}, false)
	if !c.answered(err) || start.Last.Zero() {
		return
	}
	last, err := c.node().Messages.GetFor(ctx, a.id.Slot(), start.Last)
	if errors.Is(err, parley.ErrNotFound) {
		c.t.Errorf("a stream of %s begins after %s, which does not exist", a.id, start.Last)
	} else if c.answered(err) {
		c.sawMessages(last)
	}
}
