package apply

import (
	"encoding/binary"
	"fmt"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// write adds an accepted entry to the batch.
func (ev *Evaluator) write(it *Item) error {
	e := it.Entry
	ev.state.applied.Entries++
	stamp := ev.state.arrival(e.At)
	if err := ev.writeStream(e, stamp); err != nil {
		return err
	}
	for i := range e.Hosted {
		c := &e.Hosted[i]
		ev.remember(c.Stream, c.Expect+uint64(len(c.Events)))
		if err := ev.writeEvents(c.Stream, c.Expect, c.Events, c.State, stamp); err != nil {
			return err
		}
	}
	for i := range e.Rows {
		if err := ev.writeRow(&e.Rows[i]); err != nil {
			return err
		}
	}
	for _, n := range e.Handled {
		if err := ev.batch.Delete(layout.QueueKey(e.Stream, n), nil); err != nil {
			return err
		}
	}
	if err := ev.writeEffects(it, stamp); err != nil {
		return err
	}
	if err := ev.writeTimers(e); err != nil {
		return err
	}
	for _, c := range e.Counts {
		if ev.counts == nil {
			ev.counts = map[string]uint64{}
		}
		key := ev.state.homes.QuotaKey(ev.state.journal, layout.Quota{Org: c.Org, Day: c.Day, Of: c.Of, Part: c.Part})
		ev.counts[string(key)] += layout.EncodeCount(c.N, c.Bytes)
	}
	if e.Retire {
		if have := ev.state.activations[e.Stream]; !have.unknown {
			ev.remember(e.Stream, have.seq)
		}
		delete(ev.state.activations, e.Stream)
	}
	return nil
}

func (ev *Evaluator) writeStream(e *journal.Entry, at int64) error {
	if e.Stream.Zero() || e.Activate {
		return nil
	}
	have := ev.state.activations[e.Stream]
	if err := ev.writeEvents(e.Stream, have.seq, e.Events, e.State, at); err != nil {
		return err
	}
	have.seq += uint64(len(e.Events))
	ev.state.activations[e.Stream] = have
	return nil
}

// writeEffects performs the effects at this home and packs the others into one
// outbox message per home.
func (ev *Evaluator) writeEffects(it *Item, at int64) error {
	it.viaOutbox = ev.state.feedsPending(it.Stream)
	for _, w := range it.Effects {
		if err := ev.route(it, w, at); err != nil {
			return err
		}
		// A receipt is stored where the recipient reads it and, if that is another
		// home, where the conversation lives; that of a copy only with the recipient.
		if m, ok := w.(journal.RecordReceipt); ok && !m.Copy && !ev.state.homes.Same(m.Home(), m.Message.Slot()) {
			m.Recipient, m.News = parley.AgentID{}, 0
			if err := ev.route(it, m, at); err != nil {
				return err
			}
		}
	}
	for i := range it.Records {
		r := &it.Records[i]
		if err := ev.writeRecord(r.ID.Slot(), r, it.position(r.ID)); err != nil {
			return err
		}
	}
	return ev.writeOutgoing(it, at)
}

func (ev *Evaluator) route(it *Item, w journal.Effect, at int64) error {
	if many, ok := w.(journal.Fanout); ok {
		return ev.fanOut(it, many, at)
	}
	s := ev.state
	home := s.homes.Of(w.Home())
	if home != s.journal {
		it.pack(s.journal, home, w)
		return nil
	}
	// Feed entries of a stream keep their order.
	if feed, ok := w.(journal.AppendFeed); ok && (it.viaOutbox || it.packed(home)) {
		it.viaOutbox = true
		it.pack(s.journal, home, feed)
		return nil
	}
	return ev.perform(it, w, at)
}

// perform performs one effect at this home.
func (ev *Evaluator) perform(it *Item, w journal.Effect, at int64) error {
	switch w := w.(type) {
	case journal.AppendFeed:
		return ev.appendFeed(it, w, at)
	case journal.Fanout:
		return ev.appendPart(it, w, at)
	case journal.RecordReceipt:
		return recordReceipt(ev, it, w, at)
	case journal.EnqueueFor:
		it.Queued = append(it.Queued, w.To)
		return ev.batch.Set(layout.QueueKey(w.To, ev.state.next()), w.Data, nil)
	case journal.PutRow:
		return ev.writeRow(&w.Row)
	case journal.AddToList:
		return ev.addToList(w.Agent, w.Conversation)
	case journal.DropFeed:
		return ev.dropFeed(w, at)
	case journal.CreateStream:
		return ev.createStream(it, w, at)
	}
	return fmt.Errorf("persistence: unknown effect %T", w)
}

// recordReceipt merges a receipt with those of the message, and tells the sender of the kinds
// that the message had not.
func recordReceipt(ev *Evaluator, it *Item, w journal.RecordReceipt, at int64) error {
	ev.feeds = append(ev.feeds, w.Recipient)
	key := layout.ReceiptKey(w)
	news := w.News & w.Receipts.Kinds()
	if news != 0 {
		had, err := ev.kinds.of(key)
		if err != nil {
			return err
		}
		news &^= had
	}
	if err := ev.batch.Merge(key, layout.EncodeReceipts(w.Receipts), nil); err != nil || news == 0 {
		return err
	}
	ev.kinds.tell(key, news)
	return ev.route(it, journal.AppendFeed{To: w.Sender, Kind: journal.ReceiptEntry, Ref: parley.AnyID(w.Message), Note: []byte{byte(news)}}, at)
}

// addToList appends to the list of an agent's conversations.
func (ev *Evaluator) addToList(agent parley.AgentID, conversation parley.ConversationID) error {
	k := binary.BigEndian.AppendUint64(append(make([]byte, 0, 24), agent[:]...), ev.state.next())
	return ev.batch.Set(layout.RowKey(agent.Slot(), journal.ConversationTable, k), conversation[:], nil)
}

func (ev *Evaluator) appendFeed(it *Item, w journal.AppendFeed, at int64) error {
	n := ev.state.next()
	entry := journal.FeedEntry{Position: n, Kind: w.Kind, Ref: w.Ref, Note: w.Note, At: at, Begins: w.Begins}
	if w.Kind == journal.MessageEntry {
		entry.Record = it.text(parley.MessageID(w.Ref))
	}
	it.Appended = append(it.Appended, Appended{w.To, entry})
	return ev.writeFeed(w.To, &entry)
}

// createStream begins a stream. Whether it exists was checked with the entry. An
// effect that came through an outbox can no longer be refused: it does nothing if
// the stream exists.
func (ev *Evaluator) createStream(it *Item, w journal.CreateStream, at int64) error {
	if it.Message != nil {
		if n, err := ev.length(w.Stream); err != nil || n != 0 {
			return err
		}
	}
	if have, ok := ev.state.activations[w.Stream]; ok {
		have.seq, have.unknown = uint64(len(w.Events)), false
		ev.state.activations[w.Stream] = have
	}
	ev.remember(w.Stream, uint64(len(w.Events)))
	return ev.writeEvents(w.Stream, 0, w.Events, w.State, at)
}

func (ev *Evaluator) writeTimers(e *journal.Entry) error {
	for _, t := range e.Timers {
		k := ev.state.homes.TimerKey(ev.state.journal, uint64(t.Due.UnixMilli()), t.Stream)
		var err error
		if t.Cancel {
			err = ev.batch.Delete(k, nil)
		} else {
			err = ev.batch.Set(k, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
