package verify

import (
	"bytes"
	"fmt"
	"time"

	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// groupReplay is a group that is being replayed.
type groupReplay struct {
	*replay
	id    parley.GroupID
	state *group.State
	last  parley.JoinRequestID
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
	// movedMs is when a member last came or left.
	movedMs int64
	mls     mlsReplay
}

// headline is a group event and the agent that it is about.
type headline struct {
	about parley.AgentID
	note  []byte
	// also is a member that is told besides the admins, zero for none.
	also parley.AgentID
	// silent: the agent itself is not told.
	silent bool
}

func replayGroup(r *replay) {
	g := &groupReplay{
		replay: r, id: parley.GroupID(r.stream.ID), state: &group.State{},
		listed: map[parley.AgentID]parley.ConversationID{}, seats: map[parley.AgentID][]byte{}, held: map[parley.OrgID]bool{}, due: map[int64]bool{}, kept: map[uint32]bool{},
	}
	follow(r, rules.Group, g.state, &group.State{}, g.judge)
	r.lags, r.end = true, g.finished
}

// judge checks an event, and expects what must follow from it.
func (g *groupReplay) judge(seq uint64, e group.Event) {
	if risen, ok := e.(*group.RoleChanged); !ok || !g.succeeds(risen) {
		g.notify() // the last admin has no successor
	}
	why := g.unlawful(e)
	g.must(groupHistory, why == "", "event %d: %s", seq, why)
	switch e := e.(type) {
	case *group.Founded:
		g.begins(seq, e.GetId())
		owner := parley.IDFromBytes[parley.OrgID](e.GetOrg())
		g.expect(groupNameRows, owner[:], g.id[:], g.hiddenName(journal.GroupNameTable, owner, e.GetName()))
		g.find(groupsOfOrgs, owner[:], g.id[:])
	case *group.Filed:
		g.filed(e.GetRequest())
	case *group.Carried:
		g.due[e.GetExpiresMs()] = true
		if r := g.state.Request(parley.IDFromBytes[parley.JoinRequestID](e.GetRequest())); r != nil {
			g.invited(r) // admins are not notified
		}
	case *group.Resolved:
		r := e.GetRequest()
		data, err := encoding.Marshal(r)
		g.failed(err)
		g.expect(requestRows, g.id[:], r.GetId(), data)
		g.news(r.AgentID(), record.RequestResolved, r.GetId())
		g.pendingNews[len(g.pendingNews)-1].silent = r.GetSilent()
		g.pendingNews[len(g.pendingNews)-1].also = parley.IDFromBytes[parley.AgentID](e.GetTold())
	case *group.Left:
		g.movedMs = e.GetAtMs()
		if m := sitting(g.state, e.GetSeat()); m != nil {
			g.listed[m.Agent] = g.state.Conversation
			g.news(m.Agent, record.MemberLeft, nil)
			g.abandons(m)
		}
	case *group.Deleted:
		g.expect(groupEndings, g.state.Org[:], g.id[:])
	case *group.Offered:
		g.kept[e.GetOffer().GetNumber()] = true
	case *group.Withdrawn:
		delete(g.kept, e.GetOffer())
	case *group.Seated:
		g.movedMs = e.GetAtMs()
		g.fold()
		g.seated(e)
	case *group.Committed:
		abandoned := g.state.Abandoned()
		g.fold()
		g.committed(e, abandoned)
	case *group.Convened:
		g.fold()
		now := g.state.Conversation
		g.expect(groupConversations, g.id[:], now[:])
		for _, m := range g.state.Members() {
			g.expect(conversationLists, m.Agent[:], now[:])
		}
	case *group.Changed, *group.Consented, *group.RoleChanged, *group.Voted: // nothing follows elsewhere
	}
	g.fold()
	if len(g.pendingNews) > 0 && (len(record.Admins(g.state)) > 0 || g.state.Deleted()) {
		g.notify()
	}
}

// succeeds reports whether an admin rises by the decision by which a member came or left, and
// not by the owner's word later. Earlier servers let the first member of another organization
// rise too.
func (g *groupReplay) succeeds(e *group.RoleChanged) bool {
	m := sitting(g.state, e.GetSeat())
	return m != nil && e.GetAtMs() == g.movedMs && (m.Org == g.state.Org || m.Seat == g.state.Members()[0].Seat)
}

// filed checks a request that becomes live. Only the agent is notified of an invitation,
// and the message that comes with it counts against no quota. Nobody is notified of a silent one.
func (g *groupReplay) filed(r *group.Request) {
	g.last = r.RequestID()
	g.due[r.GetExpiresMs()] = true
	if r.Nomination() && !r.GetSilent() {
		by, _ := g.state.Member(r.Inviter())
		g.find(quota, usedKey(g.Home(g.stream.Slot()), by.Org, journal.Day(time.UnixMilli(r.GetCreatedMs()))))
	}
	if r.GetStatus() == group.Invited {
		g.invited(r)
		return
	}
	g.news(r.AgentID(), record.RequestCreated, r.GetId())
	g.pendingNews[len(g.pendingNews)-1].silent = r.GetSilent()
}

// invited expects the news of an invitation in the feed of the invited agent alone.
func (g *groupReplay) invited(r *group.Request) {
	if r.GetSilent() {
		return
	}
	agent := r.AgentID()
	g.expect(groupNews, agent[:], g.id[:], append([]byte{record.Invited}, r.GetId()...))
}

// seated expects what follows from a seat that was taken.
func (g *groupReplay) seated(e *group.Seated) {
	delete(g.kept, e.GetOffer())
	if m := sitting(g.state, e.GetSeat()); m != nil {
		g.seats[m.Agent] = record.AppendSeat(g.seats[m.Agent], m.Seat)
		if !g.held[m.Org] {
			g.held[m.Org] = true
			g.expect(holderRows, g.id[:], m.Org[:], m.Agent[:])
		}
		g.news(m.Agent, record.MemberJoined, nil)
		if now := g.state.Conversation; !now.Zero() && g.listed[m.Agent] != now {
			g.expect(conversationLists, m.Agent[:], now[:])
			g.listed[m.Agent] = now
		}
	}
	if g.state.Epoch > 0 {
		g.mlsNews(record.MLSAdmission, record.WithLeaf(g.state))
	}
}

func (g *groupReplay) news(about parley.AgentID, kind byte, request []byte) {
	g.pendingNews = append(g.pendingNews, headline{about: about, note: append([]byte{kind}, request...)})
}

// notify expects the pending events in the feeds of all agents concerned.
func (g *groupReplay) notify() {
	for _, h := range g.pendingNews {
		if !h.silent {
			g.expect(groupNews, h.about[:], g.id[:], h.note)
		}
		if m, member := g.state.Member(h.also); member && m.Role != group.Admin && m.Agent != h.about {
			g.expect(groupNews, h.also[:], g.id[:], h.note)
		}
		for _, a := range record.Admins(g.state) {
			if a.Agent != h.about {
				g.expect(groupNews, a.Agent[:], g.id[:], h.note)
			}
		}
	}
	g.pendingNews = g.pendingNews[:0]
}

// sitting returns the member on a seat, nil if the seat is empty.
func sitting(s *group.State, seat uint32) *group.Member {
	if all := s.MembersFrom(seat - 1); seat > 0 && len(all) > 0 && all[0].Seat == seat {
		return &all[0]
	}
	return nil
}

// finished checks the final state of the group, and the messages to it and from it that are
// in queues and outboxes.
func (g *groupReplay) finished() {
	g.notify()
	s := g.state
	governed := s.Deleted() || !group.Frozen(s) || !s.Seats(s.Org)
	g.must(groupHistory, governed, "a member of its owner sits in it, and yet it has no admin")
	for _, m := range s.Members() {
		if !s.Deleted() && !g.forgets[pair(parley.AnyID(m.Agent), g.stream.ID)] {
			g.expect(memberships, membership(m.Agent, g.id, m.Offer, s.Isolated))
		}
	}
	for agent, seats := range g.seats {
		talk := g.listed[agent]
		g.expect(placeRows, g.id[:], agent[:], talk[:], seats)
	}
	if shown := record.PublicGroupOf(s); shown != nil {
		row, err := shown.MarshalVT()
		g.failed(err)
		g.expect(directoryRows, g.id[:], row)
	}
	g.requests()
	g.awaited()
	g.finishMLS()
}

// membership encodes an agent's seat, with the offer by which the agent took it.
func membership(agent parley.AgentID, id parley.GroupID, offer uint32, isolated bool) []byte {
	m := record.AppendSeat(append(append(make([]byte, 0, 37), agent[:]...), id[:]...), offer)
	if isolated {
		return append(m, 1)
	}
	return append(m, 0)
}

// requests checks that the agent has a note of each live request about it, and the group's
// timers: one for each live request that is not being settled, and others only if a request
// needed them once.
func (g *groupReplay) requests() {
	owed := map[int64]bool{}
	for _, r := range g.state.Requests() {
		if key := append(r.AgentID().Bytes(), r.GetId()...); g.noted(r.AgentID(), key) {
			g.expect(concernRows, key, g.id[:])
		}
		o := g.state.OfferTo(r.AgentID())
		settling := o != nil && bytes.Equal(o.GetRequest(), r.GetId())
		if !settling {
			owed[r.GetExpiresMs()] = true
		}
	}
	g.checkTimers(owed, g.due)
}

// noted reports whether the agent must have a note of a live request about it. A revoked
// agent need not have one if the message that it was revoked has not reached the group yet.
func (g *groupReplay) noted(agent parley.AgentID, key []byte) bool {
	_, coming := g.concerns[string(key)]
	if coming || !g.forgets[pair(parley.AnyID(agent), g.stream.ID)] {
		return true
	}
	_, found := g.row(agent.Slot(), journal.ConcernTable, key)
	return found
}

// awaited checks the seats that are kept: for each, exactly one offer or answer is in a
// queue or an outbox. Messages about other seats can only be left over from an agent that
// was revoked.
func (g *groupReplay) awaited() {
	messages := g.offers[g.id]
	for number := range g.kept {
		n := messages[number]
		g.must(seatsUnderway, n == 1, "the seat of offer %d is kept and %d messages about it are under way: nobody will settle it", number, n)
	}
	for number, n := range messages {
		_, _, reason, kept := g.state.Fate(number)
		g.must(seatsUnderway, kept || reason == group.ReasonRevoked, "%d messages are under way about offer %d, which is settled or was never made", n, number)
	}
	delete(g.offers, g.id)
}

// lawIf returns "" if what the rules require is true, else what is wrong.
func lawIf(required bool, wrong string, args ...any) string {
	if required {
		return ""
	}
	return fmt.Sprintf(wrong, args...)
}

// unlawful returns why an event cannot follow the events before it, "" if it can.
func (g *groupReplay) unlawful(e group.Event) string {
	s := g.state
	kept := func(offer uint32) bool { _, _, _, kept := s.Fate(offer); return kept }
	if _, ends := e.(*group.Withdrawn); s.Deleted() && !ends {
		return "it is over"
	}
	switch e := e.(type) {
	case *group.Founded, *group.Changed:
	case *group.Filed:
		return g.unlawfulFiling(e.GetRequest())
	case *group.Consented:
		return g.unlawfulStep(e.GetRequest(), func(r *group.Request) bool { return !r.GetConsented() })
	case *group.Carried:
		return g.unlawfulStep(e.GetRequest(), func(r *group.Request) bool { return !r.GetConsented() })
	case *group.Voted:
		return g.unlawfulStep(e.GetRequest(), func(r *group.Request) bool {
			return e.GetSeat() <= r.GetMark() && sitting(g.state, e.GetSeat()) != nil
		})
	case *group.Resolved:
		return g.unlawfulEnd(e.GetRequest())
	case *group.Deleted:
		return lawIf(len(s.Requests()) == 0, "it ends with a live request")
	case *group.Convened:
		id := parley.IDFromBytes[parley.ConversationID](e.GetConversation())
		_, member := s.Member(parley.IDFromBytes[parley.AgentID](e.GetBy()))
		return lawIf(id.Slot() == g.stream.Slot() && member && len(s.Members()) > 1, "conversation %s does not live with it, or nobody is there to speak or to listen", id)
	case *group.Committed:
		return g.unlawfulCommit(e)
	case *group.Offered:
		o, agent := e.GetOffer(), parley.IDFromBytes[parley.AgentID](e.GetOffer().GetAgent())
		_, member := s.Member(agent)
		return lawIf(o.GetNumber() == s.LastOffer+1 && !member && s.OfferTo(agent) == nil, "offer %d follows %d, or its agent has a seat", o.GetNumber(), s.LastOffer)
	case *group.Seated:
		return lawIf(kept(e.GetOffer()) && e.GetSeat() == s.LastSeat+1, "no seat is kept by offer %d, or seat %d does not follow %d", e.GetOffer(), e.GetSeat(), s.LastSeat)
	case *group.Withdrawn:
		return lawIf(kept(e.GetOffer()), "no seat is kept by offer %d", e.GetOffer())
	case *group.Left:
		return lawIf(sitting(g.state, e.GetSeat()) != nil, "nobody has seat %d", e.GetSeat())
	case *group.RoleChanged:
		m := sitting(g.state, e.GetSeat())
		return lawIf(m != nil && m.Role != e.GetRole(), "nobody has seat %d, or it has that role", e.GetSeat())
	}
	return ""
}

func (g *groupReplay) unlawfulFiling(r *group.Request) string {
	id := r.RequestID()
	_, member := g.state.Member(r.AgentID())
	switch {
	case id.Slot() != g.stream.Slot() || bytes.Compare(id[:], g.last[:]) <= 0:
		return fmt.Sprintf("request %s does not follow %s", id, g.last)
	case member || g.state.OfferTo(r.AgentID()) != nil || g.state.RequestOf(r.AgentID()) != nil:
		return "its agent has a seat, or asks for one already"
	}
	return lawIf(r.GetStatus() == group.Pending || r.GetStatus() == group.Invited, "it begins as %s", r.GetStatus())
}

// unlawfulStep judges an event about a request that waits for votes.
func (g *groupReplay) unlawfulStep(id []byte, suits func(*group.Request) bool) string {
	r := g.state.Request(parley.IDFromBytes[parley.JoinRequestID](id))
	return lawIf(r != nil && r.GetStatus() == group.Pending && suits(r), "request %x is not live, or not at that point", id)
}

// unlawfulEnd compares a settled request with the live one.
func (g *groupReplay) unlawfulEnd(r *group.Request) string {
	had := g.state.Request(r.RequestID())
	if had == nil {
		return fmt.Sprintf("request %s is not live", r.RequestID())
	}
	data, err := encoding.Marshal(r)
	as := &group.Request{}
	if err != nil || encoding.Unmarshal(data, as) != nil {
		return fmt.Sprintf("request %s cannot be read", r.RequestID())
	}
	as.Status, as.Reason, as.ResolvedMs = had.GetStatus(), had.GetReason(), had.GetResolvedMs()
	want, err := encoding.Marshal(had)
	have, err2 := encoding.Marshal(as)
	return lawIf(err == nil && err2 == nil && bytes.Equal(want, have), "request %s was settled otherwise than it stood", r.RequestID())
}
