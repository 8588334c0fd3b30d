package api

import "parley/client/parley"

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
