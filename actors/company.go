package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"parley"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// SeatHolder is an agent of an organization that is, or ever was, a member of a
// group; zero if there is none.
func (n *Node) SeatHolder(ctx context.Context, id parley.GroupID, org parley.OrgID) (holder parley.AgentID, err error) {
	err = n.seatHolders(ctx, id, org, func(a parley.AgentID, _ []uint32) bool {
		holder = a
		return false
	})
	return holder, err
}

// seatHolders calls fn with the agents of an organization that are, or ever were,
// members of a group, each once with the numbers of its seats, until fn returns
// false. The one that is noted comes first. Groups that seated nobody of it since
// holders are noted have no note, so its other agents are looked at even then.
func (n *Node) seatHolders(ctx context.Context, id parley.GroupID, org parley.OrgID, fn func(of parley.AgentID, seats []uint32) bool) error {
	var noted parley.AgentID
	more := true
	held := func(v journal.View, a parley.AgentID) error {
		place, found, err := v.Row(id.Slot(), journal.PlaceTable, placeKey(id, a))
		if err == nil && found {
			more = fn(a, record.SeatsOf(place))
		}
		return err
	}
	err := n.view(ctx, func(v journal.View) error {
		row, found, err := v.Row(id.Slot(), journal.HolderTable, holderKey(id, org))
		if err != nil || !found {
			return err
		}
		noted = parley.IDFromBytes[parley.AgentID](row)
		return held(v, noted)
	})
	for beyond := []byte(nil); err == nil && more; err = cmp.Or(err, ctx.Err()) {
		err = n.view(ctx, func(v journal.View) error {
			var page []parley.AgentID
			err := v.Rows(org.Slot(), journal.RosterTable, org[:], beyond, false, func(key, value []byte) bool {
				page, beyond = append(page, parley.IDFromBytes[parley.AgentID](value)), append(beyond[:0], key...)
				return len(page) < rosterPage
			})
			last := len(page) < rosterPage
			for _, a := range page {
				if err == nil && more && a != noted {
					err = held(v, a)
				}
			}
			more = more && !last
			return err
		})
	}
	return err
}

// castVote has a group judge a vote. Where no agent is named, the group cannot tell
// which of the organization's agents were electors once: they are looked up here.
func (n *Node) castVote(ctx context.Context, id parley.GroupID, c group.CastVote) (votedSeat, error) {
	v, err := askGroup[votedSeat](ctx, n, id, 0, c)
	if !c.By.Agent.Zero() || !errors.Is(err, group.ErrNotInElectorate) {
		return v, err
	}
	was, failure := n.wasElector(ctx, id, c.Request, c.By.Org)
	if failure != nil || !was {
		return v, cmp.Or(failure, err)
	}
	c.Former = true
	return askGroup[votedSeat](ctx, n, id, 0, c)
}

// wasElector reports whether any agent of an organization had a seat when a
// request was filed whose electors have all left. Votes cannot bring one back.
func (n *Node) wasElector(ctx context.Context, id parley.GroupID, request parley.JoinRequestID, org parley.OrgID) (was bool, err error) {
	mark, err := ReadGroup(ctx, n, id, func(g *group.State, _ time.Time) uint32 {
		if r := g.Request(request); r.GetStatus() == group.Pending && r.GetElectorate() == 0 {
			return r.GetMark()
		}
		return 0
	})
	if err != nil || mark == 0 {
		return false, err
	}
	err = n.seatHolders(ctx, id, org, func(_ parley.AgentID, seats []uint32) bool {
		was = slices.ContainsFunc(seats, func(seat uint32) bool { return seat <= mark })
		return !was
	})
	return was, err
}

// companyRows is how much of a conversation, the newest first, is looked through
// for those with whom an organization shares rows: its events, the copies looked
// up, and every copiesPerRow listed ones. It is a node's, unless a test has another.
const (
	companyRows  = 8192
	copiesPerRow = 32
)

// Company is with whom the agents that an organization had in a group share rows
// of the group's conversation: who sent them what they got, and who got what they
// sent, members of now or not. Each comes with the instant of such a row. Those
// agents are there themselves, at the zero instant if they have no row among the
// newest of the conversation.
func (n *Node) Company(ctx context.Context, id parley.ConversationID, host parley.GroupID, org parley.OrgID) (map[parley.AgentID]time.Time, error) {
	c := &company{of: map[parley.AgentID]bool{}, since: map[parley.AgentID]int64{}, left: n.companyRows}
	err := n.seatHolders(ctx, host, org, func(a parley.AgentID, seats []uint32) bool {
		c.of[a], c.seats = true, append(c.seats, seats...)
		return true
	})
	if err != nil {
		return nil, err
	}
	err = n.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Events(rules.ConversationStream(id), ^uint64(0), true, func(_ uint64, _ int64, f journal.StoredEvent) bool {
			if !c.afford(1) {
				return false
			}
			bad = c.see(v, f)
			return bad == nil
		})
		return cmp.Or(scan, bad)
	})
	since := make(map[parley.AgentID]time.Time, len(c.since))
	for agent := range c.of {
		since[agent] = time.Time{}
	}
	for agent, ms := range c.since {
		since[agent] = time.UnixMilli(ms).UTC()
	}
	return since, err
}

// company is gathered from a conversation's events, the newest first.
type company struct {
	of    map[parley.AgentID]bool
	seats []uint32 // that they ever had
	since map[parley.AgentID]int64
	left  int // of companyRows
}

// afford pays for rows; false: too many were looked at.
func (c *company) afford(rows int) bool {
	c.left -= rows
	return c.left >= 0
}

func (c *company) see(v journal.View, f journal.StoredEvent) error {
	e, err := rules.Conversation.Decode(f)
	if err != nil {
		return err
	}
	switch e := e.(type) {
	case *conversation.Started:
		return c.broadcast(v, e.GetInitiator(), e.GetMessageId(), e.GetAtMs())
	case *conversation.Broadcasted:
		return c.broadcast(v, e.GetFrom(), e.GetMessageId(), e.GetAtMs())
	case *conversation.Posted:
		from, to := parley.IDFromBytes[parley.AgentID](e.GetFrom()), parley.IDFromBytes[parley.AgentID](e.GetTo())
		if c.of[from] || c.of[to] {
			c.meet(e.GetAtMs(), from, to)
		}
	case *conversation.StatusChanged: // nobody is met by it
	}
	return nil
}

func (c *company) meet(atMs int64, agents ...parley.AgentID) {
	for _, a := range agents {
		c.since[a] = atMs // events come newest first
	}
}

func (c *company) broadcast(v journal.View, by, message []byte, atMs int64) error {
	from, id := parley.IDFromBytes[parley.AgentID](by), parley.IDFromBytes[parley.MessageID](message)
	if c.of[from] {
		c.meet(atMs, from)
		return v.Copies(id.Slot(), id, func(to []parley.Seat) bool {
			for _, seat := range to {
				c.meet(atMs, seat.Agent)
			}
			return c.afford(1 + len(to)/copiesPerRow)
		})
	}
	if _, met := c.since[from]; met {
		return nil
	}
	for _, seat := range c.seats {
		if !c.afford(1) {
			return nil
		}
		to, _, got, err := v.Copy(id.Slot(), parley.Copy(id, seat))
		if err != nil {
			return err
		}
		if got && c.of[to] {
			c.meet(atMs, from, to)
			return nil
		}
	}
	return nil
}
