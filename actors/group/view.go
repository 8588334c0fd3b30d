package group

import (
	"bytes"
	"slices"
	"time"

	"parley/client/parley"
)

// Query asks something of a group. It is data, and so is its answer: both may cross a
// network. An answer shares no memory with the state that later events change.
type Query interface {
	// ReadOnly: a query appends nothing.
	ReadOnly()
	// Answer answers the query at an instant.
	Answer(s *State, now time.Time) (any, error)
}

// GetView is the query for a View. It reads no member that it does not ask for.
type GetView struct {
	Viewer
	// Access asks for the access of the viewer's organization.
	Access bool
	// MemberIDs asks for the ids of all members.
	MemberIDs bool
	// FirstMembers asks for the first members of the viewer's organization.
	FirstMembers bool
	// Agents asks what these agents are in the group.
	Agents []parley.AgentID
	// Request asks for a live request, as the viewer sees it; zero for none.
	Request parley.JoinRequestID
}

// View is a group at one instant, with what a GetView asked for.
type View struct {
	Info
	// Members is how many members the group has.
	Members int
	// MLSPending: a commit has to add members to the MLS group, or to remove former ones.
	MLSPending bool
	// Access is that of the viewer's organization; Unjudged if it was not asked for.
	Access    Access
	MemberIDs []parley.AgentID
	// FirstMembers are the first member and the first admin of the viewer's organization,
	// or only one of them if they are the same. The admin is the last.
	FirstMembers []parley.AgentID
	// Agents are in the order of GetView.Agents.
	Agents []Standing
	// Request is nil if no such request is live.
	Request *RequestView
	// Frozen is State.Frozen.
	Frozen bool
}

// Standing is what an agent is in a group.
type Standing struct {
	// Member is the zero value if the agent is no member.
	Member
	// LeftLeaf: the agent left a leaf behind that awaits its removal.
	LeftLeaf bool
}

// Seated reports whether the agent is a member.
func (s Standing) Seated() bool { return s.Seat != 0 }

// RequestView is a request as a caller sees it at one instant.
type RequestView struct {
	Request *Request
	// Expired: the request has ended because its time has passed, even if the group has not
	// settled it yet. A request whose seat is on offer has not.
	Expired bool
	// MayVote and MayVoteReason are those of State.YouMayVote.
	MayVote       bool
	MayVoteReason string
	// Vote is the caller's vote; see State.VoteOf.
	Vote string
}

// ListMembers is the query for members in the order of joining, after a seat. The answer is
// a []Member.
type ListMembers struct {
	Viewer
	After uint32
	// Limit is how many members are returned at most, 0 for all.
	Limit int
}

// ListRequests is the query for live requests in the order in which they were filed, after
// an id. The answer is a RequestList.
type ListRequests struct {
	Viewer
	// Status is Pending, Invited, or zero for both. Requests that have expired are left out
	// unless Overdue is set.
	Status  Status
	Overdue bool
	After   parley.JoinRequestID
	// Limit is how many requests are returned at most, 0 for all.
	Limit int
}

// RequestList are requests of a group as of one instant.
type RequestList struct {
	Info     Info
	Requests []RequestView
}

// ReadOnly marks the query.
func (GetView) ReadOnly() {}

// ReadOnly marks the query.
func (ListMembers) ReadOnly() {}

// ReadOnly marks the query.
func (ListRequests) ReadOnly() {}

// Answer returns a View.
func (q GetView) Answer(s *State, now time.Time) (any, error) { return s.View(q, now) }

// View returns the group for a viewer that has the access that it needs.
func (s *State) View(q GetView, now time.Time) (v View, err error) {
	if err := s.admit(q.Viewer); err != nil {
		return View{}, err
	}
	v = View{Info: s.Info, Members: len(s.members), MLSPending: s.AwaitingLeaf() > 0 || len(s.abandoned) > 0, Frozen: Frozen(s)}
	if q.Access {
		v.Access = s.AccessOf(q.Caller)
	}
	if q.MemberIDs {
		v.MemberIDs = make([]parley.AgentID, len(s.members))
		for i := range s.members {
			v.MemberIDs[i] = s.members[i].Agent
		}
	}
	if q.FirstMembers {
		v.FirstMembers = s.firstMembers(q.Caller)
	}
	if len(q.Agents) > 0 {
		v.Agents = make([]Standing, len(q.Agents))
		left := s.leftLeaves()
		for i, agent := range q.Agents {
			_, v.Agents[i].LeftLeaf = left[agent]
			v.Agents[i].Member, _ = s.Member(agent)
		}
	}
	if r := s.Request(q.Request); r != nil {
		seen := s.ViewRequest(r, q.Caller, now)
		v.Request = &seen
	}
	return v, nil
}

// firstMembers returns a caller's first member and its first admin.
func (s *State) firstMembers(by Caller) (ids []parley.AgentID) {
	for _, m := range s.members {
		switch {
		case !by.seated(m):
		case m.Role == Admin:
			return append(ids, m.Agent)
		case ids == nil:
			ids = append(ids, m.Agent)
		}
	}
	return ids
}

// Answer returns a []Member.
func (q ListMembers) Answer(s *State, _ time.Time) (any, error) {
	if err := s.admit(q.Viewer); err != nil {
		return nil, err
	}
	following := s.MembersFrom(q.After)
	if q.Limit > 0 {
		following = following[:min(len(following), q.Limit)]
	}
	return slices.Clone(following), nil
}

// Answer returns a RequestList.
func (q ListRequests) Answer(s *State, now time.Time) (any, error) {
	if err := s.admit(q.Viewer); err != nil {
		return nil, err
	}
	list := RequestList{Info: s.Info}
	by := s.onlyMember(q.Caller)
	for _, r := range s.Requests() {
		id := r.RequestID()
		switch {
		case bytes.Compare(id[:], q.After[:]) <= 0, q.Status != 0 && r.GetStatus() != q.Status, !q.Overdue && s.expired(r, now):
			continue
		case q.Limit > 0 && len(list.Requests) == q.Limit:
			return list, nil
		}
		list.Requests = append(list.Requests, s.viewRequest(r, by, now))
	}
	return list, nil
}

// ViewRequest returns a live or a settled request as a caller sees it. If the caller names
// no agent, its only member is the one that votes.
func (s *State) ViewRequest(r *Request, by Caller, now time.Time) RequestView {
	return s.viewRequest(r, s.onlyMember(by), now)
}

func (s *State) viewRequest(r *Request, by Caller, now time.Time) RequestView {
	v := RequestView{Request: r, Expired: s.expired(r, now)}
	if !by.Org.Zero() { // the server itself has no vote
		v.MayVote, v.MayVoteReason = s.YouMayVote(r, by, now)
		v.Vote = s.VoteOf(r.RequestID(), by.Agent)
	}
	return v
}

// ViewSettled returns a settled request as every caller sees it.
func ViewSettled(r *Request) RequestView {
	return RequestView{Request: r, Expired: r.GetStatus() == Expired, MayVoteReason: ErrRequestClosed.Code}
}

// expired reports whether a request has ended because its time has passed.
func (s *State) expired(r *Request, now time.Time) bool {
	if r.GetStatus() == Expired {
		return true
	}
	live := r.GetStatus() == Pending || r.GetStatus() == Invited
	return live && r.Overdue(now) && s.OfferTo(r.AgentID()) == nil
}

// onlyMember fills in the caller's only member if the caller has named no agent.
func (s *State) onlyMember(by Caller) Caller {
	if !by.Agent.Zero() || by.Org.Zero() {
		return by
	}
	named := by
	for _, m := range s.members {
		if !by.seated(m) {
			continue
		}
		if !named.Agent.Zero() {
			return by
		}
		named.Agent = m.Agent
	}
	return named
}

// GetFate is the query for the fate of an offered seat, also of a group whose founder has no
// seat yet. The answer is a Fate.
type GetFate struct{ Offer uint32 }

// Fate is what has become of an offered seat; see State.Fate.
type Fate struct {
	Member       Member
	Seated, Kept bool
	Reason       string
	// Deleted: the group was deleted.
	Deleted bool
}

// ReadOnly marks the query.
func (GetFate) ReadOnly() {}

// Answer returns a Fate.
func (q GetFate) Answer(s *State, _ time.Time) (any, error) {
	f := Fate{Deleted: s.Deleted()}
	f.Member, f.Seated, f.Reason, f.Kept = s.Fate(q.Offer)
	return f, nil
}
