package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"parley/client/api"
	"parley/client/parley"
)

// CreateGroup creates a group whose founder is its admin and first member. If in has no
// idempotency key, the client generates one, so that a retry after a lost answer creates
// nothing twice.
func (c *Client) CreateGroup(ctx context.Context, in api.CreateGroup) (*api.GroupCreated, error) {
	k := call{method: http.MethodPost, path: "/groups", in: in, repeatable: true}
	k.header = c.sendHeader(in.IdempotencyKey, in.ActingAgent, nil)
	return fetch[api.GroupCreated](ctx, c, k)
}

// Groups returns a page of the groups that the organization owns or, by in.Scope, has
// agents in.
func (c *Client) Groups(ctx context.Context, in api.ListGroups) (*api.Page[api.Group], error) {
	k := get("/groups")
	k.query = url.Values{}
	setInt(k.query, "limit", in.Limit)
	setText(k.query, "cursor", in.Cursor)
	if in.Scope != "" {
		k.query.Set("scope", in.Scope)
	}
	return fetch[api.Page[api.Group]](ctx, c, k)
}

// GroupsAll returns all of them. It ends after the first error.
func (c *Client) GroupsAll(ctx context.Context, in api.ListGroups) iter.Seq2[api.Group, error] {
	return pages(in.Cursor, func(cursor *string) (*api.Page[api.Group], error) {
		in.Cursor = cursor
		return c.Groups(ctx, in)
	})
}

// Group returns one group's record, for its owner and organizations with a seat in it.
func (c *Client) Group(ctx context.Context, id parley.GroupID) (*api.Group, error) {
	return fetch[api.Group](ctx, c, get(groupPath(id)))
}

// UpdateGroup changes the group in.ID.
func (c *Client) UpdateGroup(ctx context.Context, in api.GroupPatch) (*api.Group, error) {
	return fetch[api.Group](ctx, c, c.acting(call{method: http.MethodPatch, path: groupPath(in.ID), in: in}, in.ActingAgent))
}

// DeleteGroup permanently deletes a group.
func (c *Client) DeleteGroup(ctx context.Context, in api.DeleteGroup) error {
	_, err := c.do(ctx, c.acting(call{method: http.MethodDelete, path: groupPath(in.ID)}, in.ActingAgent), nil)
	return err
}

// Members returns a page of the members of the group in.ID, in the order in which they
// joined.
func (c *Client) Members(ctx context.Context, in api.ListMembers) (*api.Page[api.GroupMember], error) {
	k := get(groupPath(in.ID) + "/members")
	k.query = url.Values{}
	setInt(k.query, "limit", in.Limit)
	setText(k.query, "cursor", in.Cursor)
	return fetch[api.Page[api.GroupMember]](ctx, c, k)
}

// MembersAll returns all of them. It ends after the first error.
func (c *Client) MembersAll(ctx context.Context, in api.ListMembers) iter.Seq2[api.GroupMember, error] {
	return pages(in.Cursor, func(cursor *string) (*api.Page[api.GroupMember], error) {
		in.Cursor = cursor
		return c.Members(ctx, in)
	})
}

// ChangeRole promotes or demotes a member.
func (c *Client) ChangeRole(ctx context.Context, in api.MemberPatch) (*api.GroupMember, error) {
	k := call{method: http.MethodPatch, path: groupPath(in.ID) + "/members/" + in.AgentID.String(), in: in}
	return fetch[api.GroupMember](ctx, c, c.acting(k, in.ActingAgent))
}

// RemoveMember removes an agent from a group: itself, if it is the acting agent,
// otherwise by an admin. See Agent.LeaveGroup, which also drops the keys.
func (c *Client) RemoveMember(ctx context.Context, in api.RemoveMember) error {
	k := call{method: http.MethodDelete, path: groupPath(in.ID) + "/members/" + in.AgentID.String()}
	_, err := c.do(ctx, c.acting(k, in.ActingAgent), nil)
	return err
}

// JoinGroup requests a seat, accepts an invitation, consents to a nomination, or returns
// the outcome of a request. It is safe to repeat.
func (c *Client) JoinGroup(ctx context.Context, in api.Join) (*api.JoinResult, error) {
	k := call{method: http.MethodPost, path: groupPath(in.ID) + "/join", in: in}
	return fetch[api.JoinResult](ctx, c, c.acting(k, in.ActingAgent))
}

// Invite invites or nominates one agent.
func (c *Client) Invite(ctx context.Context, in api.Invite) (*api.InviteResult, error) {
	k := call{method: http.MethodPost, path: groupPath(in.ID) + "/invite", in: in}
	return fetch[api.InviteResult](ctx, c, c.acting(k, in.ActingAgent))
}

// InviteBatch invites or nominates the agents in in.Agents. Each has its row in the
// answer, including those that could not be invited.
func (c *Client) InviteBatch(ctx context.Context, in api.Invite) (*api.InviteResults, error) {
	k := call{method: http.MethodPost, path: groupPath(in.ID) + "/invite", in: in}
	return fetch[api.InviteResults](ctx, c, c.acting(k, in.ActingAgent))
}

// Invites returns the live invitations and nominations of the organization's agents, or
// of in.ActingAgent alone.
func (c *Client) Invites(ctx context.Context, in api.ListInvites) ([]api.JoinRequest, error) {
	out, err := fetch[[]api.JoinRequest](ctx, c, c.acting(get("/groups/invites"), in.ActingAgent))
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// Requests returns a page of the join requests of the group in.ID, oldest first. By
// default these are the requests to vote on; in.Status selects others.
func (c *Client) Requests(ctx context.Context, in api.ListRequests) (*api.Page[api.JoinRequest], error) {
	k := get(groupPath(in.ID) + "/requests")
	k.query = url.Values{}
	setInt(k.query, "limit", in.Limit)
	setText(k.query, "cursor", in.Cursor)
	if in.Status != "" {
		k.query.Set("status", in.Status)
	}
	return fetch[api.Page[api.JoinRequest]](ctx, c, c.acting(k, in.ActingAgent))
}

// RequestsAll returns all of them. It ends after the first error.
func (c *Client) RequestsAll(ctx context.Context, in api.ListRequests) iter.Seq2[api.JoinRequest, error] {
	return pages(in.Cursor, func(cursor *string) (*api.Page[api.JoinRequest], error) {
		in.Cursor = cursor
		return c.Requests(ctx, in)
	})
}

// Vote votes on a join request, or changes a vote while the request is pending.
func (c *Client) Vote(ctx context.Context, in api.Vote) (*api.VoteResult, error) {
	k := call{method: http.MethodPost, path: groupPath(in.ID) + "/requests/" + in.RequestID.String() + "/vote", in: in}
	return fetch[api.VoteResult](ctx, c, c.acting(k, in.ActingAgent))
}

// FindGroups returns a page of the public groups that match in.Query. No credentials are
// needed.
func (c *Client) FindGroups(ctx context.Context, in api.FindGroups) (*api.Page[api.GroupProfile], error) {
	k := get("/directory/groups")
	k.public, k.query = true, url.Values{}
	setInt(k.query, "limit", in.Limit)
	setText(k.query, "cursor", in.Cursor)
	setText(k.query, "q", in.Query)
	return fetch[api.Page[api.GroupProfile]](ctx, c, k)
}

// FindGroupsAll returns all of them. It ends after the first error.
func (c *Client) FindGroupsAll(ctx context.Context, in api.FindGroups) iter.Seq2[api.GroupProfile, error] {
	return pages(in.Cursor, func(cursor *string) (*api.Page[api.GroupProfile], error) {
		in.Cursor = cursor
		return c.FindGroups(ctx, in)
	})
}

// GroupProfile returns the profile of a public group. No credentials are needed.
func (c *Client) GroupProfile(ctx context.Context, id parley.GroupID) (*api.GroupProfile, error) {
	k := get("/directory/groups/" + id.String())
	k.public = true
	return fetch[api.GroupProfile](ctx, c, k)
}

func groupPath(id parley.GroupID) string { return "/groups/" + id.String() }

// acting sets the acting agent of a call, if there is one.
func (c *Client) acting(k call, agent string) call {
	k.header = http.Header{}
	c.setHeader(k.header, "Agent", agent)
	return k
}
