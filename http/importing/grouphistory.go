package importing

import (
	"bytes"
	"errors"
	"fmt"

	"parley"
	"parley/actors/group"
	"parley/http/api"
)

// groupEvent returns the event that a record of a group's history shows.
func groupEvent(in *api.ExportedGroupEvent, of *api.ExportedGroup, owner parley.OrgID) (group.Event, error) {
	at := in.At.UnixMilli()
	switch in.Event {
	case api.GroupFounded:
		policy, known := group.ParsePolicy(in.EnrollmentPolicy)
		if !known {
			return nil, fmt.Errorf("%q is no enrollment policy", in.EnrollmentPolicy)
		}
		return &group.Founded{
			Id: of.ID.Bytes(), Org: owner.Bytes(), Name: in.Name, Description: orEmpty(in.Description), Policy: policy,
			Public: in.Visibility == api.PublicGroups, Isolated: in.Isolated, VoteHours: int32(in.VoteDurationHours), AtMs: at,
		}, nil
	case api.GroupChanged:
		return changedEvent(in)
	case api.GroupDeleted:
		return &group.Deleted{By: bytesOf(parley.AnyID(in.By)), AtMs: at}, nil
	case api.GroupConvened:
		return &group.Convened{Conversation: in.ConversationID.Bytes(), By: in.By.Bytes(), AtMs: at}, nil
	case api.RequestFiled:
		r, err := requestIn(in.Request)
		return &group.Filed{Request: r}, err
	case api.RequestResolved:
		r, err := requestIn(in.Request)
		return &group.Resolved{Request: r}, err
	case api.RequestConsented:
		return &group.Consented{Request: in.RequestID.Bytes(), AtMs: at}, nil
	case api.RequestVoted:
		if in.Vote != api.Approve && in.Vote != api.Deny {
			return nil, fmt.Errorf("%q is no vote", in.Vote)
		}
		return &group.Voted{Request: in.RequestID.Bytes(), Seat: in.Seat, Approve: in.Vote == api.Approve, AtMs: at}, nil
	case api.RequestCarried:
		return &group.Carried{Request: in.RequestID.Bytes(), ExpiresMs: millis(in.ExpiresAt), AtMs: at}, nil
	}
	return seatEvent(in)
}

// changedEvent returns the event of settings that changed.
func changedEvent(in *api.ExportedGroupEvent) (group.Event, error) {
	e := &group.Changed{Description: in.Description, AtMs: in.At.UnixMilli()}
	if in.EnrollmentPolicy != "" {
		policy, known := group.ParsePolicy(in.EnrollmentPolicy)
		if !known {
			return nil, fmt.Errorf("%q is no enrollment policy", in.EnrollmentPolicy)
		}
		e.Policy = &policy
	}
	if in.Visibility != "" {
		e.Public = new(in.Visibility == api.PublicGroups)
	}
	if in.VoteDurationHours != 0 {
		e.VoteHours = new(int32(in.VoteDurationHours))
	}
	return e, nil
}

// seatEvent is groupEvent for events about seats.
func seatEvent(in *api.ExportedGroupEvent) (group.Event, error) {
	at := in.At.UnixMilli()
	role, known := group.ParseRole(in.Role)
	if !known && in.Role != "" {
		return nil, fmt.Errorf("%q is no role", in.Role)
	}
	switch in.Event {
	case api.SeatOffered:
		return &group.Offered{AtMs: at, Offer: &group.Offer{
			Number: in.Offer, Agent: in.AgentID.Bytes(), Org: in.OrgID.Bytes(), Role: role, Request: bytesOf(parley.AnyID(in.RequestID)), Asked: in.Asked,
		}}, nil
	case api.SeatTaken:
		return &group.Seated{Offer: in.Offer, Seat: in.Seat, AtMs: at}, nil
	case api.SeatWithdrawn:
		return &group.Withdrawn{Offer: in.Offer, Reason: in.Reason, AtMs: at}, nil
	case api.MemberLeft:
		how, known := group.Departure_value[in.How]
		if !known {
			return nil, fmt.Errorf("%q is no way to leave", in.How)
		}
		return &group.Left{Seat: in.Seat, How: group.Departure(how), By: bytesOf(parley.AnyID(in.By)), AtMs: at}, nil
	case api.RoleChanged:
		return &group.RoleChanged{Seat: in.Seat, Role: role, AtMs: at}, nil
	}
	return nil, fmt.Errorf("%q is no event of a group", in.Event)
}

// requestIn returns a join request as its group has it.
func requestIn(in *api.ExportedRequest) (*group.Request, error) {
	if in == nil {
		return nil, errors.New("it has no request")
	}
	policy, known := group.ParsePolicy(in.EnrollmentPolicy)
	status, is := group.Status_value[in.Status]
	if !known || !is || status == 0 {
		return nil, fmt.Errorf("join request %s has no known policy or status", in.ID)
	}
	return &group.Request{
		Id: in.ID.Bytes(), Agent: in.AgentID.Bytes(), Org: in.OrgID.Bytes(), Status: group.Status(status), Policy: policy, Message: in.Message,
		InvitedBy: bytesOf(parley.AnyID(in.InvitedBy)), Consented: in.Consented, CreatedMs: in.CreatedAt.UnixMilli(),
		ExpiresMs: millis(in.ExpiresAt), ResolvedMs: millis(in.ResolvedAt), Mark: in.LastSeat, Total: int32(in.QuorumTotalMembers),
		Electorate: int32(in.ElectorateSize), Approvals: int32(in.Approvals), Denials: int32(in.Denials), Reason: in.Reason,
	}, nil
}

// bytesOf returns the bytes of an id, nil for the zero id.
func bytesOf(id parley.AnyID) []byte {
	if id.Zero() {
		return nil
	}
	return id.Bytes()
}

// millis returns an optional instant as it is stored.
func millis(t *api.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// follows checks that an event can follow those that led to a state: a history from which an
// event was dropped is noticed.
func follows(s *group.State, e group.Event) error {
	if s.Exists() == isFounded(e) {
		return errors.New("a group begins by being founded, once")
	}
	if _, ends := e.(*group.Withdrawn); s.Deleted() && !ends {
		return errors.New("the group was deleted before")
	}
	switch e := e.(type) {
	case *group.Filed:
		r := e.GetRequest()
		if _, member := s.Member(r.AgentID()); member || s.OfferTo(r.AgentID()) != nil || s.RequestOf(r.AgentID()) != nil {
			return fmt.Errorf("agent %s has a seat, or a request, already", r.AgentID())
		}
	case *group.Consented:
		return pendingIn(s, e.GetRequest())
	case *group.Voted:
		if len(s.MembersFrom(e.GetSeat()-1)) == 0 || s.MembersFrom(e.GetSeat() - 1)[0].Seat != e.GetSeat() {
			return fmt.Errorf("nobody has seat %d", e.GetSeat())
		}
		return pendingIn(s, e.GetRequest())
	case *group.Carried:
		return pendingIn(s, e.GetRequest())
	case *group.Resolved:
		return resolves(s, e.GetRequest())
	case *group.Deleted:
		if len(s.Requests()) > 0 {
			return errors.New("the group has live requests")
		}
	case *group.Changed, *group.Convened, *group.Founded:
	case *group.Left, *group.Offered, *group.RoleChanged, *group.Seated, *group.Withdrawn:
		return seatFollows(s, e)
	case *group.Committed:
		return errors.New("the group has an MLS group")
	}
	return nil
}

func isFounded(e group.Event) bool {
	_, founded := e.(*group.Founded)
	return founded
}

// seatFollows is follows for events about seats.
func seatFollows(s *group.State, e group.Event) error {
	seated := func(seat uint32) *group.Member {
		if all := s.MembersFrom(seat - 1); seat > 0 && len(all) > 0 && all[0].Seat == seat {
			return &all[0]
		}
		return nil
	}
	kept := func(offer uint32) bool {
		_, _, _, kept := s.Fate(offer)
		return kept
	}
	switch e := e.(type) {
	case *group.Offered:
		agent := parley.IDFromBytes[parley.AgentID](e.GetOffer().GetAgent())
		if _, member := s.Member(agent); e.GetOffer().GetNumber() != s.LastOffer+1 || member || s.OfferTo(agent) != nil {
			return fmt.Errorf("offer %d follows %d, or its agent has a seat", e.GetOffer().GetNumber(), s.LastOffer)
		}
	case *group.Seated:
		if !kept(e.GetOffer()) || e.GetSeat() != s.LastSeat+1 {
			return fmt.Errorf("seat %d follows %d, or was not offered", e.GetSeat(), s.LastSeat)
		}
	case *group.Withdrawn:
		if !kept(e.GetOffer()) {
			return fmt.Errorf("no seat is kept by offer %d", e.GetOffer())
		}
	case *group.Left:
		if seated(e.GetSeat()) == nil {
			return fmt.Errorf("nobody has seat %d", e.GetSeat())
		}
	case *group.RoleChanged:
		if m := seated(e.GetSeat()); m == nil || m.Role == e.GetRole() {
			return fmt.Errorf("nobody has seat %d, or the member has that role", e.GetSeat())
		}
	case *group.Filed, *group.Consented, *group.Voted, *group.Carried, *group.Resolved,
		*group.Founded, *group.Changed, *group.Deleted, *group.Convened, *group.Committed: // not about seats
	}
	return nil
}

// pendingIn checks that a request waits for votes.
func pendingIn(s *group.State, id []byte) error {
	if r := s.Request(parley.IDFromBytes[parley.JoinRequestID](id)); r == nil || r.GetStatus() != group.Pending {
		return fmt.Errorf("join request %s does not wait for votes", parley.IDFromBytes[parley.JoinRequestID](id))
	}
	return nil
}

// resolves checks that a request is resolved as the events before it have left it.
func resolves(s *group.State, r *group.Request) error {
	was := s.Request(r.RequestID())
	if was == nil {
		return fmt.Errorf("join request %s was not filed, or is resolved", r.RequestID())
	}
	had := &group.Request{}
	if data, err := was.MarshalVT(); err != nil || had.UnmarshalVT(data) != nil {
		return fmt.Errorf("join request %s cannot be read", r.RequestID())
	}
	had.Status, had.Reason, had.ResolvedMs = r.GetStatus(), r.GetReason(), r.GetResolvedMs()
	want, err := had.MarshalVT()
	have, err2 := r.MarshalVT()
	if err != nil || err2 != nil || !bytes.Equal(want, have) {
		return fmt.Errorf("join request %s is resolved with other votes, or another expiry, than it had", r.RequestID())
	}
	return nil
}
