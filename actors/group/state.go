package group

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"parley"
)

// State is a group, folded from its events. It keeps its members by value: a
// group may have ten thousand, and its rules ask for one of them at a time.
type State struct {
	ID          parley.GroupID
	Org         parley.OrgID
	Name        string
	Description string
	Policy      Policy
	Public      bool
	Isolated    bool
	VoteHours   int
	CreatedMs   int64
	// DeletedMs is zero while the group exists.
	DeletedMs int64
	// LastSeat and LastOffer are the highest numbers given to one.
	LastSeat, LastOffer uint32
	// Conversation is the one that broadcasts are in, zero before the first.
	Conversation parley.ConversationID

	// members are in the order of their seats, which is that of their joining.
	members []Member
	// places are the seats of members by agent.
	places map[parley.AgentID]uint32
	offers []*Offer
	// declined are the latest offers that failed.
	declined []*Declined
	// requests are the live ones, and byAgent the same by who they are about.
	requests      map[parley.JoinRequestID]*ballot
	byAgent       map[parley.AgentID]*ballot
	lastRequestID parley.JoinRequestID
	// pending are the live requests that wait for votes, and applications those of
	// them that were filed by join, by the applicant's organization.
	pending      int
	applications map[parley.OrgID]int
	admins       int
}

// Member is an agent in the group.
type Member struct {
	Agent    parley.AgentID
	Org      parley.OrgID
	JoinedMs int64
	Seat     uint32
	// Offer is the number of the offer that the seat was taken by: what the agent
	// itself knows its seat by.
	Offer uint32
	Role  Role
}

// ballot is a live request and how electors voted, by their seats.
type ballot struct {
	*Request
	votes map[uint32]bool
}

// JoinedAt is when the member was seated, UTC.
func (m Member) JoinedAt() time.Time { return time.UnixMilli(m.JoinedMs).UTC() }

// ID is the id of the membership: the group's, with the seat in it.
func (m Member) ID(of parley.GroupID) parley.AnyID {
	id := parley.AnyID(of)
	for i := range 4 {
		id[15-i] ^= byte(m.Seat >> (8 * i))
	}
	return id
}

// Exists reports whether the group was ever founded.
func (s *State) Exists() bool { return !s.ID.Zero() }

// Deleted reports whether the group is over.
func (s *State) Deleted() bool { return s.DeletedMs != 0 }

// CreatedAt is when the group was founded, UTC.
func (s *State) CreatedAt() time.Time { return time.UnixMilli(s.CreatedMs).UTC() }

// Members are the members in the order of their joining. A deleted group keeps
// those that it had. The slice is the state's own.
func (s *State) Members() []Member { return s.members }

// MembersFrom are the members with seats beyond seat, in order.
func (s *State) MembersFrom(seat uint32) []Member {
	at, _ := slices.BinarySearchFunc(s.members, seat+1, bySeat)
	return s.members[at:]
}

// Member is the member that agent is, false for one that is none.
func (s *State) Member(agent parley.AgentID) (Member, bool) {
	seat, ok := s.places[agent]
	if !ok {
		return Member{}, false
	}
	return *s.seated(seat), true
}

// Seats reports whether an organization owns a member.
func (s *State) Seats(org parley.OrgID) bool {
	return slices.ContainsFunc(s.members, func(m Member) bool { return m.Org == org })
}

// Request is a live request, nil for one that is not live or never was. What is
// past its time and not settled yet is still here: ask Request.Overdue.
func (s *State) Request(id parley.JoinRequestID) *Request {
	if b := s.requests[id]; b != nil {
		return b.Request
	}
	return nil
}

// RequestOf is the live request about an agent, nil if there is none.
func (s *State) RequestOf(agent parley.AgentID) *Request {
	if b := s.byAgent[agent]; b != nil {
		return b.Request
	}
	return nil
}

// Live is how many requests are live.
func (s *State) Live() int { return len(s.requests) }

// Requests are the live requests in the order in which they were filed.
func (s *State) Requests() []*Request {
	all := make([]*Request, 0, len(s.requests))
	for _, b := range s.requests {
		all = append(all, b.Request)
	}
	slices.SortFunc(all, func(a, b *Request) int { return bytes.Compare(a.GetId(), b.GetId()) })
	return all
}

// VoteOf is how an agent voted on a live request: approve, deny, or "".
func (s *State) VoteOf(id parley.JoinRequestID, agent parley.AgentID) string {
	b, seat := s.requests[id], s.places[agent]
	if b == nil || seat == 0 {
		return ""
	}
	approve, voted := b.votes[seat]
	switch {
	case !voted:
		return ""
	case approve:
		return Approve
	}
	return Deny
}

// OfferTo is the seat that is kept for an agent, nil if there is none.
func (s *State) OfferTo(agent parley.AgentID) *Offer {
	for _, o := range s.offers {
		if o.agent() == agent {
			return o
		}
	}
	return nil
}

// DeclinedKept is how many failed offers a group remembers, so that callers who wait
// for one learn the reason.
const DeclinedKept = 64

// Fate is what became of an offer: the seat is still kept, a member has it, or it
// was not taken, for a reason that is "" where the group knows of it no more.
func (s *State) Fate(offer uint32) (m Member, seated bool, reason string, kept bool) {
	if s.offered(offer) != nil {
		return Member{}, false, "", true
	}
	for _, d := range s.declined {
		if d.GetOffer() == offer {
			return Member{}, false, d.GetReason(), false
		}
	}
	for _, m := range slices.Backward(s.members) { // it is asked about those who came last
		if m.Offer == offer {
			return m, true, "", false
		}
	}
	return Member{}, false, "", false
}

// Stale reports whether an agent that says it has taken a seat by this offer has
// none by it, nor will have one: the agent must be told that it is out.
func (s *State) Stale(offer uint32, agent parley.AgentID) bool {
	if o := s.OfferTo(agent); o != nil && o.GetNumber() == offer {
		return false
	}
	m, member := s.Member(agent)
	return !member || m.Offer != offer
}

// NextRequestID makes an id that lives in the group's slot and sorts after all
// its requests, whatever the clock says.
func (s *State) NextRequestID(now time.Time, random [10]byte) parley.JoinRequestID {
	last := s.lastRequestID
	if last.Zero() {
		return parley.NewID[parley.JoinRequestID](s.ID.Slot(), now, random)
	}
	return parley.NextID(last, now, random)
}

func (s *State) seated(seat uint32) *Member {
	at, ok := slices.BinarySearchFunc(s.members, seat, bySeat)
	if !ok {
		return nil
	}
	return &s.members[at]
}

func bySeat(m Member, seat uint32) int { return cmp.Compare(m.Seat, seat) }

func (s *State) offered(number uint32) *Offer {
	for _, o := range s.offers {
		if o.GetNumber() == number {
			return o
		}
	}
	return nil
}

// taken are the seats that members have and that are kept for others.
func (s *State) taken() int { return len(s.members) + len(s.offers) }

// RequestID is the request's id.
func (r *Request) RequestID() parley.JoinRequestID {
	return parley.IDFromBytes[parley.JoinRequestID](r.GetId())
}

// AgentID is the agent that is to be seated.
func (r *Request) AgentID() parley.AgentID { return parley.IDFromBytes[parley.AgentID](r.GetAgent()) }

func (r *Request) owner() parley.OrgID { return parley.IDFromBytes[parley.OrgID](r.GetOrg()) }

// Inviter is the member that nominated or invited; zero for an application.
func (r *Request) Inviter() parley.AgentID {
	return parley.IDFromBytes[parley.AgentID](r.GetInvitedBy())
}

// Overdue reports whether the request's time has passed.
func (r *Request) Overdue(now time.Time) bool { return now.UnixMilli() >= r.GetExpiresMs() }

// Nomination reports whether a member proposed the agent.
func (r *Request) Nomination() bool { return len(r.GetInvitedBy()) > 0 }

// ApprovalsNeeded and DenialsNeeded are the bars, computed on the electorate
// that is still in the group. // spec: Join request and membership
func (r *Request) ApprovalsNeeded() int {
	if r.GetPolicy() == Unanimity {
		return int(r.GetElectorate())
	}
	return int(r.GetElectorate())/2 + 1
}

// DenialsNeeded is the bar for a denial, see ApprovalsNeeded.
func (r *Request) DenialsNeeded() int {
	if r.GetPolicy() == Unanimity {
		return 1
	}
	return (int(r.GetElectorate()) + 1) / 2
}

func (r *Request) approved() bool {
	return r.GetElectorate() > 0 && int(r.GetApprovals()) >= r.ApprovalsNeeded()
}

func (r *Request) refused() bool {
	return r.GetElectorate() > 0 && int(r.GetDenials()) >= r.DenialsNeeded()
}

// settled is a copy of the request as it ends.
func (r *Request) settled(status Status, reason string, now time.Time) *Request {
	c := r.clone()
	c.Status, c.Reason, c.ResolvedMs = status, reason, now.UnixMilli()
	return c
}

// clone copies the request; its byte strings are never changed and are shared.
func (r *Request) clone() *Request {
	return &Request{
		Id: r.Id, Agent: r.Agent, Org: r.Org, Status: r.Status, Policy: r.Policy, Message: r.Message, InvitedBy: r.InvitedBy,
		Consented: r.Consented, CreatedMs: r.CreatedMs, ExpiresMs: r.ExpiresMs, ResolvedMs: r.ResolvedMs, Mark: r.Mark,
		Total: r.Total, Electorate: r.Electorate, Approvals: r.Approvals, Denials: r.Denials, Reason: r.Reason,
	}
}

func (o *Offer) agent() parley.AgentID { return parley.IDFromBytes[parley.AgentID](o.GetAgent()) }

func (o *Offer) request() parley.JoinRequestID {
	return parley.IDFromBytes[parley.JoinRequestID](o.GetRequest())
}
