package client

import (
	"context"

	"parley/client/api"
	"parley/client/parley"
)

// Org makes the calls about the session's own organization.
type Org struct{ s *Session }

// Get returns the organization's record.
func (o Org) Get(ctx context.Context) (*api.Org, error) {
	return fetch[api.Org](ctx, o.s, get("/org"), nil)
}

// Update changes the organization.
func (o Org) Update(ctx context.Context, in api.OrgPatch) (*api.Org, error) {
	return fetch[api.Org](ctx, o.s, patch("/org"), in)
}

// Quotas returns the organization's limits and their use.
func (o Org) Quotas(ctx context.Context) (*api.Quotas, error) {
	return fetch[api.Quotas](ctx, o.s, get("/org/quotas"), nil)
}

// CreateCredentials creates another pair of credentials; the first stays valid.
func (o Org) CreateCredentials(ctx context.Context) (*Credentials, error) {
	return fetch[Credentials](ctx, o.s, post("/org/credentials"), nil)
}

// DeleteCredentials revokes a pair of credentials and the tokens issued for it.
func (o Org) DeleteCredentials(ctx context.Context, id parley.ClientID) error {
	return o.s.exec(ctx, remove("/org/credentials/{client_id}"), api.DeleteCredentials{ClientID: id})
}

// Erase erases the organization and everything that belongs to it, for good. It returns
// when that is complete. Repeating it with the same access token gives the same result.
func (o Org) Erase(ctx context.Context, id parley.OrgID) (*api.Erasure, error) {
	return fetch[api.Erasure](ctx, o.s, remove("/orgs/{id}").idempotent(), api.EraseOrg{ID: id})
}
