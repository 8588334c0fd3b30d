package a2a

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/org"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
)

const (
	// cardsBytesMax bounds the signed cards that are kept, in bytes of JSON.
	cardsBytesMax = 16 << 20
	// policiesBytesMax bounds what is kept of which content agents accept, policyBytes is what
	// that takes of one besides its media types.
	policiesBytesMax, policyBytes = 4 << 20, 256
)

// ErrNotEnabled rejects requests to an agent whose card does not have a2a_enabled.
var ErrNotEnabled = parley.ErrNotFound.Saying("The agent is not A2A-enabled.")

// CardOptions configure Cards.
type CardOptions struct {
	// BaseURL is the public address, without a trailing slash.
	BaseURL string
	// Brand is the name of the extension of cards.
	Brand string
	Clock parley.Clock
	Node  *actors.Node
	// Show returns a card as GET /agents/{id}/card shows it.
	Show func(*agent.State, *org.State, *record.Card) api.Card
	// Changed returns when any of it last changed.
	Changed func(*agent.State, *org.State) time.Time
	// Keys sign. An empty set means that cards are rejected as overloaded until SetKeys is
	// called.
	Keys auth.KeySet
}

// Cards makes and signs the A2A cards of agents. It keeps signed cards as long as nothing
// that they show has changed. It is safe for concurrent use.
type Cards struct {
	CardOptions
	keys   atomic.Pointer[auth.KeySet]
	signed *otter.Cache[parley.AgentID, signedCard]
	// policies has what the messages of each task need of a card, so that they need not
	// read it.
	policies *otter.Cache[parley.AgentID, policy]
	// forgotten counts organizations that were erased. What was made of one while it was
	// erased is not kept.
	forgotten atomic.Uint64
}

// Document is a JSON document and when it last changed.
type Document struct {
	JSON    []byte
	Changed time.Time
}

// signedCard is the JSON of a card and what it was made of.
type signedCard struct {
	of    cardVersion
	owner parley.OrgID
	json  []byte
}

// cardVersion is everything that a card depends on and that can change while the server
// runs. Handles do not: neither names nor slugs change.
type cardVersion struct {
	kid                 string
	revision            uint32
	signing, encryption string
	oversight           bool
	tier                int32
}

// NewCards returns cards that are signed with the keys in its options.
func NewCards(o CardOptions) *Cards {
	c := &Cards{CardOptions: o, signed: otter.Must(&otter.Options[parley.AgentID, signedCard]{
		MaximumWeight: cardsBytesMax,
		Weigher:       func(_ parley.AgentID, card signedCard) uint32 { return uint32(len(card.json)) },
	}), policies: otter.Must(&otter.Options[parley.AgentID, policy]{
		MaximumWeight: policiesBytesMax,
		Weigher:       func(_ parley.AgentID, p policy) uint32 { return p.bytes() },
	})}
	c.SetKeys(o.Keys)
	return c
}

// SetKeys replaces all keys at once.
func (c *Cards) SetKeys(keys auth.KeySet) { c.keys.Store(&keys) }

// Keys returns the keys in use.
func (c *Cards) Keys() auth.KeySet { return *c.keys.Load() }

// Card returns the signed card of an active agent. The error is ErrNotEnabled if the bridge
// does not serve the agent.
func (c *Cards) Card(ctx context.Context, a *agent.State) (Document, error) {
	if !a.GetCard().GetA2AEnabled() {
		return Document{}, ErrNotEnabled
	}
	o, err := c.Node.Orgs.Get(ctx, a.Owner())
	if err != nil {
		return Document{}, err
	}
	key := c.Keys().Current
	changed := c.Changed(a, o)
	if since := c.signsSince(key); since.After(changed) {
		changed = since
	}
	version := cardVersion{
		kid: key.Kid, revision: a.GetCardRevision(), signing: string(a.GetSigningKey()), encryption: string(a.GetEncryptionKey()),
		oversight: a.GetHumanOversight(), tier: o.GetTrustTier(),
	}
	if kept, ok := c.signed.GetIfPresent(a.AgentID()); ok && kept.of == version {
		return Document{kept.json, changed}, nil
	}
	forgotten := c.forgotten.Load()
	stored, err := c.Node.Agents.Card(ctx, a.AgentID())
	if err != nil {
		return Document{}, err
	}
	card, err := NewCard(c.Show(a, o, stored), c.BaseURL, c.Brand)
	if err != nil {
		return Document{}, err
	}
	signed, err := Sign(card, key, c.BaseURL+"/.well-known/jwks.json")
	if err != nil {
		return Document{}, err
	}
	if stored.GetRevision() == version.revision { // otherwise a newer one was published meanwhile
		keep(c, c.signed, a.AgentID(), signedCard{version, a.Owner(), signed}, forgotten)
	}
	return Document{signed, changed}, nil
}

// keep caches what was made of an agent's card, unless an organization was erased since
// forgotten was read: it may be this one.
func keep[V any](c *Cards, in *otter.Cache[parley.AgentID, V], id parley.AgentID, value V, forgotten uint64) {
	in.Set(id, value)
	if c.forgotten.Load() != forgotten {
		in.Invalidate(id)
	}
}

// forget drops what is kept of an organization that was erased.
func (c *Cards) forget(org parley.OrgID) {
	c.forgotten.Add(1)
	for id, card := range c.signed.All() {
		if card.owner == org {
			c.signed.Invalidate(id)
		}
	}
	for id, kept := range c.policies.All() {
		if kept.of == org {
			c.policies.Invalidate(id)
		}
	}
}

// signsSince returns when a key began to sign, or later: most are published for a while before.
func (c *Cards) signsSince(key auth.SigningKey) time.Time {
	if published := key.Created.Add(parley.SigningKeyPublication); !published.After(c.Clock()) {
		return published
	}
	return key.Created
}

// Extended returns the card for authenticated callers: the signed card, and below the brand
// the extension as GET /agents/{id}/card shows it. // spec: A2A bridge
func (c *Cards) Extended(ctx context.Context, a *agent.State) ([]byte, error) {
	signed, err := c.Card(ctx, a)
	if err != nil {
		return nil, err
	}
	o, err := c.Node.Orgs.Get(ctx, a.Owner())
	if err != nil {
		return nil, err
	}
	stored, err := c.Node.Agents.Card(ctx, a.AgentID())
	if err != nil {
		return nil, err
	}
	return Extend(signed.JSON, c.Brand, c.Show(a, o, stored).Extension)
}
