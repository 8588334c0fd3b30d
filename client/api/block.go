package api

import "parley/client/parley"

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
