package api

import "parley/client/parley"

// Policies of an agent. // spec: Agent (AgentRead)
const (
	AcceptAll  = "accept_all"
	SendAll    = "send_all"
	GroupsOnly = "groups_only"
)

// Agent is an agent as its own organization sees it: AgentRead of the specification.
type Agent struct {
	ID parley.AgentID `json:"id"`
	// AgentID is the same as ID.
	AgentID parley.AgentID `json:"agent_id"`
	OrgID   parley.OrgID   `json:"org_id"`
	Name    string         `json:"name"`
	// HumanOversight reports whether a person supervises the agent.
	HumanOversight bool   `json:"human_oversight"`
	IncomingPolicy string `json:"incoming_policy" enum:"accept_all,groups_only"`
	OutgoingPolicy string `json:"outgoing_policy" enum:"send_all,groups_only"`
	// Unlisted keeps the agent out of the public directory.
	Unlisted  bool    `json:"unlisted"`
	CreatedAt Time    `json:"created_at"`
	RevokedAt *Time   `json:"revoked_at"`
	Handle    *string `json:"handle"`
	// VerificationWords are five BIP39 words of the signing key, for people to
	// compare by voice.
	VerificationWords   *string `json:"verification_words"`
	SigningPublicKey    *JWK    `json:"signing_public_key"`
	EncryptionPublicKey *JWK    `json:"encryption_public_key"`
	// PQPublicKey is null if the agent has no post-quantum key.
	PQPublicKey *PQKey `json:"pq_public_key"`
	// Warnings is an empty array if there are none.
	Warnings []string `json:"warnings"`
	// PollURL appears only in the 201 of the agent's creation.
	PollURL *string `json:"poll_url,omitzero"`
}

// CreateAgent creates an agent: POST /agents. No other member is accepted.
type CreateAgent struct {
	_ struct{} `additionalProperties:"false"`

	Name                string `json:"name" required:"true" minLength:"1" maxLength:"200" pattern:"^[a-z0-9](?:[a-z0-9-]{0,198}[a-z0-9])?$" words:"1 to 200 lowercase letters, digits and interior hyphens" example:"bob"`
	SigningPublicKey    *JWK   `json:"signing_public_key" required:"true" example:"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}"`
	EncryptionPublicKey *JWK   `json:"encryption_public_key" required:"true" example:"{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo\"}"`
	HumanOversight      *bool  `json:"human_oversight,omitzero" default:"true"`
	Unlisted            *bool  `json:"unlisted,omitzero" default:"false"`
}

// ListAgents lists the organization's agents, oldest first: GET /agents. The answer is
// a plain array of Agent.
type ListAgents struct {
	IncludeRevoked bool `json:"-" query:"include_revoked" default:"false"`
	Paging
}

// GetAgent gets one agent of the organization: GET /agents/{id}.
type GetAgent struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// AgentPatch has the members of an agent to change; absent ones keep their values: PATCH
// /agents/{id}.
type AgentPatch struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// Name is accepted with its current value; any other is a conflict.
	Name           *string `json:"name,omitzero" minLength:"1" maxLength:"200" pattern:"^[a-z0-9](?:[a-z0-9-]{0,198}[a-z0-9])?$" words:"1 to 200 lowercase letters, digits and interior hyphens"`
	HumanOversight *bool   `json:"human_oversight,omitzero"`
	IncomingPolicy *string `json:"incoming_policy,omitzero" enum:"accept_all,groups_only"`
	OutgoingPolicy *string `json:"outgoing_policy,omitzero" enum:"send_all,groups_only"`
	Unlisted       *bool   `json:"unlisted,omitzero" example:"true"`
}

// DeleteAgent revokes an agent permanently: DELETE /agents/{id}.
type DeleteAgent struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// UploadKeys rotates one or both keys of an agent: POST /agents/{id}/keys.
type UploadKeys struct {
	ID                  parley.AgentID `json:"-" path:"id" required:"true"`
	SigningPublicKey    *JWK           `json:"signing_public_key,omitzero"`
	EncryptionPublicKey *JWK           `json:"encryption_public_key,omitzero" example:"{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo\"}"`
	// KeyBinding binds the keys that are current afterwards. It is checked together
	// with them: either the whole request takes effect or nothing does.
	KeyBinding *KeyProof `json:"key_binding,omitzero"`
}

// GetKeys gets the public keys of any active agent: GET /agents/{id}/keys.
type GetKeys struct {
	// ID is the agent's id or its handle.
	ID string `json:"-" path:"id" required:"true"`
	// Kid names a key, which may be a former one. The answer then has this key in place
	// of the current key on its curve.
	Kid *string `json:"-" query:"kid" maxLength:"255"`
}

// GetBatchKeys gets the keys of many agents: GET /agents/keys?ids=a,b,c.
type GetBatchKeys struct {
	// IDs are at most 200, separated by commas, given as one parameter or several.
	IDs []parley.AgentID `json:"-" query:"ids" required:"true" maxItems:"200" split:"true"`
}

// BatchKeys is the answer of GET /agents/keys. Revoked and unknown agents are left out.
type BatchKeys struct {
	Keys map[parley.AgentID]AgentKeys `json:"keys"`
}

// PollToken is the answer of POST /agents/{id}/poll-token.
type PollToken struct {
	// PollURL is absolute. Its token replaces the previous one.
	PollURL string `json:"poll_url"`
}

// CreatePollToken replaces the agent's poll token: POST /agents/{id}/poll-token.
type CreatePollToken struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// DeletePollToken revokes the agent's poll token: DELETE /agents/{id}/poll-token.
type DeletePollToken struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// Poll counts an agent's messages without authentication: GET /poll/{token}.
type Poll struct {
	Token string `json:"-" path:"token" required:"true"`
	// Since is exclusive; its default is 24 hours ago.
	Since *Time `json:"-" query:"since" format:"date-time"`
}

// PollCount is the number of messages that arrived since the given time.
type PollCount struct {
	Count int `json:"count"`
}

// PutBlock blocks an agent or an organization for an agent: PUT /agents/{id}/blocks/{other}. The
// answer is 204, also if it is blocked already.
type PutBlock struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// Other is the id or handle of an agent, or the id of an organization.
	Other string `json:"-" path:"other" required:"true"`
}

// DeleteBlock ends a block: DELETE /agents/{id}/blocks/{other}. The answer is 204, also if there is
// none.
type DeleteBlock struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// Other is the id or handle of an agent, or the id of an organization.
	Other string `json:"-" path:"other" required:"true"`
}

// ListBlocks lists what an agent blocks, oldest first: GET /agents/{id}/blocks. The answer is a
// Page of Block.
type ListBlocks struct {
	ID     parley.AgentID `json:"-" path:"id" required:"true"`
	Cursor *string        `json:"-" query:"cursor"`
	Limit  int            `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
}

// Block is an agent, or a whole organization, that an agent blocks.
type Block struct {
	// AgentID is null if the whole organization is blocked.
	AgentID *parley.AgentID `json:"agent_id"`
	OrgID   parley.OrgID    `json:"org_id"`
	// Handle is that of the agent; null for an organization, and for an agent whose organization
	// was erased.
	Handle    *string `json:"handle"`
	CreatedAt Time    `json:"created_at"`
}
