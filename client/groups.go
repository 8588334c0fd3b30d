package client

import (
	"context"

	"parley/client/api"
	"parley/client/parley"
)

// Groups makes the calls about groups, their members, and how agents join them.
type Groups struct{ s *Session }

// Create creates a group whose founder is its admin and first member. Without an
// idempotency key in in, the client generates one, so that a retry after a lost answer
// creates nothing twice.
func (g Groups) Create(ctx context.Context, in api.CreateGroup) (*api.GroupCreated, error) {
	return fetch[api.GroupCreated](ctx, g.s, post("/groups").idempotent(), in)
}

// List returns a page of the groups that the organization owns or, by in.Scope, has
// agents in.
func (g Groups) List(ctx context.Context, in api.ListGroups) (*api.Page[api.Group], error) {
	return fetch[api.Page[api.Group]](ctx, g.s, get("/groups"), in)
}

// Get returns one group's record, for its owner and organizations with a seat in it.
func (g Groups) Get(ctx context.Context, id parley.GroupID) (*api.Group, error) {
	return fetch[api.Group](ctx, g.s, get("/groups/{id}"), api.GetGroup{ID: id})
}

// Update changes the group in.ID.
func (g Groups) Update(ctx context.Context, in api.GroupPatch) (*api.Group, error) {
	return fetch[api.Group](ctx, g.s, patch("/groups/{id}"), in)
}

// Delete permanently deletes a group.
func (g Groups) Delete(ctx context.Context, in api.DeleteGroup) error {
	return g.s.exec(ctx, remove("/groups/{id}"), in)
}

// Members returns a page of the members of the group in.ID, in the order in which they
// joined.
func (g Groups) Members(ctx context.Context, in api.ListMembers) (*api.Page[api.GroupMember], error) {
	return fetch[api.Page[api.GroupMember]](ctx, g.s, get("/groups/{id}/members"), in)
}

// ChangeRole promotes or demotes a member.
func (g Groups) ChangeRole(ctx context.Context, in api.MemberPatch) (*api.GroupMember, error) {
	return fetch[api.GroupMember](ctx, g.s, patch("/groups/{id}/members/{agent_id}"), in)
}

// RemoveMember removes an agent from a group: itself, if it is the acting agent,
// otherwise by an admin. See Agent.LeaveGroup, which also drops the keys.
func (g Groups) RemoveMember(ctx context.Context, in api.RemoveMember) error {
	return g.s.exec(ctx, remove("/groups/{id}/members/{agent_id}"), in)
}

// Join requests a seat, accepts an invitation, consents to a nomination, or returns the
// outcome of a request. It is safe to repeat.
func (g Groups) Join(ctx context.Context, in api.Join) (*api.JoinResult, error) {
	return fetch[api.JoinResult](ctx, g.s, post("/groups/{id}/join"), in)
}

// Invite invites or nominates one agent.
func (g Groups) Invite(ctx context.Context, in api.Invite) (*api.InviteResult, error) {
	return fetch[api.InviteResult](ctx, g.s, post("/groups/{id}/invite"), in)
}

// InviteBatch invites or nominates the agents in in.Agents. Each has its row in the
// answer, including those that could not be invited.
func (g Groups) InviteBatch(ctx context.Context, in api.Invite) (*api.InviteResults, error) {
	return fetch[api.InviteResults](ctx, g.s, post("/groups/{id}/invite"), in)
}

// Invites returns the live invitations and nominations of the organization's agents, or
// of in.ActingAgent alone.
func (g Groups) Invites(ctx context.Context, in api.ListInvites) ([]api.JoinRequest, error) {
	return array[api.JoinRequest](ctx, g.s, get("/groups/invites"), in)
}

// Requests returns a page of the join requests of the group in.ID, oldest first. By
// default these are the requests to vote on; in.Status selects others.
func (g Groups) Requests(ctx context.Context, in api.ListRequests) (*api.Page[api.JoinRequest], error) {
	return fetch[api.Page[api.JoinRequest]](ctx, g.s, get("/groups/{id}/requests"), in)
}

// Vote votes on a join request, or changes a vote while the request is pending.
func (g Groups) Vote(ctx context.Context, in api.Vote) (*api.VoteResult, error) {
	return fetch[api.VoteResult](ctx, g.s, post("/groups/{id}/requests/{request_id}/vote"), in)
}
