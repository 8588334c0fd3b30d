package api

import "parley/client/parley"

// Encryption versions of a payload.
const (
	HPKEv1      = "hpke-v1"
	SenderKeyV1 = "sender-key-v1"
)

// Directions of a message, seen from the acting agent.
const (
	Received = "received"
	Sent     = "sent"
)

// States of a message. // spec: Message status
const (
	MessageNew       = "new"
	MessageDelivered = "delivered"
	MessageRead      = "read"
)

// Message is MessageRead of the specification, as an authenticated caller gets it: with
// direction and status.
type Message struct {
	ID             parley.MessageID      `json:"id"`
	ConversationID parley.ConversationID `json:"conversation_id"`
	FromAgentID    parley.AgentID        `json:"from_agent_id"`
	ToAgentID      parley.AgentID        `json:"to_agent_id"`
	Type           string                `json:"type"`
	// EncryptedPayload is the ciphertext in base64url.
	EncryptedPayload  string `json:"encrypted_payload"`
	EncryptionVersion string `json:"encryption_version" enum:"hpke-v1,sender-key-v1"`
	// SenderSigningKid is the sender's claim; the sealed signature proves it.
	SenderSigningKid *string `json:"sender_signing_kid"`
	// Metadata always has the member provenance, which the service writes.
	Metadata    Object `json:"metadata" null:"never"`
	CreatedAt   Time   `json:"created_at"`
	DeliveredAt *Time  `json:"delivered_at"`
	ReadAt      *Time  `json:"read_at"`
	// ContentType is the media type of the opened payload.
	ContentType        string  `json:"content_type"`
	PayloadSchema      *string `json:"payload_schema"`
	SenderAttestations Array   `json:"sender_attestations"`
	SenderHandle       *string `json:"sender_handle"`
	RecipientHandle    *string `json:"recipient_handle"`
	// GroupID is set, like GroupHandle, on copies of a broadcast.
	GroupID     *parley.GroupID `json:"group_id"`
	GroupHandle *string         `json:"group_handle"`
	// Direction is seen from the acting agent. For an organization that owns both
	// agents and names none, it is sent.
	Direction string `json:"direction" enum:"received,sent"`
	// SelfEncryptedPayload is the copy sealed to the sender's own key. Only the
	// sender's organization gets it.
	SelfEncryptedPayload *string `json:"self_encrypted_payload"`
	Status               string  `json:"status" enum:"new,delivered,read"`
	// BroadcastID is present only in the sender's record of a broadcast, and so is
	// RecipientCount.
	BroadcastID    *parley.MessageID `json:"broadcast_id,omitzero"`
	RecipientCount *int              `json:"recipient_count,omitzero"`
}

// Provenance is the member of a message's metadata that the service adds.
type Provenance struct {
	// Server is the service's public domain.
	Server         string       `json:"server"`
	ReceivedAt     Time         `json:"received_at"`
	OrgID          parley.OrgID `json:"org_id"`
	OrgSlug        string       `json:"org_slug"`
	TrustTier      int          `json:"trust_tier"`
	HumanOversight bool         `json:"human_oversight"`
	// Via is how the message was sent.
	Via string `json:"via" enum:"api,sync,a2a,group,system"`
	// Turn is the number of the message in its conversation, from 1. It is absent in a group's.
	Turn int `json:"turn,omitzero"`
}

// Send is a message to an agent or a group: POST /messages.
type Send struct {
	// IdempotencyKey makes a repeat of the request return the stored message.
	IdempotencyKey string `json:"-" header:"Idempotency-Key" minLength:"1" maxLength:"255"`
	// ActingAgent names the sender by id, handle or bare name; the default is the
	// organization's first active agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// MessageSignature is base64url of the sender's Ed25519 signature over
	// "<brand>-msg-v1\n" and the SHA-256 of the raw body in lowercase hex.
	MessageSignature *string `json:"-" header:"X-Svc-Message-Signature"`

	// ToAgentID is the recipient. Exactly one of ToAgentID and ToHandle is given.
	ToAgentID *parley.AgentID `json:"to_agent_id,omitzero"`
	// ToHandle is the handle of an agent, or of a group, which begins with #. Every
	// member of the group except the sender gets a copy.
	ToHandle *string `json:"to_handle,omitzero" example:"bob@acme.localhost"`
	// FromHandle names the sender and takes precedence over ActingAgent.
	FromHandle *string `json:"from_handle,omitzero" pattern:"@" words:"a handle with an @, such as name@org.domain"`
	// Type has three dot-separated segments or more.
	Type              string  `json:"type" required:"true" maxLength:"200" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+){2,}$" words:"three or more segments of letters, digits, hyphens and underscores, joined by dots, such as vendor.v1.name" example:"<brand>.v1.dm"`
	EncryptedPayload  string  `json:"encrypted_payload" required:"true" maxLength:"131072" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end" example:"AQIDBAUGBwg"`
	EncryptionVersion string  `json:"encryption_version,omitzero" default:"hpke-v1" enum:"hpke-v1,sender-key-v1"`
	SenderSigningKid  *string `json:"sender_signing_kid,omitzero" maxLength:"255"`
	// Metadata has the members provenance, group_invite and a2a from the server only.
	Metadata           Object  `json:"metadata,omitzero" maxBytes:"4096" reserved:"provenance,group_invite,a2a"`
	ContentType        string  `json:"content_type,omitzero" default:"application/json" maxLength:"255"`
	PayloadSchema      *string `json:"payload_schema,omitzero" maxLength:"2048"`
	SenderAttestations Array   `json:"sender_attestations,omitzero" maxBytes:"8192"`
	// SelfEncryptedPayload is a copy sealed to the sender's own key.
	SelfEncryptedPayload *string `json:"self_encrypted_payload,omitzero" maxLength:"131072" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
	// ParentConversationID starts a sub-conversation of one the sender is in.
	ParentConversationID *parley.ConversationID `json:"parent_conversation_id,omitzero"`
	ConversationMetadata Object                 `json:"conversation_metadata,omitzero" maxBytes:"4096"`
}

// Sync is a message to an agent that answers soon: POST /messages/sync.
type Sync struct {
	Send
	// TimeoutMS is how long to wait, in milliseconds.
	TimeoutMS int `json:"-" query:"timeout_ms" default:"30000" minimum:"1000" maximum:"300000"`
}

// Outcomes of a Sync.
const (
	SyncReplied = "replied"
	SyncTimeout = "timeout"
	// SyncClosed means that the conversation ended without a reply.
	SyncClosed = "closed"
)

// SyncResult has the message that was sent and the reply, null if none came in time.
type SyncResult struct {
	Message Message `json:"message"`
	// Reply is null unless Status is replied.
	Reply          *Message              `json:"reply"`
	ConversationID parley.ConversationID `json:"conversation_id"`
	// Status is closed when the conversation ended without a reply.
	Status string `json:"status" enum:"replied,timeout,closed"`
	// ConversationStatus appears only when Status is closed.
	ConversationStatus *string `json:"conversation_status,omitzero"`
}

// Reply is the body of POST /messages/{id}/reply. It goes to the other party of
// the message.
type Reply struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
	// IdempotencyKey makes a repeat of the request return the stored message.
	IdempotencyKey string `json:"-" header:"Idempotency-Key" minLength:"1" maxLength:"255"`
	// ActingAgent names the sender by id, handle or bare name; the default is the
	// agent that received the message, else the one that sent it.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// MessageSignature is base64url of the sender's Ed25519 signature over
	// "<brand>-msg-v1\n" and the SHA-256 of the raw body in lowercase hex.
	MessageSignature *string `json:"-" header:"X-Svc-Message-Signature"`

	Type              string  `json:"type" required:"true" maxLength:"200" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+){2,}$" words:"three or more segments of letters, digits, hyphens and underscores, joined by dots, such as vendor.v1.name" example:"<brand>.v1.dm"`
	EncryptedPayload  string  `json:"encrypted_payload" required:"true" maxLength:"131072" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end" example:"AQIDBAUGBwg"`
	EncryptionVersion string  `json:"encryption_version,omitzero" default:"hpke-v1" enum:"hpke-v1,sender-key-v1"`
	SenderSigningKid  *string `json:"sender_signing_kid,omitzero" maxLength:"255"`
	// Metadata has the members provenance and group_invite from the server only; a2a may have
	// parts, cleartext and as, by which the reply is read over A2A.
	Metadata             Object  `json:"metadata,omitzero" maxBytes:"4096" reserved:"provenance,group_invite,a2a=parts cleartext as"`
	ContentType          string  `json:"content_type,omitzero" default:"application/json" maxLength:"255"`
	PayloadSchema        *string `json:"payload_schema,omitzero" maxLength:"2048"`
	SenderAttestations   Array   `json:"sender_attestations,omitzero" maxBytes:"8192"`
	SelfEncryptedPayload *string `json:"self_encrypted_payload,omitzero" maxLength:"131072" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
}

// GetMessage gets one message: GET /messages/{id}.
type GetMessage struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
	// ActingAgent marks the message as delivered and read if it is the recipient. Without it
	// the recipient acts, unless the organization owns the sender too.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// Peek leaves the message as it is.
	Peek bool `json:"-" query:"peek"`
}

// Inbox lists the messages that an agent received, newest first: GET
// /agents/{id}/messages. The answer is a Page of Message.
type Inbox struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// ActingAgent, if it is another agent, leaves the messages as they are.
	ActingAgent string  `json:"-" header:"X-Svc-Agent"`
	Limit       int     `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	Cursor      *string `json:"-" query:"cursor"`
	// Type selects messages of this type.
	Type *string `json:"-" query:"type"`
	// Unread selects messages that are not marked as read.
	Unread bool `json:"-" query:"unread"`
	// Peek leaves the messages as they are: none is marked as delivered.
	Peek bool `json:"-" query:"peek"`
}

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

// Conversation is an exchange between an initiator and a responder, or within a group.
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
	AgentID parley.AgentID `json:"agent_id"`
	// Role is initiator or responder. The others are reserved: a payload is sealed to one
	// recipient, so an observer would read nothing.
	Role     string `json:"role" enum:"initiator,responder,observer,mediator"`
	JoinedAt Time   `json:"joined_at"`
}

// StatusPatch has the new status, and why: PATCH /conversations/{id}/status.
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
	// Peek leaves the messages as they are. Otherwise those that the acting agent received are
	// marked as delivered; if none is named, those that did not come from its organization.
	Peek bool `json:"-" query:"peek"`
}

// AgentConversations lists the conversations that an agent takes part in, newest first:
// GET /agents/{id}/conversations. The answer is a Page of Conversation.
type AgentConversations struct {
	ID     parley.AgentID `json:"-" path:"id" required:"true"`
	Limit  int            `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	Cursor *string        `json:"-" query:"cursor"`
}

// GetReceipt asks for the receipt of a message.
type GetReceipt struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
}

// MessageReceipt is the answer: a signed statement of the service that it accepted the
// message.
type MessageReceipt struct {
	// Receipt is a compact JWS of type <brand>-receipt+jwt. Its key is in the key document
	// of the service.
	Receipt string `json:"receipt"`
}

// ReceiptClaims is the payload of a receipt. It is the same whenever the receipt is
// requested.
type ReceiptClaims struct {
	// Issuer is the address of the service.
	Issuer string `json:"iss"`
	// IssuedAt is the second in which the service accepted the message, whenever it signed
	// the receipt.
	IssuedAt       int64                 `json:"iat"`
	MessageID      parley.MessageID      `json:"message_id"`
	ConversationID parley.ConversationID `json:"conversation_id"`
	// Position is the place of the message among the events of the conversation, from 1.
	// Changes of status count.
	Position uint64 `json:"position"`
	// PayloadSHA256 is the SHA-256, in lower-case hex, of the text of encrypted_payload as
	// the service stores and returns it.
	PayloadSHA256     string         `json:"payload_sha256"`
	EncryptionVersion string         `json:"encryption_version"`
	Type              string         `json:"type"`
	FromAgentID       parley.AgentID `json:"from_agent_id"`
	FromHandle        *string        `json:"from_handle"`
	ToAgentID         parley.AgentID `json:"to_agent_id"`
	ToHandle          *string        `json:"to_handle"`
	// GroupID is the group to which the message was broadcast, null for all other messages.
	GroupID *parley.GroupID `json:"group_id"`
	// AcceptedAt is the created_at of the message.
	AcceptedAt Time `json:"accepted_at"`
}

// ReadMessage marks a message as read by its recipient:
// POST /messages/{id}/read. The answer is the Message.
type ReadMessage struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
	// ActingAgent, if given, must be the recipient.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// Ack marks messages that an agent received as read:
// POST /agents/{id}/messages/ack. Exactly one of UpTo and IDs is given.
type Ack struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// UpTo selects this message and all that arrived in the inbox before it.
	UpTo *parley.MessageID `json:"up_to,omitzero" example:"01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1"`
	// IDs are messages of the agent's inbox.
	IDs []parley.MessageID `json:"ids,omitzero" maxItems:"100"`
}

// Check checks the fields of an acknowledgement together.
func (in *Ack) Check() []FieldError {
	if (in.UpTo == nil) == (in.IDs == nil) {
		return []FieldError{{Loc: []any{"body", "up_to"}, Msg: "Value error, exactly one of up_to and ids is required", Type: valueError}}
	}
	return nil
}

// Acked says how many messages an acknowledgement marked as read.
type Acked struct {
	// Acked is the number of messages that were not read before.
	Acked int `json:"acked"`
	// UpTo is the up_to of the request.
	UpTo *parley.MessageID `json:"up_to"`
}

// Wait gets messages to an agent, and waits if there are none: GET /agents/{id}/wait.
type Wait struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// After is a message of the agent's inbox. The answer has the messages after it,
	// read or not; the nil UUID selects all. Without it, the answer has the messages
	// that have not been transferred yet, or with Peek those that arrive from now on.
	After *parley.MessageID `json:"-" query:"after"`
	// ActingAgent, if it is another agent, leaves the messages as they are.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// Peek leaves the messages as they are: none is marked as delivered.
	Peek bool `json:"-" query:"peek"`
	// TimeoutMS is how long to wait, in milliseconds.
	TimeoutMS int `json:"-" query:"timeout_ms" default:"30000" minimum:"1000" maximum:"60000"`
}

// Waited has the messages that came, and the position for the next call.
type Waited struct {
	// Items are at most 20 messages, oldest first; none at the timeout.
	Items []Message `json:"items"`
	// After is the last message of Items, or the after of the request if there is none.
	After *parley.MessageID `json:"after"`
	// Unread is the number of further messages that are not marked as read, counted up
	// to 1,000 and over at most 4,096 entries of the agent's feed.
	Unread int `json:"unread"`
}

// Trace gets the delivery history of a message: GET /messages/{id}/trace.
type Trace struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
}

// Channels by which a message reaches its recipient, in an Attempt.
const (
	ChannelInbox      = "inbox"
	ChannelStream     = "stream"
	ChannelWebhook    = "webhook"
	ChannelSync       = "sync"
	ChannelWait       = "wait"
	ChannelA2A        = "a2a"
	ChannelTranscript = "transcript"
)

// Outcomes of an Attempt. Carried: the recipient has the message's body. Announced: a
// webhook's target accepted the event.
const (
	OutcomeCarried   = "carried"
	OutcomeAnnounced = "announced"
	OutcomeFailed    = "failed"
)

// Traced lists the attempts to deliver a message, and what delivery waits for.
type Traced struct {
	MessageID  parley.MessageID `json:"message_id"`
	AcceptedAt Time             `json:"accepted_at"`
	// Position in the recipient's inbox. Only the recipient's organization gets it,
	// once the message is there.
	Position *int `json:"position"`
	// Attempts to deliver it, in order of time.
	Attempts    []Attempt `json:"attempts"`
	DeliveredAt *Time     `json:"delivered_at"`
	ReadAt      *Time     `json:"read_at"`
	// PendingReason says why the message is not delivered yet; null when it is.
	PendingReason *string `json:"pending_reason"`
}

// Attempt is one attempt to deliver a message. Only the recipient's organization sees
// details, and the attempts of webhooks.
type Attempt struct {
	Channel string `json:"channel" enum:"inbox,stream,webhook,sync,wait,a2a"`
	At      Time   `json:"at"`
	// Outcome is carried if the recipient got the message's body, announced if a
	// webhook's target accepted the event.
	Outcome string  `json:"outcome" enum:"carried,announced,failed"`
	Detail  *string `json:"detail"`
}

// valueError is the type of a fault that the schema of no single field can state.
const valueError = "value_error"

// Check checks the fields of a send together: exactly one target, and handles of the
// right form. Whether they exist is checked later. // spec: Messaging
func (in *Send) Check() []FieldError {
	var faults []FieldError
	fault := func(field, msg string) {
		faults = append(faults, FieldError{Loc: []any{"body", field}, Msg: "Value error, " + msg, Type: valueError})
	}
	if (in.ToAgentID == nil) == (in.ToHandle == nil) {
		fault("to_agent_id", "exactly one of to_agent_id and to_handle is required")
	}
	if in.ToHandle != nil {
		if _, err := parley.ParseHandle(*in.ToHandle); err != nil {
			fault("to_handle", "the handle should be of the form agent@org.domain")
		}
	}
	if in.FromHandle != nil {
		if h, err := parley.ParseHandle(*in.FromHandle); err != nil || h.Group {
			fault("from_handle", "the handle should be of the form agent@org.domain")
		}
	}
	return faults
}
