package client

import (
	"context"

	"parley/client/api"
	"parley/client/parley"
)

// MLS makes the calls about key packages and MLS groups. The keys of MLS groups are not in
// this package: the client in examples/mls-ts has them.
type MLS struct{ s *Session }

// PublishKeyPackages stores KeyPackages of the agent in.ID, which others can claim to add
// it to an MLS group. It is safe to repeat: none is handed out twice.
func (m MLS) PublishKeyPackages(ctx context.Context, in api.PublishKeyPackages) (*api.StoredKeyPackages, error) {
	return fetch[api.StoredKeyPackages](ctx, m.s, post("/agents/{id}/mls/key-packages").idempotent(), in)
}

// KeyPackageCount returns how many KeyPackages of an own agent others can claim.
func (m MLS) KeyPackageCount(ctx context.Context, id parley.AgentID) (*api.KeyPackageCount, error) {
	return fetch[api.KeyPackageCount](ctx, m.s, get("/agents/{id}/mls/key-packages/count"), api.CountKeyPackages{ID: id})
}

// ClaimKeyPackage takes one of the KeyPackages of the agent in.ID, to add it to an MLS group
// that it awaits. A repeat takes another one.
func (m MLS) ClaimKeyPackage(ctx context.Context, in api.ClaimKeyPackage) (*api.ClaimedKeyPackage, error) {
	return fetch[api.ClaimedKeyPackage](ctx, m.s, post("/agents/{id}/mls/key-packages/claim"), in)
}

// Commit begins the next epoch of a group's MLS group. It is safe to repeat.
func (m MLS) Commit(ctx context.Context, in api.CommitMLS) (*api.MLSEpoch, error) {
	return fetch[api.MLSEpoch](ctx, m.s, post("/groups/{id}/mls/commits").idempotent(), in)
}

// GroupInfo returns the epoch of a group's MLS group, and what a member needs to join it
// from outside.
func (m MLS) GroupInfo(ctx context.Context, in api.GetMLSGroupInfo) (*api.MLSGroupInfo, error) {
	return fetch[api.MLSGroupInfo](ctx, m.s, get("/groups/{id}/mls/group-info"), in)
}
