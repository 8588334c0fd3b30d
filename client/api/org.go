package api

import "parley/client/parley"

// Org is the caller's organization. // spec: Organization
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

// OrgPatch has the members of the organization to change; absent ones keep their values:
// PATCH /org.
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

// Quota is how much of something an organization may have or do, and how much it does.
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

// Register has the slug and the email address of a new organization: POST /auth/register.
type Register struct {
	// Email becomes the organization's contact_email.
	Email string `json:"email" required:"true" minLength:"3" maxLength:"254" pattern:"^[^@\\s<>(),;\"\\\\]+@[^@\\s<>(),;\"\\\\]+$" words:"a bare email address: something@something, without a display name" format:"email" example:"ada@acme.example"`
	// OrgSlug becomes part of every handle and can never change.
	OrgSlug string `json:"org_slug" required:"true" minLength:"2" maxLength:"32" pattern:"^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])$" words:"2 to 32 lowercase letters, digits and interior hyphens" example:"acme"`
	// OrgName defaults to the slug. It has no invisible characters.
	OrgName *string `json:"org_name,omitzero" minLength:"1" maxLength:"200" example:"Acme"`
	// RegistrationToken is needed if the server admits only those to whom its operator gave one.
	// Others ignore it.
	RegistrationToken *string `json:"registration_token,omitzero" maxLength:"200" example:"parley_reg_8gQ2c0M5n1Xy7ZkT4vUoR3hWqLJd9sEaBfGiPtNmCxY"`
}

// Challenge is a proof of work: find a nonce such that the SHA-256 of challenge, a
// colon and the nonce begins with difficulty zero bits.
type Challenge struct {
	// ChallengeID contains the challenge and its request, sealed. It may have several
	// thousand characters.
	ChallengeID string `json:"challenge_id"`
	Algorithm   string `json:"algorithm" enum:"sha256-hashcash"`
	// Challenge is 32 hexadecimal characters; they are hashed as text.
	Challenge string `json:"challenge"`
	// Difficulty is a number of bits.
	Difficulty int  `json:"difficulty"`
	ExpiresAt  Time `json:"expires_at"`
	// ExpiresIn is a number of seconds.
	ExpiresIn int `json:"expires_in"`
	// Instructions are the same in words.
	Instructions string `json:"instructions"`
}

// Solve has a nonce that solves a challenge: POST /auth/register/solve.
type Solve struct {
	ChallengeID string `json:"challenge_id" required:"true"`
	// Nonce is any text that solves the challenge.
	Nonce string `json:"nonce" required:"true" maxLength:"64" aliases:"solution" example:"48213"`
}

// Credentials authenticate an organization: the answer of POST /auth/register/solve.
type Credentials struct {
	OrgID    parley.OrgID    `json:"org_id"`
	OrgSlug  string          `json:"org_slug"`
	ClientID parley.ClientID `json:"client_id"`
	// ClientSecret is shown only here; the service stores only a hash.
	ClientSecret string `json:"client_secret"`
	TrustTier    int    `json:"trust_tier"`
	// TokenURL is the absolute address of the token endpoint.
	TokenURL  string `json:"token_url"`
	CreatedAt Time   `json:"created_at"`
}

// VerifyEmail submits the token that was mailed to the address given at registration:
// POST /auth/verify-email.
type VerifyEmail struct {
	Token string `json:"token" required:"true" minLength:"1" maxLength:"1024" example:"eyJhbGciOi"`
}

// VerifiedEmail is the organization that the token belongs to.
type VerifiedEmail struct {
	OrgID   parley.OrgID `json:"org_id"`
	OrgSlug string       `json:"org_slug"`
	// TrustTier is the organization's tier after the verification.
	TrustTier int `json:"trust_tier"`
}

// CreateCredential adds a credential: POST /org/credentials.
type CreateCredential struct {
	Description *string `json:"description,omitzero" maxLength:"200" example:"The invoice agent's host."`
	// Scope is org for everything, agents for what some agents do, read for reading.
	Scope string `json:"scope,omitzero" default:"org" enum:"org,agents,read" example:"agents"`
	// AgentIDs are the agents to which the credential is limited. The scope agents needs them.
	AgentIDs []parley.AgentID `json:"agent_ids,omitzero" minItems:"1" maxItems:"100" example:"[\"01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1\"]"`
	// ExpiresAt is when the credential and its tokens end; without it they do not.
	ExpiresAt *Time `json:"expires_at,omitzero" example:"2099-01-01T00:00:00.000000Z"`
}

// Check checks that the scope and the agents fit.
func (in *CreateCredential) Check() []FieldError {
	var wrong string
	switch {
	case in.Scope == string(parley.ScopeAgents) && in.AgentIDs == nil:
		wrong = "the scope agents needs agent_ids"
	case in.Scope == string(parley.ScopeOrg) && in.AgentIDs != nil:
		wrong = "the scope org is not limited to agents"
	default:
		return nil
	}
	return []FieldError{{Loc: []any{"body", "agent_ids"}, Msg: "Value error, " + wrong, Type: valueError}}
}

// Credential is one of an organization's credentials.
type Credential struct {
	ClientID parley.ClientID `json:"client_id"`
	Scope    string          `json:"scope" enum:"org,agents,read"`
	// AgentIDs are the agents to which it is limited; null means that it is not.
	AgentIDs    *[]parley.AgentID `json:"agent_ids"`
	Description *string           `json:"description"`
	CreatedAt   Time              `json:"created_at"`
	ExpiresAt   *Time             `json:"expires_at"`
	RevokedAt   *Time             `json:"revoked_at"`
}

// CreatedCredential is a new credential. ClientSecret is shown only here; the service stores only
// a hash.
type CreatedCredential struct {
	Credential
	ClientSecret string `json:"client_secret"`
}

// ListedCredential is a credential in GET /org/credentials. LastUsedAt is the hour of the last
// token that was issued to it; null means none yet.
type ListedCredential struct {
	Credential
	LastUsedAt *Time `json:"last_used_at"`
}

// DeleteCredential revokes a credential: DELETE /org/credentials/{client_id}.
type DeleteCredential struct {
	ClientID parley.ClientID `json:"-" path:"client_id" required:"true"`
}

// TokenRequest is the body of POST /oauth/token, form-encoded or JSON. The credentials
// may be in it or in the Authorization header, but not in both.
type TokenRequest struct {
	_ struct{} `form:"true"`

	// GrantType is client_credentials. That it is given is checked after the credentials.
	GrantType    string  `json:"grant_type,omitzero" example:"client_credentials"`
	ClientID     *string `json:"client_id,omitzero"`
	ClientSecret *string `json:"client_secret,omitzero"`
	// Scope is ignored; the answer says what was granted.
	Scope *string `json:"scope,omitzero"`
}

// Token is an access token: the answer of POST /oauth/token.
type Token struct {
	// AccessToken is a JWT signed with Ed25519.
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type" enum:"Bearer"`
	// ExpiresIn is the lifetime in seconds.
	ExpiresIn int    `json:"expires_in"`
	Scope     string `json:"scope" enum:"org"`
}

// AuthorizationServer is the answer of GET
// /.well-known/oauth-authorization-server, after RFC 8414.
type AuthorizationServer struct {
	Issuer        string   `json:"issuer"`
	TokenEndpoint string   `json:"token_endpoint"`
	JWKSURI       string   `json:"jwks_uri"`
	Scopes        []string `json:"scopes_supported"`
	// ResponseTypes is empty: there is no authorization endpoint.
	ResponseTypes []string `json:"response_types_supported"`
	GrantTypes    []string `json:"grant_types_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Documentation string   `json:"service_documentation"`
}

// SigningKey is one public key of those with which the service signs access tokens or the
// A2A cards of agents.
type SigningKey struct {
	KeyType string `json:"kty"`
	Curve   string `json:"crv"`
	X       string `json:"x"`
	// Kid is the RFC 7638 thumbprint, the kid in the header of what the key signed.
	Kid       string `json:"kid"`
	Use       string `json:"use" enum:"sig"`
	Algorithm string `json:"alg" enum:"EdDSA"`
}

// SigningKeys is the answer of GET /.well-known/jwks.json: the keys that sign access tokens
// or will soon, those whose tokens may still be valid, then the same for cards, then every
// key that has signed receipts.
type SigningKeys struct {
	Keys []SigningKey `json:"keys"`
}

// CreateReport reports a message, an agent or a group to the operator: POST /reports. Exactly one of
// MessageID, AgentID and GroupID is given.
type CreateReport struct {
	Category string `json:"category" required:"true" enum:"spam,abuse,impersonation,other"`
	// Note is for the operator.
	Note *string `json:"note,omitzero" maxLength:"2000" example:"Sends the same offer every hour."`
	// MessageID is a message that an agent of the organization received.
	MessageID *parley.MessageID `json:"message_id,omitzero"`
	AgentID   *parley.AgentID   `json:"agent_id,omitzero" example:"01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1"`
	// GroupID is a public group, or one in which the organization has an agent.
	GroupID *parley.GroupID `json:"group_id,omitzero"`
}

// Check checks that there is exactly one subject.
func (in *CreateReport) Check() []FieldError {
	n := 0
	for _, given := range []bool{in.MessageID != nil, in.AgentID != nil, in.GroupID != nil} {
		if given {
			n++
		}
	}
	if n != 1 {
		return []FieldError{{Loc: []any{"body", "message_id"}, Msg: "Value error, exactly one of message_id, agent_id and group_id is required", Type: valueError}}
	}
	return nil
}

// ReportFiled names a report. The status is 201, and 200 if the organization has an open one about
// the same subject, which is the answer then.
type ReportFiled struct {
	ReportID parley.ReportID `json:"report_id"`
}
