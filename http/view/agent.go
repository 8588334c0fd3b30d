package view

import (
	"encoding/base64"

	"parley/actors/agent"
	"parley/actors/org"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
)

// Handle returns the handle of an agent.
func (s *Site) Handle(a *agent.State, o *org.State) string {
	return parley.Handle{Name: a.GetName(), Slug: o.GetSlug(), Domain: s.Domain}.String()
}

// GroupHandle returns #name@slug.domain.
func (s *Site) GroupHandle(name, slug string) string {
	return parley.Handle{Name: name, Slug: slug, Domain: s.Domain, Group: true}.String()
}

// Agent returns an agent of an organization as its owner sees it, without warnings about
// its webhooks.
func (s *Site) Agent(a *agent.State, o *org.State) api.Agent {
	signing, encryption := api.NewJWK(parley.Ed25519, a.GetSigningKey()), api.NewJWK(parley.X25519, a.GetEncryptionKey())
	read := api.Agent{
		ID: a.AgentID(), AgentID: a.AgentID(), OrgID: a.Owner(), Name: a.GetName(), HumanOversight: a.GetHumanOversight(),
		IncomingPolicy: a.GetIncomingPolicy(), OutgoingPolicy: a.GetOutgoingPolicy(), Unlisted: a.GetUnlisted(),
		CreatedAt: api.At(a.CreatedAt()), Handle: new(s.Handle(a, o)), VerificationWords: new(auth.VerificationWords(a.GetSigningKey())),
		SigningPublicKey: &signing, EncryptionPublicKey: &encryption, Warnings: a.Warnings(),
		PQPublicKey: PQKey(a),
	}
	if at, revoked := a.RevokedAt(); revoked {
		read.RevokedAt = new(api.At(at))
	}
	return read
}

// KeyBinding returns the binding at an index among those of an agent.
func KeyBinding(a *agent.State, place int) api.KeyBinding {
	b := a.GetBindings()[place]
	out := api.KeyBinding{
		Signature: base64.RawURLEncoding.EncodeToString(b.GetSignature()), SignedAt: b.GetSignedAt(),
		SigningKid:    parley.Thumbprint(parley.Ed25519, b.GetSigningKey()),
		EncryptionKid: parley.Thumbprint(parley.X25519, b.GetEncryptionKey()),
		Continuity:    a.Continuity(place),
	}
	if previous := b.GetPreviousSignature(); len(previous) > 0 {
		out.PreviousSignature = new(base64.RawURLEncoding.EncodeToString(previous))
	}
	return out
}

// PQKey returns an agent's post-quantum key, nil if it has none.
func PQKey(a *agent.State) *api.PQKey {
	k := a.GetPqKey()
	if k == nil {
		return nil
	}
	return new(api.NewPQKey(k.GetAlgorithm(), k.GetRaw()))
}

// Org returns an organization as it sees itself. // spec: Organization
func Org(o *org.State) api.Org {
	if o == nil {
		return api.Org{}
	}
	return api.Org{
		ID: o.OrgID(), Name: o.GetName(), ContactEmail: OrNull(o.GetContactEmail()), CountryCode: OrNull(o.GetCountryCode()),
		Slug: OrNull(o.GetSlug()), TrustTier: int(o.GetTrustTier()), AgentCount: int(o.GetActiveAgents()), CreatedAt: api.At(o.CreatedAt()),
	}
}
