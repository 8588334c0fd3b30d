package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"parley"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// Message is a stored message with its receipts.
type Message struct {
	Record   *record.Message
	Receipts journal.Receipts
	// Position is the message's position in its recipient's feed, 0 if the home that
	// was read does not have it.
	Position uint64
}

// Get returns a message as the home of its conversation stores it; parley.ErrNotFound
// if there is none.
func (q *Messages) Get(ctx context.Context, id parley.MessageID) (Message, error) {
	return q.GetFor(ctx, id.Slot(), id)
}

// GetFor returns a message as the home of slot reader stores it. The recipient's home
// has position and receipts first. The position is 0 while the message is on its way
// there.
func (q *Messages) GetFor(ctx context.Context, reader parley.Slot, id parley.MessageID) (Message, error) {
	return q.message(ctx, reader, id, readMessage)
}

// GetRecord is GetFor without the receipts, for callers that do not need them.
func (q *Messages) GetRecord(ctx context.Context, reader parley.Slot, id parley.MessageID) (Message, error) {
	return q.message(ctx, reader, id, ReadRecord)
}

func (q *Messages) message(ctx context.Context, reader parley.Slot, id parley.MessageID, read func(journal.View, parley.Slot, parley.MessageID) (Message, error)) (m Message, err error) {
	err = q.view(ctx, func(v journal.View) error {
		m, err = read(v, reader, id)
		if errors.Is(err, parley.ErrNotFound) && reader != id.Slot() { // still on its way there
			m, err = read(v, id.Slot(), id)
			if err == nil && !m.Record.Copied() {
				m.Position = 0
			}
		}
		return err
	})
	if err == nil {
		err = q.addressed(ctx, m.Record)
	}
	return m, err
}

// readMessage reads a message with its receipts.
func readMessage(v journal.View, reader parley.Slot, id parley.MessageID) (Message, error) {
	m, err := ReadRecord(v, reader, id)
	if err != nil {
		return m, err
	}
	of := journal.RecordReceipt{Message: id}
	switch {
	case m.Position != 0:
		of.Recipient, of.Position = m.Record.Recipient(), m.Position
	case m.Record.Copied(): // on its way: it has no receipts yet
		return m, nil
	}
	m.Receipts, err = v.Receipts(of)
	return m, err
}

// ReadRecord reads a message without its receipts, as the home of slot reader stores
// it.
func ReadRecord(v journal.View, reader parley.Slot, id parley.MessageID) (m Message, err error) {
	m.Position, err = v.Message(reader, id, func(stored []byte) error {
		m.Record = &record.Message{}
		return m.Record.UnmarshalVT(stored)
	})
	switch {
	case err != nil:
		return m, err
	case m.Record == nil:
		return readCopy(v, reader, id)
	case m.Record.Copied(): // a broadcast: its sender's row is the first copy
		return readCopy(v, reader, parley.Copy(id, m.Record.GetFirstSeat()))
	}
	return m, err
}

// fillReceipts fills in the receipts of a page of an agent's feed, newest first.
func fillReceipts(v journal.View, agent parley.AgentID, page []Message) error {
	if len(page) == 0 {
		return nil
	}
	i := len(page) - 1
	return v.FeedReceipts(agent, page[i].Position, page[0].Position, func(position uint64, receipts journal.Receipts) {
		for i > 0 && page[i].Position < position {
			i--
		}
		if page[i].Position == position {
			page[i].Receipts = receipts
		}
	})
}

// Fits reports whether a page has space for one more message. The page ends before the
// first message that does not fit. Fits is called for each message in the order of the
// page and must accept the first. An error fails the page. If Fits is nil, every
// message fits.
type Fits func(*record.Message) (bool, error)

func (f Fits) ask(r *record.Message) (bool, error) {
	if f == nil {
		return true, nil
	}
	return f(r)
}

// scanMax is how many rows a filtered page may read.
const scanMax = 2000

// Inbox returns up to limit messages to an agent, newest first, before a position (0:
// from the newest). If only is not empty, it returns messages of that type only; then a
// page may be short although there are more. next is the position to continue from, 0
// at the end. // spec: Messaging
func (q *Messages) Inbox(ctx context.Context, agent parley.AgentID, before uint64, limit int, only string, fits Fits) (page []Message, next uint64, err error) {
	note := journal.TypeHash(only)
	err = q.view(ctx, func(v journal.View) error {
		seen, last, bad := 0, uint64(0), error(nil)
		scan := v.FeedBefore(agent, before, func(e journal.FeedEntry) bool {
			if len(page) == limit || seen == scanMax {
				next = last
				return false
			}
			before := last
			seen, last = seen+1, e.Position
			if !e.Kind.BringsMessage() || only != "" && !bytes.Equal(e.Note, note) {
				return true
			}
			record, err := q.transferred(ctx, v, agent, e)
			if err != nil || only != "" && record.GetType() != only {
				bad = err
				return err == nil
			}
			fit, err := fits.ask(record)
			if bad = err; !fit || err != nil {
				next = before
				return false
			}
			page = append(page, Message{Record: record, Position: e.Position})
			return true
		})
		if scan == nil {
			scan = bad
		}
		if scan == nil {
			scan = fillReceipts(v, agent, page)
		}
		return scan
	})
	return page, next, err
}

// Conversation returns the durable state of a conversation.
func (q *Messages) Conversation(ctx context.Context, id parley.ConversationID) (*conversation.State, error) {
	s := &conversation.State{}
	err := q.view(ctx, func(v journal.View) error { return readConversation(v, id, s) })
	return s, err
}

func readConversation(v journal.View, id parley.ConversationID, into *conversation.State) error {
	_, _, err := rules.Conversation.Load(v, rules.ConversationStream(id), into)
	if err == nil && !into.Exists() {
		err = conversation.ErrUnknown
	}
	return err
}

// Transcript returns up to limit messages of a conversation in its order, oldest first,
// or newest first if descending is set. It begins after the event numbered from (0: at
// the first, or the newest). next is the event to continue from, 0 at the end.
func (q *Messages) Transcript(ctx context.Context, id parley.ConversationID, from uint64, limit int, descending bool, fits Fits) (page []Message, next uint64, err error) {
	return q.transcript(ctx, id, from, limit, descending, fits, func(v journal.View, message parley.MessageID) (Message, bool, error) {
		m, err := readMessage(v, id.Slot(), message)
		return m, true, err
	})
}

// TranscriptOf is Transcript of a group's conversation for one agent: the messages that
// it sent, each broadcast once, and those that it received. A page may be short
// although there are more.
func (q *Messages) TranscriptOf(ctx context.Context, id parley.ConversationID, host parley.GroupID, of parley.AgentID, from uint64, limit int, descending bool, fits Fits) (page []Message, next uint64, err error) {
	var seats []uint32
	seatsRead, seen := false, 0
	page, next, err = q.transcript(ctx, id, from, limit, descending, fits, func(v journal.View, message parley.MessageID) (m Message, shown bool, err error) {
		if !seatsRead {
			row, _, err := v.Row(host.Slot(), journal.PlaceTable, record.PlaceKey(host, of))
			if err != nil {
				return m, false, err
			}
			seatsRead, seats = true, record.SeatsOf(row)
		}
		if seen++; seen > scanMax {
			return m, false, errScanned
		}
		return readOwn(v, message, of, seats)
	})
	for i := range page {
		if err == nil {
			err = q.addressed(ctx, page[i].Record)
		}
	}
	return page, next, err
}

// errScanned ends a page that has read as many rows as it may.
var errScanned = errors.New("the page has read as many rows as it may")

// transcript reads the messages of a conversation that read reports as shown.
func (q *Messages) transcript(ctx context.Context, id parley.ConversationID, from uint64, limit int, descending bool, fits Fits, read func(journal.View, parley.MessageID) (Message, bool, error)) (page []Message, next uint64, err error) {
	first := from + 1
	if descending {
		if first = from - 1; from == 0 {
			first = ^uint64(0)
		} else if from == 1 {
			return nil, 0, nil
		}
	}
	err = q.view(ctx, func(v journal.View) error {
		last, bad := from, error(nil)
		scan := v.Events(rules.ConversationStream(id), first, descending, func(seq uint64, _ int64, f journal.StoredEvent) bool {
			message, err := messageOf(f)
			if err != nil || message.Zero() {
				bad = err
				return err == nil
			}
			m, shown, err := read(v, message)
			full := shown && len(page) == limit
			if shown && !full && err == nil {
				var fit bool
				fit, err = fits.ask(m.Record)
				full = !fit && err == nil
			}
			if full || errors.Is(err, errScanned) {
				next = last
				return false
			}
			if bad = err; err != nil {
				return false
			}
			if last = seq; shown {
				page = append(page, m)
			}
			return true
		})
		return errors.Join(scan, bad)
	})
	return page, next, err
}

// messageOf returns the id of the message that an event of a conversation adds, zero if
// it adds none.
func messageOf(f journal.StoredEvent) (id parley.MessageID, err error) {
	e, err := rules.Conversation.Decode(f)
	switch e := e.(type) {
	case *conversation.Started:
		id = parley.IDFromBytes[parley.MessageID](e.GetMessageId())
	case *conversation.Posted:
		id = parley.IDFromBytes[parley.MessageID](e.GetMessageId())
	case *conversation.Broadcasted:
		id = parley.IDFromBytes[parley.MessageID](e.GetMessageId())
	case *conversation.StatusChanged: // it brings no message
	}
	return id, err
}

// Conversations returns the conversations in an agent's list, latest first, before a
// place in the list (0: from the newest). next is the place to continue from, 0 at the
// end.
func (q *Messages) Conversations(ctx context.Context, agent parley.AgentID, before uint64, limit int) (page []*conversation.State, next uint64, err error) {
	beyond := []byte(nil)
	if before != 0 {
		beyond = binary.BigEndian.AppendUint64(agent.Bytes(), before)
	}
	err = q.view(ctx, func(v journal.View) error {
		var ids []parley.ConversationID
		last := uint64(0)
		err := v.Rows(agent.Slot(), journal.ConversationTable, agent[:], beyond, true, func(key, value []byte) bool {
			if len(ids) == limit {
				next = last
				return false
			}
			last = binary.BigEndian.Uint64(key[len(agent):])
			ids = append(ids, parley.IDFromBytes[parley.ConversationID](value))
			return true
		})
		for _, id := range ids {
			if err != nil {
				return err
			}
			s := &conversation.State{}
			err = readConversation(v, id, s)
			page = append(page, s)
		}
		return err
	})
	return page, next, err
}

// ReplyAfter returns the first message of a conversation after a message, if it is
// addressed to agent to; found is false otherwise or if there is none yet.
func (q *Messages) ReplyAfter(ctx context.Context, id parley.ConversationID, after parley.MessageID, to parley.AgentID) (reply Message, found bool, err error) {
	err = q.view(ctx, func(v journal.View) error {
		bad := error(nil)
		scan := v.Events(rules.ConversationStream(id), 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
			message, err := messageOf(f)
			if err == nil && !message.Zero() && bytes.Compare(message[:], after[:]) > 0 {
				reply, err = readMessage(v, id.Slot(), message)
				found = err == nil && reply.Record.Recipient() == to
			}
			bad = err
			return err == nil && !found
		})
		if scan == nil {
			scan = bad
		}
		return scan
	})
	return reply, found, err
}
