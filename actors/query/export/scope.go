package export

import (
	"bytes"
	"context"
	"errors"
	"math"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// scope finds what belongs to an organization at one instant.
type scope struct {
	view     journal.View
	org      parley.OrgID
	ctx      context.Context //nolint:containedctx // an export is one long read
	capacity int             // ids at a time
	state    *org.State
	// own remembers which agents are the organization's.
	own map[parley.AgentID]bool
}

// Readable returns an error if the organization was erased since the export began: then
// what was read may lack records.
func (x *scope) Readable() error {
	x.state = &org.State{}
	_, _, err := rules.Org.Load(rules.StoredIn(x.view), rules.OrgStream(x.org), x.state)
	if err == nil && !x.state.Exists() {
		err = parley.ErrNotFound
	}
	return err
}

// agent reads an agent, nil if its home does not have it yet.
func (x *scope) agent(id parley.AgentID) (*agent.State, error) {
	a := &agent.State{}
	_, _, err := rules.Agent.Load(rules.StoredIn(x.view), rules.AgentStream(id), a)
	if err != nil || !a.Exists() {
		return nil, err
	}
	return a, nil
}

// group reads a group, nil if there is none or its owner was erased.
func (x *scope) group(id parley.GroupID) (*group.State, error) {
	g := &group.State{}
	_, _, err := rules.Group.Load(rules.StoredIn(x.view), rules.GroupStream(id), g)
	if err != nil || !g.Exists() {
		return nil, unlessErased(err)
	}
	return g, nil
}

// ascendIDs is ascend for ids.
func (x *scope) ascendIDs(list func(add func(parley.AnyID)) error, visit func(parley.AnyID) error) error {
	return ascend(2*x.capacity, compareIDs, list, func(id parley.AnyID) error {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		return visit(id)
	})
}

func compareIDs(a, b parley.AnyID) int { return bytes.Compare(a[:], b[:]) }

// eachAgent calls fn with the organization's agents in the order of creation.
func (x *scope) eachAgent(fn func(parley.AgentID) error) error {
	var bad error
	err := x.view.Rows(x.org.Slot(), journal.RosterTable, x.org[:], nil, false, func(_, value []byte) bool {
		if bad = x.ctx.Err(); bad == nil {
			bad = fn(parley.IDFromBytes[parley.AgentID](value))
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}

// owns reports whether an agent is the organization's. The owner of an agent never
// changes.
func (x *scope) owns(id parley.AgentID) (bool, error) {
	if own, known := x.own[id]; known {
		return own, nil
	}
	a, err := x.agent(id)
	if err != nil {
		return false, unlessErased(err)
	}
	if len(x.own) == ownMax {
		clear(x.own)
	}
	x.own[id] = a != nil && a.Owner() == x.org
	return x.own[id], nil
}

// unlessErased returns nil for what was erased or does not exist in this view.
func unlessErased(err error) error {
	if errors.Is(err, journal.ErrErased) || errors.Is(err, parley.ErrNotFound) {
		return nil
	}
	return err
}

// ownedGroups adds the groups that the organization owns, in the order of creation.
func (x *scope) ownedGroups(add func(parley.AnyID)) error {
	return x.view.Rows(x.org.Slot(), journal.GroupRosterTable, x.org[:], nil, false, func(_, value []byte) bool {
		add(parley.IDFromBytes[parley.AnyID](value))
		return true
	})
}

// groupsOfInterest visits the groups that may have memberships or requests of the
// organization's agents, and those that it owns.
func (x *scope) groupsOfInterest(capacity int, visit func(g *group.State, owned bool) error) error {
	list := func(add func(parley.AnyID)) error {
		return errors.Join(x.ownedGroups(add), x.eachAgent(func(id parley.AgentID) error {
			a, err := x.agent(id)
			if a == nil || err != nil {
				return err
			}
			for _, m := range a.GetGroups() {
				add(parley.AnyID(m.GroupID()))
			}
			concerns := x.view.Rows(id.Slot(), journal.ConcernTable, id[:], nil, false, func(_, value []byte) bool {
				add(parley.IDFromBytes[parley.AnyID](value))
				return true
			})
			// What was settled is known from the events that the agent got of it.
			return errors.Join(concerns, x.view.Feed(id, 0, math.MaxInt64, func(e journal.FeedEntry) bool {
				if e.Kind == journal.GroupEntry {
					add(e.Ref)
				}
				return true
			}))
		}))
	}
	return ascend(capacity, compareIDs, list, func(id parley.AnyID) error {
		g, err := x.group(parley.GroupID(id))
		if g == nil || err != nil {
			return err
		}
		return visit(g, g.Org == x.org)
	})
}

// settled calls fn with a group's settled join requests.
func (x *scope) settled(id parley.GroupID, fn func(*group.Request)) error {
	var bad error
	err := x.view.Rows(id.Slot(), journal.RequestTable, id[:], nil, false, func(_, value []byte) bool {
		r := &group.Request{}
		if bad = encoding.Unmarshal(value, r); bad == nil {
			fn(r)
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}

// conversationsOf lists an agent's conversations: those that have a row, and those that began with
// an entry of its feed and have none yet.
func (x *scope) conversationsOf(id parley.AgentID, visit func(parley.ConversationID) error) error {
	upTo, err := query.PlaceUpTo(x.view, journal.ListedTable, id)
	if err != nil {
		return err
	}
	var bad error
	err = x.view.Rows(id.Slot(), journal.ConversationTable, id[:], nil, false, func(_, value []byte) bool {
		bad = visit(parley.IDFromBytes[parley.ConversationID](value))
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	err = x.view.Inbox(id, upTo, math.MaxInt64, func(e journal.FeedEntry) bool {
		if !e.Begins {
			return true
		}
		var c parley.ConversationID
		if c, bad = query.StartedBy(x.view, id, e); bad == nil {
			bad = visit(c)
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}

// messageIDs lists the ids of all messages, some more than once, and some of first
// messages that do not exist.
func (x *scope) messageIDs(add func(parley.AnyID)) error {
	hosted := map[parley.ConversationID]struct{}{}
	return x.eachAgent(func(id parley.AgentID) error {
		err := x.view.Inbox(id, 0, math.MaxInt64, func(e journal.FeedEntry) bool {
			add(e.Ref)
			return true
		})
		if err != nil {
			return err
		}
		return x.conversationsOf(id, func(c parley.ConversationID) error {
			if _, seen := hosted[c]; seen {
				return nil
			}
			// A conversation between two agents begins with this message; that of a group
			// has none with this id.
			add(parley.AnyID(conversation.FirstMessageID(c)))
			ofGroup, err := x.postedIn(c, add)
			if ofGroup && len(hosted) < innerIDs {
				hosted[c] = struct{}{}
			}
			return err
		})
	})
}

// postedIn lists the messages of a conversation after its first: all of a conversation
// between two agents, also those that are on their way to a feed, and of a group's
// conversation those that agents of the organization sent. hosted is whether it is that of
// a group.
func (x *scope) postedIn(c parley.ConversationID, add func(parley.AnyID)) (hosted bool, err error) {
	sent := func(by []byte, id []byte) error {
		own := !hosted
		if hosted {
			if own, err = x.owns(parley.IDFromBytes[parley.AgentID](by)); err != nil {
				return err
			}
		}
		if own {
			add(parley.IDFromBytes[parley.AnyID](id))
		}
		return nil
	}
	err = x.conversationEvents(c, func(e conversation.Event) error {
		switch e := e.(type) {
		case *conversation.Started: // stored only for the conversations of groups
			hosted = true
			if m := parley.IDFromBytes[parley.MessageID](e.GetMessageId()); !m.Zero() {
				return x.broadcast(e.GetInitiator(), m, add)
			}
		case *conversation.Posted:
			return sent(e.GetFrom(), e.GetMessageId())
		case *conversation.Broadcasted:
			hosted = true
			return x.broadcast(e.GetFrom(), parley.IDFromBytes[parley.MessageID](e.GetMessageId()), add)
		case *conversation.StatusChanged: // it brings no message
		}
		return nil
	})
	return hosted, err
}

// conversationEvents calls fn with the stored events of a conversation, oldest first. It
// leaves out those whose texts were erased.
func (x *scope) conversationEvents(c parley.ConversationID, fn func(conversation.Event) error) error {
	var bad error
	next := uint64(1)
	read := func(seq uint64, _ int64, f journal.StoredEvent) bool {
		next = seq + 1
		var e conversation.Event
		if e, bad = rules.Conversation.Decode(f); bad == nil {
			bad = fn(e)
		}
		return bad == nil
	}
	for {
		err := x.view.Events(rules.ConversationStream(c), next, false, read)
		if !errors.Is(err, journal.ErrErased) {
			return errors.Join(err, bad)
		}
		next++ // the reason of a change of status was erased
	}
}

// broadcast lists a broadcast that an agent of the organization sent: the first copy, as
// which the sender sees it, and the copies for agents of the organization, some of which may
// be on their way to feeds.
func (x *scope) broadcast(by []byte, id parley.MessageID, add func(parley.AnyID)) error {
	r := &record.Message{}
	found, err := x.view.Broadcast(id.Slot(), id, r.UnmarshalHeader)
	if err != nil || !found {
		return unlessErased(err)
	}
	if own, err := x.owns(parley.IDFromBytes[parley.AgentID](by)); err != nil || !own {
		return err
	}
	first := parley.Copy(id, r.GetFirstSeat())
	add(parley.AnyID(first))
	var bad error
	err = x.view.Copies(id.Slot(), id, func(to []parley.Seat) bool {
		for _, seat := range to {
			var own bool
			if own, bad = x.owns(seat.Agent); own {
				add(parley.AnyID(parley.Copy(id, seat.Number)))
			}
			if bad != nil {
				return false
			}
		}
		return true
	})
	return errors.Join(err, bad)
}
