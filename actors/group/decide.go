package group

import (
	"slices"
	"time"

	"parley/client/parley"
)

// Decide applies the rules to c in state s and returns the resulting events, or the
// refusal. It never changes s. A command that changes nothing yields no event.
func Decide(s *State, c Command, now time.Time) ([]Event, error) {
	d := &decision{s: s, now: now}
	err := d.decide(c)
	return d.events, err
}

// decision collects the events of one command.
type decision struct {
	s      *State
	now    time.Time
	events []Event
}

func (d *decision) say(e Event) { d.events = append(d.events, e) }
func (d *decision) at() int64   { return d.now.UnixMilli() }

// decide dispatches a command to its rule. Repeats are answered first. A group that
// exists never refuses a command that no caller sent but that follows from an event.
func (d *decision) decide(c Command) error {
	switch c := c.(type) {
	case Found:
		return d.found(c)
	case Send:
		if c.Prior != nil {
			return c.Prior.judge(c)
		}
	case Commit:
		if c.Repeated {
			return ErrCommitRepeated
		}
	case Answer, Appoint, CastVote, Change, ChangeRole, Delete, EndRequest, Expire, Forget, Invite, Join, Remove: // decided below
	}
	if !d.s.Exists() {
		return ErrUnknown
	}
	switch c := c.(type) {
	case Answer: // seats are settled even after the group is deleted
		return d.answer(c)
	case Forget:
		return d.forget(c)
	case Expire:
		return d.expire()
	case Appoint, CastVote, Change, ChangeRole, Commit, Delete, EndRequest, Found, Invite, Join, Remove, Send: // decided by asked
	}
	if d.s.Deleted() {
		if c, again := c.(Delete); again && d.mayDelete(c.By) {
			return nil
		}
		return ErrDeleted
	}
	if d.s.LastSeat == 0 {
		return ErrUnknown // the founder has not taken its seat yet
	}
	return d.asked(c)
}

// asked decides the commands of callers, in a group that is not deleted.
func (d *decision) asked(c Command) error {
	if err := halted(d, c); err != nil {
		return err
	}
	switch c := c.(type) {
	case Appoint:
		return appoint(d, c)
	case Change:
		return d.change(c)
	case Join:
		return d.join(c)
	case Invite:
		return d.invite(c)
	case CastVote:
		return d.vote(c)
	case EndRequest:
		return endRequest(d, c)
	case Remove:
		return d.remove(c)
	case ChangeRole:
		return d.changeRole(c)
	case Delete:
		return d.delete(c)
	case Send:
		return d.send(c)
	case Commit:
		return d.commit(c)
	case Answer, Expire, Forget, Found: // decided by decide
	}
	panic("group: unknown command")
}

func (d *decision) found(c Found) error {
	if d.s.Exists() {
		return nil
	}
	d.say(&Founded{
		Id: c.ID.Bytes(), Org: c.Org.Bytes(), Name: c.Name, Description: c.Description, Policy: c.Policy,
		Public: c.Public, Isolated: c.Isolated, VoteHours: int32(c.VoteHours), AtMs: d.at(),
	})
	d.say(&Offered{AtMs: d.at(), Offer: &Offer{
		Number: 1, Agent: c.Founder.Bytes(), Org: c.Org.Bytes(), Role: Admin, Asked: true,
	}})
	return nil
}

// admin returns the admin that acts for the caller: the agent that the caller named, or
// else its first admin.
func (d *decision) admin(by Caller) (Member, error) {
	if m, ok := d.acting(by, func(m Member) bool { return m.Role == Admin }); ok {
		return m, nil
	}
	return Member{}, ErrNotAdmin
}

// acting returns the first member that satisfies suits and is the agent that the caller
// named or, if it named none, belongs to the caller.
func (d *decision) acting(by Caller, suits func(Member) bool) (Member, bool) {
	if !by.Agent.Zero() {
		m, ok := d.s.Member(by.Agent)
		return m, ok && suits(m)
	}
	at := slices.IndexFunc(d.s.members, func(m Member) bool { return by.seated(m) && suits(m) })
	if at < 0 {
		return Member{}, false
	}
	return d.s.members[at], true
}

func anyMember(Member) bool { return true }

func (d *decision) change(c Change) error {
	if _, err := d.admin(c.By); err != nil {
		return err
	}
	switch {
	case c.Name != nil && *c.Name != d.s.Name:
		return ErrNameImmutable
	case c.Isolated != nil && *c.Isolated != d.s.Isolated:
		return ErrIsolatedImmutable
	}
	e := &Changed{
		Description: differing(c.Description, d.s.Description), Policy: differing(c.Policy, d.s.Policy),
		Public: differing(c.Public, d.s.Public), AtMs: d.at(),
	}
	if hours := differing(c.VoteHours, d.s.VoteHours); hours != nil {
		short := int32(*hours)
		e.VoteHours = &short
	}
	if e.Description != nil || e.Policy != nil || e.Public != nil || e.VoteHours != nil {
		d.say(e)
	}
	return nil
}

// differing returns wanted, or nil if it equals has.
func differing[T comparable](wanted *T, has T) *T {
	if wanted == nil || *wanted == has {
		return nil
	}
	return wanted
}

// offers returns how many offers this decision makes.
func (d *decision) offers() (n uint32) {
	for _, e := range d.events {
		if _, ok := e.(*Offered); ok {
			n++
		}
	}
	return n
}

// departures returns how many members leave by this decision.
func (d *decision) departures() (n int) {
	for _, e := range d.events {
		if _, ok := e.(*Left); ok {
			n++
		}
	}
	return n
}

// checkCapacity refuses another seat beyond the limit.
func (d *decision) checkCapacity(limit *int) error {
	used := d.s.taken() + int(d.offers()) - d.departures()
	if limit != nil && used >= *limit {
		return ErrFull.OverQuota("group_members", *limit, used, nil)
	}
	return nil
}

// offer keeps the next seat for an agent. asked: the agent itself asked for it just now,
// so a failed offer answers the agent; otherwise it cancels the request.
func (d *decision) offer(agent parley.AgentID, org parley.OrgID, r *Request, asked bool) *Offer {
	o := &Offer{Number: d.s.LastOffer + d.offers() + 1, Agent: agent.Bytes(), Org: org.Bytes(), Role: RoleMember, Asked: asked}
	if r != nil {
		o.Request = r.GetId()
	}
	d.say(&Offered{Offer: o, AtMs: d.at()})
	return o
}

func (d *decision) resolve(r *Request, status Status, reason string) {
	d.say(&Resolved{Request: r.settled(status, reason, d.now), Told: requester(d, r)})
}

// cancel ends a request for another reason than time, unless it has expired already.
func (d *decision) cancel(r *Request, reason string) {
	if r.Overdue(d.now) && !d.s.seating(r) {
		d.resolve(r, Expired, "")
		return
	}
	d.resolve(r, Canceled, reason)
}

// managed returns a member and the admin that acts for the caller. Only callers that may
// see the members learn that an agent is not a member; others get the same refusal for
// every agent.
func (d *decision) managed(agent parley.AgentID, by Caller) (m, admin Member, err error) {
	m, member := d.s.Member(agent)
	admin, err = d.admin(by)
	if !member && (err == nil || by.PartOf(d.s)) {
		err = ErrUnknownMember
	}
	return m, admin, err
}

func (d *decision) changeRole(c ChangeRole) error {
	m, _, err := d.managed(c.Agent, c.By)
	switch {
	case err != nil:
		return err
	case m.Role == c.Role:
		return nil
	case m.Role == Admin && d.s.admins == 1:
		return ErrLastAdmin
	}
	d.say(&RoleChanged{Seat: m.Seat, Role: c.Role, AtMs: d.at()})
	return nil
}

func (d *decision) remove(c Remove) error {
	e := &Left{How: Departure_left, AtMs: d.at()}
	m, member := d.s.Member(c.Agent)
	switch itself := c.By.Agent == c.Agent; {
	case itself && !member:
		return ErrUnknownMember
	case !itself:
		by, err := d.kicker(c)
		if err != nil || !member {
			return err
		}
		e.How, e.By = Departure_kicked, by.Agent.Bytes()
	}
	if m.Role == Admin && d.s.admins == 1 {
		return ErrLastAdmin
	}
	e.Seat = m.Seat
	d.say(e)
	if len(d.s.members) == 1 && len(d.s.offers) == 0 {
		d.end(nil) // it was frozen, and nobody is left
		return nil
	}
	d.recount(c.SeatLimit, m)
	return nil
}

// kicker returns the admin that removes a member. In a group with an MLS group a commit
// removes members: the call is accepted only after it.
func (d *decision) kicker(c Remove) (Member, error) {
	_, by, err := d.managed(c.Agent, c.By)
	if d.s.Epoch == 0 {
		return by, err
	}
	_, member := d.s.Member(c.Agent)
	committed := !member && c.CommittedMs != 0 && d.at()-c.CommittedMs < RemovalAnswered.Milliseconds()
	if committed {
		by, err = d.admin(c.By)
	}
	switch {
	case err != nil:
		return by, err
	case c.By.Agent.Zero():
		return by, ErrKickerRequired.With("candidates", d.s.candidates(c.By, isAdmin))
	case committed:
		return by, nil
	}
	return by, ErrCommitRequired
}

// forget removes a revoked agent. If it was the last admin, the longest-seated member of the
// owning organization succeeds it, or else the group is frozen; a group without members ends.
func (d *decision) forget(c Forget) error {
	if d.s.Deleted() {
		return nil // the agent's answer settles an offer
	}
	left := d.s.taken()
	if o := d.s.OfferTo(c.Agent); o != nil {
		d.say(&Withdrawn{Offer: o.GetNumber(), Reason: ReasonRevoked, AtMs: d.at()})
		left--
	}
	if r := d.s.RequestOf(c.Agent); r != nil {
		d.cancel(r, ReasonRevoked)
	}
	m, member := d.s.Member(c.Agent)
	if member {
		d.say(&Left{Seat: m.Seat, How: Departure_revoked, AtMs: d.at()})
		left--
	}
	switch {
	case left == 0:
		d.end(nil)
		return nil
	case !member:
		return nil
	case m.Role == Admin && d.s.admins == 1:
		heir, found := d.acting(Caller{Org: d.s.Org}, func(o Member) bool { return o.Seat != m.Seat })
		if !found {
			return nil // the group is frozen: this departure settles no request
		}
		d.say(&RoleChanged{Seat: heir.Seat, Role: Admin, AtMs: d.at()})
	}
	d.recount(c.SeatLimit, m)
	return nil
}

// delete is an admin's act. A frozen group's owner deletes it without one.
func (d *decision) delete(c Delete) error {
	by, err := d.admin(c.By)
	switch {
	case !d.mayDelete(c.By):
		return err
	case err == nil:
		d.end(by.Agent.Bytes())
	case c.By.Agent.Zero():
		d.end(nil)
	default:
		d.end(c.By.Agent.Bytes())
	}
	return nil
}

// mayDelete reports whether the caller may delete the group, or might have.
func (d *decision) mayDelete(by Caller) bool {
	_, err := d.admin(by)
	return err == nil || d.s.admins == 0 && by.Governs(d.s)
}

// end settles what is pending and closes the group.
func (d *decision) end(by []byte) {
	settled := map[parley.JoinRequestID]bool{}
	for _, e := range d.events {
		if r, ok := e.(*Resolved); ok {
			settled[r.GetRequest().RequestID()] = true
		}
	}
	for _, r := range d.s.Requests() {
		if !settled[r.RequestID()] {
			d.cancel(d.standing(r), "group_deleted")
		}
	}
	d.say(&Deleted{By: by, AtMs: d.at()})
}

// standing returns a request as it is after the departures of this decision.
func (d *decision) standing(r *Request) *Request {
	for _, e := range d.events {
		left, ok := e.(*Left)
		if !ok || r.GetStatus() != Pending || left.GetSeat() > r.GetMark() {
			continue
		}
		approve, voted := d.s.requests[r.RequestID()].votes[left.GetSeat()]
		r = r.clone()
		r.Electorate--
		r.count(approve, voted, -1)
	}
	return r
}
