package client

import (
	"parley/client/api"
	"parley/client/parley"
)

// Groups makes the calls about groups, their members, and how agents join them.
type Groups struct {
	// Create creates a group whose founder is its admin and first member. Without an
	// idempotency key in in, the client generates one, so that a retry after a lost answer
	// creates nothing twice.
	Create Call[api.CreateGroup, api.GroupCreated] `call:"POST /groups repeatable"`
	// List returns a page of the groups that the organization owns or, by in.Scope, has
	// agents in.
	List Call[api.ListGroups, api.Page[api.Group]] `call:"GET /groups"`
	// Get returns one group's record, for its owner and organizations with a seat in it.
	Get Call[parley.GroupID, api.Group] `call:"GET /groups/{id}"`
	// Update changes the group in.ID.
	Update Call[api.GroupPatch, api.Group] `call:"PATCH /groups/{id}"`
	// Delete permanently deletes a group.
	Delete Command[api.DeleteGroup] `call:"DELETE /groups/{id}"`
	// Members returns a page of the members of the group in.ID, in the order in which they
	// joined.
	Members Call[api.ListMembers, api.Page[api.GroupMember]] `call:"GET /groups/{id}/members"`
	// ChangeRole promotes or demotes a member.
	ChangeRole Call[api.MemberPatch, api.GroupMember] `call:"PATCH /groups/{id}/members/{agent_id}"`
	// AppointAdmin makes a member, or an agent of the owner, an admin of a group that has no
	// admin of its owner, as a frozen one.
	AppointAdmin Call[api.AppointAdmin, api.GroupMember] `call:"POST /groups/{id}/admins"`
	// RemoveMember removes an agent from a group: itself, if it is the acting agent,
	// otherwise by an admin. See Agent.LeaveGroup, which also drops the keys.
	RemoveMember Command[api.RemoveMember] `call:"DELETE /groups/{id}/members/{agent_id}"`
	// Join requests a seat, accepts an invitation, consents to a nomination, or returns the
	// outcome of a request. It is safe to repeat.
	Join Call[api.Join, api.JoinResult] `call:"POST /groups/{id}/join"`
	// Invite invites or nominates one agent.
	Invite Call[api.Invite, api.InviteResult] `call:"POST /groups/{id}/invite"`
	// InviteBatch invites or nominates the agents in in.Agents. Each has its row in the
	// answer, including those that could not be invited.
	InviteBatch Call[api.Invite, api.InviteResults] `call:"POST /groups/{id}/invite"`
	// Invites returns the live invitations and nominations of the organization's agents, or
	// of in.ActingAgent alone.
	Invites List[api.ListInvites, api.JoinRequest] `call:"GET /groups/invites"`
	// Requests returns a page of the join requests of the group in.ID, oldest first. By
	// default these are the requests to vote on; in.Status selects others.
	Requests Call[api.ListRequests, api.Page[api.JoinRequest]] `call:"GET /groups/{id}/requests"`
	// EndRequest withdraws or declines a join request of the group in.ID. It is safe to
	// repeat.
	EndRequest Command[api.EndRequest] `call:"DELETE /groups/{id}/requests/{request_id}"`
	// Vote votes on a join request, or changes a vote while the request is pending.
	Vote Call[api.Vote, api.VoteResult] `call:"POST /groups/{id}/requests/{request_id}/vote"`
}
