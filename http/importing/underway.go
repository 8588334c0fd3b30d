package importing

import (
	"fmt"
	"math"

	"parley"
	"parley/actors/group"
	"parley/actors/record"
)

// With several journals, what happened in a group may have been on its way to the feed or the
// list of an agent when the export began. It follows from the history, and comes at the end.

// announcer derives from the history of a group what the feeds of its agents get.
type announcer struct {
	// owed counts the events that each agent gets, in the order of order.
	owed  map[owedNews]int
	order []owedNews
	// pending are events whose recipients are known only once the decision is replayed that
	// they belong to, because it may change the admins.
	pending []owedNews
	// lists counts how often each agent's list gets each conversation, beside those that a
	// broadcast to the agent begins.
	lists map[owedPlace]int
}

// owedNews is an event in the feed of an agent; note is a string so that it can be compared.
type owedNews struct {
	agent parley.AgentID
	note  string
}

// owedPlace is a place of a conversation in the list of an agent.
type owedPlace struct {
	agent        parley.AgentID
	conversation parley.ConversationID
}

func newAnnouncer() *announcer {
	return &announcer{owed: map[owedNews]int{}, lists: map[owedPlace]int{}}
}

func (n *announcer) owe(to parley.AgentID, note string) {
	k := owedNews{to, note}
	n.owed[k]++
	n.order = append(n.order, k)
}

// before notes what an event announces, before it is folded. leaver is the member that
// leaves by it.
func (n *announcer) before(s *group.State, e group.Event, leaver parley.AgentID) {
	if _, risen := e.(*group.RoleChanged); !risen { // the last admin has no successor
		n.tell(s)
	}
	about := func(agent parley.AgentID, kind byte, request []byte) owedNews {
		return owedNews{agent, string(append([]byte{kind}, request...))}
	}
	switch e := e.(type) {
	case *group.Filed:
		r := e.GetRequest()
		if r.GetStatus() == group.Invited { // admins are not notified
			k := about(r.AgentID(), record.Invited, r.GetId())
			n.owe(k.agent, k.note)
			return
		}
		n.pending = append(n.pending, about(r.AgentID(), record.RequestCreated, r.GetId()))
	case *group.Carried:
		if r := s.Request(parley.IDFromBytes[parley.JoinRequestID](e.GetRequest())); r != nil {
			k := about(r.AgentID(), record.Invited, r.GetId())
			n.owe(k.agent, k.note)
		}
	case *group.Resolved:
		r := e.GetRequest()
		n.pending = append(n.pending, about(r.AgentID(), record.RequestResolved, r.GetId()))
	case *group.Left:
		n.pending = append(n.pending, about(leaver, record.MemberLeft, nil))
	case *group.Changed, *group.Committed, *group.Consented, *group.Convened, *group.Deleted, *group.Founded, *group.Offered, *group.RoleChanged, *group.Seated, *group.Voted, *group.Withdrawn: // nobody is notified, or after it is folded
	}
}

// after notes what an event announces, after it is folded. listed is the conversation that
// the list of a new member had.
func (n *announcer) after(s *group.State, e group.Event, listed parley.ConversationID) {
	switch e := e.(type) {
	case *group.Seated:
		m := s.MembersFrom(e.GetSeat() - 1)[0]
		n.pending = append(n.pending, owedNews{m.Agent, string([]byte{record.MemberJoined})})
		if !s.Conversation.Zero() && listed != s.Conversation {
			n.lists[owedPlace{m.Agent, s.Conversation}]++
		}
	case *group.Convened:
		n.lists[owedPlace{parley.IDFromBytes[parley.AgentID](e.GetBy()), s.Conversation}]++
	case *group.Carried, *group.Changed, *group.Committed, *group.Consented, *group.Deleted, *group.Filed, *group.Founded, *group.Left, *group.Offered, *group.Resolved, *group.RoleChanged, *group.Voted, *group.Withdrawn: // see before
	}
	if s.Deleted() || len(record.Admins(s)) > 0 {
		n.tell(s)
	}
}

// tell addresses the pending events to the agents that they are about and to the admins.
func (n *announcer) tell(s *group.State) {
	if len(n.pending) == 0 {
		return
	}
	admins := record.Admins(s)
	for _, k := range n.pending {
		n.owe(k.agent, k.note)
		for _, a := range admins {
			if a.Agent != k.agent {
				n.owe(a.Agent, k.note)
			}
		}
	}
	n.pending = n.pending[:0]
}

// completeNews checks the news of a group, which begin at from, and adds those that were on
// their way.
func (x *Export) completeNews(g *groupHistory, from int) error {
	g.announcer.tell(g.state)
	owed := g.announcer.owed
	for _, n := range x.news[from:] {
		k := owedNews{x.parties[n.agent].id, string(n.note)}
		if owed[k] == 0 {
			return fmt.Errorf("the feed of agent %s has an event that is not in the history", k.agent)
		}
		owed[k]--
	}
	for _, k := range g.announcer.order {
		if owed[k] > 0 {
			owed[k]--
			x.news = append(x.news, news{g.state.ID, x.indexOf[k.agent], math.MaxUint64, []byte(k.note)})
		}
	}
	g.announcer.owed, g.announcer.order = nil, nil
	return nil
}
