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
}

// Send is the body of POST /messages.
type Send struct {
	// IdempotencyKey makes a repeat of the request return the stored message.
	IdempotencyKey string `json:"-" header:"Idempotency-Key" maxLength:"255"`
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
	Type               string  `json:"type" required:"true" maxLength:"200" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+){2,}$" words:"three or more segments of letters, digits, hyphens and underscores, joined by dots, such as vendor.v1.name" example:"<brand>.v1.dm"`
	EncryptedPayload   string  `json:"encrypted_payload" required:"true" maxLength:"131072" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end" example:"AQIDBAUGBwg"`
	EncryptionVersion  string  `json:"encryption_version,omitzero" default:"hpke-v1" enum:"hpke-v1,sender-key-v1"`
	SenderSigningKid   *string `json:"sender_signing_kid,omitzero" maxLength:"255"`
	Metadata           Object  `json:"metadata,omitzero" maxBytes:"4096"`
	ContentType        string  `json:"content_type,omitzero" default:"application/json" maxLength:"255"`
	PayloadSchema      *string `json:"payload_schema,omitzero" maxLength:"2048"`
	SenderAttestations Array   `json:"sender_attestations,omitzero" maxBytes:"8192"`
	// SelfEncryptedPayload is a copy sealed to the sender's own key.
	SelfEncryptedPayload *string `json:"self_encrypted_payload,omitzero" maxLength:"131072" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
	// ParentConversationID starts a sub-conversation of one the sender is in.
	ParentConversationID *parley.ConversationID `json:"parent_conversation_id,omitzero"`
	ConversationMetadata Object                 `json:"conversation_metadata,omitzero" maxBytes:"4096"`
}

// Sync is a Send that waits for the reply: POST /messages/sync.
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

// SyncResult is the answer of a Sync.
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
	IdempotencyKey string `json:"-" header:"Idempotency-Key" maxLength:"255"`
	// ActingAgent names the sender by id, handle or bare name; the default is the
	// agent that received the message, else the one that sent it.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// MessageSignature is base64url of the sender's Ed25519 signature over
	// "<brand>-msg-v1\n" and the SHA-256 of the raw body in lowercase hex.
	MessageSignature *string `json:"-" header:"X-Svc-Message-Signature"`

	Type                 string  `json:"type" required:"true" maxLength:"200" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+){2,}$" words:"three or more segments of letters, digits, hyphens and underscores, joined by dots, such as vendor.v1.name" example:"<brand>.v1.dm"`
	EncryptedPayload     string  `json:"encrypted_payload" required:"true" maxLength:"131072" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end" example:"AQIDBAUGBwg"`
	EncryptionVersion    string  `json:"encryption_version,omitzero" default:"hpke-v1" enum:"hpke-v1,sender-key-v1"`
	SenderSigningKid     *string `json:"sender_signing_kid,omitzero" maxLength:"255"`
	Metadata             Object  `json:"metadata,omitzero" maxBytes:"4096"`
	ContentType          string  `json:"content_type,omitzero" default:"application/json" maxLength:"255"`
	PayloadSchema        *string `json:"payload_schema,omitzero" maxLength:"2048"`
	SenderAttestations   Array   `json:"sender_attestations,omitzero" maxBytes:"8192"`
	SelfEncryptedPayload *string `json:"self_encrypted_payload,omitzero" maxLength:"131072" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
}

// GetMessage gets one message: GET /messages/{id}.
type GetMessage struct {
	ID parley.MessageID `json:"-" path:"id" required:"true"`
	// ActingAgent marks the message as read if it is the recipient.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// Inbox lists the messages that an agent received, newest first: GET
// /agents/{id}/messages. The answer is a Page of Message.
type Inbox struct {
	ID     parley.AgentID `json:"-" path:"id" required:"true"`
	Limit  int            `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	Cursor *string        `json:"-" query:"cursor"`
	// Type selects messages of this type.
	Type *string `json:"-" query:"type"`
}
