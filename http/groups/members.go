package groups

import (
	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/rest"
)

// ListMembers returns a page of a group's members in the order in which they joined.
// // spec: Groups
func (s Groups) ListMembers(c *rest.Call, in *api.ListMembers) (api.Page[api.GroupMember], error) {
	page := api.Page[api.GroupMember]{Items: []api.GroupMember{}}
	list := "members " + in.ID.String()
	seat, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return page, err
	}
	members, err := s.Node.Groups.ListMembers(c.Context(), in.ID, group.ListMembers{
		Viewer: access.Viewer(c, group.Insider), After: uint32(seat), Limit: in.Limit + 1,
	})
	if err != nil {
		return page, s.Access.Err(c, in.ID, err)
	}
	for i, m := range members {
		if i == in.Limit {
			page.HasMore, page.NextCursor = true, new(s.Lists.Cursor(list, uint64(members[i-1].Seat)))
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
func (s Groups) memberOf(c *rest.Call, of parley.GroupID, m group.Member) (api.GroupMember, error) {
	handle, err := s.Agents.HandleOf(c.Context(), m.Agent)
	return api.GroupMember{
		AgentID: m.Agent, AgentHandle: handle, GroupID: of, ID: new(m.ID(of)), IsOwnOrg: m.Org == c.Caller.Org,
		JoinedAt: api.At(m.JoinedAt()), Role: m.Role.String(), MLSSeated: m.Leaf,
	}, err
}

// PatchMember promotes or demotes a member.
func (s Groups) PatchMember(c *rest.Call, in *api.MemberPatch) (api.GroupMember, error) {
	by, err := s.Access.Caller(c, in.ActingAgent)
	if err != nil {
		return api.GroupMember{}, err
	}
	if err := s.Access.MayKnow(c, in.ID); err != nil {
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

// AppointAdmin makes an agent an admin by the owner's word.
func (s Groups) AppointAdmin(c *rest.Call, in *api.AppointAdmin) (api.GroupMember, error) {
	by, err := s.Access.Caller(c, in.ActingAgent)
	if err != nil {
		return api.GroupMember{}, err
	}
	v, err := s.Access.View(c, in.ID, group.Onlooker)
	if err != nil {
		return api.GroupMember{}, err
	}
	limit, err := s.Access.SeatLimit(c.Context(), v.Org)
	if err != nil {
		return api.GroupMember{}, err
	}
	m, err := s.Node.Groups.Appoint(c.Context(), in.ID, group.Appoint{Agent: in.AgentID, By: by, SeatLimit: limit})
	if err != nil {
		return api.GroupMember{}, err
	}
	row, err := s.memberOf(c, in.ID, m)
	return row, access.AfterCommit(err)
}

// RemoveMember removes a member, or lets the acting agent leave. // spec: Groups
func (s Groups) RemoveMember(c *rest.Call, in *api.RemoveMember) (rest.NoContent, error) {
	by, err := s.Access.LikelyCaller(c, in.ActingAgent)
	if err != nil {
		return rest.NoContent{}, err
	}
	v, err := s.Access.View(c, in.ID, group.Onlooker)
	if err != nil {
		return rest.NoContent{}, err
	}
	limit, err := s.Access.SeatLimit(c.Context(), v.Org)
	if err != nil {
		return rest.NoContent{}, err
	}
	return rest.NoContent{}, s.Node.Groups.RemoveMember(c.Context(), in.ID, group.Remove{Agent: in.AgentID, By: by, SeatLimit: limit})
}

// Join requests a seat: by the group's policy, by an invitation, or as the consent
// of a nominee. // spec: Join request and membership
func (s Groups) Join(c *rest.Call, in *api.Join) (api.JoinResult, error) {
	a, err := s.Agents.Sole(c, in.ActingAgent)
	if err != nil {
		return api.JoinResult{}, err
	}
	v, err := s.Access.View(c, in.ID, group.Stranger)
	if err == nil {
		err = s.Access.Secret(c, v, a.AgentID())
	}
	if err != nil {
		return api.JoinResult{}, err
	}
	join := group.Join{Agent: a.AgentID(), Org: c.Caller.Org}
	if join.SeatLimit, err = s.Access.SeatLimit(c.Context(), v.Org); err != nil {
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
	r, err := Requests(s).requestFor(c, in.ID, joined.Request, access.CallerOf(c, a.AgentID()))
	return api.JoinResult{Status: api.JoinPending, Request: &r}, access.AfterCommit(err)
}
