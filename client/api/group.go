package api

import "parley/client/parley"

// Enrollment policies of a group. // spec: Group (GroupRead)
const (
	EnrollOpen      = "open"
	EnrollClosed    = "closed"
	EnrollMajority  = "majority"
	EnrollUnanimity = "unanimity"
)

// Visibilities of a group.
const (
	PublicGroups  = "public"
	PrivateGroups = "private"
)

// Roles of a member of a group.
const (
	RoleAdmin  = "admin"
	RoleMember = "member"
)

// Group is a group as its members and its owner see it: GroupRead of the specification.
type Group struct {
	ID   parley.GroupID `json:"id"`
	Name string         `json:"name"`
	// Handle is #name@slug.domain.
	Handle           string  `json:"handle"`
	Description      *string `json:"description"`
	EnrollmentPolicy string  `json:"enrollment_policy" enum:"open,closed,majority,unanimity"`
	Visibility       string  `json:"visibility" enum:"public,private"`
	// Isolated keeps the group's agents out of all other groups and from messages to
	// agents outside.
	Isolated          bool `json:"isolated"`
	VoteDurationHours int  `json:"vote_duration_hours"`
	MemberCount       int  `json:"member_count"`
	// MemberAgentIDs are in the order of joining.
	MemberAgentIDs []parley.AgentID `json:"member_agent_ids"`
	// ConversationID is null before the first broadcast.
	ConversationID *parley.ConversationID `json:"conversation_id"`
	CreatedAt      Time                   `json:"created_at"`
	// Frozen: the last admin was revoked, and no agent of the owner is a member. Until the
	// owner names an admin, members only talk and leave.
	Frozen bool `json:"frozen"`
	// MLSEnabled: the group has an MLS group, whose members alone get broadcasts.
	MLSEnabled bool `json:"mls_enabled"`
	// MLSPending: a member awaits its Add to the MLS group, or the leaf of a former one its
	// Remove.
	MLSPending bool `json:"mls_pending"`
	// MLSGroupID is the text whose bytes are the group_id of the MLS group.
	MLSGroupID     *string `json:"mls_group_id"`
	MLSCipherSuite *int    `json:"mls_cipher_suite"`
}

// GroupCreated is the new group, with what became of each invitation.
type GroupCreated struct {
	Group
	// Invitations has a row for each entry of the roster, in the order given.
	Invitations []Invitation `json:"invitations"`
}

// GroupProfile is what outsiders see of a public group.
type GroupProfile struct {
	ID                parley.GroupID `json:"id"`
	Name              string         `json:"name"`
	Handle            string         `json:"handle"`
	OrgID             parley.OrgID   `json:"org_id"`
	Description       *string        `json:"description"`
	EnrollmentPolicy  string         `json:"enrollment_policy" enum:"open,closed,majority,unanimity"`
	VoteDurationHours int            `json:"vote_duration_hours"`
	MemberCount       int            `json:"member_count"`
	CreatedAt         Time           `json:"created_at"`
	MLSEnabled        bool           `json:"mls_enabled"`
}

// CreateGroup has the name, the rules of joining and the first invitations of a group: POST
// /groups.
type CreateGroup struct {
	// IdempotencyKey makes a repeat of the request return the group that the first one
	// created.
	IdempotencyKey string `json:"-" header:"Idempotency-Key" minLength:"1" maxLength:"255"`
	// ActingAgent names the founder, who becomes admin, by id, handle or bare name. The
	// default is the organization's first active agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	Name             string  `json:"name" required:"true" minLength:"1" maxLength:"63" pattern:"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$" words:"1 to 63 lowercase letters, digits and interior hyphens" example:"friends"`
	Description      *string `json:"description,omitzero" maxLength:"2000"`
	EnrollmentPolicy string  `json:"enrollment_policy,omitzero" aliases:"enrollment" default:"closed" enum:"open,closed,majority,unanimity"`
	// Visibility is public by default if enrollment is open, otherwise private.
	Visibility        *string `json:"visibility,omitzero" enum:"public,private"`
	Isolated          bool    `json:"isolated,omitzero" default:"false"`
	VoteDurationHours int     `json:"vote_duration_hours,omitzero" aliases:"vote_duration" default:"72" minimum:"1" maximum:"72"`
	// Members are the agents to invite, each named by its id or handle as a string, or
	// by an object with agent_id or handle and optionally a message.
	Members []Target `json:"members,omitzero" maxItems:"100" example:"[\"bob@acme.localhost\"]"`
}

// ListGroups lists groups: GET /groups. The answer is a Page of Group.
type ListGroups struct {
	// Scope is owned (the organization's own), seated (those in which an agent of
	// the organization is a member) or all.
	Scope  string  `json:"-" query:"scope" default:"owned" enum:"owned,seated,all"`
	Limit  int     `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	Cursor *string `json:"-" query:"cursor"`
}

// GetGroup gets a group: GET /groups/{id}.
type GetGroup struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
}

// GroupPatch has the members of a group to change; absent ones keep their values: PATCH
// /groups/{id}.
type GroupPatch struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the admin who makes the change; by default the organization's
	// first.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	// Name is accepted with its current value; any other is a conflict.
	Name              *string           `json:"name,omitzero" minLength:"1" maxLength:"63"`
	Description       Clearable[string] `json:"description,omitzero" maxLength:"2000" example:"Friends of Acme"`
	EnrollmentPolicy  *string           `json:"enrollment_policy,omitzero" aliases:"enrollment" enum:"open,closed,majority,unanimity"`
	Visibility        *string           `json:"visibility,omitzero" enum:"public,private"`
	VoteDurationHours *int              `json:"vote_duration_hours,omitzero" aliases:"vote_duration" minimum:"1" maximum:"72"`
	// Isolated is accepted with its current value; any other is a conflict.
	Isolated *bool `json:"isolated,omitzero"`
}

// DeleteGroup deletes a group: DELETE /groups/{id}.
type DeleteGroup struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the admin who deletes it; by default the organization's first. Any
	// agent of the owner deletes a frozen group.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// GroupMember is the membership of an agent: its role, and since when. // spec: Group member
type GroupMember struct {
	AgentID     parley.AgentID `json:"agent_id"`
	AgentHandle *string        `json:"agent_handle"`
	GroupID     parley.GroupID `json:"group_id"`
	// ID identifies the membership. An agent that leaves and joins again gets another.
	ID *parley.AnyID `json:"id"`
	// IsOwnOrg reports whether the caller's organization owns the agent.
	IsOwnOrg bool   `json:"is_own_org"`
	JoinedAt Time   `json:"joined_at"`
	Role     string `json:"role" enum:"admin,member"`
	// MLSSeated: the agent has a leaf in the group's MLS group.
	MLSSeated bool `json:"mls_seated"`
}

// ListMembers lists a group's members in the order of joining: GET
// /groups/{id}/members. The answer is a Page of GroupMember.
type ListMembers struct {
	ID     parley.GroupID `json:"-" path:"id" required:"true"`
	Limit  int            `json:"-" query:"limit" default:"50" minimum:"1" maximum:"200"`
	Cursor *string        `json:"-" query:"cursor"`
}

// MemberPatch has the new role: PATCH /groups/{id}/members/{agent_id}.
type MemberPatch struct {
	ID      parley.GroupID `json:"-" path:"id" required:"true"`
	AgentID parley.AgentID `json:"-" path:"agent_id" required:"true"`
	// ActingAgent is the admin who changes the role; by default the organization's
	// first.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	Role string `json:"role" required:"true" enum:"admin,member"`
}

// AppointAdmin makes a member of a group, or an agent of its owner, an admin: POST
// /groups/{id}/admins. An agent that is no member becomes one. Only the owner may do so, and
// only while no agent of its own is an admin. The answer is the member's row.
type AppointAdmin struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is any active agent of the group's owner; by default the owner acts.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	AgentID parley.AgentID `json:"agent_id" required:"true"`
}

// RemoveMember removes an agent from a group: DELETE /groups/{id}/members/{agent_id}.
// If the acting agent is that agent, it leaves; otherwise an admin removes it.
type RemoveMember struct {
	ID      parley.GroupID `json:"-" path:"id" required:"true"`
	AgentID parley.AgentID `json:"-" path:"agent_id" required:"true"`
	// ActingAgent defaults to the organization's only active agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// Join requests a seat in a group: POST /groups/{id}/join. It also accepts an
// invitation, consents to a nomination, and returns an applicant's existing request.
type Join struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the agent that joins; by default the organization's only active
	// agent.
	ActingAgent string  `json:"-" header:"X-Svc-Agent"`
	Message     *string `json:"message,omitzero" maxLength:"500" example:"May I join?"`
}

// Outcomes of a Join.
const (
	Joined      = "joined"
	JoinPending = "pending"
)

// JoinResult says whether the agent is a member now, or waits for a vote.
type JoinResult struct {
	Status string `json:"status" enum:"joined,pending"`
	// Member is present if Status is joined.
	Member *GroupMember `json:"member,omitzero"`
	// Request is present if Status is pending.
	Request *JoinRequest `json:"request,omitzero"`
}

// JoinRequest is an agent's own application, a nomination by a member, or an
// invitation. // spec: Join request
type JoinRequest struct {
	ID          parley.JoinRequestID `json:"id"`
	GroupID     parley.GroupID       `json:"group_id"`
	GroupHandle *string              `json:"group_handle"`
	GroupName   *string              `json:"group_name"`
	// AgentID is the applicant, nominee or invitee.
	AgentID parley.AgentID `json:"agent_id"`
	Status  string         `json:"status" enum:"pending,invited,approved,denied,expired,accepted,canceled,declined"`
	// Message is the text given with the request.
	Message *string `json:"message"`
	// InvitedBy is the member that nominated or invited; null for an application.
	InvitedBy  *parley.AgentID `json:"invited_by"`
	CreatedAt  Time            `json:"created_at"`
	ExpiresAt  *Time           `json:"expires_at"`
	ResolvedAt *Time           `json:"resolved_at"`
	// ElectorateSize counts the members of the electorate that are still in the group.
	// It and the fields up to DenialsNeeded are null if nobody votes.
	ElectorateSize *int `json:"electorate_size"`
	// QuorumTotalMembers counts the members of the group when the request was filed.
	QuorumTotalMembers *int `json:"quorum_total_members"`
	Approvals          *int `json:"approvals"`
	Denials            *int `json:"denials"`
	// ApprovalsNeeded falls when electors leave, and so does DenialsNeeded.
	ApprovalsNeeded *int `json:"approvals_needed"`
	DenialsNeeded   *int `json:"denials_needed"`
	// YouMayVote reports whether a vote of the caller would count.
	YouMayVote       bool    `json:"you_may_vote"`
	YouMayVoteReason string  `json:"you_may_vote_reason" enum:"ok,not_in_electorate,request_closed,no_acting_agent,own_request,not_a_vote"`
	YourVote         *string `json:"your_vote" enum:"approve,deny"`
	// Reason is why an approved request did not lead to a seat; null otherwise.
	Reason *string `json:"reason"`
}

// ListInvites lists the live invitations and nominations of the organization's agents:
// GET /groups/invites. The answer is a plain array of JoinRequest.
type ListInvites struct {
	// ActingAgent limits the answer to those of one agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	Paging
}

// ListRequests lists a group's join requests, oldest first: GET /groups/{id}/requests.
// The answer is a Page of JoinRequest.
type ListRequests struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the agent whose votes are shown; by default the organization's
	// only active agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// Status is pending (open to votes), invited (unaccepted invitations), live (both)
	// or all (settled ones too).
	Status string  `json:"-" query:"status" default:"pending" enum:"pending,invited,live,all"`
	Limit  int     `json:"-" query:"limit" default:"50" minimum:"1" maximum:"200"`
	Cursor *string `json:"-" query:"cursor"`
}

// Votes.
const (
	Approve = "approve"
	Deny    = "deny"
)

// Vote approves or denies a join request: POST /groups/{id}/requests/{request_id}/vote.
type Vote struct {
	ID        parley.GroupID       `json:"-" path:"id" required:"true"`
	RequestID parley.JoinRequestID `json:"-" path:"request_id" required:"true"`
	// ActingAgent is the agent that votes; by default the organization's only agent in
	// the electorate.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	Vote string `json:"vote" aliases:"choice,decision" required:"true" enum:"approve,deny"`
}

// VoteResult is the status of the join request after the vote.
type VoteResult struct {
	RequestID parley.JoinRequestID `json:"request_id"`
	// Status is the status of the request after the vote.
	Status   string `json:"status" enum:"pending,invited,approved,denied,expired,accepted,canceled,declined"`
	YourVote string `json:"your_vote" enum:"approve,deny"`
	// MLSSeated: the vote gave the agent a leaf in the group's MLS group. It never does: a
	// commit that follows gives it.
	MLSSeated bool `json:"mls_seated"`
}

// EndRequest withdraws or declines a join request before it is settled: DELETE
// /groups/{id}/requests/{request_id}. The applicant withdraws its application, a nominator
// its nomination while it is pending, and the inviter or an admin an invitation; the request
// ends as canceled. The invitee or nominee declines; it ends as declined. A repeat changes
// nothing.
type EndRequest struct {
	ID        parley.GroupID       `json:"-" path:"id" required:"true"`
	RequestID parley.JoinRequestID `json:"-" path:"request_id" required:"true"`
	// ActingAgent defaults to that of the organization's agents that the request is about,
	// else to the one that made it, else to the organization's first admin.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// FindGroups searches public groups: GET /directory/groups. The answer is a Page
// of GroupProfile.
type FindGroups struct {
	// Query is matched against name, handle and description; each of its words must be
	// found, and the best match comes first. Without it all groups are listed, oldest
	// first. A page may be short or empty while has_more is true.
	Query  *string `json:"-" query:"q" maxLength:"500"`
	Limit  int     `json:"-" query:"limit" default:"20" minimum:"1" maximum:"50"`
	Cursor *string `json:"-" query:"cursor"`
}

// GetProfile gets the profile of a public group: GET /directory/groups/{id}.
type GetProfile struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
}
