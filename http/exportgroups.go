package http

import (
	"context"

	"github.com/go-json-experiment/json"

	"parley"
	"parley/actors/group"
	"parley/actors/query"
	"parley/actors/record"
	"parley/http/api"
)

// writeGroups writes the groups that the organization owns. What was announced and the
// history may be long: they are written as they are read.
func (st *exportStream) writeGroups(ctx context.Context) error {
	var of query.ExportedGroup
	first := true
	item := func(v any) error {
		data, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			return err
		}
		if !first {
			st.chunk = append(st.chunk, ',')
		}
		first = false
		st.chunk = append(st.chunk, data...)
		return st.flushFull()
	}
	return st.read.Groups(query.GroupVisitor{
		Begin: func(g query.ExportedGroup) error {
			of, first = g, true
			return st.beginGroup(ctx, g)
		},
		Announced: func(n query.ExportedNews) error { return item(exportedNews(n)) },
		End: func() error {
			st.chunk, first = append(st.chunk, groupHistory...), true
			others := &otherSeats{owner: st.org, offers: map[uint32]bool{}, seats: map[uint32]bool{}}
			err := st.read.GroupHistory(of.ID, func(e group.Event) error {
				return item(others.hide(exportedGroupEvent(e)))
			})
			if err != nil {
				return err
			}
			st.chunk = append(st.chunk, `]}`...)
			return st.end()
		},
	})
}

// groupHistory is what stands between the lists of api.ExportedGroup, its last members.
const groupHistory = `],"history":[`

// beginGroup writes a group up to the items of what was announced.
func (st *exportStream) beginGroup(ctx context.Context, g query.ExportedGroup) error {
	v, err := g.View(group.GetView{MemberIDs: true}, st.read.At())
	if err != nil {
		return err
	}
	seen := groupOf(v)
	if seen.Handle, err = st.groupHandle(ctx, g.Org, g.Name); err != nil {
		return err
	}
	data, err := json.Marshal(api.ExportedGroup{
		Group: seen, RosterPlace: g.Place, DeletedAt: maybeMillis(g.DeletedMs),
		Announced: []api.ExportedNews{}, History: []api.ExportedGroupEvent{},
	}, json.Deterministic(true))
	if err != nil {
		return err
	}
	st.begin(api.ExportGroup)
	st.chunk = append(st.chunk, data[:len(data)-len(groupHistory+`]}`)]...)
	return nil
}

// otherSeats are the seats of agents of other organizations. How these voted is not the
// owner's data: no read shows it.
type otherSeats struct {
	owner         parley.OrgID
	offers, seats map[uint32]bool
}

// hide returns an event without the vote of an agent of another organization.
func (o *otherSeats) hide(e api.ExportedGroupEvent) api.ExportedGroupEvent {
	switch {
	case e.Event == api.SeatOffered && e.OrgID != o.owner:
		o.offers[e.Offer] = true
	case e.Event == api.SeatWithdrawn:
		delete(o.offers, e.Offer)
	case e.Event == api.SeatTaken && o.offers[e.Offer]:
		delete(o.offers, e.Offer)
		o.seats[e.Seat] = true
	case e.Event == api.MemberLeft:
		delete(o.seats, e.Seat)
	case e.Event == api.RequestVoted && o.seats[e.Seat]:
		e.Vote = ""
	}
	return e
}

func exportedNews(n query.ExportedNews) api.ExportedNews {
	kind, request := record.GroupNews(n.Note)
	shown := api.ExportedNews{ExportedPlace: api.ExportedPlace{AgentID: n.Agent, Position: n.Position}, Kind: kind}
	if epoch, mls := record.MLSNews(n.Note); mls {
		shown.Epoch = epoch
	} else if !request.Zero() {
		shown.RequestID = &request
	}
	return shown
}

// exportedGroupEvent returns an event of a group as exports show it.
func exportedGroupEvent(e group.Event) api.ExportedGroupEvent {
	switch e := e.(type) {
	case *group.Founded:
		return api.ExportedGroupEvent{
			Event: api.GroupFounded, At: atMillis(e.GetAtMs()), Name: e.GetName(), Description: orNull(e.GetDescription()),
			EnrollmentPolicy: e.GetPolicy().String(), Visibility: visibilityOf(e.GetPublic()), Isolated: e.GetIsolated(),
			VoteDurationHours: int(e.GetVoteHours()),
		}
	case *group.Changed:
		out := api.ExportedGroupEvent{
			Event: api.GroupChanged, At: atMillis(e.GetAtMs()), Description: e.Description, VoteDurationHours: int(e.GetVoteHours()),
		}
		if e.Policy != nil {
			out.EnrollmentPolicy = e.GetPolicy().String()
		}
		if e.Public != nil {
			out.Visibility = visibilityOf(e.GetPublic())
		}
		return out
	case *group.Deleted:
		return api.ExportedGroupEvent{Event: api.GroupDeleted, At: atMillis(e.GetAtMs()), By: idOf[parley.AgentID](e.GetBy())}
	case *group.Convened:
		return api.ExportedGroupEvent{
			Event: api.GroupConvened, At: atMillis(e.GetAtMs()), By: idOf[parley.AgentID](e.GetBy()),
			ConversationID: idOf[parley.ConversationID](e.GetConversation()),
		}
	case *group.Committed:
		return api.ExportedGroupEvent{
			Event: api.MLSCommitted, At: atMillis(e.GetAtMs()), Seat: e.GetBy(), Epoch: new(e.GetEpoch()), CipherSuite: int(e.GetCipherSuite()),
			Added: e.GetAdded(), Removed: e.GetRemoved(),
		}
	case *group.Filed, *group.Consented, *group.Voted, *group.Carried, *group.Resolved:
		return exportedRequestEvent(e)
	case *group.Offered, *group.Seated, *group.Withdrawn, *group.Left, *group.RoleChanged:
		return exportedSeatEvent(e)
	}
	panic("http: unknown event of a group")
}

// exportedRequestEvent is exportedGroupEvent for events about join requests.
func exportedRequestEvent(e group.Event) (out api.ExportedGroupEvent) {
	switch e := e.(type) {
	case *group.Filed:
		out = api.ExportedGroupEvent{Event: api.RequestFiled, At: atMillis(e.GetRequest().GetCreatedMs()), Request: exportedRequest(e.GetRequest())}
	case *group.Consented:
		out = api.ExportedGroupEvent{Event: api.RequestConsented, At: atMillis(e.GetAtMs()), RequestID: idOf[parley.JoinRequestID](e.GetRequest())}
	case *group.Voted:
		out = api.ExportedGroupEvent{
			Event: api.RequestVoted, At: atMillis(e.GetAtMs()), RequestID: idOf[parley.JoinRequestID](e.GetRequest()), Seat: e.GetSeat(), Vote: api.Deny,
		}
		if e.GetApprove() {
			out.Vote = api.Approve
		}
	case *group.Carried:
		out = api.ExportedGroupEvent{
			Event: api.RequestCarried, At: atMillis(e.GetAtMs()), RequestID: idOf[parley.JoinRequestID](e.GetRequest()),
			ExpiresAt: maybeMillis(e.GetExpiresMs()),
		}
	case *group.Resolved:
		out = api.ExportedGroupEvent{Event: api.RequestResolved, At: atMillis(e.GetRequest().GetResolvedMs()), Request: exportedRequest(e.GetRequest())}
	case *group.Offered, *group.Seated, *group.Withdrawn, *group.Left, *group.RoleChanged,
		*group.Founded, *group.Changed, *group.Deleted, *group.Convened, *group.Committed: // not about requests
	}
	return out
}

// exportedSeatEvent is exportedGroupEvent for events about seats.
func exportedSeatEvent(e group.Event) (out api.ExportedGroupEvent) {
	switch e := e.(type) {
	case *group.Offered:
		o := e.GetOffer()
		out = api.ExportedGroupEvent{
			Event: api.SeatOffered, At: atMillis(e.GetAtMs()), Offer: o.GetNumber(), AgentID: idOf[parley.AgentID](o.GetAgent()),
			OrgID: idOf[parley.OrgID](o.GetOrg()), Role: o.GetRole().String(), RequestID: idOf[parley.JoinRequestID](o.GetRequest()), Asked: o.GetAsked(),
		}
	case *group.Seated:
		out = api.ExportedGroupEvent{Event: api.SeatTaken, At: atMillis(e.GetAtMs()), Offer: e.GetOffer(), Seat: e.GetSeat()}
	case *group.Withdrawn:
		out = api.ExportedGroupEvent{Event: api.SeatWithdrawn, At: atMillis(e.GetAtMs()), Offer: e.GetOffer(), Reason: e.GetReason()}
	case *group.Left:
		out = api.ExportedGroupEvent{
			Event: api.MemberLeft, At: atMillis(e.GetAtMs()), Seat: e.GetSeat(), How: e.GetHow().String(), By: idOf[parley.AgentID](e.GetBy()),
		}
	case *group.RoleChanged:
		out = api.ExportedGroupEvent{Event: api.RoleChanged, At: atMillis(e.GetAtMs()), Seat: e.GetSeat(), Role: e.GetRole().String()}
	case *group.Filed, *group.Consented, *group.Voted, *group.Carried, *group.Resolved,
		*group.Founded, *group.Changed, *group.Deleted, *group.Convened, *group.Committed: // not about seats
	}
	return out
}

func exportedRequest(r *group.Request) *api.ExportedRequest {
	return &api.ExportedRequest{
		ID: r.RequestID(), AgentID: r.AgentID(), OrgID: idOf[parley.OrgID](r.GetOrg()), Status: r.GetStatus().String(),
		EnrollmentPolicy: r.GetPolicy().String(), Message: r.GetMessage(), InvitedBy: r.Inviter(), Consented: r.GetConsented(),
		CreatedAt: atMillis(r.GetCreatedMs()), ExpiresAt: maybeMillis(r.GetExpiresMs()), ResolvedAt: maybeMillis(r.GetResolvedMs()),
		LastSeat: r.GetMark(), QuorumTotalMembers: int(r.GetTotal()), ElectorateSize: int(r.GetElectorate()),
		Approvals: int(r.GetApprovals()), Denials: int(r.GetDenials()), Reason: r.GetReason(),
	}
}

func visibilityOf(public bool) string {
	if public {
		return api.PublicGroups
	}
	return api.PrivateGroups
}

func idOf[I ~[16]byte](b []byte) I { return parley.IDFromBytes[I](b) }
