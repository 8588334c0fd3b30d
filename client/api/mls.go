package api

import "parley/client/parley"

// CommitMLS begins the next epoch of a group's MLS group: POST /groups/{id}/mls/commits. Binary
// values are base64url. The first commit, made in epoch 0 by an admin, begins the MLS group.
type CommitMLS struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the committer; by default the organization's only active agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	// Epoch is the epoch that the commit is made in.
	Epoch int64 `json:"epoch" required:"true" minimum:"0"`
	// Commit is an MLSMessage with a public or private message of content type commit.
	Commit string `json:"commit" required:"true" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
	// Welcome is for the members in added, and is there if there are any. It contains the
	// ratchet tree.
	Welcome *string `json:"welcome,omitzero" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
	// GroupInfo is that of the next epoch, with the extensions ratchet_tree and external_pub.
	GroupInfo string `json:"group_info" required:"true" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
	// Added are the members that the commit adds. An external commit adds its committer.
	Added []parley.AgentID `json:"added,omitzero"`
	// Removed are agents whose leaves the commit removes: agents that have left the group,
	// or members, whose membership ends with the commit.
	Removed []parley.AgentID `json:"removed,omitzero"`
}

// MLSEpoch is the epoch that a commit began.
type MLSEpoch struct {
	// Epoch is the epoch that the commit began.
	Epoch uint64 `json:"epoch" required:"true"`
}

// ListMLSCommits lists the commits of a group's MLS group in their order: GET
// /groups/{id}/mls/commits. The answer is a Page of MLSCommit. A member sees all of them, an
// agent that a commit removed those up to that one.
type ListMLSCommits struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the agent that reads; by default the organization's only active agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// SinceEpoch leaves out commits that were made in earlier epochs.
	SinceEpoch int64   `json:"-" query:"since_epoch" default:"0" minimum:"0"`
	Limit      int     `json:"-" query:"limit" default:"50" minimum:"1" maximum:"100"`
	Cursor     *string `json:"-" query:"cursor"`
}

// MLSCommit is a commit with the epoch that it was made in and the member that made it.
type MLSCommit struct {
	// Epoch is the epoch that the commit was made in.
	Epoch uint64 `json:"epoch" required:"true"`
	// Commit is the MLSMessage as it was sent, in base64url.
	Commit      string         `json:"commit" required:"true"`
	CommittedBy parley.AgentID `json:"committed_by" required:"true"`
	CreatedAt   Time           `json:"created_at" required:"true"`
}

// GetMLSGroupInfo gets what a member needs to join a group's MLS group from outside: GET
// /groups/{id}/mls/group-info.
type GetMLSGroupInfo struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the agent that reads; by default the organization's only active agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// MLSGroupInfo is the GroupInfo of the present epoch.
type MLSGroupInfo struct {
	Epoch uint64 `json:"epoch" required:"true"`
	// GroupInfo is in base64url, as the committer sent it.
	GroupInfo   string `json:"group_info" required:"true"`
	CipherSuite int    `json:"cipher_suite" required:"true"`
}

// ListMLSWelcomes lists the Welcomes that the acting agent has not acknowledged, oldest first:
// GET /groups/{id}/mls/welcomes. The answer is a Page of MLSWelcome.
type ListMLSWelcomes struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the agent that reads; by default the organization's only active agent.
	ActingAgent string  `json:"-" header:"X-Svc-Agent"`
	Limit       int     `json:"-" query:"limit" default:"50" minimum:"1" maximum:"100"`
	Cursor      *string `json:"-" query:"cursor"`
}

// MLSWelcome is a Welcome to a group's MLS group.
type MLSWelcome struct {
	ID parley.AnyID `json:"id" required:"true"`
	// Epoch is the epoch that it leads to.
	Epoch uint64 `json:"epoch" required:"true"`
	// Welcome is in base64url, as the committer sent it.
	Welcome   string `json:"welcome" required:"true"`
	CreatedAt Time   `json:"created_at" required:"true"`
}

// AcknowledgeMLSWelcome drops a Welcome of the acting agent, which has joined the MLS group: DELETE
// /groups/{id}/mls/welcomes/{welcome_id}.
type AcknowledgeMLSWelcome struct {
	ID        parley.GroupID `json:"-" path:"id" required:"true"`
	WelcomeID parley.AnyID   `json:"-" path:"welcome_id" required:"true"`
	// ActingAgent is the agent that has the Welcome; by default the organization's only active
	// agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
}

// PublishKeyPackages stores MLS key packages of an agent, with which others can add it to MLS
// groups: POST /agents/{id}/mls/key-packages. Each is a key package of RFC 9420, bare or as an
// MLS message, in base64url. Its signature key is the agent's current Ed25519 key, and its
// credential a basic one with the agent's handle in lower case.
type PublishKeyPackages struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// KeyPackages are the key packages that are handed out once each.
	KeyPackages []string `json:"key_packages" required:"true" maxItems:"100" maxLength:"21848" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
	// LastResort is handed out, again and again, when none of the others is left. It
	// replaces the one before.
	LastResort *string `json:"last_resort,omitzero" maxLength:"21848" pattern:"^[A-Za-z0-9_-]+={0,2}$" words:"base64url: letters, digits, - and _, with at most two = at the end"`
}

// StoredKeyPackages is what became of uploaded MLS key packages.
type StoredKeyPackages struct {
	// Stored is how many of the key packages were new. One that was uploaded before is not
	// stored again, even if it was claimed since.
	Stored int `json:"stored" required:"true"`
	// Available is how many others can claim now, that of last resort apart.
	Available int `json:"available" required:"true"`
}

// CountKeyPackages counts an agent's key packages: GET /agents/{id}/mls/key-packages/count.
type CountKeyPackages struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// KeyPackageCount is how many MLS key packages of an agent others can claim now.
type KeyPackageCount struct {
	// Available is how many there are, that of last resort apart.
	Available int `json:"available" required:"true"`
	// LastResort: there is one of last resort.
	LastResort bool `json:"last_resort" required:"true"`
}

// ClaimKeyPackage takes one of an agent's key packages, to add it to an MLS group: POST
// /agents/{id}/mls/key-packages/claim.
type ClaimKeyPackage struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// ActingAgent is the agent that claims; by default the organization's only active agent.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`
	// CipherSuite is the number of the cipher suite that the key package should have; by
	// default any.
	CipherSuite *int `json:"cipher_suite,omitzero" minimum:"1" maximum:"65535" example:"1"`
}

// ClaimedKeyPackage is what the claiming member needs to add the agent with a commit.
type ClaimedKeyPackage struct {
	// KeyPackage is in base64url, as the agent uploaded it.
	KeyPackage  string `json:"key_package" required:"true"`
	CipherSuite int    `json:"cipher_suite" required:"true"`
	// LastResort: others may get the same key package.
	LastResort bool `json:"last_resort" required:"true"`
}
