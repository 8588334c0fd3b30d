package api

import "parley/client/parley"

// Org is the organization record. // spec: Organization
type Org struct {
	ID           parley.OrgID `json:"id"`
	Name         string       `json:"name"`
	ContactEmail *string      `json:"contact_email"`
	// CountryCode is two capital letters.
	CountryCode *string `json:"country_code"`
	Slug        *string `json:"slug"`
	TrustTier   int     `json:"trust_tier"`
	// AgentCount counts the active agents.
	AgentCount int  `json:"agent_count"`
	CreatedAt  Time `json:"created_at"`
}

// OrgPatch changes the organization: PATCH /org.
type OrgPatch struct {
	Name         *string           `json:"name,omitzero" minLength:"1" maxLength:"200" example:"Acme"`
	ContactEmail Clearable[string] `json:"contact_email,omitzero" minLength:"3" maxLength:"254" pattern:"^[^@\\s<>(),;\"\\\\]+@[^@\\s<>(),;\"\\\\]+$" words:"a bare email address: something@something, without a display name" format:"email"`
	// CountryCode is accepted in either case and stored in upper case.
	CountryCode Clearable[string] `json:"country_code,omitzero" pattern:"^[A-Za-z]{2}$" words:"a country code of two letters"`
	// Slug is accepted with its current value; any other is a conflict.
	Slug *string `json:"slug,omitzero" minLength:"2" maxLength:"32" pattern:"^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])$" words:"2 to 32 lowercase letters, digits and interior hyphens"`
}

// Quotas is the answer of GET /org/quotas.
type Quotas struct {
	Tier int `json:"tier"`
	// Quotas are keyed by name: agents, messages_per_day, groups, …
	Quotas map[string]Quota `json:"quotas"`
}

// Quota is one allowance and its use.
type Quota struct {
	// Limit is null if there is none.
	Limit *int `json:"limit"`
	// Used is null if use is not counted for the organization as a whole.
	Used *int `json:"used"`
	// ResetsAt is present for allowances that renew.
	ResetsAt *Time `json:"resets_at,omitzero"`
}

// EraseOrg erases the caller's organization: DELETE /orgs/{id}.
type EraseOrg struct {
	ID parley.OrgID `json:"-" path:"id" required:"true"`
}

// Erasure says what was erased. // spec: Erasure result
type Erasure struct {
	OrgID    parley.OrgID `json:"org_id"`
	ErasedAt Time         `json:"erased_at"`
	// MessagesDeleted counts every message that an agent of the organization sent or
	// received.
	MessagesDeleted int64 `json:"messages_deleted"`
	// AgentsDeleted counts revoked agents, too.
	AgentsDeleted int64 `json:"agents_deleted"`
	// ConversationsDeleted counts conversations with such an agent, without those that
	// groups of other organizations host.
	ConversationsDeleted int64 `json:"conversations_deleted"`
	// GroupsDeleted counts the groups that the organization owned and had not deleted.
	GroupsDeleted int64 `json:"groups_deleted"`
}
