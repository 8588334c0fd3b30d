package http

import (
	"parley"
	"parley/actors/group"
	"parley/http/access"
	"parley/http/api"
	"parley/http/rest"
)

// listMembers returns a page of a group's members in the order in which they joined.
// // spec: Groups
func (s groups) listMembers(c *rest.Call, in *api.ListMembers) (api.Page[api.GroupMember], error) {
	page := api.Page[api.GroupMember]{Items: []api.GroupMember{}}
	list := "members " + in.ID.String()
	seat, err := s.lists.Place(list, in.Cursor)
	if err != nil {
		return page, err
	}
	members, err := s.Node.Groups.ListMembers(c.Context(), in.ID, group.ListMembers{
		Viewer: access.Viewer(c, group.Insider), After: uint32(seat), Limit: in.Limit + 1,
	})
	if err != nil {
		return page, s.groups.Err(c, in.ID, err)
	}
	for i, m := range members {
		if i == in.Limit {
			page.HasMore, page.NextCursor = true, new(s.lists.Cursor(list, uint64(members[i-1].Seat)))
			break
		}
		one, err := s.memberOf(c, in.ID, m)
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, one)
	}
	return page, nil
}

// memberOf returns a membership as the caller sees it. // spec: Group member
func (s groups) memberOf(c *rest.Call, of parley.GroupID, m group.Member) (api.GroupMember, error) {
	handle, err := s.agents.HandleOf(c.Context(), m.Agent)
	return api.GroupMember{
		AgentID: m.Agent, AgentHandle: handle, GroupID: of, ID: new(m.ID(of)), IsOwnOrg: m.Org == c.Caller.Org,
		JoinedAt: api.At(m.JoinedAt()), Role: m.Role.String(), MLSSeated: m.Leaf,
	}, err
}

// patchMember promotes or demotes a member.
func (s groups) patchMember(c *rest.Call, in *api.MemberPatch) (api.GroupMember, error) {
	by, err := s.groups.Caller(c, in.ActingAgent)
	if err != nil {
		return api.GroupMember{}, err
	}
	if err := s.groups.MayKnow(c, in.ID); err != nil {
		return api.GroupMember{}, err
	}
	role, _ := group.ParseRole(in.Role)
	m, err := s.Node.Groups.ChangeRole(c.Context(), in.ID, group.ChangeRole{Agent: in.AgentID, By: by, Role: role})
	if err != nil {
		return api.GroupMember{}, err
	}
	row, err := s.memberOf(c, in.ID, m)
	return row, access.AfterCommit(err)
}

// removeMember removes a member, or lets the acting agent leave. // spec: Groups
func (s groups) removeMember(c *rest.Call, in *api.RemoveMember) (rest.NoContent, error) {
	by, err := s.groups.LikelyCaller(c, in.ActingAgent)
	if err != nil {
		return rest.NoContent{}, err
	}
	v, err := s.groups.View(c, in.ID, group.Onlooker)
	if err != nil {
		return rest.NoContent{}, err
	}
	limit, err := s.groups.SeatLimit(c.Context(), v.Org)
	if err != nil {
		return rest.NoContent{}, err
	}
	return rest.NoContent{}, s.Node.Groups.RemoveMember(c.Context(), in.ID, group.Remove{Agent: in.AgentID, By: by, SeatLimit: limit})
}

// joinGroup requests a seat: by the group's policy, by an invitation, or as the consent
// of a nominee. // spec: Join request and membership
func (s groups) joinGroup(c *rest.Call, in *api.Join) (api.JoinResult, error) {
	a, err := s.agents.Sole(c, in.ActingAgent)
	if err != nil {
		return api.JoinResult{}, err
	}
	v, err := s.groups.View(c, in.ID, group.Stranger)
	if err != nil {
		return api.JoinResult{}, err
	}
	join := group.Join{Agent: a.AgentID(), Org: c.Caller.Org}
	if join.SeatLimit, err = s.groups.SeatLimit(c.Context(), v.Org); err != nil {
		return api.JoinResult{}, err
	}
	if in.Message != nil {
		join.Message = *in.Message
	}
	joined, err := s.Node.Groups.Join(c.Context(), in.ID, join)
	switch {
	case err != nil:
		return api.JoinResult{}, err
	case joined.Member != nil:
		m, err := s.memberOf(c, in.ID, *joined.Member)
		return api.JoinResult{Status: api.Joined, Member: &m}, access.AfterCommit(err)
	}
	r, err := joinRequests(s).requestFor(c, in.ID, joined.Request, group.Caller{Org: c.Caller.Org, Agent: a.AgentID()})
	return api.JoinResult{Status: api.JoinPending, Request: &r}, access.AfterCommit(err)
}
