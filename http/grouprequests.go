package http

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"parley"
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/http/api"
	"parley/http/rest"
	"parley/journal"
)

// requestOf returns a request as a caller sees it, without the group's handle. It is
// called in the group's turn, for live and settled requests. // spec: Join request
func requestOf(g *group.State, r *group.Request, by group.Caller, now time.Time) api.JoinRequest {
	out := api.JoinRequest{
		ID: r.RequestID(), GroupID: g.ID, GroupName: new(g.Name), AgentID: r.AgentID(), Status: r.GetStatus().String(),
		Message: orNull(r.GetMessage()), CreatedAt: atMillis(r.GetCreatedMs()), Reason: orNull(r.GetReason()),
	}
	if r.Nomination() {
		out.InvitedBy = new(r.Inviter())
	}
	if r.GetExpiresMs() != 0 {
		out.ExpiresAt = new(atMillis(r.GetExpiresMs()))
	}
	if r.GetResolvedMs() != 0 {
		out.ResolvedAt = new(atMillis(r.GetResolvedMs()))
	}
	if expired(g, r, now) {
		// It ended then, even if that was noticed later.
		out.Status, out.ResolvedAt = group.Expired.String(), out.ExpiresAt
	}
	if r.GetTotal() > 0 {
		out.ElectorateSize, out.QuorumTotalMembers = new(int(r.GetElectorate())), new(int(r.GetTotal()))
		out.Approvals, out.Denials = new(int(r.GetApprovals())), new(int(r.GetDenials()))
		out.ApprovalsNeeded, out.DenialsNeeded = new(r.ApprovalsNeeded()), new(r.DenialsNeeded())
	}
	by = onlyMember(g, by)
	out.YouMayVote, out.YouMayVoteReason = g.YouMayVote(r, by, now)
	if vote := g.VoteOf(r.RequestID(), by.Agent); vote != "" {
		out.YourVote = &vote
	}
	return out
}

func atMillis(ms int64) api.Time { return api.At(time.UnixMilli(ms)) }

// expired reports whether a request has ended because its time has passed. A request
// whose seat is being given has not.
func expired(g *group.State, r *group.Request, now time.Time) bool {
	if r.GetStatus() == group.Expired {
		return true
	}
	live := r.GetStatus() == group.Pending || r.GetStatus() == group.Invited
	return live && r.Overdue(now) && g.OfferTo(r.AgentID()) == nil
}

// onlyMember fills in the caller's only member of a group if the caller has named none:
// that member votes.
func onlyMember(g *group.State, by group.Caller) group.Caller {
	if !by.Agent.Zero() {
		return by
	}
	named := by
	for _, m := range g.Members() {
		if m.Org != by.Org {
			continue
		}
		if !named.Agent.Zero() {
			return by
		}
		named.Agent = m.Agent
	}
	return named
}

// seenRequests are requests as of one instant.
type seenRequests struct {
	owner parley.OrgID
	name  string
	rows  []api.JoinRequest
}

// completed returns requests with their group's handle.
func (s joinRequests) completed(c *rest.Call, seen seenRequests) ([]api.JoinRequest, error) {
	handle, err := s.groupHandle(c.Context(), seen.owner, seen.name)
	for i := range seen.rows {
		seen.rows[i].GroupHandle = &handle
	}
	return seen.rows, err
}

// requestFor returns one request as a caller sees it who may know of it.
func (s joinRequests) requestFor(c *rest.Call, id parley.GroupID, r *group.Request, by group.Caller) (api.JoinRequest, error) {
	seen, err := actors.ReadGroup(c.Context(), s.Node.Groups, id, func(g *group.State, now time.Time) seenRequests {
		return seenRequests{g.Org, g.Name, []api.JoinRequest{requestOf(g, r, by, now)}}
	})
	if err != nil {
		return api.JoinRequest{}, err
	}
	rows, err := s.completed(c, seen)
	return rows[0], err
}

// listRequests returns a page of a group's join requests in the order in which they were
// filed. // spec: Groups
func (s joinRequests) listRequests(c *rest.Call, in *api.ListRequests) (api.Page[api.JoinRequest], error) {
	page := api.Page[api.JoinRequest]{Items: []api.JoinRequest{}}
	by, err := s.likelyCaller(c, in.ActingAgent)
	if err != nil {
		return page, err
	}
	list := "requests " + in.ID.String() + " " + in.Status
	position, err := s.lists.Position(list, in.Cursor, 16)
	if err != nil {
		return page, err
	}
	after := parley.IDFromBytes[parley.JoinRequestID](position)
	// Live requests first: a request that is settled between the two reads is seen in the
	// second.
	live, err := readGroupAs(s.core, c, in.ID, accessFull, func(g *group.State, now time.Time) []*group.Request {
		return liveRequests(g, in.Status, after, now)
	})
	if err != nil {
		return page, err
	}
	more := false
	if in.Status == "all" {
		var settled []*group.Request
		if settled, more, err = s.Node.Groups.SettledRequests(c.Context(), in.ID, after, in.Limit); err != nil {
			return page, err
		}
		live = merge(settled, live)
	}
	if len(live) > in.Limit {
		live, more = live[:in.Limit], true
	}
	if len(live) == 0 {
		return page, nil
	}
	seen, err := readGroupAs(s.core, c, in.ID, accessFull, func(g *group.State, now time.Time) seenRequests {
		seen := seenRequests{owner: g.Org, name: g.Name}
		for _, r := range live {
			seen.rows = append(seen.rows, requestOf(g, r, by, now))
		}
		return seen
	})
	if err != nil {
		return page, err
	}
	if page.Items, err = s.completed(c, seen); err == nil && more {
		last := live[len(live)-1].RequestID()
		page.HasMore, page.NextCursor = true, new(s.Cursors.Seal(list, last.Bytes()))
	}
	return page, err
}

// liveRequests returns the live requests that match a selector, after an id. A request
// whose time has passed counts as settled, even if the group has not settled it yet.
func liveRequests(g *group.State, selector string, after parley.JoinRequestID, now time.Time) (all []*group.Request) {
	for _, r := range g.Requests() {
		id := r.RequestID()
		if bytes.Compare(id[:], after[:]) <= 0 {
			continue
		}
		shown := true
		switch selector {
		case "pending":
			shown = r.GetStatus() == group.Pending
		case "invited":
			shown = r.GetStatus() == group.Invited
		}
		if shown && (selector == "all" || !expired(g, r, now)) {
			all = append(all, r)
		}
	}
	return all
}

// merge merges two lists of requests that are sorted by id. Of a request that is in both,
// it keeps the first list's.
func merge(settled, live []*group.Request) []*group.Request {
	all := append(slices.Clone(settled), live...)
	slices.SortStableFunc(all, func(a, b *group.Request) int { return bytes.Compare(a.GetId(), b.GetId()) })
	return slices.CompactFunc(all, func(a, b *group.Request) bool { return bytes.Equal(a.GetId(), b.GetId()) })
}

// listInvites returns the live invitations and nominations of the caller's agents, or of
// the one it named. // spec: Groups
func (s joinRequests) listInvites(c *rest.Call, in *api.ListInvites) (rest.Rendered, error) {
	var named *agent.State
	list := "invites"
	if in.ActingAgent != "" {
		var err error
		if named, err = s.desk.Acting(c, in.ActingAgent); err != nil {
			return rest.Rendered{}, err
		}
		list += " " + named.AgentID().String()
	}
	l, err := s.lists.New(c, in.Paging, list, 24)
	if err != nil {
		return rest.Rendered{}, err
	}
	if named != nil {
		s.addInvites(l, 0, named.AgentID())
		return l.Answer(nil)
	}
	from := uint64(0)
	if l.After != nil {
		from = binary.BigEndian.Uint64(l.After)
	}
	return l.Answer(s.Node.Agents.EachActive(c.Context(), c.Caller.Org, from, func(place uint64, a *agent.State) bool {
		return s.addInvites(l, place, a.AgentID())
	}))
}

// addInvites adds the requests about one of the caller's agents, at the given position in
// the roster, and reports whether the list continues.
func (s joinRequests) addInvites(l *rest.List, place uint64, of parley.AgentID) bool {
	concerns, err := s.Node.Groups.Concerns(l.Call.Context(), of)
	if err != nil {
		return l.Add(nil, nil, err)
	}
	for _, concern := range concerns {
		key := append(binary.BigEndian.AppendUint64(nil, place), concern.Request[:]...)
		if l.Passed(key) {
			continue
		}
		row, err := s.inviteOf(l.Call, of, concern)
		if (err != nil || row != nil) && !l.Add(key, row, err) {
			return false
		}
	}
	return true
}

// inviteOf returns a request about one of the caller's agents, or nil unless it is live
// and was made by another agent, to a group that was not erased.
func (s joinRequests) inviteOf(c *rest.Call, of parley.AgentID, concern actors.Concern) (*api.JoinRequest, error) {
	by := group.Caller{Org: c.Caller.Org, Agent: of}
	seen, err := actors.ReadGroup(c.Context(), s.Node.Groups, concern.Group, func(g *group.State, now time.Time) seenRequests {
		seen := seenRequests{owner: g.Org, name: g.Name}
		if r := g.Request(concern.Request); r != nil && r.Nomination() && !g.Deleted() && !expired(g, r, now) {
			seen.rows = append(seen.rows, requestOf(g, r, by, now))
		}
		return seen
	})
	if errors.Is(err, parley.ErrNotFound) || errors.Is(err, journal.ErrErased) || (err == nil && len(seen.rows) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	complete, err := s.completed(c, seen)
	return &complete[0], err
}

// vote records or changes a vote of the acting agent. // spec: Groups
func (s joinRequests) vote(c *rest.Call, in *api.Vote) (api.VoteResult, error) {
	by, err := s.groupCaller(c, in.ActingAgent)
	if err != nil {
		return api.VoteResult{}, err
	}
	type seen struct {
		owner parley.OrgID
		live  bool
	}
	g, err := readGroupAs(s.core, c, in.ID, accessNone, func(g *group.State, _ time.Time) seen {
		return seen{g.Org, g.Request(in.RequestID) != nil}
	})
	if err != nil {
		return api.VoteResult{}, err
	}
	cast := group.CastVote{Request: in.RequestID, By: by, Approve: in.Vote == api.Approve}
	if !g.live {
		_, err := s.Node.Groups.SettledRequest(c.Context(), in.ID, in.RequestID)
		if cast.Settled = err == nil; err != nil && !errors.Is(err, parley.ErrNotFound) {
			return api.VoteResult{}, err
		}
	}
	if cast.SeatLimit, err = s.seatLimit(c.Context(), g.owner); err != nil {
		return api.VoteResult{}, err
	}
	voted, err := s.Node.Groups.Vote(c.Context(), in.ID, cast)
	if err != nil {
		return api.VoteResult{}, err
	}
	return api.VoteResult{RequestID: in.RequestID, Status: voted.Request.GetStatus().String(), YourVote: voted.Vote}, nil
}
