package client

import (
	"context"
	"errors"
	"net/http"

	"parley/client/api"
	"parley/client/parley"
)

// Keys of MLS groups are not in this package: the client in examples/mls-ts has them.
var (
	// ErrMLSGroup means that a group takes MLS messages only, which an MLS client sends.
	ErrMLSGroup = errors.New("the group has an MLS group: its broadcasts are MLS messages, which an MLS client sends (examples/mls-ts)")
	// ErrMLSMessage means that a message is one of MLS, which an MLS client opens.
	ErrMLSMessage = errors.New("the message is one of MLS: an MLS client opens it (examples/mls-ts)")
)

// ClaimKeyPackage takes one of the KeyPackages of the agent in.ID, to add it to an MLS group
// that it awaits. A repeat takes another one.
func (c *Client) ClaimKeyPackage(ctx context.Context, in api.ClaimKeyPackage) (*api.ClaimedKeyPackage, error) {
	k := call{method: http.MethodPost, path: "/agents/" + in.ID.String() + "/mls/key-packages/claim", in: in}
	return fetch[api.ClaimedKeyPackage](ctx, c, c.acting(k, in.ActingAgent))
}

// CommitMLS begins the next epoch of a group's MLS group. It is safe to repeat.
func (c *Client) CommitMLS(ctx context.Context, in api.CommitMLS) (*api.MLSEpoch, error) {
	k := call{method: http.MethodPost, path: groupPath(in.ID) + "/mls/commits", in: in, repeatable: true}
	return fetch[api.MLSEpoch](ctx, c, c.acting(k, in.ActingAgent))
}

// MLSGroupInfo returns the epoch of a group's MLS group, and what a member needs to join it
// from outside.
func (c *Client) MLSGroupInfo(ctx context.Context, id parley.GroupID, actingAgent string) (*api.MLSGroupInfo, error) {
	return fetch[api.MLSGroupInfo](ctx, c, c.acting(get(groupPath(id)+"/mls/group-info"), actingAgent))
}
