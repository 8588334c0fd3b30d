package verify

import (
	"bytes"
	"fmt"

	"parley"
	"parley/actors/group"
)

// unlawful returns why an event cannot follow the events before it, "" if it can.
func (g *groupReplay) unlawful(e group.Event) string {
	s := g.state
	if _, ends := e.(*group.Withdrawn); s.Deleted() && !ends {
		return "it is over"
	}
	switch e := e.(type) {
	case *group.Founded, *group.Changed:
		return ""
	case *group.Filed:
		return g.unlawfulFiling(e.GetRequest())
	case *group.Consented:
		return g.unlawfulStep(e.GetRequest(), func(r *group.Request) bool { return r.GetStatus() == group.Pending && !r.GetConsented() })
	case *group.Carried:
		return g.unlawfulStep(e.GetRequest(), func(r *group.Request) bool { return r.GetStatus() == group.Pending && !r.GetConsented() })
	case *group.Voted:
		return g.unlawfulStep(e.GetRequest(), func(r *group.Request) bool {
			return r.GetStatus() == group.Pending && e.GetSeat() <= r.GetMark() && g.sitting(e.GetSeat()) != nil
		})
	case *group.Resolved:
		return g.unlawfulEnd(e.GetRequest())
	case *group.Deleted:
		if len(s.Requests()) > 0 {
			return "it ends with a live request"
		}
		return ""
	case *group.Convened:
		if id := parley.IDFromBytes[parley.ConversationID](e.GetConversation()); id.Slot() != g.stream.Slot() {
			return fmt.Sprintf("conversation %s does not live with it", id)
		}
		if _, member := s.Member(parley.IDFromBytes[parley.AgentID](e.GetBy())); !member || len(s.Members()) < 2 {
			return "nobody is there to speak or to listen"
		}
		return ""
	case *group.Committed:
		return g.unlawfulCommit(e)
	case *group.Left, *group.Offered, *group.RoleChanged, *group.Seated, *group.Withdrawn: // judged below
	}
	return g.unlawfulSeat(e)
}

// unlawfulSeat is unlawful for events about seats.
func (g *groupReplay) unlawfulSeat(e group.Event) string {
	s := g.state
	switch e := e.(type) {
	case *group.Offered:
		o := e.GetOffer()
		agent := parley.IDFromBytes[parley.AgentID](o.GetAgent())
		_, member := s.Member(agent)
		if o.GetNumber() != s.LastOffer+1 || member || s.OfferTo(agent) != nil {
			return fmt.Sprintf("offer %d follows %d, or its agent has a seat", o.GetNumber(), s.LastOffer)
		}
	case *group.Seated:
		if _, _, _, kept := s.Fate(e.GetOffer()); !kept || e.GetSeat() != s.LastSeat+1 {
			return fmt.Sprintf("no seat is kept by offer %d, or seat %d does not follow %d", e.GetOffer(), e.GetSeat(), s.LastSeat)
		}
	case *group.Withdrawn:
		if _, _, _, kept := s.Fate(e.GetOffer()); !kept {
			return fmt.Sprintf("no seat is kept by offer %d", e.GetOffer())
		}
	case *group.Left:
		if g.sitting(e.GetSeat()) == nil {
			return fmt.Sprintf("nobody has seat %d", e.GetSeat())
		}
	case *group.RoleChanged:
		if m := g.sitting(e.GetSeat()); m == nil || m.Role == e.GetRole() {
			return fmt.Sprintf("nobody has seat %d, or it has that role", e.GetSeat())
		}
	case *group.Carried, *group.Changed, *group.Committed, *group.Consented, *group.Convened, *group.Deleted, *group.Filed, *group.Founded, *group.Resolved, *group.Voted: // judged by unlawful
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
	case r.GetStatus() != group.Pending && r.GetStatus() != group.Invited:
		return fmt.Sprintf("it begins as %s", r.GetStatus())
	}
	return ""
}

func (g *groupReplay) unlawfulStep(id []byte, suits func(*group.Request) bool) string {
	r := g.state.Request(parley.IDFromBytes[parley.JoinRequestID](id))
	if r == nil || !suits(r) {
		return fmt.Sprintf("request %x is not live, or not at that point", id)
	}
	return ""
}

// unlawfulEnd compares a settled request with the live one.
func (g *groupReplay) unlawfulEnd(r *group.Request) string {
	had := g.state.Request(r.RequestID())
	if had == nil {
		return fmt.Sprintf("request %s is not live", r.RequestID())
	}
	data, err := r.MarshalVT()
	as := &group.Request{}
	if err != nil || as.UnmarshalVT(data) != nil {
		return fmt.Sprintf("request %s cannot be read", r.RequestID())
	}
	as.Status, as.Reason, as.ResolvedMs = had.GetStatus(), had.GetReason(), had.GetResolvedMs()
	want, err := had.MarshalVT()
	have, err2 := as.MarshalVT()
	if err != nil || err2 != nil || !bytes.Equal(want, have) {
		return fmt.Sprintf("request %s was settled otherwise than it stood", r.RequestID())
	}
	return ""
}
