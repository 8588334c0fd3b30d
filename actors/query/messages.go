package query

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
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
// if there is none. Of a message that was erased it returns the header, and
// journal.ErrErased.
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
	if err == nil || errors.Is(err, journal.ErrErased) {
		err = cmp.Or(q.Addressed(ctx, m.Record), err)
	}
	return m, err
}

// readMessage reads a message with its receipts.
func readMessage(v journal.View, reader parley.Slot, id parley.MessageID) (Message, error) {
	return ReadMessageInto(&record.Message{}, v, reader, id)
}

// ReadMessageInto is readMessage for a record that is used again. It changes the record only
// if it finds the message; a copy of a broadcast gets another record.
func ReadMessageInto(r *record.Message, v journal.View, reader parley.Slot, id parley.MessageID) (Message, error) {
	m, err := readRecordInto(r, v, reader, id)
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
// it. Of a message that was erased it returns the header, and journal.ErrErased.
func ReadRecord(v journal.View, reader parley.Slot, id parley.MessageID) (m Message, err error) {
	return readRecordInto(&record.Message{}, v, reader, id)
}

func readRecordInto(r *record.Message, v journal.View, reader parley.Slot, id parley.MessageID) (m Message, err error) {
	m.Position, err = v.Message(reader, id, func(stored []byte) error {
		m.Record = r
		return r.UnmarshalAgain(stored)
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

// Conversation returns the durable state of a conversation.
func (q *Messages) Conversation(ctx context.Context, id parley.ConversationID) (*conversation.State, error) {
	s := &conversation.State{}
	err := q.view(ctx, func(v journal.View) error { return ReadConversation(v, id, s) })
	if err == nil {
		err = q.closeErased(ctx, s)
	}
	return s, err
}

// closeErased cancels a conversation in memory if the owner of the group that hosts it was
// erased. Nobody can change it any more, so no event says so.
func (q *reader) closeErased(ctx context.Context, s *conversation.State) error {
	if s.GroupID().Zero() || s.Terminal() {
		return nil
	}
	_, err := q.lookups.org(ctx, parley.IDFromBytes[parley.OrgID](s.GetOwner()))
	if errors.Is(err, journal.ErrErased) {
		s.Status, err = conversation.Canceled, nil
	}
	return err
}

func ReadConversation(v journal.View, id parley.ConversationID, into *conversation.State) error {
	_, _, err := rules.Conversation.Load(rules.StoredIn(v), rules.ConversationStream(id), into)
	if err == nil && !into.Exists() {
		err = conversation.ErrUnknown
	}
	return err
}

// ReplyAfter returns the first message of a conversation after a message, if it is
// Addressed to agent to; found is false otherwise or if there is none yet.
func (q *Messages) ReplyAfter(ctx context.Context, id parley.ConversationID, after parley.MessageID, to parley.AgentID) (reply Message, found bool, err error) {
	err = q.view(ctx, func(v journal.View) error {
		bad := error(nil)
		scan := v.Events(rules.ConversationStream(id), 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
			e, err := rules.Conversation.Decode(f)
			if err != nil {
				bad = err
				return false
			}
			message := messageOf(e)
			if !message.Zero() && bytes.Compare(message[:], after[:]) > 0 {
				reply, err = readMessage(v, id.Slot(), message)
				found = err == nil && reply.Record.Recipient() == to
			}
			if errors.Is(err, journal.ErrErased) {
				return true
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
