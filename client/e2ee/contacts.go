package e2ee

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// keyFreshness is how long an answer about an agent's keys is reused for further messages
// of that agent. A key that was replaced in this time may still count as the current one.
const keyFreshness = 30 * time.Second

// contact is what a session knows about a sender.
type contact struct {
	at time.Time
	// pin is nil if there is none, because the served keys were refused.
	pin *Pin
	// current is the signing key that the service publishes, empty if there is none.
	current string
	// refused is why the served keys do not match the pin.
	refused error
}

func (c *contact) has(kid string) bool {
	if c.pin == nil {
		return false
	}
	_, _, known := c.pin.signer(kid)
	return known
}

// record is the service's answer about a key and the time of the request. The answer is
// nil if the service knows no such key.
type record struct {
	at time.Time
	*api.KeyRecord
}

var (
	// ErrKeyReplaced means that a message was signed with a signing key after its agent
	// had replaced it: it may come from a thief of the old key.
	ErrKeyReplaced = errors.New("the message is signed with a key that its sender had replaced before")
	// ErrKeyRetired means that a message was signed with a key that its agent has marked
	// as untrusted.
	ErrKeyRetired = errors.New("the message is signed with a key that its sender had retired before")
	// ErrOtherHandle means that a message names a handle other than its sender's, or that
	// the service returned the keys of another agent than the requested one.
	ErrOtherHandle = errors.New("the service names another agent than the one meant")
)

// Contacts are the agents that a session has met. It judges the keys that the service
// returns for them by the pins.
type Contacts struct {
	session *client.Session
	ring    *KeyRing
	clock   parley.Clock

	mu       sync.Mutex
	pins     *Pins
	accepted map[string]bool
	known    map[parley.AgentID]*contact
	records  map[signer]record
}

// signer names a signing key of an agent.
type signer struct {
	agent parley.AgentID
	kid   string
}

const signersMax = 4096

// Accept makes the session accept exactly these keys, by their ids, where it would
// refuse them with a KeyChangedError. They are pinned when the session sees them.
func (k *Contacts) Accept(kids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.accepted == nil {
		k.accepted = map[string]bool{}
	}
	for _, kid := range kids {
		k.accepted[kid] = true
	}
}

// Pins returns the remembered keys of other agents, which are stored beside the session's
// ring.
func (k *Contacts) Pins() *Pins {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pins == nil {
		k.pins = pinsBeside(k.ring.Path())
	}
	return k.pins
}

func (k *Contacts) judge() *judge {
	k.mu.Lock()
	defer k.mu.Unlock()
	accepted := map[string]bool{}
	for kid := range k.accepted {
		accepted[kid] = true
	}
	return &judge{c: k.session, brand: k.session.Brand(), accepted: accepted, now: k.clock().UTC()}
}

// recipient returns the encryption keys of an agent, by handle or id, if they are the
// pinned ones or lead from them.
func (k *Contacts) recipient(ctx context.Context, to string) (*api.AgentKeys, error) {
	keys, err := k.session.Keys.Get(ctx, to, "")
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", to, err)
	}
	if !meant(keys, to) {
		return nil, fmt.Errorf("keys of %s: %w", to, ErrOtherHandle)
	}
	refused, err := k.meet(ctx, true, *keys)
	if err != nil {
		return nil, err
	}
	return keys, refused[keys.AgentID]
}

// meant reports whether keys belong to the requested agent.
func meant(keys *api.AgentKeys, to string) bool {
	if id, err := parley.ParseID[parley.AgentID](to); err == nil {
		return keys.AgentID == id
	}
	return keys.Handle != nil && strings.EqualFold(*keys.Handle, to)
}

// meet judges served keys by the pins and stores the resulting pins. It returns refused
// keys by agent; the error is any other failure.
func (k *Contacts) meet(ctx context.Context, writing bool, keys ...api.AgentKeys) (refused map[parley.AgentID]error, err error) {
	refused = map[parley.AgentID]error{}
	for rounds := 0; len(keys) > 0; rounds++ {
		if rounds > 10 {
			return nil, errors.New("the pinned keys change all the time")
		}
		changes, failed := k.judgeAll(ctx, writing, keys, refused)
		if len(changes) == 0 {
			return refused, failed
		}
		// Also after a failure: the next attempt has fewer agents left.
		stale, err := k.Pins().apply(k.session.BaseURL(), changes)
		if err := errors.Join(failed, err); err != nil {
			return nil, err
		}
		keys = concerned(keys, stale)
	}
	return refused, nil
}

// judgeAll returns the changes of pins that served keys lead to, up to the first that
// could not be judged.
func (k *Contacts) judgeAll(ctx context.Context, writing bool, keys []api.AgentKeys, refused map[parley.AgentID]error) (changes []pinChange, err error) {
	j := k.judge()
	for i := range keys {
		was, err := k.Pins().of(k.session.BaseURL(), &keys[i])
		if err != nil {
			return changes, err
		}
		is, err := j.judge(ctx, was, &keys[i])
		if lastingKeyError(err) {
			refused[keys[i].AgentID] = err
			continue
		}
		if err != nil {
			return changes, err
		}
		if is.touch(j.now, writing) || !is.same(was) {
			changes = append(changes, pinChange{was, is})
		}
	}
	return changes, nil
}

// concerned returns the keys whose pins another session changed meanwhile.
func concerned(keys []api.AgentKeys, stale []pinChange) (left []api.AgentKeys) {
	for _, one := range keys {
		for _, c := range stale {
			if c.is.AgentID == one.AgentID {
				left = append(left, one)
				break
			}
		}
	}
	return left
}

// lastingKeyError reports whether an agent's keys are refused permanently.
func lastingKeyError(err error) bool {
	var changed *KeyChangedError
	return errors.As(err, &changed) || errors.Is(err, ErrNoEncryptionKey) || errors.Is(err, ErrKeysIncomplete)
}

// CheckKeys judges an agent's served keys by the pins and changes nothing. It returns the
// pin, nil if there is none, and a *KeyChangedError if a session would refuse the keys.
func CheckKeys(ctx context.Context, c *client.Session, pins *Pins, keys *api.AgentKeys) (*Pin, error) {
	pin, err := pins.of(c.BaseURL(), keys)
	if err != nil {
		return nil, err
	}
	_, err = (&judge{c: c, brand: c.Brand(), now: c.Clock()()}).judge(ctx, pin, keys)
	return pin, err
}

// touch records a use of the pin. It reports whether the change is worth storing.
func (p *Pin) touch(now time.Time, writing bool) bool {
	worth := now.Sub(p.UsedAt) >= pinTouch || writing && !p.WroteTo
	if worth {
		p.UsedAt, p.WroteTo = now, p.WroteTo || writing
	}
	return worth
}

// of returns the pin that applies to served keys: that of their agent's id, because an id
// does not change its handle, else that of their handle.
func (p *Pins) of(server string, keys *api.AgentKeys) (*Pin, error) {
	if pin, err := p.FindAgent(server, keys.AgentID); pin != nil || err != nil || keys.Handle == nil {
		return pin, err
	}
	return p.Find(server, *keys.Handle)
}

// sender returns what the session knows about the sender of a message. It asks the
// service if that is not fresh, or lacks the key of a kid, which may be new.
func (k *Contacts) sender(ctx context.Context, from parley.AgentID, kid string) (*contact, error) {
	now := k.clock()
	k.mu.Lock()
	known := k.known[from]
	k.mu.Unlock()
	if known != nil && now.Sub(known.at) < keyFreshness && known.has(kid) {
		return known, nil
	}
	c := &contact{at: now}
	keys, err := k.session.Keys.Get(ctx, from.String(), "")
	switch {
	case errors.Is(err, client.NotFound), errors.Is(err, client.Gone):
		c.refused = fmt.Errorf("%w: %w", ErrNoSender, err)
	case err != nil:
		return nil, fmt.Errorf("keys of %s: %w", from, err)
	case keys.AgentID != from:
		return nil, ErrOtherHandle
	default:
		refused, err := k.meet(ctx, false, *keys)
		if err != nil {
			return nil, err
		}
		c.refused, c.current = refused[from], kidOf(keys.SigningPublicKey)
	}
	if c.pin, err = k.Pins().FindAgent(k.session.BaseURL(), from); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= signersMax {
		k.known = map[parley.AgentID]*contact{}
	}
	k.known[from] = c
	return c, nil
}

// signatureKey returns the key that a key id of a message refers to: the pinned signing
// key of its sender or, if the message is old enough, a former one. Other keys that the
// service publishes under that id are ignored.
func (k *Contacts) signatureKey(ctx context.Context, m api.Message, kid string) (key api.JWK, former bool, err error) {
	if m.FromAgentID == k.ring.AgentID() {
		if key, current, own := k.ring.signingPublic(kid); own {
			if current {
				return key, false, nil
			}
			return key, true, k.within(ctx, m, kid)
		}
	}
	c, err := k.sender(ctx, m.FromAgentID, kid)
	if err != nil {
		return key, false, err
	}
	if c.pin == nil {
		return key, false, c.refused
	}
	if m.SenderHandle != nil && !strings.EqualFold(*m.SenderHandle, c.pin.Handle) {
		return key, false, ErrOtherHandle
	}
	key, current, known := c.pin.signer(kid)
	switch {
	case !known:
		return k.unpinned(ctx, m, c, kid)
	case current && (c.current == kid || c.current == ""):
		return key, false, nil
	}
	return key, true, k.within(ctx, m, kid)
}

// unpinned judges a key that was never pinned. It is refused unless a person has accepted
// it and the service calls it a former key of the sender.
func (k *Contacts) unpinned(ctx context.Context, m api.Message, c *contact, kid string) (key api.JWK, former bool, err error) {
	if c.refused != nil {
		return key, false, c.refused
	}
	record, err := k.record(ctx, m.FromAgentID, kid)
	if err != nil {
		return key, false, err
	}
	if record == nil || kidOf(record.SigningPublicKey) != kid {
		return key, false, ErrForged
	}
	if k.judge().accepted[kid] {
		next := c.pin.clone()
		next.addFormer(FormerKey{record.SigningPublicKey.X, kid})
		if _, err := k.Pins().apply(k.session.BaseURL(), []pinChange{{c.pin, next}}); err != nil {
			return key, false, err
		}
		return signingJWK(record.SigningPublicKey.X, kid), true, k.within(ctx, m, kid)
	}
	return key, false, &KeyChangedError{
		Handle: c.pin.Handle, AgentID: c.pin.AgentID, Problem: FormerKeyUnknown,
		Pinned: c.pin.kids(), Served: KeyIDs{kid, c.pin.EncryptionKid, c.pin.PQKid}, Accept: []string{kid},
	}
}

// within returns nil if, according to the service, a message was created while the key of
// a kid was its sender's.
func (k *Contacts) within(ctx context.Context, m api.Message, kid string) error {
	r, err := k.record(ctx, m.FromAgentID, kid)
	switch {
	case err != nil:
		return err
	case r == nil:
		return nil
	case r.RetiredAt != nil && m.CreatedAt.After(r.RetiredAt.Time):
		return ErrKeyRetired
	case r.ValidUntil != nil && m.CreatedAt.After(r.ValidUntil.Time):
		return ErrKeyReplaced
	}
	return nil
}

// record returns the service's record of a key, which is cached for a short time. It
// returns nil if the service does not know the key.
func (k *Contacts) record(ctx context.Context, agent parley.AgentID, kid string) (*api.KeyRecord, error) {
	now, asked := k.clock(), signer{agent, kid}
	k.mu.Lock()
	known, have := k.records[asked]
	k.mu.Unlock()
	if have && now.Sub(known.at) < keyFreshness {
		return known.KeyRecord, nil
	}
	found, err := k.session.Keys.Record(ctx, agent.String(), kid)
	switch {
	case errors.Is(err, client.NotFound), errors.Is(err, client.Gone):
		found = nil
	case err != nil:
		return nil, fmt.Errorf("key %s of %s: %w", kid, agent, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.records == nil || len(k.records) >= signersMax {
		k.records = map[signer]record{}
	}
	k.records[asked] = record{now, found}
	return found, nil
}
