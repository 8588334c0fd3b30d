package api

import (
	"encoding/json"

	"parley"
)

// GetExport exports an organization's data: GET /orgs/{id}/export.
type GetExport struct {
	ID parley.OrgID `json:"-" path:"id" required:"true"`
}

// MediaNDJSON is the media type of an export: lines of JSON.
const MediaNDJSON = "application/x-ndjson"

// ExportFormat is the version of the form of exports.
const ExportFormat = "parley-export-1"

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
	Suspended   bool                 `json:"suspended"`
	Credentials []ExportedCredential `json:"credentials"`
	Export      ExportInfo           `json:"export"`
}

// ExportedCredential is a pair of client credentials, without the secret.
type ExportedCredential struct {
	ClientID  parley.ClientID `json:"client_id"`
	CreatedAt Time            `json:"created_at"`
	RevokedAt *Time           `json:"revoked_at"`
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

// ExportedChallenge is the proof of work that registered the organization. Members are
// null if it registered before servers recorded them.
type ExportedChallenge struct {
	ChallengeID *string `json:"challenge_id"`
	Difficulty  *int    `json:"difficulty"`
	SolvedAt    Time    `json:"solved_at"`
}

// ExportedAgent is an agent with its card, its former keys and the bindings of its keys.
type ExportedAgent struct {
	Agent
	Card        json.RawMessage `json:"card"`
	FormerKeys  []ExportedKey   `json:"former_keys"`
	KeyBindings []KeyBinding    `json:"key_bindings"`
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
}

// ExportedSigningKey is an Ed25519 key of an agent. Its id is its thumbprint.
type ExportedSigningKey struct {
	ID      string         `json:"id"`
	AgentID parley.AgentID `json:"agent_id"`
	ExportedKey
}
