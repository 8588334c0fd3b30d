package group

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"parley/client/parley"
)

// Info is what a group is, besides its members and requests.
type Info struct {
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
	// Conversation is the conversation of the group's broadcasts, zero before the first.
	Conversation parley.ConversationID
	// Epoch is the epoch of the MLS group, zero if the group has none, and Suite its
	// cipher suite.
	Epoch uint64
	Suite uint16
}

// State is a group, folded from its events. It stores members by value: a group may have
// ten thousand, and its rules look up one at a time.
type State struct {
	Info
	// LastSeat and LastOffer are the highest numbers given to a seat and an offer.
	LastSeat, LastOffer uint32

	// members are in the order of their seats, which is the order of joining.
	members []Member
	// places maps agents to the seats of members.
	places map[parley.AgentID]uint32
	offers []*Offer
	// declined are the latest offers that failed.
	declined []*Declined
	// requests are the live requests by id; byAgent has the same by agent.
	requests      map[parley.JoinRequestID]*ballot
	byAgent       map[parley.AgentID]*ballot
	lastRequestID parley.JoinRequestID
	// pending is the number of live requests that wait for votes. applications counts
	// those of them that were filed by join, by the applicant's organization.
	pending      int
	applications map[parley.OrgID]int
	filings      filings
	admins       int
	// leaves is the number of members that have a leaf in the MLS group.
	leaves int
	// abandoned are the leaves of former members, in the order in which they left.
	abandoned []*Leaf
}

// Member is an agent in the group.
type Member struct {
	Agent    parley.AgentID
	Org      parley.OrgID
	JoinedMs int64
	Seat     uint32
	// Offer is the number of the offer by which the member took the seat. The agent's own
	// state identifies the seat by it.
	Offer uint32
	Role  Role
	// Leaf: the member has a leaf in the MLS group.
	Leaf bool
}

// ballot is a live request with the electors' votes, by seat.
type ballot struct {
	*Request
	votes map[uint32]bool
}

// JoinedAt returns when the member was seated, UTC.
func (m Member) JoinedAt() time.Time { return time.UnixMilli(m.JoinedMs).UTC() }

// ID returns the id of the membership: the group's id with the seat number in it.
func (m Member) ID(of parley.GroupID) parley.AnyID {
	id := parley.AnyID(of)
	for i := range 4 {
		id[15-i] ^= byte(m.Seat >> (8 * i))
	}
	return id
}

// Exists reports whether the group was ever founded.
func (s *State) Exists() bool { return !s.ID.Zero() }

// Deleted reports whether the group was deleted.
func (i Info) Deleted() bool { return i.DeletedMs != 0 }

// CreatedAt returns when the group was founded, UTC.
func (i Info) CreatedAt() time.Time { return time.UnixMilli(i.CreatedMs).UTC() }

// Members returns the members in the order of joining. A deleted group keeps its last
// members. The slice is the state's own: do not change it.
func (s *State) Members() []Member { return s.members }

// MembersFrom returns the members with seats beyond seat, in order.
func (s *State) MembersFrom(seat uint32) []Member {
	at, _ := slices.BinarySearchFunc(s.members, seat+1, bySeat)
	return s.members[at:]
}

// Member returns the member for an agent, false if the agent is not a member.
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

// Request returns a live request, or nil if the request is not live or never existed. It
// also returns requests that have expired but are not settled yet; see Request.Overdue.
func (s *State) Request(id parley.JoinRequestID) *Request {
	if b := s.requests[id]; b != nil {
		return b.Request
	}
	return nil
}

// RequestOf returns the live request about an agent, nil if there is none.
func (s *State) RequestOf(agent parley.AgentID) *Request {
	if b := s.byAgent[agent]; b != nil {
		return b.Request
	}
	return nil
}

// Live returns the number of live requests.
func (s *State) Live() int { return len(s.requests) }

// Requests returns the live requests in the order in which they were filed.
func (s *State) Requests() []*Request {
	all := make([]*Request, 0, len(s.requests))
	for _, b := range s.requests {
		all = append(all, b.Request)
	}
	slices.SortFunc(all, func(a, b *Request) int { return bytes.Compare(a.GetId(), b.GetId()) })
	return all
}

// VoteOf returns how an agent voted on a live request: approve, deny, or "".
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

// OfferTo returns the offer of a seat to an agent, nil if there is none.
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

// Fate returns the outcome of an offer: the seat is still kept, a member has it, or it
// was not taken for a reason, which is "" if the group has dropped it.
func (s *State) Fate(offer uint32) (m Member, seated bool, reason string, kept bool) {
	if s.offered(offer) != nil {
		return Member{}, false, "", true
	}
	for _, d := range s.declined {
		if d.GetOffer() == offer {
			return Member{}, false, d.GetReason(), false
		}
	}
	for _, m := range slices.Backward(s.members) { // callers ask about the latest members
		if m.Offer == offer {
			return m, true, "", false
		}
	}
	return Member{}, false, "", false
}

// Stale reports whether an agent that claims to have taken a seat by this offer has no
// such seat and will not get one. The group must then notify the agent that it is not a
// member.
func (s *State) Stale(offer uint32, agent parley.AgentID) bool {
	if o := s.OfferTo(agent); o != nil && o.GetNumber() == offer {
		return false
	}
	m, member := s.Member(agent)
	return !member || m.Offer != offer
}

// NextRequestID returns a new id in the group's slot that sorts after all the group's
// requests, even if the clock goes back.
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

// taken returns how many seats members have or are kept for others.
func (s *State) taken() int { return len(s.members) + len(s.offers) }

// RequestID returns the request's id.
func (r *Request) RequestID() parley.JoinRequestID {
	return parley.IDFromBytes[parley.JoinRequestID](r.GetId())
}

// AgentID returns the agent that would be seated.
func (r *Request) AgentID() parley.AgentID { return parley.IDFromBytes[parley.AgentID](r.GetAgent()) }

func (r *Request) owner() parley.OrgID { return parley.IDFromBytes[parley.OrgID](r.GetOrg()) }

// Inviter returns the member that nominated or invited the agent; zero for an
// application.
func (r *Request) Inviter() parley.AgentID {
	return parley.IDFromBytes[parley.AgentID](r.GetInvitedBy())
}

// Overdue reports whether the request has expired.
func (r *Request) Overdue(now time.Time) bool { return now.UnixMilli() >= r.GetExpiresMs() }

// Nomination reports whether a member proposed the agent.
func (r *Request) Nomination() bool { return len(r.GetInvitedBy()) > 0 }

// ApprovalsNeeded returns how many approvals admit the agent. It is computed on the
// electors who are still in the group. // spec: Join request and membership
func (r *Request) ApprovalsNeeded() int {
	if r.GetPolicy() == Unanimity {
		return int(r.GetElectorate())
	}
	return int(r.GetElectorate())/2 + 1
}

// DenialsNeeded returns how many denials refuse the agent; see ApprovalsNeeded.
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

// settled returns a copy of the request as settled.
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
		Total: r.Total, Electorate: r.Electorate, Approvals: r.Approvals, Denials: r.Denials, Reason: r.Reason, Silent: r.Silent,
	}
}

func (o *Offer) agent() parley.AgentID { return parley.IDFromBytes[parley.AgentID](o.GetAgent()) }

func (o *Offer) request() parley.JoinRequestID {
	return parley.IDFromBytes[parley.JoinRequestID](o.GetRequest())
}
