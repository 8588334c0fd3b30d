package agents

import (
	"errors"
	"slices"
	"time"

	"parley/actors/agent"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/rest"
	"parley/journal"
)

var errRepeatedResource = parley.ErrBadResource.Saying("resource should be given exactly once")

// WebFinger says where the documents of an active agent are, also of an unlisted one.
// // spec: Directory and discovery (all public, no auth)
func (s Identity) WebFinger(c *rest.Call, in *api.GetWebFinger) (rest.Rendered, error) {
	if len(c.RequestCtx().QueryArgs().PeekMulti("resource")) > 1 {
		return rest.Rendered{}, errRepeatedResource
	}
	h, err := parley.ParseAccount(in.Resource)
	if err != nil {
		return rest.Rendered{}, err
	}
	a, err := s.Agents.Addressed(c, h.String())
	if errors.Is(err, journal.ErrErased) {
		err = access.ErrUnknownAgent
	}
	if err != nil {
		return rest.Rendered{}, err
	}
	out := api.WebFinger{Subject: h.Account(), Aliases: []string{h.DID()}, Links: []api.WebFingerLink{}}
	for _, link := range []api.WebFingerLink{
		{Rel: api.RelSelf, Type: rest.JSONMedia, Href: s.Show.BaseURL + "/agents/" + a.AgentID().String() + "/card"},
		{Rel: api.RelAgentCard, Type: rest.JSONMedia, Href: s.Show.BaseURL + "/.well-known/agent-cards/" + a.AgentID().String() + ".json"},
		{Rel: api.RelDID, Type: api.MediaDID, Href: s.didAddress(h)},
	} {
		if len(in.Rel) == 0 || slices.Contains(in.Rel, link.Rel) {
			out.Links = append(out.Links, link)
		}
	}
	return c.Document(out, s.since(a.CreatedAt()), rest.CacheFiveMinutes)
}

// didAddress returns where a DID document is. A developer's machine has neither names nor
// certificates for the hosts of organizations, so the address is one of the server itself.
func (s Identity) didAddress(h parley.Handle) string {
	if s.Dev {
		return s.Show.BaseURL + "/agents/" + h.Name + "/did.json?org=" + h.Slug
	}
	return h.DIDAddress()
}

// DID returns the DID document of an active agent, also of an unlisted one.
// // spec: Directory and discovery (all public, no auth)
func (s Identity) DID(c *rest.Call, in *api.GetDIDDocument) (rest.Rendered, error) {
	// Some caches do not make the host a part of their key: agents of different
	// organizations may have the same name.
	rest.AddVary(&c.RequestCtx().Response.Header, "Host")
	slug := parley.SlugOfHost(in.Host, s.Show.Domain)
	if s.Dev && in.Org != nil {
		slug = *in.Org
	}
	a, h, err := s.agentAt(c, slug, in.Name)
	if err != nil {
		return rest.Rendered{}, err
	}
	services := []api.DIDService{{ID: "#messaging", Type: api.ServiceMessaging, ServiceEndpoint: s.Show.BaseURL + "/messages"}}
	if a.GetCard().GetA2AEnabled() {
		services = append(services, api.DIDService{ID: "#a2a", Type: api.ServiceA2A, ServiceEndpoint: s.Show.BaseURL + "/a2a/" + h.String()})
	}
	document := api.NewDIDDocument(h, api.NewJWK(parley.Ed25519, a.GetSigningKey()), api.NewJWK(parley.X25519, a.GetEncryptionKey()), services...)
	return c.Document(document, s.since(identityChanged(a, c.Now())), rest.CacheFiveMinutes)
}

// identityChanged returns when an agent's keys or its card last changed. The agent's state
// does not contain when a card was deleted: after that it is now, so that no date matches.
func identityChanged(a *agent.State, now time.Time) time.Time {
	switch {
	case a.GetCard() != nil:
		return a.CardChangedAt()
	case a.GetCardRevision() > 0:
		return now
	}
	return a.KeysChangedAt()
}

// agentAt returns the active agent with a name in the organization with a slug. An agent
// may also be named by its handle or id; then the slug may be empty, which means that the
// request's host belongs to no organization. On the host of an organization no agent of
// another one is found: its keys would otherwise seem to be those of the host's
// organization. The server's own host may have the form of an organization's, but no
// organization can register its slug.
func (s Identity) agentAt(c *rest.Call, slug, name string) (*agent.State, parley.Handle, error) {
	if slug != "" && parley.ValidAgentName(name) {
		h := parley.Handle{Name: name, Slug: slug, Domain: s.Show.Domain}
		a, err := s.Agents.Addressed(c, h.String())
		if _, notID := parley.ParseID[parley.AgentID](name); notID != nil || !errors.Is(err, parley.ErrNotFound) {
			return a, h, err
		}
	}
	a, err := s.Agents.Addressed(c, name)
	if err != nil {
		return nil, parley.Handle{}, err
	}
	text, err := s.Agents.Handle(c.Context(), a)
	if err != nil {
		return nil, parley.Handle{}, err
	}
	h, err := parley.ParseHandle(text)
	if err == nil && slug != "" && slug != s.HostSlug && h.Slug != slug {
		err = access.ErrUnknownAgent
	}
	return a, h, err
}
