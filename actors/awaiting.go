package actors

import (
	"context"
	"errors"

	"parley"
	"parley/journal"
)

// UnreadMax is as far as what was not read is counted.
const UnreadMax = 1000

// waitRows is a node's, unless a test has another: how many entries of a feed one
// look passes by, and beyond what it found, how many it counts unread messages
// among.
const waitRows = 4096

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
func (n *Node) After(agent parley.AgentID, position uint64) Awaited {
	return &newer{node: n, agent: agent, beyond: position}
}

// Untransferred is where the messages are that were not carried to an agent yet.
func (n *Node) Untransferred(agent parley.AgentID) Awaited {
	return &untransferred{node: n, agent: agent}
}

// newer are all messages beyond a position.
type newer struct {
	node   *Node
	agent  parley.AgentID
	beyond uint64
}

func (a *newer) Look(ctx context.Context, limit int, fits Fits) (w Waiting, more bool, err error) {
	n := a.node
	edge := n.DurablePosition(a.agent) // the view shows all up to it
	err = n.view(ctx, func(v journal.View) error {
		lines, last, looked, err := marked(v, a.agent, a.beyond, ^uint64(0), n.waitRows, limit)
		if err != nil {
			return err
		}
		for _, l := range lines {
			record, err := n.transferred(ctx, v, a.agent, l.FeedEntry)
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
			w.Items = append(w.Items, Message{Record: record, Marks: l.marks, Position: l.Position})
		}
		if more = len(lines) == 0 && looked == n.waitRows; more {
			a.beyond = last
			return nil
		}
		return n.countUnread(v, a.agent, &w)
	})
	if err == nil && !more {
		a.beyond = max(a.beyond, w.last(edge))
	}
	return w, more, err
}

// untransferred are those of the messages beyond a position that were not carried.
// All up to it were, or have been given.
type untransferred struct {
	node   *Node
	agent  parley.AgentID
	beyond uint64
	// given: a look has found something, which need not be carried yet.
	given bool
}

func (a *untransferred) Look(ctx context.Context, limit int, fits Fits) (w Waiting, more bool, err error) {
	n := a.node
	edge, noted, told := n.DurablePosition(a.agent), uint64(0), uint64(0)
	err = n.view(ctx, func(v journal.View) (err error) {
		if noted, err = readTransferred(v, a.agent); err != nil {
			return err
		}
		var bad error
		told, err = v.Untransferred(a.agent, a.beyond+1, n.waitRows, func(position uint64, id parley.MessageID) bool {
			var m Message
			if m, bad = readMessage(v, a.agent.Slot(), id); bad == nil {
				bad = n.addressed(ctx, m.Record)
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
		return n.countUnread(v, a.agent, &w)
	})
	if err != nil {
		return Waiting{}, false, err
	}
	if told = min(told, max(edge, a.beyond)); len(w.Items) > 0 {
		told = w.Items[0].Position - 1
	} else {
		more = told < edge
	}
	if !a.given && told >= noted+n.transferredStep {
		n.keepTransferred(a.agent, told)
	}
	a.beyond, a.given = max(told, w.last(0)), a.given || len(w.Items) > 0
	return w, more, nil
}

// last is the position of the last message, or another where there is none.
func (w *Waiting) last(otherwise uint64) uint64 {
	if len(w.Items) == 0 {
		return otherwise
	}
	return w.Items[len(w.Items)-1].Position
}

// countUnread counts the messages without a read mark that follow what was found.
func (n *Node) countUnread(v journal.View, agent parley.AgentID, w *Waiting) error {
	if len(w.Items) == 0 {
		return nil
	}
	err := walkUnread(v, agent, w.last(0), ^uint64(0), n.waitRows, func(feedLine) error {
		if w.Unread++; w.Unread == UnreadMax {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
