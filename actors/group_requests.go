package actors

import (
	"context"
	"slices"

	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

func (gs *Groups) join(t *groupTurn, c joining) (any, error) {
	t.State.setSeatLimit(c.SeatLimit)
	c.RequestID = t.State.NextRequestID(t.Now, gs.entropy())
	c.Confined, c.Queue = c.InIsolated || c.In && t.State.Isolated, gs.queue
	if err := gs.decide(t, c.Join); err != nil {
		return nil, err
	}
	if o := t.State.OfferTo(c.Agent); o != nil {
		id, offer := t.State.ID, o.GetNumber()
		return &host.Unfinished{Finish: func() (any, error) {
			m, err := gs.awaitSeat(id, offer)
			return Joined{Member: &m}, err
		}}, nil
	}
	return Joined{Request: t.State.RequestOf(c.Agent)}, nil
}

// invite decides an invitation. If a request results, it adds the message that notifies
// the agent.
func (gs *Groups) invite(t *groupTurn, c Invitation) (any, error) {
	t.State.setSeatLimit(c.SeatLimit)
	c.RequestID = t.State.NextRequestID(t.Now, gs.entropy())
	c.Confined, c.Queue = c.InIsolated || c.In && t.State.Isolated, gs.queue
	if err := gs.decide(t, c.Invite); err != nil {
		return nil, err
	}
	r := t.State.Request(c.RequestID)
	if r == nil { // the group is open
		return r, nil
	}
	if r.GetSilent() {
		return r, nil
	}
	return r, gs.notify(t, r, c.Notice)
}

// notify sends the message about an invitation from the inviting member, in a new
// conversation. It counts against no quota.
func (gs *Groups) notify(t *groupTurn, r *group.Request, content Content) error {
	by, _ := t.State.Member(r.Inviter())
	content.Body = fillNotice(content.Body, r)
	content.FromOrg, content.ToOrg = by.Org, parley.IDFromBytes[parley.OrgID](r.GetOrg())
	return appendMessage(t, newConversation(t, gs.entropy(), by.Agent, r.AgentID(), &content), r.AgentID())
}

func (gs *Groups) vote(t *groupTurn, c group.CastVote) (any, error) {
	t.State.setSeatLimit(c.SeatLimit)
	if t.State.Request(c.Request) == nil {
		_, settled, err := t.Row(journal.RequestTable, append(t.State.ID.Bytes(), c.Request[:]...))
		if err != nil {
			return nil, err
		}
		c.Settled = settled
	} else if r := t.State.Request(c.Request); r.GetElectorate() == 0 && !c.By.Agent.Zero() {
		var err error
		if c.Former, err = heldSeatBy(t, c.By.Agent, r.GetMark()); err != nil {
			return nil, err
		}
	}
	if err := gs.decide(t, c); err != nil {
		return nil, err
	}
	v := Voted{Request: t.State.Request(c.Request), Vote: group.Deny}
	if c.Approve {
		v.Vote = group.Approve
	}
	if v.Request == nil {
		v.Request = settledNow(t, c.Request)
	} else if o := t.State.OfferTo(v.Request.AgentID()); o != nil {
		return gs.seated(t.State.ID, v, o.GetNumber()), nil
	}
	return v, nil
}

// seated is the reply to a vote that led to an offer: the request that the seat settles, or as it
// is if that takes too long.
func (gs *Groups) seated(id parley.GroupID, v Voted, offer uint32) *host.Unfinished {
	return &host.Unfinished{Finish: func() (any, error) {
		if _, err := gs.awaitSeat(id, offer); err != nil && !parley.IsRefusal(err) {
			return v, nil
		}
		if settled, err := gs.SettledRequest(context.Background(), id, v.Request.RequestID()); err == nil {
			v.Request = settled
		}
		return v, nil
	}}
}

// heldSeatBy reports whether an agent ever held a seat numbered up to mark, the last
// seat when the request was filed.
func heldSeatBy(t *groupTurn, agent parley.AgentID, mark uint32) (bool, error) {
	row, _, err := t.Row(journal.PlaceTable, record.PlaceKey(t.State.ID, agent))
	return slices.ContainsFunc(record.SeatsOf(row), func(seat uint32) bool { return seat <= mark }), err
}

// settledNow returns a request that this turn has settled.
func settledNow(t *groupTurn, id parley.JoinRequestID) *group.Request {
	for _, e := range t.Events {
		if r, ok := e.(*group.Resolved); ok && r.GetRequest().RequestID() == id {
			return r.GetRequest()
		}
	}
	return nil
}

// remove removes a member. Others may get a seat as a result.
func (gs *Groups) remove(t *groupTurn, c group.Remove) (any, error) {
	t.State.setSeatLimit(c.SeatLimit)
	if _, member := t.State.Member(c.Agent); !member && t.State.Epoch > 0 {
		m, err := editMLSRows(t).member(c.Agent)
		if err != nil {
			return nil, err
		}
		c.CommittedMs = m.GetRemovedMs()
	}
	if err := gs.decide(t, c); err != nil {
		return nil, err
	}
	return gs.settled(t.State.ID, offeredIn(t.Events), []parley.AgentID{c.Agent}, nil), nil
}

// delete deletes the group. Its members leave it.
func (gs *Groups) delete(t *groupTurn, c group.Delete) (any, error) {
	if err := gs.decide(t, c); err != nil {
		return nil, err
	}
	var ids []parley.AgentID
	members := t.State.Members()
	for _, m := range members[:min(len(members), awaitedMax)] {
		ids = append(ids, m.Agent)
	}
	return gs.settled(t.State.ID, nil, ids, nil), nil
}

func changeRole(gs *Groups, t *groupTurn, c group.ChangeRole) (any, error) {
	if err := gs.decide(t, c); err != nil {
		return nil, err
	}
	m, _ := t.State.Member(c.Agent)
	return m, nil
}

func appoint(gs *Groups, t *groupTurn, c appointing) (any, error) {
	t.State.setSeatLimit(c.SeatLimit)
	c.Confined = c.InIsolated || c.In && t.State.Isolated
	if err := gs.decide(t, c.Appoint); err != nil {
		return nil, err
	}
	if o := t.State.OfferTo(c.Agent); o != nil {
		id, offer := t.State.ID, o.GetNumber()
		return &host.Unfinished{Finish: func() (any, error) { return gs.awaitSeat(id, offer) }}, nil
	}
	m, _ := t.State.Member(c.Agent)
	return m, nil
}

// decide decides a command and adds its effects on other actors to the same entry. Events
// are kept even if the answer is a refusal.
func (gs *Groups) decide(t *groupTurn, c group.Command) error { return gs.decideWith(t, c, nil) }

// decideWith is decide for a command that may be that of a commit.
func (gs *Groups) decideWith(t *groupTurn, c group.Command, commit *MLSCommit) error {
	leavers, abandoned := membersLeaving(t.State.State, c), t.State.Abandoned()
	was := directoryEntryOf(t.State.State)
	before := len(t.Events)
	refusal := t.Decide(c)
	for _, e := range t.Events[before:] {
		t.State.noteAdmins(e, leavers)
		if err := gs.applyEffects(t, e, leavers); err != nil {
			return err
		}
	}
	if t.State.Epoch > 0 && len(t.Events) > before {
		if err := writeMLSRows(t, t.Events[before:], leavers, abandoned, commit); err != nil {
			return err
		}
	}
	updateDirectory(t, was)
	return refusal
}

// membersLeaving returns the members that a command may remove, as they were before the
// command.
func membersLeaving(s *group.State, c group.Command) (all []group.Member) {
	add := func(agent parley.AgentID) {
		if m, member := s.Member(agent); member {
			all = append(all, m)
		}
	}
	switch c := c.(type) {
	case group.Remove:
		add(c.Agent)
	case group.Forget:
		add(c.Agent)
	case group.Commit:
		for _, agent := range c.Removed {
			add(agent)
		}
	case group.Answer, group.Appoint, group.CastVote, group.Change, group.ChangeRole, group.Delete, group.EndRequest, group.Expire, group.Found, group.Invite, group.Join, group.Send: // no member leaves
	}
	return all
}

// leaverOf returns the member that left a seat.
func leaverOf(leavers []group.Member, seat uint32) (m group.Member) {
	if at := slices.IndexFunc(leavers, func(m group.Member) bool { return m.Seat == seat }); at >= 0 {
		m = leavers[at]
	}
	return m
}

// applyEffects adds an event's effects on other actors and rows.
func (gs *Groups) applyEffects(t *groupTurn, e group.Event, leavers []group.Member) error {
	s := t.State
	switch e := e.(type) {
	case *group.Offered:
		o := e.GetOffer()
		to := parley.IDFromBytes[parley.AgentID](o.GetAgent())
		t.Enqueue(rules.AgentStream(to), &record.SagaMessage{Kind: record.SagaMessage_offer, Group: s.ID.Bytes(), Number: o.GetNumber(), Isolated: s.Isolated})
	case *group.Filed:
		r := e.GetRequest()
		t.Enqueue(rules.AgentStream(r.AgentID()), &record.SagaMessage{Kind: record.SagaMessage_concern, Group: s.ID.Bytes(), Request: r.GetId()})
		wakeAt(t, r.GetExpiresMs())
		if r.GetStatus() == group.Invited {
			announce(t, record.Invited, r)
		} else {
			announce(t, record.RequestCreated, r, s.admins()...)
		}
	case *group.Carried:
		id := parley.IDFromBytes[parley.JoinRequestID](e.GetRequest())
		wakeAt(t, e.GetExpiresMs())
		announce(t, record.Invited, s.Request(id))
	case *group.Seated:
		return gs.memberSeated(t, e)
	case *group.Resolved:
		r := e.GetRequest()
		data, err := encoding.Marshal(r)
		if err != nil {
			return err
		}
		t.PutRow(journal.RequestTable, append(s.ID.Bytes(), r.GetId()...), data)
		t.Enqueue(rules.AgentStream(r.AgentID()), &record.SagaMessage{Kind: record.SagaMessage_settled, Group: s.ID.Bytes(), Request: r.GetId()})
		announce(t, record.RequestResolved, r, s.adminsAnd(parley.IDFromBytes[parley.AgentID](e.GetTold()))...)
	case *group.Left:
		leaver := leaverOf(leavers, e.GetSeat())
		t.Enqueue(rules.AgentStream(leaver.Agent), departMessage(s.ID, leaver.Offer))
		announceMember(t, record.MemberLeft, leaver.Agent)
		if leaver.Leaf && s.LeftLeaf(leaver.Agent) {
			announceMLS(t, record.MLSRemoval, record.WithLeaf(s.State))
		}
		return memberLeft(t, leaver.Agent)
	case *group.Committed:
		announceCommit(t, e, leavers)
	case *group.Deleted:
		for _, m := range s.Members() {
			t.Enqueue(rules.AgentStream(m.Agent), departMessage(s.ID, m.Offer))
		}
		t.Enqueue(rules.OrgStream(s.Org), &record.SagaMessage{Kind: record.SagaMessage_ended, Group: s.ID.Bytes()})
	case *group.Changed, *group.Consented, *group.Convened, *group.Founded, *group.RoleChanged, *group.Voted, *group.Withdrawn: // no effect elsewhere
	}
	return nil
}

func departMessage(id parley.GroupID, offer uint32) *record.SagaMessage {
	return &record.SagaMessage{Kind: record.SagaMessage_depart, Group: id.Bytes(), Number: offer}
}

// memberSeated announces a new member, stores its seat, and adds the group's conversation
// to the member's list if it is missing.
func (gs *Groups) memberSeated(t *groupTurn, e *group.Seated) error {
	s := t.State
	m := s.MembersFrom(e.GetSeat() - 1)[0]
	row, _, err := t.Row(journal.PlaceTable, record.PlaceKey(s.ID, m.Agent))
	if err != nil {
		return err
	}
	if len(row) == 0 {
		row = make([]byte, len(parley.ConversationID{}))
	}
	row = record.AppendSeat(row, e.GetSeat())
	if talk := parley.ConversationID(row[:16]); !s.Conversation.Zero() && talk != s.Conversation {
		t.AddEffects(journal.AddToList{Agent: m.Agent, Conversation: s.Conversation})
		copy(row, s.Conversation[:])
	}
	t.PutRow(journal.PlaceTable, record.PlaceKey(s.ID, m.Agent), row)
	if _, known, err := t.Row(journal.HolderTable, record.HolderKey(s.ID, m.Org)); err != nil {
		return err
	} else if !known {
		t.PutRow(journal.HolderTable, record.HolderKey(s.ID, m.Org), m.Agent.Bytes())
	}
	announceMember(t, record.MemberJoined, m.Agent)
	if s.Epoch > 0 {
		announceMLS(t, record.MLSAdmission, record.WithLeaf(s.State))
	}
	return nil
}

// memberLeft records which conversation of the group is on a departing member's list.
func memberLeft(t *groupTurn, of parley.AgentID) error {
	row, found, err := t.Row(journal.PlaceTable, record.PlaceKey(t.State.ID, of))
	if err != nil || !found || parley.ConversationID(row[:16]) == t.State.Conversation {
		return err
	}
	row = append([]byte(nil), row...)
	copy(row, t.State.Conversation[:])
	t.PutRow(journal.PlaceTable, record.PlaceKey(t.State.ID, of), row)
	return nil
}
