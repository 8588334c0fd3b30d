// Package group holds the rules of a group: its members, who may admit others, how
// members vote, and what happens when members leave. It does no I/O and reads no clock.
//
// The group alone cannot seat an agent, because an agent that is confined to one group
// cannot enter another. The group keeps a seat (Offered), the agent answers whether it
// may take it, and the group then seats the agent or withdraws the offer. While a seat is
// kept, the agent is not a member.
package group

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

// Enrollment policies. // spec: Group (GroupRead)
const (
	Open      = Policy_open
	Closed    = Policy_closed
	Majority  = Policy_majority
	Unanimity = Policy_unanimity
)

// Roles of members. // spec: Group member
const (
	NoRole     = Role_no_role
	Admin      = Role_admin
	RoleMember = Role_member
)

// Statuses of join requests. // spec: Join request
const (
	Pending  = Status_pending
	Invited  = Status_invited
	Approved = Status_approved
	Denied   = Status_denied
	Expired  = Status_expired
	Accepted = Status_accepted
	Canceled = Status_canceled
	// TurnedDown: the invitee or nominee declined.
	TurnedDown = Status_declined
)

// Votes. // spec: Groups
const (
	Approve = "approve"
	Deny    = "deny"
)

// ParsePolicy parses a policy as spelled in the API.
func ParsePolicy(word string) (Policy, bool) {
	n, ok := Policy_value[word]
	return Policy(n), ok && n != 0
}

// ParseRole parses a role as spelled in the API.
func ParseRole(word string) (Role, bool) {
	n, ok := Role_value[word]
	return Role(n), ok && n != 0
}

// Caller is the organization that asks, and the agent that it named, if any.
type Caller struct {
	Org   parley.OrgID
	Agent parley.AgentID
	// Only are the agents to which the caller is limited; nil means that it is not.
	Only []parley.AgentID
}

// Owns reports whether an agent of an organization is one of the caller's.
func (by Caller) Owns(org parley.OrgID, agent parley.AgentID) bool {
	return parley.Principal{Org: by.Org, Only: by.Only}.Owns(org, agent)
}

// seated reports whether a member is one of the caller's agents.
func (by Caller) seated(m Member) bool { return by.Owns(m.Org, m.Agent) }

// Governs reports whether the caller is the organization that owns a group.
func (by Caller) Governs(s *State) bool { return by.Only == nil && by.Org == s.Org }

// PartOf reports whether the caller owns a group or an agent in it.
func (by Caller) PartOf(s *State) bool {
	return by.Governs(s) || slices.ContainsFunc(s.members, by.seated)
}

// Command asks for a change of a group.
//
//sumtype:decl
type Command interface{ command() }

// Found creates the group and keeps its first seat for the founder. Founding a group that
// exists changes nothing, so the command may be repeated after a crash. The organization
// has already checked the name and the quota.
type Found struct {
	ID          parley.GroupID
	Org         parley.OrgID
	Founder     parley.AgentID
	Name        string
	Description string
	Policy      Policy
	Public      bool
	Isolated    bool
	VoteHours   int
}

// Change alters settings. A nil field keeps its value.
type Change struct {
	By Caller
	// Name and Isolated may only be the present values.
	Name        *string
	Isolated    *bool
	Description *string
	Policy      *Policy
	Public      *bool
	VoteHours   *int
}

// Join asks for a seat: under the enrollment policy, with an invitation, or as the
// consent of a nominee. If a request is live, it changes nothing.
type Join struct {
	RequestID parley.JoinRequestID
	Agent     parley.AgentID
	Org       parley.OrgID
	Message   string
	// Confined is a lookup, possibly outdated: the agent is in another group, and that
	// group or this one is isolated. If two groups admit the agent at once, the agent
	// decides.
	Confined bool
	// SeatLimit is the owner's limit of members, nil for none.
	SeatLimit *int
	Queue     Queue
}

// Queue bounds the requests that wait for votes; zero means no bound.
type Queue struct {
	// Group is how many requests of a group may be pending. Org is how many of them may
	// be applications for agents of one organization.
	Group, Org int
}

// Invite invites an agent: with a voucher where admins alone admit, with a nomination
// where members vote. The invitations of a founding roster are vouchers under every
// policy.
type Invite struct {
	RequestID parley.JoinRequestID
	By        Caller
	Agent     parley.AgentID
	Org       parley.OrgID
	Message   string
	// Founding is the roster of the group's creation.
	Founding bool
	// Lookups of the agent.
	Known, Revoked bool
	// Silent: the agent blocks the inviter or the group's owner, so it must hear nothing.
	Silent bool
	// Confined: the agent is in a group, and that group or this one is isolated.
	Confined  bool
	SeatLimit *int
	Queue     Queue
}

// CastVote votes on a request, or changes a vote.
type CastVote struct {
	Request parley.JoinRequestID
	By      Caller
	Approve bool
	// Settled: the request exists and is no longer live.
	Settled bool
	// Former is a lookup: an agent of the caller had a seat in the group when the request
	// was filed, or before.
	Former    bool
	SeatLimit *int
}

// EndRequest ends a live request for one of those whom it concerns: the applicant or the
// inviter withdraws it, the invitee or nominee declines it.
type EndRequest struct {
	Request parley.JoinRequestID
	By      Caller
	// Inviter is a lookup for a caller that names no agent: the inviter is an active agent
	// of the caller's organization.
	Inviter bool
	// Settled is a lookup: the request as it was settled, nil if it is live or never existed.
	Settled *Request
}

// Answer is an agent's answer to an offered seat.
type Answer struct {
	Offer uint32
	// Refusal is the reason why it may not take the seat, empty if it may.
	Refusal string
}

// Remove ends a membership: the member leaves if By names the member itself; otherwise it
// is removed by an admin.
type Remove struct {
	Agent     parley.AgentID
	By        Caller
	SeatLimit *int
	// CommittedMs is a lookup: the instant, in Unix milliseconds, of the commit by which
	// the agent was last removed, zero if there is none.
	CommittedMs int64
}

// Forget removes a revoked agent: its seat, its request and its offer.
type Forget struct {
	Agent     parley.AgentID
	SeatLimit *int
}

// ChangeRole promotes or demotes a member.
type ChangeRole struct {
	Agent parley.AgentID
	By    Caller
	Role  Role
}

// Expire settles the requests that have expired.
type Expire struct{}

// Delete deletes the group.
type Delete struct {
	By Caller
}

func (Found) command()      {}
func (Change) command()     {}
func (Join) command()       {}
func (Invite) command()     {}
func (CastVote) command()   {}
func (EndRequest) command() {}
func (Answer) command()     {}
func (Remove) command()     {}
func (Forget) command()     {}
func (ChangeRole) command() {}
func (Expire) command()     {}
func (Delete) command()     {}
func (Send) command()       {}
func (Commit) command()     {}

// Event is a fact about a group: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	proto.Message
	event()
}

func (*Founded) event()     {}
func (*Changed) event()     {}
func (*Filed) event()       {}
func (*Consented) event()   {}
func (*Voted) event()       {}
func (*Carried) event()     {}
func (*Offered) event()     {}
func (*Seated) event()      {}
func (*Withdrawn) event()   {}
func (*Resolved) event()    {}
func (*Left) event()        {}
func (*RoleChanged) event() {}
func (*Deleted) event()     {}
func (*Convened) event()    {}
func (*Committed) event()   {}

// kinds are the events, indexed by the number that identifies each kind on disk. Numbers
// are added, never changed or reused.
var kinds = []func() Event{
	1: func() Event { return &Founded{} }, 2: func() Event { return &Changed{} }, 3: func() Event { return &Filed{} },
	4: func() Event { return &Consented{} }, 5: func() Event { return &Voted{} }, 6: func() Event { return &Carried{} },
	7: func() Event { return &Offered{} }, 8: func() Event { return &Seated{} }, 9: func() Event { return &Withdrawn{} },
	10: func() Event { return &Resolved{} }, 11: func() Event { return &Left{} }, 12: func() Event { return &RoleChanged{} },
	13: func() Event { return &Deleted{} }, 14: func() Event { return &Convened{} }, 15: func() Event { return &Committed{} },
}

// Refusals of a group.
var (
	ErrUnknown            = parley.ErrNotFound.Saying("There is no such group.")
	ErrDeleted            = parley.ErrGone.Saying("The group has been deleted.")
	ErrUnknownMember      = parley.ErrNotFound.Saying("The agent is no member of this group.")
	ErrUnknownRequest     = parley.ErrNotFound.Saying("There is no such join request.")
	ErrUnknownAgent       = parley.ErrNotFound.Saying("There is no such agent.")
	ErrAgentRevoked       = parley.ErrGone.Saying("The agent has been revoked.")
	ErrNotMember          = parley.Refuse(parley.Forbidden, "not_member", "The acting agent is no member of this group.")
	ErrNotAdmin           = parley.Refuse(parley.Forbidden, "not_admin", "Only an admin of the group may do this.")
	ErrInvitationRequired = parley.Refuse(parley.Forbidden, "invitation_required", "The group is closed: an invitation is needed.")
	ErrNotInElectorate    = parley.Refuse(parley.Forbidden, "not_in_electorate", "The acting agent was not a member when the request was filed.")
	ErrElectorateEmpty    = parley.Refuse(parley.Forbidden, "electorate_empty", "Nobody that the request was filed against is still in the group.")
	// ErrFull carries quota, limit, used and resets_at.
	ErrFull = parley.Refuse(parley.Forbidden, "quota_exceeded", "The group has as many members as it may have.")
	// ErrQueueFull carries quota, limit, used and resets_at.
	ErrQueueFull      = parley.Refuse(parley.Forbidden, "quota_exceeded", "As many join requests are pending as may be.")
	ErrAlreadyMember  = parley.Refuse(parley.Conflict, "already_member", "The agent is a member already.")
	ErrAlreadyInvited = parley.Refuse(parley.Conflict, "already_invited", "A request or an invitation of the agent is live already.")
	// ErrFiledOften carries quota, limit, used and resets_at.
	ErrFiledOften        = parley.Refuse(parley.Forbidden, "quota_exceeded", "The agent has filed as many join requests at this group today as it may.")
	ErrRequestClosed     = parley.Refuse(parley.Conflict, "request_closed", "The request is not open to votes.")
	ErrRequestSettled    = ErrRequestClosed.Saying("The request has been settled: it can no longer be withdrawn or declined.")
	ErrNotConcerned      = parley.ErrNotOwner.Saying("Only those whom the request concerns may withdraw or decline it.")
	ErrIsolationConflict = parley.Refuse(parley.Conflict, "isolation_conflict", "An agent of an isolated group is in no other group.")
	ErrNameImmutable     = parley.Refuse(parley.Conflict, "name_immutable", "A group's name cannot change, because its handle is built on it.")
	ErrIsolatedImmutable = parley.Refuse(parley.Conflict, "isolated_immutable", "Whether a group is isolated is settled when it is created.")
	ErrLastAdmin         = parley.Refuse(parley.Unprocessable, "last_admin", "The group's last admin stays: promote another member, or delete the group.")
	// ErrAgentRequired carries candidates.
	ErrAgentRequired = parley.Refuse(parley.Invalid, "agent_required", "Name the acting agent: your organization has several that may do this.")
)
