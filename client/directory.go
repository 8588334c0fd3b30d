package client

import (
	"context"

	"parley/client/api"
	"parley/client/parley"
)

// Directory makes the calls about public cards, public groups and identity documents. No
// credentials are needed for them.
type Directory struct{ s *Session }

// FindAgents returns a page of the public cards that in describes.
func (d Directory) FindAgents(ctx context.Context, in api.FindAgents) (*api.AgentPage, error) {
	return fetch[api.AgentPage](ctx, d.s, get("/directory/agents").forAnyone(), in)
}

// AgentRows is FindAgents without what the page says about the search, for All.
func (d Directory) AgentRows(ctx context.Context, in api.FindAgents) (*api.Page[api.AgentRow], error) {
	return fetch[api.Page[api.AgentRow]](ctx, d.s, get("/directory/agents").forAnyone(), in)
}

// ListedAgent returns an agent of the directory, with its card.
func (d Directory) ListedAgent(ctx context.Context, id parley.AgentID) (*api.ListedAgent, error) {
	return branded[api.ListedAgent](ctx, d.s, d.s.call(get("/directory/agents/{id}").forAnyone(), api.GetListedAgent{ID: id}))
}

// Categories returns the categories of all public cards, the most frequent first.
func (d Directory) Categories(ctx context.Context) ([]api.CategoryCount, error) {
	return array[api.CategoryCount](ctx, d.s, get("/directory/categories").forAnyone(), nil)
}

// FindGroups returns a page of the public groups that match in.Query.
func (d Directory) FindGroups(ctx context.Context, in api.FindGroups) (*api.Page[api.GroupProfile], error) {
	return fetch[api.Page[api.GroupProfile]](ctx, d.s, get("/directory/groups").forAnyone(), in)
}

// GroupProfile returns the profile of a public group.
func (d Directory) GroupProfile(ctx context.Context, id parley.GroupID) (*api.GroupProfile, error) {
	return fetch[api.GroupProfile](ctx, d.s, get("/directory/groups/{id}").forAnyone(), api.GetProfile{ID: id})
}

// WebFinger returns where the documents of an agent are. resource is its URI, such as
// acct:bob@acme.example. With rels, only links with these relations are returned.
func (d Directory) WebFinger(ctx context.Context, resource string, rels ...string) (*api.WebFinger, error) {
	k := d.s.call(get("/.well-known/webfinger").forAnyone(), api.GetWebFinger{Resource: resource, Rel: rels})
	k.header.Set("Accept", api.MediaJRD)
	return perform[api.WebFinger](ctx, d.s, k)
}

// DIDDocument returns the DID document of an active agent, by handle or id. On the host of
// an organization, whose URL is https://org.domain, the name of one of its agents is
// enough.
func (d Directory) DIDDocument(ctx context.Context, agent string) (*api.DIDDocument, error) {
	k := d.s.call(get("/agents/{name}/did.json").forAnyone(), api.GetDIDDocument{Name: agent})
	k.header.Set("Accept", api.MediaDID)
	return perform[api.DIDDocument](ctx, d.s, k)
}
