package group

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

// Tag returns the number that identifies an event's kind on disk.
func Tag(e Event) byte {
	switch e.(type) {
	case *Founded:
		return 1
	case *Changed:
		return 2
	case *Filed:
		return 3
	case *Consented:
		return 4
	case *Voted:
		return 5
	case *Carried:
		return 6
	case *Offered:
		return 7
	case *Seated:
		return 8
	case *Withdrawn:
		return 9
	case *Resolved:
		return 10
	case *Left:
		return 11
	case *RoleChanged:
		return 12
	case *Deleted:
		return 13
	case *Convened:
		return 14
	case *Committed:
		return 15
	}
	panic("group: unknown event")
}

// New returns an empty event of the kind with this tag, false for an unknown tag.
func New(tag byte) (Event, bool) {
	if int(tag) >= len(kinds) || kinds[tag] == nil {
		return nil, false
	}
	return kinds[tag](), true
}

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Founded:
		s.ID, s.Org = parley.IDFromBytes[parley.GroupID](e.GetId()), parley.IDFromBytes[parley.OrgID](e.GetOrg())
		s.Name, s.Description, s.Policy, s.Public = e.GetName(), e.GetDescription(), e.GetPolicy(), e.GetPublic()
		s.Isolated, s.VoteHours, s.CreatedMs = e.GetIsolated(), int(e.GetVoteHours()), e.GetAtMs()
	case *Changed:
		s.change(e)
	case *Filed:
		s.file(e.GetRequest())
		if e.GetCounted() {
			s.filings.count(e.GetRequest())
		}
	case *Consented:
		s.ballot(e.GetRequest(), func(b *ballot) { b.Consented = true })
	case *Voted:
		s.ballot(e.GetRequest(), func(b *ballot) { b.vote(e.GetSeat(), e.GetApprove()) })
	case *Carried:
		s.ballot(e.GetRequest(), func(b *ballot) { b.Status, b.ExpiresMs = Invited, e.GetExpiresMs() })
	case *Offered:
		s.offers = append(s.offers, e.GetOffer())
		s.LastOffer = e.GetOffer().GetNumber()
	case *Seated:
		s.seat(e)
	case *Withdrawn:
		s.withdraw(e.GetOffer())
		s.remember(&Declined{Offer: e.GetOffer(), Reason: e.GetReason()})
	case *Resolved:
		s.settle(e.GetRequest())
	case *Left:
		s.leave(e.GetSeat())
	case *RoleChanged:
		s.promote(e)
	case *Deleted:
		s.DeletedMs = e.GetAtMs()
	case *Convened:
		s.Conversation = parley.IDFromBytes[parley.ConversationID](e.GetConversation())
	case *Committed:
		s.commit(e)
	}
}

func (s *State) change(e *Changed) {
	if e.Description != nil {
		s.Description = *e.Description
	}
	if e.Policy != nil {
		s.Policy = *e.Policy
	}
	if e.Public != nil {
		s.Public = *e.Public
	}
	if e.VoteHours != nil {
		s.VoteHours = int(*e.VoteHours)
	}
}

// ballot changes a live request and ignores any other. It does not change requests that
// were returned before.
func (s *State) ballot(id []byte, change func(*ballot)) {
	b := s.requests[parley.IDFromBytes[parley.JoinRequestID](id)]
	if b == nil {
		return
	}
	s.count(b.Request, -1)
	b.Request = b.Request.clone()
	change(b)
	s.count(b.Request, 1)
}

// count adds n to the requests that wait for votes, if r is one.
func (s *State) count(r *Request, n int) {
	if r.GetStatus() != Pending {
		return
	}
	s.pending += n
	if r.Nomination() {
		return
	}
	if s.applications == nil {
		s.applications = map[parley.OrgID]int{}
	}
	if s.applications[r.owner()] += n; s.applications[r.owner()] == 0 {
		delete(s.applications, r.owner())
	}
}

func (s *State) file(r *Request) {
	b := &ballot{Request: r}
	if s.requests == nil {
		s.requests, s.byAgent = map[parley.JoinRequestID]*ballot{}, map[parley.AgentID]*ballot{}
	}
	s.requests[r.RequestID()], s.byAgent[r.AgentID()] = b, b
	s.lastRequestID = r.RequestID()
	s.count(r, 1)
}

func (b *ballot) vote(seat uint32, approve bool) {
	was, voted := b.votes[seat]
	b.count(was, voted, -1)
	b.count(approve, true, 1)
	if b.votes == nil {
		b.votes = map[uint32]bool{}
	}
	b.votes[seat] = approve
}

func (s *State) settle(r *Request) {
	if b := s.requests[r.RequestID()]; b != nil {
		s.count(b.Request, -1)
	}
	delete(s.requests, r.RequestID())
	if b := s.byAgent[r.AgentID()]; b != nil && b.RequestID() == r.RequestID() {
		delete(s.byAgent, r.AgentID())
	}
}

func (s *State) seat(e *Seated) {
	o := s.offered(e.GetOffer())
	if o == nil {
		return
	}
	s.withdraw(o.GetNumber())
	s.LastSeat = e.GetSeat()
	s.add(Member{
		Agent: o.agent(), Org: parley.IDFromBytes[parley.OrgID](o.GetOrg()),
		JoinedMs: e.GetAtMs(), Seat: e.GetSeat(), Offer: o.GetNumber(), Role: o.GetRole(),
	})
}

// add seats a member, as the last to have joined.
func (s *State) add(m Member) {
	s.members = append(s.members, m)
	if s.places == nil {
		s.places = map[parley.AgentID]uint32{}
	}
	s.places[m.Agent] = m.Seat
	if m.Role == Admin {
		s.admins++
	}
	if m.Leaf {
		s.leaves++
	}
}

func (s *State) withdraw(offer uint32) {
	s.offers = slices.DeleteFunc(s.offers, func(o *Offer) bool { return o.GetNumber() == offer })
}

// remember stores the reasons why the latest offers failed.
func (s *State) remember(d *Declined) {
	s.declined = append(s.declined, d)
	s.declined = s.declined[max(0, len(s.declined)-DeclinedKept):]
}

// leave removes a member from the group and from its electorates.
func (s *State) leave(seat uint32) {
	at, ok := slices.BinarySearchFunc(s.members, seat, bySeat)
	if !ok {
		return
	}
	m := s.members[at]
	if m.Role == Admin {
		s.admins--
	}
	if m.Leaf {
		s.leaves--
		s.abandoned = append(s.abandoned, &Leaf{Seat: m.Seat, Agent: m.Agent.Bytes()})
	}
	delete(s.places, m.Agent)
	s.members = slices.Delete(s.members, at, at+1)
	for id, b := range s.requests {
		if b.GetStatus() == Pending && seat <= b.GetMark() {
			s.ballot(id[:], func(b *ballot) {
				b.Electorate--
				approve, voted := b.votes[seat]
				b.count(approve, voted, -1)
				delete(b.votes, seat)
			})
		}
	}
}

func (s *State) promote(e *RoleChanged) {
	m := s.seated(e.GetSeat())
	if m == nil || m.Role == e.GetRole() {
		return
	}
	m.Role = e.GetRole()
	if m.Role == Admin {
		s.admins++
	} else {
		s.admins--
	}
}

// MarshalVT returns the state as stored.
func (s *State) MarshalVT() ([]byte, error) {
	p := &Snapshot{
		Id: s.ID.Bytes(), Org: s.Org.Bytes(), Name: s.Name, Description: s.Description, Policy: s.Policy, Public: s.Public,
		Isolated: s.Isolated, VoteHours: int32(s.VoteHours), CreatedMs: s.CreatedMs, DeletedMs: s.DeletedMs,
		LastSeat: s.LastSeat, LastOffer: s.LastOffer, Offers: s.offers, Requests: s.Requests(), LastRequestId: s.lastRequestID.Bytes(),
		Declined: s.declined, Epoch: s.Epoch, CipherSuite: uint32(s.Suite), Leaves: s.abandoned,
		FilingDay: s.filings.day, Filings: s.filings.stored(),
	}
	if !s.Conversation.Zero() {
		p.Conversation = s.Conversation.Bytes()
	}
	for i := range s.members {
		m := &s.members[i]
		p.Seats = append(p.Seats, &Seat{Number: m.Seat, Agent: m.Agent[:], Org: m.Org[:], Role: m.Role, JoinedMs: m.JoinedMs, Offer: m.Offer, Leaf: m.Leaf})
	}
	for _, r := range p.GetRequests() {
		if b := s.requests[r.RequestID()]; len(b.votes) > 0 {
			votes := &Ballot{Request: r.GetId()}
			for _, seat := range slices.Sorted(maps.Keys(b.votes)) {
				votes.Votes = append(votes.Votes, &Vote{Seat: seat, Approve: b.votes[seat]})
			}
			p.Ballots = append(p.Ballots, votes)
		}
	}
	return proto.Marshal(p)
}

// UnmarshalVT reads what MarshalVT wrote into an empty state.
func (s *State) UnmarshalVT(b []byte) error {
	p := &Snapshot{}
	if err := proto.Unmarshal(b, p); err != nil {
		return err
	}
	s.ID, s.Org = parley.IDFromBytes[parley.GroupID](p.GetId()), parley.IDFromBytes[parley.OrgID](p.GetOrg())
	s.Name, s.Description, s.Policy, s.Public = p.GetName(), p.GetDescription(), p.GetPolicy(), p.GetPublic()
	s.Isolated, s.VoteHours, s.CreatedMs, s.DeletedMs = p.GetIsolated(), int(p.GetVoteHours()), p.GetCreatedMs(), p.GetDeletedMs()
	s.LastSeat, s.LastOffer, s.offers, s.declined = p.GetLastSeat(), p.GetLastOffer(), p.GetOffers(), p.GetDeclined()
	s.Conversation = parley.IDFromBytes[parley.ConversationID](p.GetConversation())
	s.Epoch, s.Suite, s.abandoned = p.GetEpoch(), uint16(p.GetCipherSuite()), p.GetLeaves()
	for _, m := range p.GetSeats() {
		s.add(Member{
			Agent: parley.IDFromBytes[parley.AgentID](m.GetAgent()), Org: parley.IDFromBytes[parley.OrgID](m.GetOrg()),
			Role: m.GetRole(), JoinedMs: m.GetJoinedMs(), Seat: m.GetNumber(), Offer: m.GetOffer(), Leaf: m.GetLeaf(),
		})
	}
	for _, r := range p.GetRequests() {
		s.file(r)
	}
	for _, votes := range p.GetBallots() {
		b := s.requests[parley.IDFromBytes[parley.JoinRequestID](votes.GetRequest())]
		if b == nil {
			continue
		}
		b.votes = make(map[uint32]bool, len(votes.GetVotes()))
		for _, v := range votes.GetVotes() {
			b.votes[v.GetSeat()] = v.GetApprove()
		}
	}
	s.lastRequestID = parley.IDFromBytes[parley.JoinRequestID](p.GetLastRequestId())
	s.filings = restoredFilings(p)
	return nil
}
