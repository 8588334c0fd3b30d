package importing

import (
	"errors"
	"fmt"

	"parley"
	"parley/actors/group"
	"parley/actors/record"
	"parley/http/api"
	"parley/journal"
)

// groupHistory is a group of the organization, replayed from its history.
type groupHistory struct {
	line   int
	place  int
	state  *group.State
	events []group.Event
	// settled are the join requests that are not live any more.
	settled map[parley.JoinRequestID]*group.Request
	// places are the rows of all agents that ever had a seat: the conversation that their
	// lists have, and the numbers of their seats. holder is the first of these agents.
	places map[parley.AgentID][]byte
	holder parley.AgentID
	// conversations are those that the group has begun. members and requests count the
	// records of them.
	conversations     map[parley.ConversationID]bool
	members, requests int
	announcer         *announcer
}

// news is an event of a group in the feed of an agent.
type news struct {
	group    parley.GroupID
	agent    int32 // party
	position uint64
	note     []byte
}

// takeGroup replays the history of a group. It refuses, or leaves out, one that cannot be
// restored.
func (x *Export) takeGroup(l line) error {
	in, err := decode[api.ExportedGroup](l.data)
	if err != nil {
		return err
	}
	if why := x.unrestorable(&in); why != "" {
		return x.skip(l.kind, in.ID, why)
	}
	g := &groupHistory{
		line: l.number, place: in.RosterPlace, state: &group.State{}, settled: map[parley.JoinRequestID]*group.Request{},
		places: map[parley.AgentID][]byte{}, conversations: map[parley.ConversationID]bool{},
		announcer: newAnnouncer(),
	}
	from := len(x.news)
	for i := range in.History {
		if err := x.replay(g, &in, i); err != nil {
			return fmt.Errorf("event %d of its history: %w", i+1, err)
		}
	}
	for i := range in.Announced {
		if err := x.takeNews(in.ID, &in.Announced[i]); err != nil {
			return err
		}
	}
	x.groups[in.ID] = g
	if err := g.compare(&in); err != nil {
		return err
	}
	return x.completeNews(g, from)
}

// unrestorable returns why a group cannot be restored, "" if it can.
func (x *Export) unrestorable(in *api.ExportedGroup) string {
	if in.MLSEnabled {
		return "it has an MLS group, of which an export has only the history"
	}
	foreign := func(agent parley.AgentID, of parley.OrgID) string {
		return fmt.Sprintf("agent %s of organization %s took part in it, or was to, and an export has nothing of what others do there", agent, of)
	}
	for i := range in.History {
		e := &in.History[i]
		if e.Event == api.SeatOffered && e.OrgID != x.org.ID {
			return foreign(e.AgentID, e.OrgID)
		}
		if e.Request != nil && e.Request.OrgID != x.org.ID {
			return foreign(e.Request.AgentID, e.Request.OrgID)
		}
	}
	return ""
}

// replay folds event i of a group's history.
func (x *Export) replay(g *groupHistory, in *api.ExportedGroup, i int) error {
	e, err := groupEvent(&in.History[i], in, x.org.ID)
	if err == nil {
		err = follows(g.state, e)
	}
	if err != nil {
		return err
	}
	var leaver parley.AgentID
	if left, ok := e.(*group.Left); ok {
		leaver = g.state.MembersFrom(left.GetSeat() - 1)[0].Agent
	}
	g.announcer.before(g.state, e, leaver)
	group.Evolve(g.state, e)
	g.events = append(g.events, e)
	var listed parley.ConversationID
	if seated, ok := e.(*group.Seated); ok {
		copy(listed[:], g.places[g.state.MembersFrom(seated.GetSeat() - 1)[0].Agent])
	}
	g.announcer.after(g.state, e, listed)
	switch e := e.(type) {
	case *group.Offered:
		if agent := parley.IDFromBytes[parley.AgentID](e.GetOffer().GetAgent()); !x.owns(agent) {
			return fmt.Errorf("its agent %s is not in the export", agent)
		}
	case *group.Filed:
		if agent := e.GetRequest().AgentID(); !x.owns(agent) {
			return fmt.Errorf("its agent %s is not in the export", agent)
		}
	case *group.Seated:
		g.seat(g.state.MembersFrom(e.GetSeat() - 1)[0])
	case *group.Left:
		copy(g.places[leaver], g.state.Conversation[:])
	case *group.Resolved:
		g.settled[e.GetRequest().RequestID()] = e.GetRequest()
	case *group.Convened:
		g.conversations[g.state.Conversation] = true
	case *group.Carried, *group.Changed, *group.Committed, *group.Consented, *group.Deleted, *group.Founded, *group.RoleChanged, *group.Voted, *group.Withdrawn: // nothing but the state changes
	}
	return nil
}

// seat adds a seat to the row of its agent.
func (g *groupHistory) seat(m group.Member) {
	row := g.places[m.Agent]
	if row == nil {
		row = make([]byte, len(parley.ConversationID{}))
	}
	if g.holder.Zero() {
		g.holder = m.Agent
	}
	copy(row, g.state.Conversation[:])
	g.places[m.Agent] = record.AppendSeat(row, m.Seat)
}

// takeNews remembers an event of a group in an agent's feed.
func (x *Export) takeNews(of parley.GroupID, in *api.ExportedNews) error {
	kind, known := record.ParseGroupNews(in.Kind)
	if !known || !x.owns(in.AgentID) {
		return fmt.Errorf("%q of agent %s is no event of the group in a feed of the organization", in.Kind, in.AgentID)
	}
	note := []byte{kind}
	if in.RequestID != nil {
		note = append(note, in.RequestID[:]...)
	}
	x.news = append(x.news, news{of, x.indexOf[in.AgentID], in.Position, note})
	return nil
}

// compare checks that the history leads to the group that its record shows.
func (g *groupHistory) compare(in *api.ExportedGroup) error {
	s := g.state
	visibility := api.PrivateGroups
	if s.Public {
		visibility = api.PublicGroups
	}
	var conversation parley.ConversationID
	if in.ConversationID != nil {
		conversation = *in.ConversationID
	}
	same := s.ID == in.ID && s.Name == in.Name && s.Description == orEmpty(in.Description) && s.Policy.String() == in.EnrollmentPolicy &&
		visibility == in.Visibility && s.Isolated == in.Isolated && s.VoteHours == in.VoteDurationHours && s.CreatedMs == in.CreatedAt.UnixMilli() &&
		s.DeletedMs == millis(in.DeletedAt) && s.Conversation == conversation && len(s.Members()) == in.MemberCount && len(s.Members()) == len(in.MemberAgentIDs)
	for i, m := range s.Members() {
		same = same && m.Agent == in.MemberAgentIDs[i]
	}
	if !same {
		return errors.New("its history leads to another state than the group has: something is missing from it")
	}
	return nil
}

// takeMembership compares a membership with the history of its group.
func (x *Export) takeMembership(l line) error {
	in, err := decode[api.GroupMember](l.data)
	if err != nil {
		return err
	}
	g, err := x.groupOf(l.kind, in.GroupID)
	if g == nil || err != nil {
		return err
	}
	m, member := g.state.Member(in.AgentID)
	if !member || in.ID == nil || *in.ID != m.ID(g.state.ID) || in.Role != m.Role.String() || in.JoinedAt.UnixMilli() != m.JoinedMs {
		return fmt.Errorf("the history of group %s has no such member", in.GroupID)
	}
	g.members++
	return nil
}

// takeRequest compares a join request with the history of its group.
func (x *Export) takeRequest(l line) error {
	in, err := decode[api.ExportedJoinRequest](l.data)
	if err != nil {
		return err
	}
	g, err := x.groupOf(l.kind, in.GroupID)
	if g == nil || err != nil {
		return err
	}
	r := g.state.Request(in.ID)
	if r == nil {
		r = g.settled[in.ID]
	}
	overdue := in.Status == group.Expired.String() && r != nil && r.GetResolvedMs() == 0
	if r == nil || r.AgentID() != in.AgentID || r.GetStatus().String() != in.Status && !overdue || r.GetMessage() != orEmpty(in.Message) ||
		r.GetCreatedMs() != in.CreatedAt.UnixMilli() || r.GetExpiresMs() != millis(in.ExpiresAt) ||
		r.GetConsented() != in.Consented || !sameVotes(r, &in.JoinRequest) {
		return fmt.Errorf("the history of group %s has no such join request, or has it in another state", in.GroupID)
	}
	g.requests++
	return nil
}

func sameVotes(r *group.Request, in *api.JoinRequest) bool {
	same := func(n *int, have int32) bool { return n != nil && *n == int(have) }
	return in.QuorumTotalMembers == nil && r.GetTotal() == 0 || same(in.QuorumTotalMembers, r.GetTotal()) &&
		same(in.ElectorateSize, r.GetElectorate()) && same(in.Approvals, r.GetApprovals()) && same(in.Denials, r.GetDenials())
}

// groupOf returns the group that a record belongs to, nil if it is left out with its group.
func (x *Export) groupOf(kind string, id parley.GroupID) (*groupHistory, error) {
	if g := x.groups[id]; g != nil {
		return g, nil
	}
	return nil, x.skip(kind, id, "the export has not its history, because another organization owns it")
}

// skip counts a record that belongs to a group that is left out.
func (x *Export) skip(kind string, id parley.GroupID, why string) error {
	if !x.leaveOut {
		return fmt.Errorf("group %s cannot be imported: %s; --skip-groups leaves out such groups, with their memberships, join requests, conversations and messages", id, why)
	}
	x.skipped[kind]++
	return nil
}

// checkGroups checks that no record of a group is missing.
func (x *Export) checkGroups() error {
	places := map[int]bool{}
	for id, g := range x.groups {
		requests := len(g.settled) + g.state.Live()
		members := len(g.state.Members())
		if g.state.Deleted() {
			members = 0
		}
		switch {
		case g.place < 1 || places[g.place]:
			return &lineError{g.line, fmt.Errorf("the groups have no order: place %d", g.place)}
		case g.members != members:
			return &lineError{g.line, fmt.Errorf("group %s has %d members, and the export %d of them: records are missing", id, members, g.members)}
		case g.requests != requests:
			return &lineError{g.line, fmt.Errorf("group %s has %d join requests, and the export %d of them: records are missing", id, requests, g.requests)}
		}
		places[g.place] = true
		for c := range g.conversations {
			if _, known := x.talkIndex[c]; !known {
				return &lineError{g.line, fmt.Errorf("conversation %s of group %s is not in the export", c, id)}
			}
		}
	}
	return nil
}

// checkHosted checks a conversation in a group.
func (x *Export) checkHosted(t *talk) error {
	if t.firstMsg < 0 || !x.messages[t.firstMsg].copied {
		return fmt.Errorf("conversation %s has no first message", t.id)
	}
	for _, place := range t.listed {
		if t.group.places[place.AgentID] == nil {
			return fmt.Errorf("agent %s has it in its list, and never had a seat in group %s", place.AgentID, t.group.state.ID)
		}
	}
	for _, change := range t.announced {
		if t.group.places[change.AgentID] == nil {
			return fmt.Errorf("agent %s has a change of its status, and never had a seat in group %s", change.AgentID, t.group.state.ID)
		}
	}
	have := int64(0)
	all := x.messages[t.firstMsg:t.lastMsg]
	for i := 0; i < len(all); have++ {
		m, n := &all[i], 1
		if t.group.places[x.parties[m.from].id] == nil || t.group.places[x.parties[m.to].id] == nil {
			return &lineError{int(m.line), fmt.Errorf("message %s is not between agents that had a seat in group %s", m.id, t.group.state.ID)}
		}
		if m.copied {
			n = copiesAt(all, i)
		}
		if m.copied && n != int(m.recipients) {
			return &lineError{int(m.line), fmt.Errorf("broadcast %s has %d recipients, and the export %d of its copies: records are missing", m.id.Broadcast(), m.recipients, n)}
		}
		i += n
	}
	if have != t.count {
		return fmt.Errorf("conversation %s has %d messages, and the export %d of them: records are missing", t.id, t.count, have)
	}
	return nil
}

// copiesAt returns how many copies of the same broadcast follow in a row, from i on.
func copiesAt(all []message, i int) (n int) {
	for i+n < len(all) && all[i+n].copied && all[i+n].id.Broadcast() == all[i].id.Broadcast() {
		n++
	}
	return n
}

// statusNote returns the note of a change of status in a feed.
func statusNote(status string, own bool) []byte {
	note := []byte(status)
	if own {
		note = append(note, record.OwnStatus)
	}
	return note
}

// receiptOf returns the receipt of a message that stands at a position of its recipient's
// feed.
func (w *writer) receiptOf(m *message, position uint64) journal.RecordReceipt {
	return journal.RecordReceipt{
		Recipient: w.parties[m.to].id, Message: m.id, Position: position, Receipts: m.receipts, Sender: w.parties[m.from].id, Copy: m.copied,
	}
}
