package api

import "parley"

// ExportedGroup is a group that the organization owns, with what happened in it.
type ExportedGroup struct {
	Group
	// RosterPlace numbers the groups of the organization in the order of creation, from 1.
	RosterPlace int `json:"roster_place"`
	// DeletedAt is null while the group exists.
	DeletedAt *Time `json:"deleted_at"`
	// Announced are the group's events in the feeds of the organization's agents, by agent
	// and position.
	Announced []ExportedNews `json:"announced"`
	// History is what happened, oldest first. Everything else that an export says of the
	// group follows from it.
	History []ExportedGroupEvent `json:"history"`
}

// ExportedNews is an event of a group at a position of an agent's feed. Epoch is set for
// events of the MLS group.
type ExportedNews struct {
	ExportedPlace
	Kind      string                `json:"kind"`
	RequestID *parley.JoinRequestID `json:"request_id"`
	Epoch     uint64                `json:"epoch,omitzero"`
}

// Names of what happens in a group.
const (
	GroupFounded     = "founded"
	GroupChanged     = "changed"
	RequestFiled     = "request_filed"
	RequestConsented = "request_consented"
	RequestVoted     = "request_voted"
	RequestCarried   = "request_carried"
	RequestResolved  = "request_resolved"
	SeatOffered      = "seat_offered"
	SeatTaken        = "seat_taken"
	SeatWithdrawn    = "seat_withdrawn"
	MemberLeft       = "member_left"
	RoleChanged      = "role_changed"
	GroupDeleted     = "deleted"
	GroupConvened    = "convened"
	MLSCommitted     = "mls_committed"
)

// ExportedGroupEvent is one thing that happened in a group. Members that a kind of event
// does not need are absent.
type ExportedGroupEvent struct {
	Event string `json:"event" enum:"founded,changed,request_filed,request_consented,request_voted,request_carried,request_resolved,seat_offered,seat_taken,seat_withdrawn,member_left,role_changed,deleted,convened,mls_committed"`
	At    Time   `json:"at"`

	// Of founded and changed: settings, those of changed if they changed.
	Name              string  `json:"name,omitzero"`
	Description       *string `json:"description,omitzero"`
	EnrollmentPolicy  string  `json:"enrollment_policy,omitzero"`
	Visibility        string  `json:"visibility,omitzero"`
	Isolated          bool    `json:"isolated,omitzero"`
	VoteDurationHours int     `json:"vote_duration_hours,omitzero"`

	// Request is the request as it was filed or resolved. Other events about a request, and
	// the offer of the seat that settles it, have RequestID.
	Request   *ExportedRequest     `json:"request,omitzero"`
	RequestID parley.JoinRequestID `json:"request_id,omitzero"`
	// Vote is that of the member in Seat, absent if the member belongs to another
	// organization.
	Vote string `json:"vote,omitzero" enum:"approve,deny"`
	// ExpiresAt is when an invitation expires that a vote has made of a nomination.
	ExpiresAt *Time `json:"expires_at,omitzero"`

	// Offer numbers the seats that are kept for agents until these take them. Asked: the
	// agent asked for it at that moment.
	Offer uint32 `json:"offer,omitzero"`
	Asked bool   `json:"asked,omitzero"`
	// Seat numbers the seats that agents have taken.
	Seat    uint32         `json:"seat,omitzero"`
	AgentID parley.AgentID `json:"agent_id,omitzero"`
	OrgID   parley.OrgID   `json:"org_id,omitzero"`
	Role    string         `json:"role,omitzero" enum:"admin,member"`
	// How a member left.
	How string `json:"how,omitzero" enum:"left,kicked,revoked"`
	// By is the member that removed another, deleted the group, or began the conversation.
	By parley.AgentID `json:"by,omitzero"`
	// Reason is why a seat was not taken.
	Reason         string                `json:"reason,omitzero"`
	ConversationID parley.ConversationID `json:"conversation_id,omitzero"`

	// Of mls_committed, by the member in Seat: the epoch, the cipher suite, and the seats
	// that got or lost a leaf.
	Epoch       *uint64  `json:"epoch,omitzero"`
	CipherSuite int      `json:"cipher_suite,omitzero"`
	Added       []uint32 `json:"added,omitzero"`
	Removed     []uint32 `json:"removed,omitzero"`
}

// ExportedJoinRequest is a join request. Consented: the agent wants the seat.
type ExportedJoinRequest struct {
	JoinRequest
	Consented bool `json:"consented"`
}

// ExportedRequest is a join request as the group has it.
type ExportedRequest struct {
	ID               parley.JoinRequestID `json:"id"`
	AgentID          parley.AgentID       `json:"agent_id"`
	OrgID            parley.OrgID         `json:"org_id"`
	Status           string               `json:"status" enum:"pending,invited,approved,denied,expired,accepted,canceled"`
	EnrollmentPolicy string               `json:"enrollment_policy"`
	Message          string               `json:"message,omitzero"`
	// InvitedBy is absent from an application.
	InvitedBy parley.AgentID `json:"invited_by,omitzero"`
	// Consented: the agent wants the seat.
	Consented  bool  `json:"consented"`
	CreatedAt  Time  `json:"created_at"`
	ExpiresAt  *Time `json:"expires_at"`
	ResolvedAt *Time `json:"resolved_at"`
	// LastSeat is the highest number of a seat whose member may vote; 0 if nobody votes.
	LastSeat           uint32 `json:"last_seat"`
	QuorumTotalMembers int    `json:"quorum_total_members"`
	ElectorateSize     int    `json:"electorate_size"`
	Approvals          int    `json:"approvals"`
	Denials            int    `json:"denials"`
	Reason             string `json:"reason,omitzero"`
}
