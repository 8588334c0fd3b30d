package api

import "parley/client/parley"

// KeyLog is the answer of GET /key-log: what it takes to verify the log's checkpoints.
type KeyLog struct {
	// Origin is the first line of every checkpoint, and the name of the key that signs them.
	Origin string `json:"origin"`
	// VerifierKey is the key in the form of signed notes: name, key hash and key.
	VerifierKey string `json:"verifier_key"`
	// Keys has the same key as a JWK.
	Keys []SigningKey `json:"keys"`
}

// GetInclusionProof proves that the leaf at an index is in the tree of the first entries of
// the log: GET /key-log/proofs/inclusion.
type GetInclusionProof struct {
	Index int `json:"-" query:"index" required:"true" minimum:"0" maximum:"9007199254740991" example:"0"`
	// Size is that of a checkpoint.
	Size int `json:"-" query:"size" required:"true" minimum:"1" maximum:"9007199254740991" example:"1"`
}

// GetConsistencyProof proves that one tree of the log begins with an earlier one: GET
// /key-log/proofs/consistency.
type GetConsistencyProof struct {
	// From is the size of the earlier tree.
	From int `json:"-" query:"from" required:"true" minimum:"1" maximum:"9007199254740991" example:"1"`
	To   int `json:"-" query:"to" required:"true" minimum:"1" maximum:"9007199254740991" example:"1"`
}

// KeyLogProof is a proof by hashes of the tree, in the order of RFC 6962.
type KeyLogProof struct {
	// Hashes are 32 bytes each, in base64.
	Hashes []string `json:"hashes"`
}

// GetKeyLogEntries lists the entries of any agent in the key log, oldest first: GET
// /agents/{id}/key-log. The answer is a page of KeyLogEntry.
type GetKeyLogEntries struct {
	// ID is the agent's id or its handle.
	ID     string  `json:"-" path:"id" required:"true"`
	Limit  int     `json:"-" query:"limit" minimum:"1" maximum:"200" default:"100"`
	Cursor *string `json:"-" query:"cursor"`
}

// KeyLogEntry is one event about an agent's keys: what a leaf of the key log commits to. Kids
// are those of the keys in force after the event.
type KeyLogEntry struct {
	// Index is the number of the leaf in the log; null if it is not there yet.
	Index   *int           `json:"index"`
	AgentID parley.AgentID `json:"agent_id"`
	// Address is the agent's handle without the domain.
	Address string `json:"address"`
	// Number counts the entries of the agent, from 0.
	Number        int     `json:"number"`
	Kind          string  `json:"kind" enum:"created,keys,binding,retired,pq,pq_removed,revoked"`
	SigningKid    string  `json:"signing_kid"`
	EncryptionKid string  `json:"encryption_kid"`
	PQKid         *string `json:"pq_kid"`
	// Subject is the kid of a retired key, or the SHA-256 of the signature of a binding in
	// base64url; null for other kinds.
	Subject *string `json:"subject"`
	// At is part of the committed text, byte for byte.
	At string `json:"at"`
	// Salt is 32 bytes in base64url.
	Salt string `json:"salt"`
}
