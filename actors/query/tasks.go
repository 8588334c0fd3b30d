package query

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Latest stands for the newest event of a conversation.
const Latest = ^uint64(0)

// Moment is a conversation between two agents as it was after some of its events.
type Moment struct {
	State *conversation.State
	// Event is the number of the last event, 0 if there was only the first message.
	Event uint64
	// Messages are the latest ones up to then, oldest first, without erased ones.
	Messages []Message
	// Artifacts are the newest of those that the state names, oldest first, without erased
	// ones. TaskAt reads them. Messages has those among the latest too.
	Artifacts []Message
	// Cut: there may be messages before the first of Messages.
	Cut bool
}

// ConversationAt returns a conversation as it was after its event at, and up to limit of its
// latest messages. If it has fewer events, it returns the conversation as it is.
func (q *Messages) ConversationAt(ctx context.Context, id parley.ConversationID, at uint64, limit int, fits Fits) (Moment, error) {
	return q.momentAt(ctx, id, at, limit, fits, false)
}

// TaskAt is ConversationAt with the newest artifacts. It asks fits for the last message, then
// for the artifacts, the newest first, and then for the messages before the last one, so that no
// message displaces an artifact. Artifacts that do not fit are not among the messages either.
//
// It reads at most 64 records of artifacts, limit of messages and 2,000 events, and the events
// since the state was stored, about 32. Beside a moment that is not the latest one, it reads all
// events before it.
func (q *Messages) TaskAt(ctx context.Context, id parley.ConversationID, at uint64, limit int, fits Fits) (Moment, error) {
	return q.momentAt(ctx, id, at, limit, fits, true)
}

func (q *Messages) momentAt(ctx context.Context, id parley.ConversationID, at uint64, limit int, fits Fits, artifacts bool) (m Moment, err error) {
	stream := rules.ConversationStream(id)
	err = q.view(ctx, func(v journal.View) error {
		m = Moment{State: &conversation.State{}, Cut: true}
		if at == Latest {
			m.Event, _, err = rules.Conversation.Load(rules.StoredIn(v), stream, m.State)
		} else {
			m.Event, err = foldUpTo(v, stream, at, m.State)
		}
		if err == nil && !m.State.Exists() {
			err = conversation.ErrUnknown
		}
		if err != nil || limit == 0 {
			return err
		}
		p := taskPage{view: v, slot: id.Slot(), fits: fits, read: map[parley.MessageID]*Message{}}
		if artifacts {
			if m.Artifacts, err = p.artifacts(m.State); err != nil {
				return err
			}
		}
		w := transcriptPage{limit: limit, fits: p.ask, read: p.message, eventsMax: scanMax}
		err = w.walk(v, stream, m.Event+2, true) // before the place that follows the event's
		m.Messages, m.Cut = w.page, w.next != 0
		return err
	})
	slices.Reverse(m.Messages)
	return m, err
}

// taskPage reads messages of a task, each once.
type taskPage struct {
	view journal.View
	slot parley.Slot
	fits Fits
	// read has messages that were read and fit; nil for those that are left out.
	read map[parley.MessageID]*Message
}

// artifacts reads the last message of a task, and then the newest artifacts as far as they fit.
func (p *taskPage) artifacts(s *conversation.State) (found []Message, err error) {
	if _, err := p.take(s.LastMessage()); err != nil {
		return nil, err
	}
	full := false
	for _, id := range s.NewestArtifacts() {
		if full {
			p.read[id] = nil
			continue
		}
		fit, err := p.take(id)
		if err != nil {
			return nil, err
		}
		if full = !fit; p.read[id] != nil {
			found = append(found, *p.read[id])
		}
	}
	slices.Reverse(found)
	return found, nil
}

// take reads a message, unless it was read, and reports whether it fits. One that was erased
// fits, and is left out.
func (p *taskPage) take(id parley.MessageID) (fit bool, err error) {
	if _, known := p.read[id]; known {
		return true, nil
	}
	p.read[id] = nil
	m, err := readMessage(p.view, p.slot, id)
	if errors.Is(err, journal.ErrErased) || errors.Is(err, parley.ErrNotFound) {
		return true, nil
	}
	if err == nil {
		fit, err = p.fits.ask(m.Record)
	}
	if fit && err == nil {
		p.read[id] = &m
	}
	return fit, err
}

// message returns a message for a transcript.
func (p *taskPage) message(id parley.MessageID) (m Message, shown bool, err error) {
	if known, read := p.read[id]; read {
		if known == nil {
			return m, false, nil
		}
		return *known, true, nil
	}
	m, err = readMessage(p.view, p.slot, id)
	return m, true, err
}

// ask reports whether a message of a transcript fits.
func (p *taskPage) ask(r *record.Message) (bool, error) {
	if p.read[r.MessageID()] != nil {
		return true, nil
	}
	return p.fits.ask(r)
}

// foldUpTo folds the first at events of a conversation into a state, and returns the number
// of the last one.
func foldUpTo(v journal.View, s journal.Stream, at uint64, into *conversation.State) (last uint64, err error) {
	start, found, err := rules.Conversation.Start(rules.StoredIn(v), s)
	if err != nil {
		return 0, err
	}
	if found {
		rules.Conversation.Evolve(into, start)
	}
	if at == 0 {
		return 0, nil
	}
	var bad error
	err = v.Events(s, 1, false, func(n uint64, _ int64, f journal.StoredEvent) bool {
		var e conversation.Event
		if e, bad = rules.Conversation.Decode(f); bad != nil {
			return false
		}
		rules.Conversation.Evolve(into, e)
		last = n
		return n < at
	})
	return last, errors.Join(err, bad)
}

// ConversationEvent is an event of a conversation, and the message that it brought.
type ConversationEvent struct {
	Number uint64
	Event  conversation.Event
	// Status and UpdatedMs are those after the event.
	Status    conversation.Status
	UpdatedMs int64
	// Lone and AuthRequired are those of the state after the event.
	Lone, AuthRequired bool
	// Message is nil if the event brought none, or an erased one.
	Message *Message
}

// EventsAfter returns up to limit events of a conversation after a moment, oldest first, and
// moves the moment on to the last of them. It does not add to the messages of the moment. It
// ends before an event whose message does not fit, unless that is the first; nil lets
// everything fit.
func (q *Messages) EventsAfter(ctx context.Context, m *Moment, limit int, fits Fits) (events []ConversationEvent, err error) {
	id, last := m.State.ConversationID(), m.Event
	state := proto.CloneOf(m.State)
	err = q.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Events(rules.ConversationStream(id), last+1, false, func(n uint64, _ int64, f journal.StoredEvent) bool {
			if len(events) == limit {
				return false
			}
			var e conversation.Event
			if e, bad = rules.Conversation.Decode(f); bad != nil {
				return false
			}
			var brought *Message
			var fit bool
			if brought, fit, bad = eventMessage(v, id, e, fits); bad != nil || !fit && len(events) > 0 {
				return false
			}
			rules.Conversation.Evolve(state, e)
			last = n
			events = append(events, ConversationEvent{
				Number: n, Event: e, Status: state.GetStatus(), UpdatedMs: state.GetUpdatedMs(),
				Lone: state.GetLoneMessage(), AuthRequired: state.GetAuthRequired(), Message: brought,
			})
			return true
		})
		return errors.Join(scan, bad)
	})
	if err == nil {
		m.State, m.Event = state, last
	}
	return events, err
}

// eventMessage returns the message that an event brought, nil if it brought none or an
// erased one, and whether it fits.
func eventMessage(v journal.View, in parley.ConversationID, e conversation.Event, fits Fits) (m *Message, fit bool, err error) {
	id := messageOf(e)
	if id.Zero() {
		return nil, true, nil
	}
	read, err := readMessage(v, in.Slot(), id)
	switch {
	case errors.Is(err, journal.ErrErased):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	}
	fit, err = fits.ask(read.Record)
	return &read, fit, err
}

// errTasksUnread says that an agent has begun more conversations than one query indexes.
var errTasksUnread = parley.ErrOverloaded.Saying("The list of tasks is being prepared; nothing was done. Repeat the request.")

// taskStep is how many rows are read before their conversations are.
const taskStep = 1024

// EachTask calls fn with each conversation that an agent has begun with another one, in no
// order, until fn fails. States are valid during the call only.
//
// They are found by the rows of journal.TaskTable, and beyond the position in
// journal.TaskedTable by reading the agent's list of conversations. Once a query has read so
// many places of the list that it is worth it, it writes rows for them, without waiting. If
// that is lost, only speed is lost. The error is parley.ErrOverloaded if the rest of the
// list is too long to be read at once; each attempt leaves less of it.
func (q *Messages) EachTask(ctx context.Context, from, with parley.AgentID, fn func(*conversation.State) error) error {
	w := taskWalk{from: from, with: with, fn: fn}
	err := q.view(ctx, func(v journal.View) error {
		w.view = v
		upTo, err := PlaceUpTo(v, journal.TaskedTable, from)
		if err == nil {
			err = w.indexed()
		}
		if err == nil {
			err = w.beyond(upTo, &q.limits)
		}
		return err
	})
	if err == nil || errors.Is(err, errTasksUnread) {
		for _, e := range w.entries {
			q.appendUnawaited(e)
		}
	}
	return err
}

// NewestTasks calls fn with conversations that an agent has begun with another one, about the
// newest first, until fn fails, or they are older than an instant. It reads at most limit
// conversations, and returns how many it has read: others of the agent's may be among them, as
// far as no list of its tasks has been asked for. States are valid during the call only.
func (q *Messages) NewestTasks(ctx context.Context, from, with parley.AgentID, since time.Time, limit int, fn func(*conversation.State) error) (read int, err error) {
	w := taskWalk{from: from, with: with, fn: fn}
	err = q.view(ctx, func(v journal.View) error {
		w.view = v
		upTo, err := PlaceUpTo(v, journal.TaskedTable, from)
		if err != nil {
			return err
		}
		ids, err := w.newest(upTo, limit)
		if err != nil {
			return err
		}
		for _, id := range ids {
			read++
			s, err := w.begun(id)
			switch {
			case err != nil:
				return err
			case s == nil:
				continue
			case id.Time().Before(since):
				return nil
			}
			if other, _ := s.Other(from); other != with {
				continue
			}
			if err := fn(s); err != nil {
				return err
			}
		}
		return nil
	})
	return read, err
}

// newest returns up to limit ids: of the agent's list beyond a position, and then of
// journal.TaskTable, newest first.
func (w *taskWalk) newest(upTo uint64, limit int) (ids []parley.ConversationID, err error) {
	known := map[parley.ConversationID]bool{}
	add := func(id parley.ConversationID) (more bool) {
		if !known[id] {
			known[id] = true
			ids = append(ids, id)
		}
		return len(ids) < limit
	}
	more := limit > 0
	if more {
		err = w.view.Rows(w.from.Slot(), journal.ConversationTable, w.from[:], nil, true, func(key, value []byte) bool {
			if binary.BigEndian.Uint64(key[len(w.from):]) <= upTo {
				return false
			}
			more = add(parley.IDFromBytes[parley.ConversationID](value))
			return more
		})
	}
	if prefix := taskKey(w.from, w.with); more && err == nil {
		err = w.view.Rows(w.from.Slot(), journal.TaskTable, prefix, nil, true, func(key, _ []byte) bool {
			return add(parley.IDFromBytes[parley.ConversationID](key[len(prefix):]))
		})
	}
	return ids, err
}

// taskWalk is one call of EachTask or NewestTasks.
type taskWalk struct {
	view       journal.View
	from, with parley.AgentID
	fn         func(*conversation.State) error
	// entries are the rows to write.
	entries []*journal.Entry
}

// taskKey is the key in journal.TaskTable of a conversation that an agent has begun with
// another one, or of all of them if the conversation is left out.
func taskKey(from, with parley.AgentID, conversations ...parley.ConversationID) []byte {
	k := append(append(make([]byte, 0, 48), from[:]...), with[:]...)
	for _, id := range conversations {
		k = append(k, id[:]...)
	}
	return k
}

// indexed walks the rows of journal.TaskTable.
func (w *taskWalk) indexed() error {
	prefix, beyond := taskKey(w.from, w.with), []byte(nil)
	for {
		var ids []parley.ConversationID
		err := w.view.Rows(w.from.Slot(), journal.TaskTable, prefix, beyond, false, func(key, _ []byte) bool {
			ids = append(ids, parley.IDFromBytes[parley.ConversationID](key[len(prefix):]))
			return len(ids) < taskStep
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			if s, err := w.begun(id); err != nil {
				return err
			} else if s != nil {
				if err := w.fn(s); err != nil {
					return err
				}
			}
		}
		if len(ids) < taskStep {
			return nil
		}
		beyond = taskKey(w.from, w.with, ids[len(ids)-1])
	}
}

// begun returns a conversation that the agent has begun with another one, nil if it is
// another one or was erased.
func (w *taskWalk) begun(id parley.ConversationID) (*conversation.State, error) {
	s := &conversation.State{}
	err := ReadConversation(w.view, id, s)
	switch {
	case errors.Is(err, journal.ErrErased):
		return nil, nil
	case err != nil:
		return nil, err
	case !s.GroupID().Zero() || s.Initiator() != w.from:
		return nil, nil
	}
	return s, nil
}

// beyond walks the agent's list of conversations beyond a position.
func (w *taskWalk) beyond(upTo uint64, limits *Limits) error {
	read := 0
	for {
		rows, err := w.places(upTo)
		if err != nil {
			return err
		}
		entry := &journal.Entry{Slot: w.from.Slot()}
		put := func(table journal.Table, key, value []byte) {
			entry.Rows = append(entry.Rows, journal.Row{Slot: w.from.Slot(), Table: table, Key: key, Value: value})
		}
		for _, row := range rows {
			s, err := w.begun(row.id)
			if err != nil {
				return err
			}
			if s == nil {
				continue
			}
			other, _ := s.Other(w.from)
			put(journal.TaskTable, taskKey(w.from, other, row.id), nil)
			if err := w.found(s, other); err != nil {
				return err
			}
		}
		if len(rows) > 0 {
			upTo = rows[len(rows)-1].position
		}
		if read += len(rows); read >= limits.TaskedStep && len(rows) > 0 {
			put(journal.TaskedTable, w.from.Bytes(), binary.BigEndian.AppendUint64(nil, upTo))
			w.entries = append(w.entries, entry)
		}
		switch {
		case len(rows) < taskStep:
			return nil
		case read >= limits.TaskedMax:
			return errTasksUnread
		}
	}
}

// places reads places of the agent's list of conversations beyond a position.
func (w *taskWalk) places(upTo uint64) (rows []listed, err error) {
	beyond := binary.BigEndian.AppendUint64(w.from.Bytes(), upTo)
	err = w.view.Rows(w.from.Slot(), journal.ConversationTable, w.from[:], beyond, false, func(key, value []byte) bool {
		rows = append(rows, listed{binary.BigEndian.Uint64(key[len(w.from):]), parley.IDFromBytes[parley.ConversationID](value)})
		return len(rows) < taskStep
	})
	return rows, err
}

// found calls fn with a conversation of the list, unless it has a row already: of two
// queries at once, the one that read less may store its position last.
func (w *taskWalk) found(s *conversation.State, with parley.AgentID) error {
	if with != w.with {
		return nil
	}
	_, indexed, err := w.view.Row(w.from.Slot(), journal.TaskTable, taskKey(w.from, with, s.ConversationID()))
	if err != nil || indexed {
		return err
	}
	return w.fn(s)
}
