package query

import (
	"cmp"
	"context"
	"time"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// SeatHolder returns an agent of an organization that is, or ever was, a member of a
// group; the zero id if there is none.
func (q *Groups) SeatHolder(ctx context.Context, id parley.GroupID, by parley.Principal) (holder parley.AgentID, err error) {
	err = q.SeatHolders(ctx, id, by, func(a parley.AgentID, _ []uint32) bool {
		holder = a
		return false
	})
	return holder, err
}

// SeatHolders calls fn once for each agent of a principal that is, or ever was, a member of a
// group, with the numbers of its seats, until fn returns false. The first of an organization,
// which journal.HolderTable names, comes first.
func (q *Groups) SeatHolders(ctx context.Context, id parley.GroupID, by parley.Principal, fn func(of parley.AgentID, seats []uint32) bool) error {
	var first parley.AgentID
	more := false
	held := func(v journal.View, a parley.AgentID) error {
		place, found, err := v.Row(id.Slot(), journal.PlaceTable, record.PlaceKey(id, a))
		if err == nil && found {
			more = fn(a, record.SeatsOf(place))
		}
		return err
	}
	if by.Only != nil {
		return q.view(ctx, func(v journal.View) error {
			more = true
			for i := 0; i < len(by.Only) && more; i++ {
				if err := held(v, by.Only[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	org := by.Org
	err := q.view(ctx, func(v journal.View) error {
		row, found, err := v.Row(id.Slot(), journal.HolderTable, record.HolderKey(id, org))
		if err != nil || !found {
			return err
		}
		first = parley.IDFromBytes[parley.AgentID](row)
		return held(v, first)
	})
	for beyond := []byte(nil); err == nil && more; err = cmp.Or(err, ctx.Err()) {
		err = q.view(ctx, func(v journal.View) error {
			var page []parley.AgentID
			err := v.Rows(org.Slot(), journal.RosterTable, org[:], beyond, false, func(key, value []byte) bool {
				page, beyond = append(page, parley.IDFromBytes[parley.AgentID](value)), append(beyond[:0], key...)
				return len(page) < RosterPage
			})
			last := len(page) < RosterPage
			for _, a := range page {
				if err == nil && more && a != first {
					err = held(v, a)
				}
			}
			more = more && !last
			return err
		})
	}
	return err
}

// copiesPerRow is how many copies of a broadcast count as one row of
// Limits.CorrespondentRows.
const copiesPerRow = 32

// Correspondents returns the agents that have exchanged messages, in a group's
// conversation, with the agents that a principal has or had in the group. It
// includes senders and recipients, whether or not they still are members, each with the
// time of such a message. The principal's own agents are included, with the zero
// time if they have no message among the newest of the conversation that were read.
func (q *Groups) Correspondents(ctx context.Context, id parley.ConversationID, host parley.GroupID, by parley.Principal) (map[parley.AgentID]time.Time, error) {
	c := &correspondents{own: map[parley.AgentID]bool{}, since: map[parley.AgentID]int64{}, budget: q.limits.CorrespondentRows}
	err := q.SeatHolders(ctx, host, by, func(a parley.AgentID, seats []uint32) bool {
		c.own[a], c.seats = true, append(c.seats, seats...)
		return true
	})
	if err != nil {
		return nil, err
	}
	err = q.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Events(rules.ConversationStream(id), ^uint64(0), true, func(_ uint64, _ int64, f journal.StoredEvent) bool {
			if !c.spend(1) {
				return false
			}
			bad = c.addEvent(v, f)
			return bad == nil
		})
		return cmp.Or(scan, bad)
	})
	since := make(map[parley.AgentID]time.Time, len(c.since))
	for agent := range c.own {
		since[agent] = time.Time{}
	}
	for agent, ms := range c.since {
		since[agent] = time.UnixMilli(ms).UTC()
	}
	return since, err
}

// correspondents is gathered from a conversation's events, newest first.
type correspondents struct {
	own    map[parley.AgentID]bool
	seats  []uint32 // all that they ever held
	since  map[parley.AgentID]int64
	budget int // rows left to read
}

// spend subtracts rows from the budget. It returns false when the budget is used up.
func (c *correspondents) spend(rows int) bool {
	c.budget -= rows
	return c.budget >= 0
}

func (c *correspondents) addEvent(v journal.View, f journal.StoredEvent) error {
	e, err := rules.Conversation.Decode(f)
	if err != nil {
		return err
	}
	switch e := e.(type) {
	case *conversation.Started:
		return c.addBroadcast(v, e.GetInitiator(), e.GetMessageId(), e.GetAtMs())
	case *conversation.Broadcasted:
		return c.addBroadcast(v, e.GetFrom(), e.GetMessageId(), e.GetAtMs())
	case *conversation.Posted:
		from, to := parley.IDFromBytes[parley.AgentID](e.GetFrom()), parley.IDFromBytes[parley.AgentID](e.GetTo())
		if c.own[from] || c.own[to] {
			c.addAt(e.GetAtMs(), from, to)
		}
	case *conversation.StatusChanged: // it has no recipient
	}
	return nil
}

func (c *correspondents) addAt(atMs int64, agents ...parley.AgentID) {
	for _, a := range agents {
		c.since[a] = atMs // events come newest first
	}
}

func (c *correspondents) addBroadcast(v journal.View, by, message []byte, atMs int64) error {
	from, id := parley.IDFromBytes[parley.AgentID](by), parley.IDFromBytes[parley.MessageID](message)
	if c.own[from] {
		c.addAt(atMs, from)
		return v.Copies(id.Slot(), id, func(to []parley.Seat) bool {
			for _, seat := range to {
				c.addAt(atMs, seat.Agent)
			}
			return c.spend(1 + len(to)/copiesPerRow)
		})
	}
	if _, met := c.since[from]; met {
		return nil
	}
	for _, seat := range c.seats {
		if !c.spend(1) {
			return nil
		}
		to, _, got, err := v.Copy(id.Slot(), parley.Copy(id, seat))
		if err != nil {
			return err
		}
		if got && c.own[to] {
			c.addAt(atMs, from, to)
			return nil
		}
	}
	return nil
}
