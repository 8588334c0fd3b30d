package groups

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/rest"
	"parley/http/view"
	"parley/journal"
)

// requestsOf returns requests of a group with the group's handle.
func (s Requests) requestsOf(c *rest.Call, g group.Info, seen ...group.RequestView) ([]api.JoinRequest, error) {
	handle, err := s.Access.Handle(c.Context(), g.Org, g.Name)
	rows := make([]api.JoinRequest, len(seen))
	for i, v := range seen {
		rows[i] = view.JoinRequest(g, v)
		rows[i].GroupHandle = &handle
	}
	return rows, err
}

// requestFor returns a request that was just made as a caller sees it who may know of it.
func (s Requests) requestFor(c *rest.Call, id parley.GroupID, r *group.Request, by group.Caller) (api.JoinRequest, error) {
	g, err := s.Node.Groups.View(c.Context(), id, group.GetView{Viewer: group.Viewer{Caller: by}, Request: r.RequestID()})
	if err != nil {
		return api.JoinRequest{}, err
	}
	seen := group.ViewSettled(r)
	if g.Request != nil {
		seen = *g.Request
	}
	rows, err := s.requestsOf(c, g.Info, seen)
	return rows[0], err
}

// listedRequests are the queries for the live requests of each status that a list may have.
var listedRequests = map[string]group.ListRequests{
	"pending": {Status: group.Pending},
	"invited": {Status: group.Invited},
	"live":    {},
	"all":     {Overdue: true},
}

// List returns a page of a group's join requests in the order in which they were
// filed. // spec: Groups
func (s Requests) List(c *rest.Call, in *api.ListRequests) (api.Page[api.JoinRequest], error) {
	page := api.Page[api.JoinRequest]{Items: []api.JoinRequest{}}
	by, err := s.Access.LikelyCaller(c, in.ActingAgent)
	if err != nil {
		return page, err
	}
	list := "requests " + in.ID.String() + " " + in.Status
	position, err := s.Lists.Position(list, in.Cursor, 16)
	if err != nil {
		return page, err
	}
	q := listedRequests[in.Status]
	q.Viewer, q.After, q.Limit = group.Viewer{Caller: by, Needs: group.Insider}, parley.IDFromBytes[parley.JoinRequestID](position), in.Limit+1
	// Live requests first: a request that is settled between the two reads is seen in the
	// second.
	live, err := s.Node.Groups.ListRequests(c.Context(), in.ID, q)
	if err != nil {
		return page, s.Access.Err(c, in.ID, err)
	}
	rows, more := live.Requests, false
	if in.Status == "all" {
		var settled []*group.Request
		if settled, more, err = s.Node.Groups.SettledRequests(c.Context(), in.ID, q.After, in.Limit); err != nil {
			return page, err
		}
		rows = merge(settled, rows)
	}
	if len(rows) > in.Limit {
		rows, more = rows[:in.Limit], true
	}
	if len(rows) == 0 {
		return page, nil
	}
	if page.Items, err = s.requestsOf(c, live.Info, rows...); err == nil && more {
		last := rows[len(rows)-1].Request.RequestID()
		page.HasMore, page.NextCursor = true, new(s.Cursors.Seal(list, last.Bytes()))
	}
	return page, err
}

// merge merges settled and live requests, both sorted by id. Of a request that is in both,
// it keeps the settled one.
func merge(settled []*group.Request, live []group.RequestView) []group.RequestView {
	all := make([]group.RequestView, 0, len(settled)+len(live))
	for _, r := range settled {
		all = append(all, group.ViewSettled(r))
	}
	all = append(all, live...)
	slices.SortStableFunc(all, func(a, b group.RequestView) int { return bytes.Compare(a.Request.GetId(), b.Request.GetId()) })
	return slices.CompactFunc(all, func(a, b group.RequestView) bool { return bytes.Equal(a.Request.GetId(), b.Request.GetId()) })
}

// ListInvites returns the live invitations and nominations of the caller's agents, or of
// the one it named. // spec: Groups
func (s Requests) ListInvites(c *rest.Call, in *api.ListInvites) (rest.Rendered, error) {
	var named *agent.State
	list := "invites"
	if in.ActingAgent != "" {
		var err error
		if named, err = s.Agents.Acting(c, in.ActingAgent); err != nil {
			return rest.Rendered{}, err
		}
		list += " " + named.AgentID().String()
	}
	l, err := s.Lists.New(c, in.Paging, list, 24)
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
	return l.Answer(s.Agents.EachActive(c, from, func(place uint64, a *agent.State) bool {
		return s.addInvites(l, place, a.AgentID())
	}))
}

// addInvites adds the requests about one of the caller's agents, at the given position in
// the roster, and reports whether the list continues.
func (s Requests) addInvites(l *rest.List, place uint64, of parley.AgentID) bool {
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

// inviteOf returns a request about one of the caller's agents, or nil unless it is live, may be
// seen, and was made by another agent, to a group that was not erased.
func (s Requests) inviteOf(c *rest.Call, of parley.AgentID, concern actors.Concern) (*api.JoinRequest, error) {
	g, err := s.Node.Groups.View(c.Context(), concern.Group, group.GetView{
		Viewer: group.Viewer{Caller: access.CallerOf(c, of)}, Request: concern.Request,
	})
	switch {
	case errors.Is(err, parley.ErrNotFound) || errors.Is(err, journal.ErrErased):
		return nil, nil
	case err != nil:
		return nil, err
	case g.Deleted() || g.Request == nil || g.Request.Expired || !g.Request.Request.Nomination() || g.Request.Request.GetSilent():
		return nil, nil
	}
	rows, err := s.requestsOf(c, g.Info, *g.Request)
	return &rows[0], err
}

// Vote records or changes a vote of the acting agent. // spec: Groups
func (s Requests) Vote(c *rest.Call, in *api.Vote) (api.VoteResult, error) {
	by, err := s.Access.Caller(c, in.ActingAgent)
	if err != nil {
		return api.VoteResult{}, err
	}
	g, err := s.Access.ViewWith(c, in.ID, group.GetView{
		Viewer: group.Viewer{Caller: by, Needs: group.Stranger}, Access: true, Request: in.RequestID,
	})
	if err == nil {
		err = s.Access.Secret(c, g, by.Agent)
	}
	if err != nil {
		return api.VoteResult{}, err
	}
	cast := group.CastVote{Request: in.RequestID, By: by, Approve: in.Vote == api.Approve}
	if g.Request == nil {
		_, err := s.Node.Groups.SettledRequest(c.Context(), in.ID, in.RequestID)
		if cast.Settled = err == nil; err != nil && !errors.Is(err, parley.ErrNotFound) {
			return api.VoteResult{}, err
		}
	}
	if cast.SeatLimit, err = s.Access.SeatLimit(c.Context(), g.Org); err != nil {
		return api.VoteResult{}, err
	}
	voted, err := s.Node.Groups.Vote(c.Context(), in.ID, cast)
	if err != nil {
		return api.VoteResult{}, err
	}
	return api.VoteResult{RequestID: in.RequestID, Status: voted.Request.GetStatus().String(), YourVote: voted.Vote}, nil
}

// End withdraws or declines a request. The group's rules judge the caller, because neither
// applicants nor invitees need be able to see the group.
func (s Requests) End(c *rest.Call, in *api.EndRequest) (rest.NoContent, error) {
	by, err := s.Access.Caller(c, in.ActingAgent)
	if err != nil {
		return rest.NoContent{}, err
	}
	g, err := s.Access.ViewWith(c, in.ID, group.GetView{Viewer: group.Viewer{Caller: by, Needs: group.Stranger}, Access: true})
	if err == nil {
		err = s.Access.Secret(c, g, by.Agent)
	}
	if err == nil {
		err = s.Node.Groups.EndRequest(c.Context(), in.ID, group.EndRequest{Request: in.RequestID, By: by})
	}
	return rest.NoContent{}, err
}
