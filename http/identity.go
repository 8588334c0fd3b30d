package http

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"parley/actors/agent"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/rest"
	"parley/journal"
)

var errRepeatedResource = parley.ErrBadResource.Saying("resource should be given exactly once")

// webFinger says where the documents of an active agent are, also of an unlisted one.
// // spec: Directory and discovery (all public, no auth)
func (s identity) webFinger(c *rest.Call, in *api.GetWebFinger) (rest.Rendered, error) {
	if len(c.RequestCtx().QueryArgs().PeekMulti("resource")) > 1 {
		return rest.Rendered{}, errRepeatedResource
	}
	h, err := parley.ParseAccount(in.Resource)
	if err != nil {
		return rest.Rendered{}, err
	}
	a, err := s.activeAgent(c, h.String())
	if errors.Is(err, journal.ErrErased) {
		err = access.ErrUnknownAgent
	}
	if err != nil {
		return rest.Rendered{}, err
	}
	out := api.WebFinger{Subject: h.Account(), Aliases: []string{h.DID()}, Links: []api.WebFingerLink{}}
	for _, link := range []api.WebFingerLink{
		{Rel: api.RelSelf, Type: rest.JSONMedia, Href: s.BaseURL + "/agents/" + a.AgentID().String() + "/card"},
		{Rel: api.RelAgentCard, Type: rest.JSONMedia, Href: s.BaseURL + "/.well-known/agent-cards/" + a.AgentID().String() + ".json"},
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
func (s identity) didAddress(h parley.Handle) string {
	if s.Dev {
		return s.BaseURL + "/agents/" + h.Name + "/did.json?org=" + h.Slug
	}
	return h.DIDAddress()
}

// did returns the DID document of an active agent, also of an unlisted one.
// // spec: Directory and discovery (all public, no auth)
func (s identity) did(c *rest.Call, in *api.GetDIDDocument) (rest.Rendered, error) {
	// Some caches do not make the host a part of their key: agents of different
	// organizations may have the same name.
	c.SetHeader(fasthttp.HeaderVary, fasthttp.HeaderHost)
	slug := parley.SlugOfHost(in.Host, s.Domain)
	if s.Dev && in.Org != nil {
		slug = *in.Org
	}
	a, h, err := s.agentAt(c, slug, in.Name)
	if err != nil {
		return rest.Rendered{}, err
	}
	services := []api.DIDService{{ID: "#messaging", Type: api.ServiceMessaging, ServiceEndpoint: s.BaseURL + "/messages"}}
	if a.GetCard().GetA2AEnabled() {
		services = append(services, api.DIDService{ID: "#a2a", Type: api.ServiceA2A, ServiceEndpoint: s.BaseURL + "/a2a/" + h.String()})
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
func (s identity) agentAt(c *rest.Call, slug, name string) (*agent.State, parley.Handle, error) {
	if slug != "" && parley.ValidAgentName(name) {
		h := parley.Handle{Name: name, Slug: slug, Domain: s.Domain}
		a, err := s.activeAgent(c, h.String())
		if _, notID := parley.ParseID[parley.AgentID](name); notID != nil || !errors.Is(err, parley.ErrNotFound) {
			return a, h, err
		}
	}
	a, err := s.activeAgent(c, name)
	if err != nil {
		return nil, parley.Handle{}, err
	}
	text, err := s.agents.Handle(c.Context(), a)
	if err != nil {
		return nil, parley.Handle{}, err
	}
	h, err := parley.ParseHandle(text)
	if err == nil && slug != "" && slug != s.hostSlug && h.Slug != slug {
		err = access.ErrUnknownAgent
	}
	return a, h, err
}

// activeAgent is publicAgent, except that there is no agent with a malformed name.
func (s identity) activeAgent(c *rest.Call, name string) (*agent.State, error) {
	if _, notID := parley.ParseID[parley.AgentID](name); notID != nil && !strings.Contains(name, "@") {
		return nil, access.ErrUnknownAgent
	}
	a, err := s.agents.Public(c, name)
	if errors.Is(err, parley.ErrBadHandle) {
		return nil, access.ErrUnknownAgent
	}
	return a, err
}

// since returns when a document last changed that depends on the server's settings too: a
// restart may have changed them.
func (s *core) since(changed time.Time) time.Time {
	if started := time.Unix(s.started, 0); started.After(changed) {
		return started
	}
	return changed
}
