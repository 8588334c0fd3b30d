package query

import (
	"bytes"
	"context"
	"errors"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Transcript returns up to limit messages of a conversation in its order, oldest first,
// or newest first if descending is set. It begins after the place from (0: at the
// first, or the newest). next is the place to continue from, 0 at the end. Places count
// the events of the conversation from 1, its start included.
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
			err = q.Addressed(ctx, page[i].Record)
		}
	}
	return page, next, err
}

// errScanned ends a page that has read as many rows as it may.
var errScanned = errors.New("the page has read as many rows as it may")

// transcript reads the messages of a conversation that read reports as shown.
func (q *Messages) transcript(ctx context.Context, id parley.ConversationID, from uint64, limit int, descending bool, fits Fits, read func(journal.View, parley.MessageID) (Message, bool, error)) (page []Message, next uint64, err error) {
	if descending && from == 1 {
		return nil, 0, nil
	}
	w := transcriptPage{limit: limit, fits: fits, last: from}
	err = q.view(ctx, func(v journal.View) error {
		w.read = func(message parley.MessageID) (Message, bool, error) { return read(v, message) }
		return w.walk(v, rules.ConversationStream(id), from, descending)
	})
	return w.page, w.next, err
}

// transcriptPage is a page of a transcript while it is read.
type transcriptPage struct {
	limit int
	fits  Fits
	read  func(parley.MessageID) (Message, bool, error)
	page  []Message
	last  uint64 // the last place read
	// erased is how many erased messages were left out.
	erased int
	next   uint64
	// eventsMax is how many events may be read, 0 for any number.
	eventsMax, events int
}

// walk adds the messages after place from, or before it if descending. In a
// conversation whose start is no stored event, the start has place 1, and event n has
// place n+1.
func (w *transcriptPage) walk(v journal.View, s journal.Stream, from uint64, descending bool) error {
	start, found, err := rules.Conversation.Start(rules.StoredIn(v), s)
	if err != nil {
		return err
	}
	before := uint64(0) // places before that of event 1
	if found {
		before = 1
	}
	addStart := func() error {
		if !found {
			return nil
		}
		_, err := w.add(1, start)
		return err
	}
	first := max(from, before) - before + 1
	switch {
	case descending && from == 0:
		first = ^uint64(0)
	case descending:
		first = from - 1 - before
	case from == 0:
		if err := addStart(); err != nil || w.next != 0 {
			return err
		}
	}
	more := true
	if first > 0 {
		var bad error
		scan := v.Events(s, first, descending, func(seq uint64, _ int64, f journal.StoredEvent) bool {
			var e conversation.Event
			if w.events++; w.eventsMax > 0 && w.events > w.eventsMax {
				w.next, more = seq+before+1, false
				return false
			}
			if e, bad = rules.Conversation.Decode(f); bad == nil {
				more, bad = w.add(seq+before, e)
			}
			return more && bad == nil
		})
		if err := errors.Join(scan, bad); err != nil {
			return err
		}
	}
	if descending && more {
		return addStart()
	}
	return nil
}

// add adds the message of the event at a place, if it has one. more is false once the
// page is full: next is then the place to continue from.
func (w *transcriptPage) add(place uint64, e conversation.Event) (more bool, err error) {
	message := messageOf(e)
	if message.Zero() {
		return true, nil
	}
	m, shown, err := w.read(message)
	if errors.Is(err, journal.ErrErased) {
		if shown, err = false, nil; w.erased == scanMax {
			err = errScanned
		}
		w.erased++
	}
	full := shown && len(w.page) == w.limit
	if shown && !full && err == nil {
		var fit bool
		fit, err = w.fits.ask(m.Record)
		full = !fit && err == nil
	}
	if full || errors.Is(err, errScanned) {
		w.next = w.last
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if w.last = place; shown {
		w.page = append(w.page, m)
	}
	return true, nil
}

// messageOf returns the id of the message that an event of a conversation adds, zero if
// it adds none.
func messageOf(e conversation.Event) parley.MessageID {
	switch e := e.(type) {
	case *conversation.Started:
		return parley.IDFromBytes[parley.MessageID](e.GetMessageId())
	case *conversation.Posted:
		return parley.IDFromBytes[parley.MessageID](e.GetMessageId())
	case *conversation.Broadcasted:
		return parley.IDFromBytes[parley.MessageID](e.GetMessageId())
	case *conversation.StatusChanged: // it brings no message
	}
	return parley.MessageID{}
}

// PlaceOf returns the place of a message among the events of its conversation, from 1: that
// of its event, and of the start of a conversation between two agents 1, although it is no
// stored event. It never changes. A copy of a broadcast has the place of the broadcast.
func (q *Messages) PlaceOf(ctx context.Context, r *record.Message) (place uint64, err error) {
	stream, id := rules.ConversationStream(r.Conversation()), r.MessageID()
	if r.Copied() {
		id = id.Broadcast()
	}
	err = q.view(ctx, func(v journal.View) error {
		start, found, err := rules.Conversation.Start(rules.StoredIn(v), stream)
		if err != nil {
			return err
		}
		before := uint64(0)
		if found {
			if before = 1; messageOf(start) == id {
				place = 1
				return nil
			}
		}
		last, _, err := rules.Conversation.Load(rules.StoredIn(v), stream, &conversation.State{})
		if err != nil {
			return err
		}
		number, err := eventOf(v, stream, id, last)
		place = number + before
		return err
	})
	return place, err
}

// eventOf returns the number of the event that brought a message, among the first last
// events of a conversation; parley.ErrNotFound if there is none. The ids of messages ascend
// with the numbers of their events.
func eventOf(v journal.View, s journal.Stream, id parley.MessageID, last uint64) (uint64, error) {
	for low, high := uint64(1), last; low <= high; {
		middle := low + (high-low)/2
		number, found, err := messageFrom(v, s, middle)
		switch {
		case err != nil:
			return 0, err
		case found == id:
			return number, nil
		case found.Zero() || number > high || bytes.Compare(found[:], id[:]) > 0:
			high = middle - 1
		default:
			low = number + 1
		}
	}
	return 0, parley.ErrNotFound
}

// messageFrom returns the first message that an event from a number on brought, and the
// number of its event; zeros if there is none.
func messageFrom(v journal.View, s journal.Stream, from uint64) (number uint64, id parley.MessageID, err error) {
	var bad error
	err = v.Events(s, from, false, func(n uint64, _ int64, f journal.StoredEvent) bool {
		var e conversation.Event
		if e, bad = rules.Conversation.Decode(f); bad != nil {
			return false
		}
		number, id = n, messageOf(e)
		return id.Zero()
	})
	return number, id, errors.Join(err, bad)
}
