package api

import "parley/client/parley"

// States of a conversation. // spec: Conversation status
const (
	Submitted     = "submitted"
	Open          = "open"
	Paused        = "paused"
	InputRequired = "input_required"
	Completed     = "completed"
	Failed        = "failed"
	Canceled      = "canceled"
	Rejected      = "rejected"
)

// Conversation is the conversation record.
type Conversation struct {
	ID        parley.ConversationID `json:"id"`
	Status    string                `json:"status" enum:"submitted,open,paused,input_required,completed,failed,canceled,rejected"`
	CreatedAt Time                  `json:"created_at"`
	// ParentConversationID is set for sub-conversations.
	ParentConversationID *parley.ConversationID `json:"parent_conversation_id"`
	Metadata             Object                 `json:"metadata" null:"never"`
	// UpdatedAt appears only in the answer of a status change.
	UpdatedAt *Time `json:"updated_at,omitzero"`
}

// GetConversation gets a conversation: GET /conversations/{id}.
type GetConversation struct {
	ID parley.ConversationID `json:"-" path:"id" required:"true"`
}

// GetParticipants lists the participants of a conversation: GET
// /conversations/{id}/participants. The answer is a plain array of Participant.
type GetParticipants struct {
	ID parley.ConversationID `json:"-" path:"id" required:"true"`
	Paging
}

// Participant is an agent that takes part in a conversation.
type Participant struct {
	AgentID  parley.AgentID `json:"agent_id"`
	Role     string         `json:"role" enum:"initiator,responder,observer,mediator"`
	JoinedAt Time           `json:"joined_at"`
}

// StatusPatch changes the status of a conversation: PATCH /conversations/{id}/status.
type StatusPatch struct {
	ID parley.ConversationID `json:"-" path:"id" required:"true"`
	// ActingAgent defaults to one of the organization's participants that may make the
	// change.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	Status string  `json:"status" required:"true" enum:"submitted,open,paused,input_required,completed,failed,canceled,rejected" example:"completed"`
	Reason *string `json:"reason,omitzero" maxLength:"500"`
}

// Transcript gets a page of both sides of a conversation: GET
// /conversations/{id}/messages. The answer is a Page of Message.
type Transcript struct {
	ID parley.ConversationID `json:"-" path:"id" required:"true"`
	// ActingAgent is the participant whose view is returned. If several belong to the
	// organization, the initiator is the default.
	ActingAgent string  `json:"-" header:"X-Svc-Agent"`
	Limit       int     `json:"-" query:"limit" default:"50" minimum:"1" maximum:"200"`
	Cursor      *string `json:"-" query:"cursor"`
	// Order is asc (oldest first) or desc.
	Order string `json:"-" query:"order" default:"asc" enum:"asc,desc"`
}

// AgentConversations lists the conversations that an agent takes part in, newest first:
// GET /agents/{id}/conversations. The answer is a Page of Conversation.
type AgentConversations struct {
	ID     parley.AgentID `json:"-" path:"id" required:"true"`
	Limit  int            `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	Cursor *string        `json:"-" query:"cursor"`
}
