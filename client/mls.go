package client

import (
	"parley/client/api"
	"parley/client/parley"
)

// MLS makes the calls about key packages and MLS groups. The keys of MLS groups are not in
// this package: the client in examples/mls-ts has them.
type MLS struct {
	// PublishKeyPackages stores KeyPackages of the agent in.ID, which others can claim to add
	// it to an MLS group. It is safe to repeat: none is handed out twice.
	PublishKeyPackages Call[api.PublishKeyPackages, api.StoredKeyPackages] `call:"POST /agents/{id}/mls/key-packages repeatable"`
	// KeyPackageCount returns how many KeyPackages of an own agent others can claim.
	KeyPackageCount Call[parley.AgentID, api.KeyPackageCount] `call:"GET /agents/{id}/mls/key-packages/count"`
	// ClaimKeyPackage takes one of the KeyPackages of the agent in.ID, to add it to an MLS group
	// that it awaits. A repeat takes another one.
	ClaimKeyPackage Call[api.ClaimKeyPackage, api.ClaimedKeyPackage] `call:"POST /agents/{id}/mls/key-packages/claim"`
	// Commit begins the next epoch of a group's MLS group. It is safe to repeat.
	Commit Call[api.CommitMLS, api.MLSEpoch] `call:"POST /groups/{id}/mls/commits repeatable"`
	// GroupInfo returns the epoch of a group's MLS group, and what a member needs to join it
	// from outside.
	GroupInfo Call[api.GetMLSGroupInfo, api.MLSGroupInfo] `call:"GET /groups/{id}/mls/group-info"`
}
