package group

import (
	"slices"
	"time"

	"parley/client/parley"
)

// join decides a request for a seat. // spec: Join request and membership
func (d *decision) join(c Join) error {
	if _, member := d.s.Member(c.Agent); member {
		return ErrAlreadyMember
	}
	if d.s.OfferTo(c.Agent) != nil {
		return nil // the agent has an offer
	}
	r := d.live(c.Agent)
	switch {
	case r == nil && d.s.Policy == Closed:
		return ErrInvitationRequired
	case c.Confined:
		return ErrIsolationConflict
	case r == nil:
		return d.apply(c)
	}
	if r.GetStatus() == Pending && !r.GetConsented() {
		d.say(&Consented{Request: r.GetId(), AtMs: d.at()})
	}
	if r.GetStatus() == Invited || d.s.Policy == Open || r.approved() {
		return d.admit(c, r)
	}
	return nil // an applicant polls its request this way
}

// live returns the live request about an agent. If that has expired, live settles it and
// returns nil.
func (d *decision) live(agent parley.AgentID) *Request {
	r := d.s.RequestOf(agent)
	if r == nil || !r.Overdue(d.now) {
		return r
	}
	d.resolve(r, Expired, "")
	return nil
}

// apply handles a join without an invitation: an open group offers a seat, any other
// files a request for the members' vote.
func (d *decision) apply(c Join) error {
	if d.s.Policy == Open {
		return d.admit(c, nil)
	}
	if err := d.s.filings.check(c.Agent, d.now); err != nil {
		return err
	}
	if err := d.queue(c.Queue, c.Org); err != nil {
		return err
	}
	d.file(&Request{
		Id: c.RequestID.Bytes(), Agent: c.Agent.Bytes(), Org: c.Org.Bytes(), Status: Pending,
		Policy: d.s.Policy, Message: messageAcross(d.s.Isolated, c.Message), Consented: true,
	})
	return nil
}

// queue refuses one more pending request beyond the bounds: an application for an agent
// of an organization, or a nomination if of is zero. Every request with votes uses
// memory, and anyone may apply. Expired requests are excluded from the count, but only
// when a bound seems to be reached.
func (d *decision) queue(q Queue, of parley.OrgID) error {
	if (q.Org == 0 || d.s.applications[of] < q.Org) && (q.Group == 0 || d.s.pending < q.Group) {
		return nil
	}
	all, own := 0, 0
	for _, b := range d.s.requests {
		if b.GetStatus() != Pending || b.Overdue(d.now) && !d.s.seating(b.Request) {
			continue
		}
		if all++; !b.Nomination() && b.owner() == of {
			own++
		}
	}
	switch {
	case q.Org > 0 && own >= q.Org:
		return ErrQueueFull.OverQuota("join_requests", q.Org, own, nil)
	case q.Group > 0 && all >= q.Group:
		return ErrQueueFull.OverQuota("join_requests", q.Group, all, nil)
	}
	return nil
}

// admit offers a seat to an agent that asked for it just now.
func (d *decision) admit(c Join, r *Request) error {
	if err := d.checkCapacity(c.SeatLimit); err != nil {
		return err
	}
	d.offer(c.Agent, c.Org, r, true)
	return nil
}

// file makes a request live. Its electorate is the members of this moment.
func (d *decision) file(r *Request) {
	life := parley.InvitationLife
	if r.GetStatus() == Pending {
		life = time.Duration(d.s.VoteHours) * time.Hour
		r.Mark, r.Total, r.Electorate = d.s.LastSeat, int32(len(d.s.members)), int32(len(d.s.members))
	}
	r.CreatedMs, r.ExpiresMs = d.at(), d.now.Add(life).UnixMilli()
	d.say(&Filed{Request: r, Counted: !r.Nomination()})
}

// MessageFrom returns the message of an invitation to a group.
func (c Invite) MessageFrom(isolated bool) string { return messageAcross(isolated, c.Message) }

// messageAcross returns the message of a request. Members of an isolated group and outsiders
// send each other nothing.
func messageAcross(isolated bool, message string) string {
	if isolated {
		return ""
	}
	return message
}

// invite decides who may invite an agent, and how.
func (d *decision) invite(c Invite) error {
	vouches := c.Founding || d.s.Policy == Closed || d.s.Policy == Open
	by, ok := d.acting(c.By, func(m Member) bool { return m.Role == Admin })
	if !ok {
		if by, ok = d.acting(c.By, anyMember); !ok {
			return ErrNotMember
		}
		if d.s.Policy == Closed {
			return ErrNotAdmin
		}
	}
	if err := d.invitable(c); err != nil {
		return err
	}
	if d.s.Policy == Open && !c.Founding {
		return nil // the group is open
	}
	r := &Request{
		Id: c.RequestID.Bytes(), Agent: c.Agent.Bytes(), Org: c.Org.Bytes(), Status: Invited,
		Policy: d.s.Policy, Message: c.MessageFrom(d.s.Isolated), InvitedBy: by.Agent.Bytes(), Silent: c.Silent,
	}
	if vouches {
		d.file(r)
		return nil
	}
	if err := d.queue(c.Queue, parley.OrgID{}); err != nil {
		return err
	}
	r.Status = Pending
	d.file(r)
	d.say(&Voted{Request: r.Id, Seat: by.Seat, Approve: true, AtMs: d.at()})
	return nil
}

// invitable checks the agent to be invited.
func (d *decision) invitable(c Invite) error {
	if !c.Known {
		return ErrUnknownAgent
	}
	if c.Revoked {
		return ErrAgentRevoked
	}
	if _, member := d.s.Member(c.Agent); member {
		return ErrAlreadyMember
	}
	if d.s.OfferTo(c.Agent) != nil || d.live(c.Agent) != nil {
		return ErrAlreadyInvited
	}
	if c.Confined {
		return ErrIsolationConflict
	}
	return d.checkCapacity(c.SeatLimit)
}

// vote decides an elector's vote, and whether it settles the request. // spec: Groups
func (d *decision) vote(c CastVote) error {
	b := d.s.requests[c.Request]
	if b != nil && b.Overdue(d.now) && !d.s.seating(b.Request) {
		b, c.Settled = nil, true // it is over, even if the event is not appended yet
	}
	if b == nil {
		if _, member := d.acting(c.By, anyMember); !member {
			return ErrNotInElectorate
		}
		if c.Settled {
			return ErrRequestClosed
		}
		return ErrUnknownRequest
	}
	voter, err := d.elector(b.Request, c)
	switch {
	case err != nil:
		return err
	case !d.s.votable(b.Request, d.now):
		return ErrRequestClosed
	}
	after := b.clone()
	if was, voted := b.votes[voter.Seat]; !voted || was != c.Approve {
		d.say(&Voted{Request: b.GetId(), Seat: voter.Seat, Approve: c.Approve, AtMs: d.at()})
		after.count(was, voted, -1)
		after.count(c.Approve, true, 1)
	}
	d.judge(after, c.SeatLimit) // also for a repeated vote, because a nominator's own approval was not judged yet
	return nil
}

// votable reports whether votes on a live request count: members vote on it, it has not
// expired, its seat is not on offer, and the group is not frozen.
func (s *State) votable(r *Request, now time.Time) bool {
	return r.GetStatus() == Pending && !r.Overdue(now) && !s.seating(r) && !Frozen(s)
}

// elector returns the caller's member that may vote on r: the one that it named, or its
// only one.
func (d *decision) elector(r *Request, c CastVote) (Member, error) {
	by := c.By
	if r.GetStatus() == Pending && r.GetElectorate() == 0 {
		if _, member := d.acting(by, anyMember); member || c.Former {
			return Member{}, ErrElectorateEmpty
		}
		return Member{}, ErrNotInElectorate // outsiders may not learn who has left
	}
	entitled := func(m Member) bool { return m.Seat <= r.GetMark() || r.GetStatus() != Pending }
	voter, ok := d.acting(by, entitled)
	if !ok {
		return Member{}, ErrNotInElectorate
	}
	if by.Agent.Zero() && d.s.several(by, entitled) {
		return Member{}, ErrAgentRequired.With("candidates", d.s.candidates(by, entitled))
	}
	return voter, nil
}

// several reports whether more than one of a caller's members satisfies suits.
func (s *State) several(by Caller, suits func(Member) bool) bool {
	found := false
	for _, m := range s.members {
		if !by.seated(m) || !suits(m) {
			continue
		}
		if found {
			return true
		}
		found = true
	}
	return false
}

func (s *State) candidates(by Caller, suits func(Member) bool) (ids []string) {
	for _, m := range s.members {
		if by.seated(m) && suits(m) {
			ids = append(ids, m.Agent.String())
		}
	}
	return ids
}

// count adds n to the votes of one side.
func (r *Request) count(approve, voted bool, n int32) {
	switch {
	case !voted:
	case approve:
		r.Approvals += n
	default:
		r.Denials += n
	}
}

// judge settles a request that has enough approvals or denials. An agent that wants the
// seat gets an offer, an agent that has not consented yet gets an invitation, and a
// denied request ends.
func (d *decision) judge(r *Request, limit *int) {
	switch {
	case r.refused():
		d.resolve(r, Denied, "")
	case !r.approved():
	case !r.GetConsented():
		d.say(&Carried{Request: r.GetId(), ExpiresMs: d.now.Add(parley.InvitationLife).UnixMilli(), AtMs: d.at()})
	case d.checkCapacity(limit) != nil:
		d.resolve(r, Canceled, ReasonFull)
	default:
		d.offer(r.AgentID(), r.owner(), r, false)
	}
}

// Reasons why an approved seat was not given.
const (
	ReasonFull      = "group_full"
	ReasonIsolation = "isolation_conflict"
	ReasonRevoked   = "revoked"
)

// recount removes members from the electorates of live requests. Both bars fall, which
// may settle requests. // spec: Join request and membership
func (d *decision) recount(limit *int, gone ...Member) {
	for _, r := range d.s.Requests() {
		electors := slices.DeleteFunc(slices.Clone(gone), func(m Member) bool { return m.Seat > r.GetMark() })
		if r.GetStatus() != Pending || len(electors) == 0 || !d.s.votable(r, d.now) {
			continue
		}
		after := r.clone()
		for _, m := range electors {
			after.Electorate--
			approve, voted := d.s.requests[r.RequestID()].votes[m.Seat]
			after.count(approve, voted, -1)
		}
		d.judge(after, limit)
	}
}

// answer settles an offered seat by its agent's answer. It ignores an answer to a settled
// offer, because the agent may repeat it after a crash.
func (d *decision) answer(c Answer) error {
	o := d.s.offered(c.Offer)
	if o == nil {
		return nil
	}
	reason := c.Refusal
	if d.s.Deleted() {
		reason = "group_deleted"
	}
	r := d.s.Request(o.request())
	if reason != "" {
		d.say(&Withdrawn{Offer: c.Offer, Reason: reason, AtMs: d.at()})
		switch {
		case r == nil:
		case !o.GetAsked():
			d.resolve(r, Canceled, reason)
		case r.Overdue(d.now):
			d.resolve(r, Expired, "")
		case r.GetStatus() == Pending && r.refused() && !Frozen(d.s):
			d.resolve(r, Denied, "") // enough denials, because members left meanwhile
		}
		if len(d.s.members) == 0 && len(d.s.offers) == 1 && !d.s.Deleted() {
			d.end(nil) // the founder could not take its seat
		}
		return nil
	}
	seat := d.s.LastSeat + 1
	d.say(&Seated{Offer: c.Offer, Seat: seat, AtMs: d.at()})
	if d.s.admins == 0 && o.GetRole() != Admin && parley.IDFromBytes[parley.OrgID](o.GetOrg()) == d.s.Org { // the last admin has left meanwhile
		d.say(&RoleChanged{Seat: seat, Role: Admin, AtMs: d.at()})
	}
	if r != nil {
		status := Approved
		if r.GetStatus() == Invited {
			status = Accepted
		}
		d.resolve(r, status, "")
	}
	return nil
}

// expire settles the requests that have expired. A request whose seat is on offer is
// settled by the agent's answer.
func (d *decision) expire() error {
	for _, r := range d.s.Requests() {
		if r.Overdue(d.now) && !d.s.seating(r) {
			d.resolve(r, Expired, "")
		}
	}
	return nil
}

func (s *State) seating(r *Request) bool {
	for _, o := range s.offers {
		if o.request() == r.RequestID() {
			return true
		}
	}
	return false
}

// Reasons why a caller's vote would count or not. // spec: Join request
const (
	MayVote       = "ok"
	NotAVote      = "not_a_vote"
	NoActingAgent = "no_acting_agent"
	OwnRequest    = "own_request"
)

// YouMayVote reports whether a vote on r by the caller would count, and the reason. r is
// a live or a settled request.
func (s *State) YouMayVote(r *Request, by Caller, now time.Time) (bool, string) {
	entitled := func(m Member) bool { return m.Seat <= r.GetMark() }
	d := decision{s: s}
	_, elector := d.acting(by, entitled)
	switch {
	case r.GetStatus() == Invited:
		return false, NotAVote
	case s.Request(r.RequestID()) == nil || s.Deleted() || !s.votable(r, now):
		return false, ErrRequestClosed.Code
	case by.Agent == r.AgentID(), !elector && by.Agent.Zero() && by.Owns(r.owner(), r.AgentID()):
		return false, OwnRequest
	case elector && by.Agent.Zero() && s.several(by, entitled):
		return false, NoActingAgent
	case !elector:
		return false, ErrNotInElectorate.Code
	}
	return true, MayVote
}
