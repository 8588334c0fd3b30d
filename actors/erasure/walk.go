package erasure

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// holdings is what rows in the clear say about an organization: the agents and groups
// that it ever had.
type holdings struct {
	org     parley.OrgID
	agents  []parley.AgentID
	groups  []parley.GroupID
	isAgent map[parley.AgentID]bool
	isGroup map[parley.GroupID]bool
}

// hasRoster reports whether an organization ever had an agent. Without one it has nothing.
func hasRoster(v journal.View, org parley.OrgID) (has bool, err error) {
	err = v.Rows(org.Slot(), journal.RosterTable, org[:], nil, false, func(_, _ []byte) bool {
		has = true
		return false
	})
	return has, err
}

func readHoldings(v journal.View, org parley.OrgID) (holdings, error) {
	h := holdings{org: org, isAgent: map[parley.AgentID]bool{}, isGroup: map[parley.GroupID]bool{}}
	err := v.Rows(org.Slot(), journal.RosterTable, org[:], nil, false, func(_, value []byte) bool {
		id := parley.IDFromBytes[parley.AgentID](value)
		h.agents, h.isAgent[id] = append(h.agents, id), true
		return true
	})
	if err != nil {
		return h, err
	}
	return h, v.Rows(org.Slot(), journal.GroupRosterTable, org[:], nil, false, func(_, value []byte) bool {
		id := parley.IDFromBytes[parley.GroupID](value)
		h.groups, h.isGroup[id] = append(h.groups, id), true
		return true
	})
}

// seat is a seat that an agent has or had in a group, or a request for one.
type seat struct {
	group  parley.GroupID
	agent  parley.AgentID
	number uint32 // of its last seat, 0 for a request
}

// seatsElsewhere returns the seats and requests of the organization's agents in groups of
// others, each agent once for a group.
func (h *holdings) seatsElsewhere(v journal.View) (all []seat, err error) {
	var groups []parley.GroupID
	err = v.Keys(journal.HolderTable, func(key []byte) bool {
		group := parley.IDFromBytes[parley.GroupID](key[:16])
		if bytes.Equal(key[16:], h.org[:]) && !h.isGroup[group] {
			groups = append(groups, group)
		}
		return true
	})
	for _, group := range groups {
		if err != nil {
			return nil, err
		}
		err = eachSeat(v, group, func(s seat) {
			if h.isAgent[s.agent] {
				all = append(all, s)
			}
		})
	}
	for _, agent := range h.agents {
		if err != nil {
			return nil, err
		}
		err = v.Rows(agent.Slot(), journal.ConcernTable, agent[:], nil, false, func(_, value []byte) bool {
			if group := parley.IDFromBytes[parley.GroupID](value); !h.isGroup[group] {
				all = append(all, seat{group: group, agent: agent})
			}
			return true
		})
	}
	return all, err
}

// othersIn returns the seats of others in a group of the organization.
func (h *holdings) othersIn(v journal.View, group parley.GroupID) (all []seat, err error) {
	err = eachSeat(v, group, func(s seat) {
		if !h.isAgent[s.agent] {
			all = append(all, s)
		}
	})
	return all, err
}

// eachSeat calls fn with the last seat of each agent that ever had one in a group.
func eachSeat(v journal.View, group parley.GroupID, fn func(seat)) error {
	return v.Rows(group.Slot(), journal.PlaceTable, group[:], nil, false, func(key, value []byte) bool {
		if numbers := record.SeatsOf(value); len(numbers) > 0 {
			fn(seat{group, parley.IDFromBytes[parley.AgentID](key[len(group):]), slices.Max(numbers)})
		}
		return true
	})
}

// webhooks returns the agents that own webhooks, by webhook.
func (h *holdings) webhooks(v journal.View) (map[webhook.ID]parley.AgentID, error) {
	all := map[webhook.ID]parley.AgentID{}
	err := v.Keys(journal.WebhookTable, func(key []byte) bool {
		if agent := parley.IDFromBytes[parley.AgentID](key[:16]); h.isAgent[agent] {
			all[parley.IDFromBytes[webhook.ID](key[16:])] = agent
		}
		return true
	})
	return all, err
}

// keyPackages returns the agents that have MLS KeyPackages, claimed ones too.
func (h *holdings) keyPackages(v journal.View) (map[parley.AgentID]struct{}, error) {
	all := map[parley.AgentID]struct{}{}
	add := func(key []byte) bool {
		if agent := parley.IDFromBytes[parley.AgentID](key[:16]); h.isAgent[agent] {
			all[agent] = struct{}{}
		}
		return true
	}
	err := v.Keys(journal.KeyPackageTable, add)
	if err == nil {
		err = v.Keys(journal.HandedOutTable, add)
	}
	return all, err
}

// visitor is called with what an organization's agents sent and received.
type visitor struct {
	// conversation is called with each conversation of an agent once; host is the group
	// that hosts it, zero for one of two agents.
	conversation func(_ parley.ConversationID, host parley.GroupID)
	// received is called with numbers of messages in feeds of the agents.
	received func(int)
	// sent is called with each message that an agent sent to one of another organization.
	sent func(sentMessage)
	// between is called now and then while no view is open.
	between func() error
}

// sentMessage is a message to an agent of another organization: its entry in the feed of
// that agent. begins is the conversation of a group that it begins for the agent, if it
// does.
type sentMessage struct {
	journal.DroppedMessage
	to     parley.AgentID
	begins parley.ConversationID
}

const (
	// walkStep is how many conversations are visited in one view, which takes a millisecond
	// or two.
	walkStep = 64
	// walkBatch is how many conversations are sorted and visited together; their ids take 4 MiB.
	walkBatch = 256 << 10
)

// look reads from a view, and rests for as long as that took: others find a processor that
// is free. It does not wait until what it has read is durable: all that the organization has
// was applied and durable before, and does not change.
func (r *run) look(ctx context.Context, read func(journal.View) error) error {
	began := r.Clock()
	err := func() error {
		v := r.Journal.View()
		defer v.Close()
		return read(v)
	}()
	select {
	case <-time.After(r.Clock().Sub(began)):
	case <-ctx.Done():
		err = cmp.Or(err, ctx.Err())
	}
	return err
}

// walk visits the conversations of all agents, many at a time in the order in which they
// are stored: a block of the disk is read once then, not once for each of its rows.
func (r *run) walk(ctx context.Context, to visitor) error {
	w := walk{has: &r.has, to: to, agents: map[parley.AgentID]bool{}, hosted: map[parley.ConversationID]bool{}}
	var list []parley.ConversationID
	for i, agent := range r.has.agents {
		w.agents[agent] = true
		err := r.look(ctx, func(v journal.View) (err error) {
			w.view = v
			list, err = w.gather(list, agent)
			return err
		})
		if err != nil {
			return err
		}
		if len(list) < walkBatch && i < len(r.has.agents)-1 {
			continue
		}
		if err := r.visit(ctx, &w, list); err != nil {
			return err
		}
		list = list[:0]
		clear(w.agents)
	}
	return nil
}

// visit visits conversations, each once.
func (r *run) visit(ctx context.Context, w *walk, list []parley.ConversationID) error {
	slices.SortFunc(list, func(a, b parley.ConversationID) int {
		return cmp.Or(cmp.Compare(a.Slot(), b.Slot()), bytes.Compare(a[:], b[:]))
	})
	for part := range slices.Chunk(slices.Compact(list), walkStep) {
		err := r.look(ctx, func(v journal.View) error {
			w.view = v
			return w.conversations(part)
		})
		if err == nil {
			err = w.to.between()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// walk visits the conversations of some agents.
type walk struct {
	view   journal.View
	has    *holdings
	agents map[parley.AgentID]bool // whose conversations are visited now
	to     visitor
	hosted map[parley.ConversationID]bool // conversations of groups that were visited
}

func (w *walk) conversations(ids []parley.ConversationID) error {
	for _, id := range ids {
		if err := w.conversation(id); err != nil {
			return err
		}
	}
	return nil
}

// gather appends an agent's conversations to a list, and reports the messages in its feed.
func (w *walk) gather(list []parley.ConversationID, agent parley.AgentID) (_ []parley.ConversationID, err error) {
	err = w.view.Rows(agent.Slot(), journal.ConversationTable, agent[:], nil, false, func(_, value []byte) bool {
		list = append(list, parley.IDFromBytes[parley.ConversationID](value))
		return true
	})
	if err != nil {
		return nil, err
	}
	messages := 0
	var copies []parley.AnyID // that begin conversations
	err = w.view.Inbox(agent, 0, math.MaxUint64, func(e journal.FeedEntry) bool {
		messages++
		switch {
		case e.Begins && e.Kind == journal.MessageEntry:
			list = append(list, conversation.StartedBy(parley.MessageID(e.Ref)))
		case e.Begins:
			copies = append(copies, e.Ref)
		}
		return true
	})
	w.to.received(messages)
	for _, ref := range copies {
		if err != nil {
			return nil, err
		}
		var id parley.ConversationID
		id, err = query.StartedBy(w.view, agent, journal.FeedEntry{Kind: journal.CopyEntry, Ref: ref})
		list = append(list, id)
	}
	return list, err
}

// conversation visits one conversation, unless it is visited with other agents.
func (w *walk) conversation(id parley.ConversationID) error {
	s := rules.ConversationStream(id)
	start, found, err := rules.Conversation.Start(rules.StoredIn(w.view), s)
	if err != nil && !errors.Is(err, journal.ErrErased) {
		return err
	}
	if found && !w.begin(id, start) {
		return nil
	}
	if found {
		if err := w.event(start); err != nil {
			return err
		}
	}
	var bad error
	err = w.view.Events(s, 1, false, func(n uint64, _ int64, f journal.StoredEvent) bool {
		var e conversation.Event
		if e, bad = rules.Conversation.Decode(f); bad != nil || n == 1 && !found && !w.begin(id, e) {
			return false
		}
		bad = w.event(e)
		return bad == nil
	})
	return errors.Join(err, bad)
}

// begin reports a conversation that an event starts. It returns false if it is to be
// visited with other agents, or was.
func (w *walk) begin(id parley.ConversationID, e conversation.Event) bool {
	start, ok := e.(*conversation.Started)
	if !ok {
		return true
	}
	host := parley.IDFromBytes[parley.GroupID](start.GetGroup())
	if host.Zero() {
		initiator := parley.IDFromBytes[parley.AgentID](start.GetInitiator())
		if w.has.isAgent[initiator] && !w.agents[initiator] {
			return false
		}
	} else if w.hosted[id] {
		return false
	} else {
		w.hosted[id] = true
	}
	w.to.conversation(id, host)
	return true
}

// event reports the message of an event, if an agent of the organization sent it to one
// of another.
func (w *walk) event(e conversation.Event) error {
	switch e := e.(type) {
	case *conversation.Started:
		if len(e.GetGroup()) > 0 {
			return w.broadcast(e.GetMessageId(), e.GetInitiator(), parley.IDFromBytes[parley.ConversationID](e.GetId()))
		}
		return w.message(e.GetMessageId(), e.GetInitiator(), e.GetResponder())
	case *conversation.Posted:
		return w.message(e.GetMessageId(), e.GetFrom(), e.GetTo())
	case *conversation.Broadcasted:
		return w.broadcast(e.GetMessageId(), e.GetFrom(), parley.ConversationID{})
	case *conversation.StatusChanged: // it brings no message
	}
	return nil
}

func (w *walk) message(id, from, to []byte) error {
	recipient := parley.IDFromBytes[parley.AgentID](to)
	if !w.has.isAgent[parley.IDFromBytes[parley.AgentID](from)] || w.has.isAgent[recipient] {
		return nil
	}
	ref := parley.IDFromBytes[parley.AnyID](id)
	position, err := w.view.Message(recipient.Slot(), parley.MessageID(ref), func([]byte) error { return nil })
	if err != nil && !errors.Is(err, journal.ErrErased) {
		return err
	}
	if position != 0 {
		w.to.sent(sentMessage{DroppedMessage: journal.DroppedMessage{Position: position, Kind: journal.MessageEntry, Ref: ref}, to: recipient})
	}
	return nil
}

// broadcast reports the copies of a broadcast. begins is the conversation that it begins, zero
// if it does not.
func (w *walk) broadcast(message, from []byte, begins parley.ConversationID) error {
	if !w.has.isAgent[parley.IDFromBytes[parley.AgentID](from)] {
		return nil
	}
	id := parley.IDFromBytes[parley.MessageID](message)
	var seats []parley.Seat
	err := w.view.Copies(id.Slot(), id, func(to []parley.Seat) bool {
		seats = append(seats, to...)
		return true
	})
	for _, s := range seats {
		if err != nil {
			return err
		}
		if w.has.isAgent[s.Agent] {
			continue
		}
		var position uint64
		copied := parley.Copy(id, s.Number)
		if _, position, _, err = w.view.Copy(s.Agent.Slot(), copied); err == nil && position != 0 {
			m := journal.DroppedMessage{Position: position, Kind: journal.CopyEntry, Ref: parley.AnyID(copied)}
			w.to.sent(sentMessage{DroppedMessage: m, to: s.Agent, begins: begins})
		}
	}
	return err
}
