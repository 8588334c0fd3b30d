package query

import (
	"context"
	"errors"

	"parley"
	"parley/journal"
)

// UnreadMax is as far as what was not read is counted.
const UnreadMax = 1000

// Waiting are messages that an agent is to be given.
type Waiting struct {
	// Items are the first of them, oldest first.
	Items []Message
	// Unread is how many messages without a read mark come after them, counted up
	// to UnreadMax.
	Unread int
}

// Awaited is a place in an agent's feed from which on messages are awaited. It
// moves on with each look.
type Awaited interface {
	// Look gives the first limit messages from here on, as far as they fit, or fewer
	// where it has looked at as many entries of the feed as one look may. more tells
	// that it has found none so far, but not come to the end.
	Look(ctx context.Context, limit int, fits Fits) (w Waiting, more bool, err error)
}

// After is where the messages are that came to an agent after a position (0: from
// the first), whatever has become of them.
func (q *Feeds) After(agent parley.AgentID, position uint64) Awaited {
	return &newer{reader: q.reader, agent: agent, beyond: position}
}

// Untransferred is where the messages are that were not carried to an agent yet.
func (q *Feeds) Untransferred(agent parley.AgentID) Awaited {
	return &untransferred{reader: q.reader, agent: agent}
}

// newer are all messages beyond a position.
type newer struct {
	reader *reader
	agent  parley.AgentID
	beyond uint64
}

func (a *newer) Look(ctx context.Context, limit int, fits Fits) (w Waiting, more bool, err error) {
	q := a.reader
	edge := q.journal.DurablePosition(a.agent) // the view shows all up to it
	err = q.view(ctx, func(v journal.View) error {
		lines, last, looked, err := entriesWithReceipts(v, a.agent, a.beyond, ^uint64(0), q.limits.WaitRows, limit)
		if err != nil {
			return err
		}
		for _, l := range lines {
			record, err := q.transferred(ctx, v, a.agent, l.FeedEntry)
			if err != nil {
				return err
			}
			room, err := fits.ask(record)
			if err != nil {
				return err
			}
			if !room {
				break
			}
			w.Items = append(w.Items, Message{Record: record, Receipts: l.Receipts, Position: l.Position})
		}
		if more = len(lines) == 0 && looked == q.limits.WaitRows; more {
			a.beyond = last
			return nil
		}
		return q.countUnread(v, a.agent, &w)
	})
	if err == nil && !more {
		a.beyond = max(a.beyond, w.lastPosition(edge))
	}
	return w, more, err
}

// untransferred are those of the messages beyond a position that were not carried.
// All up to it were, or have been given.
type untransferred struct {
	reader *reader
	agent  parley.AgentID
	beyond uint64
	// given: a look has found something, which need not be carried yet.
	given bool
}

func (a *untransferred) Look(ctx context.Context, limit int, fits Fits) (w Waiting, more bool, err error) {
	q := a.reader
	edge, noted, told := q.journal.DurablePosition(a.agent), uint64(0), uint64(0)
	err = q.view(ctx, func(v journal.View) (err error) {
		if noted, err = TransferredUpTo(v, a.agent); err != nil {
			return err
		}
		var bad error
		told, err = v.Untransferred(a.agent, a.beyond+1, q.limits.WaitRows, func(position uint64, id parley.MessageID) bool {
			var m Message
			if m, bad = readMessage(v, a.agent.Slot(), id); bad == nil {
				bad = q.addressed(ctx, m.Record)
			}
			room := false
			if bad == nil {
				room, bad = fits.ask(m.Record)
			}
			if bad != nil || !room {
				return false
			}
			m.Position = position
			w.Items = append(w.Items, m)
			return len(w.Items) < limit
		})
		if err = errors.Join(err, bad); err != nil || len(w.Items) == 0 {
			return err
		}
		return q.countUnread(v, a.agent, &w)
	})
	if err != nil {
		return Waiting{}, false, err
	}
	if told = min(told, max(edge, a.beyond)); len(w.Items) > 0 {
		told = w.Items[0].Position - 1
	} else {
		more = told < edge
	}
	if !a.given && told >= noted+q.limits.TransferredStep {
		q.keepTransferred(a.agent, told)
	}
	a.beyond, a.given = max(told, w.lastPosition(0)), a.given || len(w.Items) > 0
	return w, more, nil
}

// lastPosition is the position of the last message, or another where there is none.
func (w *Waiting) lastPosition(otherwise uint64) uint64 {
	if len(w.Items) == 0 {
		return otherwise
	}
	return w.Items[len(w.Items)-1].Position
}

// countUnread counts the messages without a read mark that follow what was found.
func (q *reader) countUnread(v journal.View, agent parley.AgentID, w *Waiting) error {
	if len(w.Items) == 0 {
		return nil
	}
	err := WalkUnread(v, agent, w.lastPosition(0), ^uint64(0), q.limits.WaitRows, func(FeedEntry) error {
		if w.Unread++; w.Unread == UnreadMax {
			return ErrEnough
		}
		return nil
	})
	if errors.Is(err, ErrEnough) {
		return nil
	}
	return err
}
