package client

import (
	"context"
	"net/http"

	"parley/client/api"
	"parley/client/parley"
)

// PublishKeyPackages stores MLS KeyPackages of the agent in.ID, which others can claim to
// add it to an MLS group. It is safe to repeat: none is handed out twice.
func (c *Client) PublishKeyPackages(ctx context.Context, in api.PublishKeyPackages) (*api.StoredKeyPackages, error) {
	return fetch[api.StoredKeyPackages](ctx, c, call{method: http.MethodPost, path: "/agents/" + in.ID.String() + "/mls/key-packages", in: in, repeatable: true})
}

// KeyPackageCount returns how many MLS KeyPackages of an own agent others can claim.
func (c *Client) KeyPackageCount(ctx context.Context, id parley.AgentID) (*api.KeyPackageCount, error) {
	return fetch[api.KeyPackageCount](ctx, c, call{method: http.MethodGet, path: "/agents/" + id.String() + "/mls/key-packages/count", repeatable: true})
}
