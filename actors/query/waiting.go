package query

import (
	"context"
	"errors"

	"parley/client/parley"
	"parley/journal"
)

// UnreadMax is up to how many unread messages are counted.
const UnreadMax = 1000

// Waiting is the result of a wait for messages.
type Waiting struct {
	// Items are the first messages, oldest first.
	Items []Message
	// Unread is how many unread messages follow them, counted up to UnreadMax.
	Unread int
}

// Awaited is a place in an agent's feed after which messages are awaited. Each Look
// moves it forward.
type Awaited interface {
	// Look returns the first messages from this place on, up to limit and as far as
	// they fit. One call reads a bounded number of feed entries. more is set if it has
	// found none in them and has not reached the end of the feed.
	Look(ctx context.Context, limit int, fits Fits) (w Waiting, more bool, err error)
}

// After awaits the messages that arrive in an agent's feed after a position (0: from
// the first), whatever their receipts.
func (q *Feeds) After(agent parley.AgentID, position uint64) Awaited {
	return &newer{reader: q.reader, agent: agent, beyond: position}
}

// FromNow awaits the messages that arrive from now on.
func (q *Feeds) FromNow(agent parley.AgentID) Awaited {
	return q.After(agent, q.reader.journal.DurablePosition(agent))
}

// Untransferred awaits the messages that are not transferred to an agent.
func (q *Feeds) Untransferred(agent parley.AgentID) Awaited {
	return &untransferred{reader: q.reader, agent: agent}
}

// newer awaits all messages after a position.
type newer struct {
	reader *reader
	agent  parley.AgentID
	beyond uint64
}

func (a *newer) Look(ctx context.Context, limit int, fits Fits) (w Waiting, more bool, err error) {
	q := a.reader
	durable := q.journal.DurablePosition(a.agent) // read before the view opens, which has everything up to it
	err = q.view(ctx, func(v journal.View) error {
		entries, last, err := entriesWithReceipts(v, a.agent, a.beyond, ^uint64(0), limit)
		if err != nil {
			return err
		}
		for _, l := range entries {
			record, err := q.transferred(ctx, v, a.agent, l.FeedEntry)
			if errors.Is(err, journal.ErrErased) {
				continue
			}
			if err != nil {
				return err
			}
			fit, err := fits.ask(record)
			if err != nil {
				return err
			}
			if !fit {
				break
			}
			w.Items = append(w.Items, Message{Record: record, Receipts: l.Receipts, Position: l.Position})
		}
		// Where all entries were erased, the next messages lie beyond them.
		if more = len(w.Items) == 0 && len(entries) == limit; more {
			a.beyond = last
			return nil
		}
		return q.countUnread(v, a.agent, &w)
	})
	if err == nil && !more {
		a.beyond = max(a.beyond, w.lastPosition(durable))
	}
	return w, more, err
}

// untransferred awaits the messages after a position that are not transferred. All
// messages up to the position are transferred or were returned.
type untransferred struct {
	reader *reader
	agent  parley.AgentID
	beyond uint64
	// read is how many entries were read since the position up to which everything is
	// transferred was stored.
	read int
	// erased is the position of the first erased message that was passed, 0 if there was
	// none. It has no receipts, so the stored position stays before it.
	erased uint64
	// given is set once Look has returned messages, which may not be transferred yet.
	given bool
}

func (a *untransferred) Look(ctx context.Context, limit int, fits Fits) (w Waiting, more bool, err error) {
	q := a.reader
	durable, reached, read := q.journal.DurablePosition(a.agent), uint64(0), 0
	err = q.view(ctx, func(v journal.View) (err error) {
		var bad error
		reached, read, err = v.Untransferred(a.agent, a.beyond+1, q.limits.WaitRows, func(position uint64, id parley.MessageID) bool {
			var m Message
			if m, bad = readMessage(v, a.agent.Slot(), id); bad == nil {
				bad = q.Addressed(ctx, m.Record)
			}
			if errors.Is(bad, journal.ErrErased) {
				bad = nil
				if a.erased == 0 {
					a.erased = position
				}
				return true
			}
			fit := false
			if bad == nil {
				fit, bad = fits.ask(m.Record)
			}
			if bad != nil || !fit {
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
	if reached = min(reached, max(durable, a.beyond)); len(w.Items) > 0 {
		reached = w.Items[0].Position - 1
	} else {
		more = reached < durable
	}
	if a.read += read; !a.given && a.erased == 0 && a.read >= q.limits.TransferredStep && reached > a.beyond {
		q.keepTransferred(a.agent, reached)
		a.read = 0
	}
	a.beyond, a.given = max(reached, w.lastPosition(0)), a.given || len(w.Items) > 0
	return w, more, nil
}

// lastPosition returns the position of the last message, or otherwise if there is none.
func (w *Waiting) lastPosition(otherwise uint64) uint64 {
	if len(w.Items) == 0 {
		return otherwise
	}
	return w.Items[len(w.Items)-1].Position
}

// countUnread counts the unread messages that follow the items.
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
