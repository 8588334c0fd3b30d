package api

import (
	"encoding/json"

	"parley/client/parley"
)

// GetExport exports an organization's data: GET /orgs/{id}/export.
type GetExport struct {
	ID parley.OrgID `json:"-" path:"id" required:"true"`
}

// MediaNDJSON is the media type of an export: lines of JSON.
const MediaNDJSON = "application/x-ndjson"

// ExportFormat is the version of the form of exports.
const ExportFormat = "parley-export-4"

// Types of the lines of an export, in their order. // spec: Export record types
const (
	ExportOrg              = "org"
	ExportUser             = "user"
	ExportPowChallenge     = "pow_challenge"
	ExportAgent            = "agent"
	ExportGroup            = "group"
	ExportGroupMembership  = "group_membership"
	ExportGroupJoinRequest = "group_join_request"
	ExportConversation     = "conversation"
	ExportMessage          = "message"
	ExportWebhook          = "webhook"
	ExportSigningKey       = "signing_key"
)

// ExportTypes returns the types of lines in the order of an export.
func ExportTypes() []string {
	return []string{
		ExportOrg, ExportUser, ExportPowChallenge, ExportAgent, ExportGroup, ExportGroupMembership, ExportGroupJoinRequest,
		ExportConversation, ExportMessage, ExportWebhook, ExportSigningKey,
	}
}

// ExportLine is one line of an export.
type ExportLine struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// ExportedOrg is the data of the first line.
type ExportedOrg struct {
	Org
	// Suspended is whether the operator has suspended the organization.
	Suspended bool `json:"suspended"`
	// TierGrantedAt is when the operator last decided about the trust tier, and TierLowered
	// whether that lowered it.
	TierGrantedAt *Time `json:"tier_granted_at"`
	TierLowered   bool  `json:"tier_lowered"`
	// Allowances are the limits that the operator has set for the organization.
	Allowances  []ExportedAllowance `json:"allowances"`
	Credentials []Credential        `json:"credentials"`
	Export      ExportInfo          `json:"export"`
}

// ExportedAllowance is a limit in place of that of the tier; null means no limit.
type ExportedAllowance struct {
	Quota string `json:"quota"`
	Limit *int   `json:"limit"`
}

// ExportInfo describes the export.
type ExportInfo struct {
	Format string `json:"format"`
	// SnapshotAt is the instant that the export shows.
	SnapshotAt Time `json:"snapshot_at"`
}

// ExportedUser is the person who registered the organization.
type ExportedUser struct {
	Email string `json:"email"`
	// VerifiedAt is when the mailed token came back; null if it has not.
	VerifiedAt *Time `json:"verified_at"`
}

// ExportedChallenge is the proof of work that registered the organization.
type ExportedChallenge struct {
	ChallengeID string `json:"challenge_id"`
	Difficulty  int    `json:"difficulty"`
	SolvedAt    Time   `json:"solved_at"`
}

// ExportedAgent is an agent with its card, its former keys and the bindings of its keys.
type ExportedAgent struct {
	Agent
	Card        json.RawMessage   `json:"card"`
	FormerKeys  []ExportedKey     `json:"former_keys"`
	KeyBindings []ExportedBinding `json:"key_bindings"`
	// SigningSince and EncryptionSince are when the current keys first became current.
	SigningSince    Time `json:"signing_key_since"`
	EncryptionSince Time `json:"encryption_key_since"`
	// PQSince is when the post-quantum key became current; null if there is none.
	PQSince *Time `json:"pq_public_key_since"`
	// UnboundSince is when a key first changed without a binding; null if none has since
	// the last binding.
	UnboundSince *Time `json:"unbound_since"`
	// LastActiveAt is the hour in which the agent last sent; null if it has not, or was
	// revoked.
	LastActiveAt *Time `json:"last_active_at"`
}

// ExportedBinding is a key binding with the id of the key that made its previous
// signature.
type ExportedBinding struct {
	KeyBinding
	PreviousSigningKid *string `json:"previous_signing_kid"`
}

// ExportedKey is a public key with the time in which it was current.
type ExportedKey struct {
	PublicKey  JWK   `json:"public_key"`
	ValidFrom  Time  `json:"valid_from"`
	ValidUntil *Time `json:"valid_until"`
	RetiredAt  *Time `json:"retired_at"`
}

// ExportedConversation is a conversation with its participants. Those of a group's
// conversation are the group's members.
type ExportedConversation struct {
	Conversation
	GroupID      *parley.GroupID `json:"group_id"`
	Participants []Participant   `json:"participants"`
	// Task is whether the conversation is an A2A task.
	Task bool `json:"task"`
	// Messages is how many messages it has, those of others in a group too.
	Messages int64 `json:"messages"`
	// StatusChanges are oldest first.
	StatusChanges []ExportedStatusChange `json:"status_changes"`
}

// ExportedStatusChange is a change of a conversation's status.
type ExportedStatusChange struct {
	Status string         `json:"status"`
	By     parley.AgentID `json:"by"`
	At     Time           `json:"at"`
	Reason *string        `json:"reason"`
	// After is the last message of the conversation before the change.
	After parley.MessageID `json:"after"`
}

// ExportedGroup is a group that the organization owns.
type ExportedGroup struct {
	Group
	// DeletedAt is null while the group exists.
	DeletedAt *Time `json:"deleted_at"`
}

// ExportedJoinRequest is a join request. Consented: the agent wants the seat.
type ExportedJoinRequest struct {
	JoinRequest
	Consented bool `json:"consented"`
}

// ExportedMessage is a message with what the reads of it do not show.
type ExportedMessage struct {
	Message
	Export MessageExport `json:"export"`
}

// MessageExport has the organizations of the two agents and where the message stands.
type MessageExport struct {
	SenderOrgID    parley.OrgID `json:"sender_org_id"`
	RecipientOrgID parley.OrgID `json:"recipient_org_id"`
	// InReplyTo is null for the first message of a conversation and for a broadcast.
	InReplyTo *parley.MessageID `json:"in_reply_to"`
	// Position orders the inbox of the organization's agents; null if the recipient is not
	// one, or the message is on its way.
	Position *uint64 `json:"position"`
	// TransferredAt is when its body went out to the recipient, by a channel.
	TransferredAt *Time   `json:"transferred_at"`
	TransferredBy *string `json:"transferred_by" enum:"inbox,stream,sync,wait,a2a"`
	// AnnouncedAt is when a webhook's target accepted its announcement.
	AnnouncedAt *Time `json:"announced_at"`
}

// ExportedWebhook is a webhook with the address that is dialled.
type ExportedWebhook struct {
	Webhook
	// Target is URL as a browser reads it.
	Target string `json:"target"`
}

// ExportedSigningKey is an Ed25519 key of an agent. Its id is its thumbprint.
type ExportedSigningKey struct {
	ID      string         `json:"id"`
	AgentID parley.AgentID `json:"agent_id"`
	ExportedKey
}
