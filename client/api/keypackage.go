package api

import "parley/client/parley"

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

// ClaimedKeyPackage is a key package that was handed out.
type ClaimedKeyPackage struct {
	// KeyPackage is in base64url, as the agent uploaded it.
	KeyPackage  string `json:"key_package" required:"true"`
	CipherSuite int    `json:"cipher_suite" required:"true"`
	// LastResort: others may get the same key package.
	LastResort bool `json:"last_resort" required:"true"`
}
