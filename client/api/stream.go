package api

import "parley/client/parley"

// Names of the events of an agent's stream.
const (
	EventMessage   = "message"
	EventStatus    = "status"
	EventHeartbeat = "heartbeat"
	// EventGroup reports a change of a group to the agents that it concerns.
	EventGroup = "group"
	// EventWebhook reports that the server disabled a webhook of the agent.
	EventWebhook = "webhook"
	// EventGap is sent first if the stream cannot resume at the requested position.
	EventGap = "gap"
)

// Stream opens the server-sent events of an agent: GET /agents/{id}/stream.
type Stream struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// LastEventID is the id of the last message received. The stream continues after
	// it. The nil UUID requests everything; an unknown id is answered with a gap.
	LastEventID string `json:"-" header:"Last-Event-ID"`
	// LastEventIDQuery is the same, for clients that cannot set headers. The header wins.
	LastEventIDQuery string `json:"-" query:"lastEventId"`
}

// StatusEvent names a conversation and the status that it has now.
type StatusEvent struct {
	ConversationID parley.ConversationID `json:"conversation_id"`
	Status         string                `json:"status" enum:"submitted,open,paused,input_required,completed,failed,canceled,rejected"`
}

// HeartbeatEvent shows that a stream without news is alive.
type HeartbeatEvent struct {
	Timestamp Time `json:"timestamp"`
}

// GroupEvent says what happened in a group, so that the client looks at it.
type GroupEvent struct {
	GroupID parley.GroupID `json:"group_id"`
	// RequestID is the join request that the event is about; null if none. Events of an MLS
	// group do not have it.
	RequestID *parley.JoinRequestID `json:"request_id,omitzero"`
	Kind      string                `json:"kind" enum:"invited,request.created,request.resolved,member.joined,member.left,mls_commit,mls_welcome,mls_admission,mls_removal"`
	// Epoch is the epoch of the MLS group after the event, which no other event has.
	Epoch *uint64 `json:"epoch,omitzero"`
}

// WebhookEvent names a webhook of the agent that the server disabled, and says why.
type WebhookEvent struct {
	WebhookID      parley.AnyID `json:"webhook_id"`
	DisabledReason string       `json:"disabled_reason" enum:"target_gone,only_failures"`
}

// GapEvent says why a stream could not resume after the id that it was asked to.
type GapEvent struct {
	Reason string `json:"reason"`
}
