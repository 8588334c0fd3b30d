package verify

import (
	"bytes"
	"fmt"
	"time"

	"parley"
	"parley/actors/group"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
	"parley/journal/report"
)

// groupChecks are the checks of single rows of groups.
type groupChecks struct {
	groupLaw, seatWords, reached, confined *report.Check
}

// groupMultisets are the checks of groups that compare two multisets.
type groupMultisets struct {
	groupNames, groupRoster, groups, endings     *report.Multiset
	members, concerns, requests, places, notices *report.Multiset
	holders, directory, talks                    *report.Multiset
	mlsMultisets
}

func groupChecksOf(audit *report.Verification) groupChecks {
	return groupChecks{
		groupLaw:  audit.Check("group-history", "each group's history is one that its rules allow: seats, requests and votes follow from each other"),
		seatWords: audit.Check("seats-underway", "each seat that is kept is being asked or answered for, and no other is"),
		reached:   audit.Check("broadcast-readers", "a broadcast has a copy for each who was a member then, and for nobody else"),
		confined:  audit.Check("isolation", "an agent of an isolated group was never in another at the same time"),
	}
}

// opener creates a multiset with the texts of its faults.
type opener func(name, says, missing, unfounded string, key func([]byte) string) *report.Multiset

func openGroups(open opener) groupMultisets {
	return groupMultisets{
		groupNames:   open("group-name-rows", "each group is found by its name", "the name does not find the group: it can be given twice", "a name that its group does not have", hashAt(32, "name")),
		groupRoster:  open("group-roster-rows", "each group is listed under its organization, in order of creation", "the group is missing from the list", "a place on the list that the organization did not give", rosterMember),
		groups:       open("groups", "an organization's groups are those that exist", "the organization counts a group that does not exist", "a group that its organization does not know", idsAt("organization", "group")),
		endings:      open("group-endings", "each deleted group is counted once", "a deleted group is counted as one that exists", "a group is counted out that was not deleted, or twice", idsAt("organization", "group")),
		members:      open("memberships", "members and their groups agree on who is in", "the group has a member that does not know of it", "the agent believes to be a member, and its group does not", idsAt("agent", "group")),
		concerns:     open("concern-rows", "each live request is noted with the agent that it is about", "the agent does not know of the request: it cannot answer it, nor end it when it is revoked", "a request is noted that is not live", idsAt("agent", "request")),
		requests:     open("request-rows", "each settled request can be read, as it was settled", "the request was settled and cannot be read", "a row of a request that was not settled so", idsAt("group", "request")),
		places:       open("place-rows", "the row of an agent in a group lists its former and current seats", "the agent's seats are not noted: it does not find what it got there", "a place that nobody had, or that lists other seats", idsAt("group", "agent")),
		holders:      open("holder-rows", "the first member that an organization ever had in a group is noted", "the organization does not find what its agents got in the group", "a first member that the organization did not have", idsAt("group", "organization")),
		notices:      open("group-news", "what became of a group's members and requests is in the feeds of those whom it concerns, once", "the agent's feed does not have it", "a feed has what did not happen, or has it twice", newsMember),
		directory:    open("directory-rows", "the directory shows each public group as it is, and no other", "the directory does not show the group as it is", "the directory shows a group that is not so", idAt("group")),
		talks:        open("group-conversations", "a group's conversations are those that it began", "the group has begun a conversation that is not there or is not its own", "a conversation in a group that did not begin it", idsAt("group", "conversation")),
		mlsMultisets: openMLS(open),
	}
}

func newsMember(m []byte) string {
	kind, request := record.GroupNews(m[32:])
	if epoch, mls := record.MLSNews(m[32:]); mls {
		return fmt.Sprintf("feed of agent %s, group %s, %s in epoch %d", idText(m), idText(m[16:]), kind, epoch)
	}
	return fmt.Sprintf("feed of agent %s, group %s, %s %s", idText(m), idText(m[16:]), kind, request)
}

// groupReplay is the state of the verifier while it replays a group.
type groupReplay struct {
	x      *verifier
	stream journal.Stream
	id     parley.GroupID
	state  *group.State
	last   parley.JoinRequestID
	// listed has the conversation that was last added to each agent's list, seats the
	// numbers of all seats that each agent ever had.
	listed map[parley.AgentID]parley.ConversationID
	seats  map[parley.AgentID][]byte
	// held has the organizations that ever had a seat.
	held map[parley.OrgID]bool
	// due are all timers ever set; kept are the offers not answered yet.
	due  map[int64]bool
	kept map[uint32]bool
	// pendingNews are events whose recipients are known only after the whole decision is
	// replayed, because it may change the admins.
	pendingNews []headline
	mls         mlsReplay
	// abandoned are the leaves that awaited their removal before the event.
	abandoned []*group.Leaf
}

// headline is a group event and the agent that it is about.
type headline struct {
	about parley.AgentID
	note  []byte
}

func (x *verifier) replayGroup(s journal.Stream) streamReplay {
	t := &aggregateReplay[*group.State, group.Command, group.Event]{
		rules: rules.Group, state: &group.State{}, blank: func() *group.State { return &group.State{} }, lags: true,
	}
	g := &groupReplay{
		x: x, stream: s, id: parley.GroupID(s.ID), state: t.state,
		listed: map[parley.AgentID]parley.ConversationID{}, seats: map[parley.AgentID][]byte{}, held: map[parley.OrgID]bool{}, due: map[int64]bool{}, kept: map[uint32]bool{},
	}
	t.judge = g.judge
	t.after = g.follows
	t.end = g.end
	return t
}

// judge checks an event before it is folded.
func (g *groupReplay) judge(seq uint64, e group.Event) error {
	x := g.x
	if len(g.pendingNews) > 0 {
		if _, risen := e.(*group.RoleChanged); !risen {
			g.tell() // the last admin has no successor
		}
	}
	x.groupLaw.Checked++
	if why := g.unlawful(e); why != "" {
		x.groupLaw.Fault(record.StreamName(g.stream), "event %d: %s", seq, why)
	}
	switch e := e.(type) {
	case *group.Founded:
		x.begins(g.stream, seq, e.GetId())
		owner := parley.IDFromBytes[parley.OrgID](e.GetOrg())
		x.groupNames.Expect(owner.Slot(), 1, owner[:], g.id[:], x.hiddenName(journal.GroupNameTable, owner, e.GetName()))
		x.groups.Find(owner.Slot(), 1, owner[:], g.id[:])
	case *group.Filed:
		g.filed(e.GetRequest())
	case *group.Carried:
		g.due[e.GetExpiresMs()] = true
		if r := g.state.Request(parley.IDFromBytes[parley.JoinRequestID](e.GetRequest())); r != nil {
			g.news(r.AgentID(), record.Invited, r.GetId())
			g.tellOne() // admins are not notified
		}
	case *group.Resolved:
		r := e.GetRequest()
		data, err := r.MarshalVT()
		if err != nil {
			return err
		}
		x.requests.Expect(g.stream.Slot(), 1, g.id[:], r.GetId(), data)
		g.news(r.AgentID(), record.RequestResolved, r.GetId())
	case *group.Left:
		if m := g.sitting(e.GetSeat()); m != nil {
			g.listed[m.Agent] = g.state.Conversation
			g.news(m.Agent, record.MemberLeft, nil)
			g.abandons(m)
		}
	case *group.Committed:
		g.abandoned = g.state.Abandoned()
	case *group.Deleted:
		x.endings.Expect(g.state.Org.Slot(), 1, g.state.Org[:], g.id[:])
	case *group.Changed, *group.Consented, *group.Convened, *group.Offered, *group.RoleChanged, *group.Seated, *group.Voted, *group.Withdrawn: // follows checks their effects
	}
	return nil
}

// filed checks a request that becomes live. Only the agent is notified of an invitation,
// and the message that comes with it counts against no quota.
func (g *groupReplay) filed(r *group.Request) {
	g.last = r.RequestID()
	g.due[r.GetExpiresMs()] = true
	if r.Nomination() {
		by, _ := g.state.Member(r.Inviter())
		day := journal.Day(time.UnixMilli(r.GetCreatedMs()))
		g.x.quota.Find(by.Org.Slot(), 1, usedKey(g.x.Home(g.stream.Slot()), by.Org, day))
	}
	if r.GetStatus() == group.Invited {
		g.news(r.AgentID(), record.Invited, r.GetId())
		g.tellOne()
		return
	}
	g.news(r.AgentID(), record.RequestCreated, r.GetId())
}

// follows checks the group after an event.
func (g *groupReplay) follows(e group.Event) {
	switch e := e.(type) {
	case *group.Offered:
		g.kept[e.GetOffer().GetNumber()] = true
	case *group.Withdrawn:
		delete(g.kept, e.GetOffer())
	case *group.Seated:
		delete(g.kept, e.GetOffer())
		if m := g.sitting(e.GetSeat()); m != nil {
			g.seated(*m)
		}
		if g.state.Epoch > 0 {
			g.mlsNews(record.MLSAdmission, record.WithLeaf(g.state))
		}
	case *group.Committed:
		g.committed(e, g.abandoned)
	case *group.Convened:
		now := g.state.Conversation
		g.x.talks.Expect(g.stream.Slot(), 1, g.id[:], now[:])
		for _, m := range g.state.Members() {
			g.x.lists.Expect(m.Agent.Slot(), 1, m.Agent[:], now[:])
		}
	case *group.Carried, *group.Changed, *group.Consented, *group.Deleted, *group.Filed, *group.Founded, *group.Left, *group.Resolved, *group.RoleChanged, *group.Voted: // judged before they are folded
	}
	if len(g.pendingNews) > 0 && (len(record.Admins(g.state)) > 0 || g.state.Deleted()) {
		g.tell()
	}
}

func (g *groupReplay) seated(m group.Member) {
	g.seats[m.Agent] = record.AppendSeat(g.seats[m.Agent], m.Seat)
	if !g.held[m.Org] {
		g.held[m.Org] = true
		g.x.holders.Expect(g.stream.Slot(), 1, g.id[:], m.Org[:], m.Agent[:])
	}
	g.news(m.Agent, record.MemberJoined, nil)
	if now := g.state.Conversation; !now.Zero() && g.listed[m.Agent] != now {
		g.x.lists.Expect(m.Agent.Slot(), 1, m.Agent[:], now[:])
		g.listed[m.Agent] = now
	}
}

func (g *groupReplay) news(about parley.AgentID, kind byte, request []byte) {
	g.pendingNews = append(g.pendingNews, headline{about, append([]byte{kind}, request...)})
}

// tell expects the pending events in the feeds of all agents concerned.
func (g *groupReplay) tell() {
	for _, h := range g.pendingNews {
		g.x.notices.Expect(h.about.Slot(), 1, h.about[:], g.id[:], h.note)
		for _, a := range record.Admins(g.state) {
			if a.Agent != h.about {
				g.x.notices.Expect(a.Agent.Slot(), 1, a.Agent[:], g.id[:], h.note)
			}
		}
	}
	g.pendingNews = g.pendingNews[:0]
}

// tellOne expects the last pending event only in the feed of the agent that it is about.
func (g *groupReplay) tellOne() {
	h := g.pendingNews[len(g.pendingNews)-1]
	g.x.notices.Expect(h.about.Slot(), 1, h.about[:], g.id[:], h.note)
	g.pendingNews = g.pendingNews[:len(g.pendingNews)-1]
}

// sitting returns the member on a seat, nil if the seat is empty.
func (g *groupReplay) sitting(seat uint32) *group.Member {
	if all := g.state.MembersFrom(seat - 1); seat > 0 && len(all) > 0 && all[0].Seat == seat {
		return &all[0]
	}
	return nil
}

// end checks the final state of the group, and the messages to it and from it that are in
// queues and outboxes.
func (g *groupReplay) end() error {
	g.tell()
	x, s := g.x, g.state
	if len(s.Members()) > 0 && len(record.Admins(s)) == 0 && !s.Deleted() {
		x.groupLaw.Fault(record.StreamName(g.stream), "it has members and no admin")
	}
	for _, m := range s.Members() {
		if !s.Deleted() && !x.underway.forgets[pair(parley.AnyID(m.Agent), g.stream.ID)] {
			x.members.Expect(m.Agent.Slot(), 1, membership(m.Agent, g.id, m.Offer, s.Isolated))
		}
	}
	for agent, seats := range g.seats {
		talk := g.listed[agent]
		x.places.Expect(g.stream.Slot(), 1, g.id[:], agent[:], talk[:], seats)
	}
	for _, r := range s.Requests() {
		if err := g.live(r); err != nil {
			return err
		}
	}
	if row := shownRow(s); row != nil {
		x.directory.Expect(journal.DirectorySlot, 1, g.id[:], row)
	}
	g.timers()
	g.awaited()
	return g.endMLS()
}

// membership encodes an agent's seat, with the offer by which the agent took it.
func membership(agent parley.AgentID, id parley.GroupID, offer uint32, isolated bool) []byte {
	m := record.AppendSeat(append(append(make([]byte, 0, 37), agent[:]...), id[:]...), offer)
	if isolated {
		return append(m, 1)
	}
	return append(m, 0)
}

// live checks that the agent has a note of a request about it. A revoked agent need not
// have one if the message that it was revoked has not reached the group yet.
func (g *groupReplay) live(r *group.Request) error {
	x, agent, key := g.x, r.AgentID(), append(r.AgentID().Bytes(), r.GetId()...)
	if _, coming := x.underway.concerns[string(key)]; !coming && x.underway.forgets[pair(parley.AnyID(agent), g.stream.ID)] {
		_, noted, err := x.Row(agent.Slot(), journal.ConcernTable, key)
		if err != nil || !noted {
			return err
		}
	}
	x.concerns.Expect(agent.Slot(), 1, key, g.id[:])
	return nil
}

// timers checks the group's timers: one for each live request that is not being settled,
// and others only if a request needed them once.
func (g *groupReplay) timers() {
	x := g.x
	owed := map[int64]bool{}
	for _, r := range g.state.Requests() {
		o := g.state.OfferTo(r.AgentID())
		settling := o != nil && bytes.Equal(o.GetRequest(), r.GetId())
		if due := r.GetExpiresMs(); !settling && !owed[due] {
			owed[due] = true
			x.timersDue.Expect(g.stream.Slot(), 1, timerKey(g.stream, time.UnixMilli(due)))
		}
	}
	for _, due := range x.groupTimers[g.id] {
		if owed[due] || !g.due[due] {
			x.timersDue.Find(g.stream.Slot(), 1, timerKey(g.stream, time.UnixMilli(due)))
		}
	}
	delete(x.groupTimers, g.id)
}

// shownRow returns the directory's row of a group, nil if the directory does not show it.
func shownRow(s *group.State) []byte {
	if !s.Public || s.Deleted() || s.LastSeat == 0 {
		return nil
	}
	row, _ := (&record.PublicGroup{
		Id: s.ID.Bytes(), Org: s.Org.Bytes(), Name: s.Name, Description: s.Description, Policy: s.Policy.String(),
		VoteHours: int32(s.VoteHours), Members: int32(len(s.Members())), CreatedMs: s.CreatedMs, Mls: s.Epoch > 0,
	}).MarshalVT()
	return row
}

// awaited checks the seats that are kept: for each, exactly one offer or answer is in a
// queue or an outbox. Messages about other seats can only be left over from an agent that
// was revoked.
func (g *groupReplay) awaited() {
	x, where := g.x, record.StreamName(g.stream)
	words := x.underway.offers[g.id]
	for number := range g.kept {
		x.seatWords.Checked++
		if n := words[number]; n != 1 {
			x.seatWords.Fault(where, "the seat of offer %d is kept and %d words about it are on their way: nobody will settle it", number, n)
		}
	}
	for number, n := range words {
		if _, _, reason, kept := g.state.Fate(number); !kept && reason != group.ReasonRevoked {
			x.seatWords.Fault(where, "%d words are on their way about offer %d, which is settled or was never made", n, number)
		}
	}
	delete(x.underway.offers, g.id)
}
