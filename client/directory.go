package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"parley/client/api"
	"parley/client/parley"
)

// Directory makes the calls about public cards, public groups and identity documents. No
// credentials are needed for them.
type Directory struct {
	// FindAgents returns a page of the public cards that in describes.
	FindAgents Call[api.FindAgents, api.AgentPage] `call:"GET /directory/agents public"`
	// AgentRows is FindAgents without what the page says about the search, for All.
	AgentRows Call[api.FindAgents, api.Page[api.AgentRow]] `call:"GET /directory/agents public"`
	// Categories returns the categories of all public cards, the most frequent first.
	Categories Fetch[[]api.CategoryCount] `call:"GET /directory/categories public"`
	// FindGroups returns a page of the public groups that match in.Query.
	FindGroups Call[api.FindGroups, api.Page[api.GroupProfile]] `call:"GET /directory/groups public"`
	// GroupProfile returns the profile of a public group.
	GroupProfile Call[parley.GroupID, api.GroupProfile] `call:"GET /directory/groups/{id} public"`

	s *Session
}

// ListedAgent returns an agent of the directory, with its card.
func (d Directory) ListedAgent(ctx context.Context, id parley.AgentID) (*api.ListedAgent, error) {
	return branded[api.ListedAgent](ctx, d.s, d.s.call(get("/directory/agents/{id}").forAnyone(), api.GetListedAgent{ID: id}))
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

// Identity is what a server says about one agent in its three public documents.
type Identity struct {
	Keys      *api.AgentKeys
	WebFinger *api.WebFinger
	DID       *api.DIDDocument
}

// Identity returns the identity documents of an agent. The keys come from the client's
// server. So do the other two documents, or from the server found, if it is not nil: that
// of the organization's own host.
func (d Directory) Identity(ctx context.Context, h parley.Handle, found *Session) (*Identity, error) {
	name := h.Name
	if found == nil {
		found, name = d.s, h.String()
	}
	var out Identity
	var err error
	if out.Keys, err = d.s.Keys.Get(ctx, h.String(), ""); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if out.WebFinger, err = found.Directory.WebFinger(ctx, h.Account()); err != nil {
		return nil, fmt.Errorf("WebFinger: %w", err)
	}
	if out.DID, err = found.Directory.DIDDocument(ctx, name); err != nil {
		return nil, fmt.Errorf("DID document: %w", err)
	}
	return &out, nil
}

// Differences compares the documents of the agent with a handle. It returns a sentence for
// each difference, and none if all documents describe the agent with the same two keys.
func (i *Identity) Differences(h parley.Handle) (found []string) {
	check := func(same bool, format string, args ...any) {
		if !same {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	handle := ""
	if i.Keys.Handle != nil {
		handle = *i.Keys.Handle
	}
	check(handle == h.String(), "the keys are those of %q", handle)
	check(i.WebFinger.Subject == h.Account(), "WebFinger is about %q", i.WebFinger.Subject)
	card := "/agents/" + i.Keys.AgentID.String() + "/card"
	check(linked(i.WebFinger, api.RelSelf, card), "WebFinger does not link to %s", card)
	check(slices.Contains(i.WebFinger.Aliases, h.DID()), "WebFinger does not name %s", h.DID())
	check(i.DID.ID == h.DID(), "the DID document is that of %q", i.DID.ID)
	for _, use := range []struct {
		name, curve string
		ids         []string
		key         *api.JWK
	}{
		{"authentication", parley.Ed25519, i.DID.Authentication, i.Keys.SigningPublicKey},
		{"assertionMethod", parley.Ed25519, i.DID.AssertionMethod, i.Keys.SigningPublicKey},
		{"keyAgreement", parley.X25519, i.DID.KeyAgreement, i.Keys.EncryptionPublicKey},
	} {
		check(i.only(use.ids, use.curve, use.key), "the DID document lists another key for %s than the server", use.name)
	}
	return found
}

// only reports whether a DID document lists exactly one key for a use, and this one. Keys
// are compared byte for byte: a kid is what a document says about its key.
func (i *Identity) only(ids []string, curve string, key *api.JWK) bool {
	if len(ids) != 1 || key == nil {
		return false
	}
	want, err := key.Raw(curve)
	if err != nil {
		return false
	}
	var raw []byte
	for _, m := range i.DID.VerificationMethod {
		if m.ID != ids[0] {
			continue
		}
		if raw != nil || m.Controller != i.DID.ID { // an id stands for one key
			return false
		}
		if raw, err = m.PublicKeyJWK.Raw(curve); err != nil {
			return false
		}
	}
	return string(raw) == string(want)
}

// linked reports whether a link of a relation ends in a path.
func linked(w *api.WebFinger, rel, path string) bool {
	for _, link := range w.Links {
		if link.Rel == rel && strings.HasSuffix(link.Href, path) {
			return true
		}
	}
	return false
}
