package e2ee

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// KeyProblem is why served keys were refused.
type KeyProblem string

// Problems with served keys.
const (
	// KeysChanged: no signature leads from the pinned signing key to the served keys.
	KeysChanged KeyProblem = "changed"
	// KeysOlder: the served binding is older than the pinned one.
	KeysOlder KeyProblem = "older"
	// BindingMissing: the pinned keys were bound, the served ones are not.
	BindingMissing KeyProblem = "binding_missing"
	// BindingBroken: the binding is not signed by the served signing key or, at first
	// contact, the service itself states that it does not follow the former one.
	BindingBroken KeyProblem = "binding_broken"
	// KeysUnbound: at first contact, a key had been changed without a binding.
	KeysUnbound KeyProblem = "unbound"
	// OtherAgent: the handle names another agent id than before, or the id another
	// handle.
	OtherAgent KeyProblem = "other_agent"
	// PQKeyMissing: the agent had a post-quantum key beside the same encryption key, and
	// the service gives none that can be used.
	PQKeyMissing KeyProblem = "post_quantum_key_missing"
	// PQKeyChanged: the post-quantum key is another one beside the same encryption key.
	PQKeyChanged KeyProblem = "post_quantum_key_changed"
	// FormerKeyUnknown: a message is signed with a key that the service calls a former
	// one, but that was never pinned.
	FormerKeyUnknown KeyProblem = "former_key_unknown"
)

var problemTexts = map[KeyProblem]string{
	KeysChanged:      "its keys changed, and no signature by its pinned key leads to the new ones",
	KeysOlder:        "the server gives a key binding that is older than the pinned one",
	BindingMissing:   "its keys were bound by its signing key before, and the served ones are not",
	BindingBroken:    "the binding of its keys is broken",
	KeysUnbound:      "one of its keys was changed without a binding by its signing key",
	OtherAgent:       "the handle and the agent id do not belong together as they did before",
	PQKeyMissing:     "it had a post-quantum key beside this encryption key, and the server gives none",
	PQKeyChanged:     "its post-quantum key changed, and its encryption key did not",
	FormerKeyUnknown: "the message is signed with a former key that was never pinned",
}

// KeyIDs are the ids of an agent's keys.
type KeyIDs struct {
	Signing    string `json:"signing"`
	Encryption string `json:"encryption"`
	// PostQuantum is empty if there is no key that clients use.
	PostQuantum string `json:"post_quantum,omitzero"`
}

// KeyChangedError means that an agent's served keys are not the pinned ones and nothing
// proves that the agent changed them, or that they cannot be trusted at first contact.
// Nothing was sent or shown.
type KeyChangedError struct {
	Handle  string
	AgentID parley.AgentID
	Problem KeyProblem
	// Pinned is empty at first contact.
	Pinned, Served KeyIDs
	// Accept are the key ids that must be accepted to continue. See Contacts.Accept.
	Accept []string
}

func (e *KeyChangedError) Error() string {
	keys := fmt.Sprintf("signing key %s, encryption key %s", e.Served.Signing, e.Served.Encryption)
	if e.Pinned != (KeyIDs{}) {
		keys = changedKey("signing", e.Pinned.Signing, e.Served.Signing) + ", " + changedKey("encryption", e.Pinned.Encryption, e.Served.Encryption)
	}
	if e.Pinned.PostQuantum != e.Served.PostQuantum && e.Pinned != (KeyIDs{}) {
		keys += ", " + changedKey("post-quantum", cmp.Or(e.Pinned.PostQuantum, "none"), cmp.Or(e.Served.PostQuantum, "none"))
	}
	return fmt.Sprintf("%s: %s (%s). %s", e.Handle, problemTexts[e.Problem], keys, e.Advice())
}

// Advice returns what a person must compare before accepting the keys. The verification
// words cover only the signing key: if the encryption key is in doubt, equal words prove
// nothing.
func (e *KeyChangedError) Advice() string {
	switch e.Problem {
	case PQKeyMissing:
		return fmt.Sprintf("Ask the agent's owner over another channel whether it gave up its post-quantum key, then accept: --accept-key %s", strings.Join(e.Accept, " --accept-key "))
	case PQKeyChanged:
		return fmt.Sprintf("Compare the post-quantum key id with the agent's owner over another channel, then accept: --accept-key %s", strings.Join(e.Accept, " --accept-key "))
	}
	compare := "the signing key id or the verification words"
	switch encryption := slices.Contains(e.Accept, e.Served.Encryption); {
	case encryption && len(e.Accept) > 1:
		compare = "both key ids (the verification words cover only the signing key)"
	case encryption:
		compare = "the encryption key id (the verification words do not cover it)"
	}
	return fmt.Sprintf("Compare %s with the agent's owner over another channel, then accept: --accept-key %s", compare, strings.Join(e.Accept, " --accept-key "))
}

func changedKey(use, pinned, served string) string {
	if pinned == served {
		return fmt.Sprintf("%s key %s as before", use, served)
	}
	return fmt.Sprintf("%s key %s, pinned %s", use, served, pinned)
}

// judge compares served keys with a pin.
type judge struct {
	c        *client.Session
	brand    string
	accepted map[string]bool
	now      time.Time
}

// servedKeys are an agent's keys as the service publishes them, with ids computed from
// the keys themselves.
type servedKeys struct {
	*api.AgentKeys
	handle     string
	signingKey string
	kids       KeyIDs
	// sound: there is a binding of exactly these keys by the served signing key.
	sound    bool
	signedAt time.Time
}

// ErrKeysIncomplete means that the service returned no usable pair of keys, or no handle,
// for an agent.
var ErrKeysIncomplete = errors.New("the service gives no usable keys for this agent")

func (j *judge) read(keys *api.AgentKeys) (*servedKeys, error) {
	if keys.EncryptionPublicKey == nil {
		return nil, ErrNoEncryptionKey
	}
	if keys.SigningPublicKey == nil || keys.Handle == nil {
		return nil, ErrKeysIncomplete
	}
	for curve, key := range map[string]*api.JWK{parley.Ed25519: keys.SigningPublicKey, parley.X25519: keys.EncryptionPublicKey} {
		if _, err := key.Raw(curve); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeysIncomplete, err)
		}
	}
	s := &servedKeys{
		AgentKeys: keys, handle: strings.ToLower(*keys.Handle), signingKey: keys.SigningPublicKey.X,
		kids: KeyIDs{Signing: kidOf(keys.SigningPublicKey), Encryption: kidOf(keys.EncryptionPublicKey)},
	}
	if hybrid := HybridKey(keys); hybrid != nil {
		s.kids.PostQuantum = PQKid(hybrid)
	}
	if b := keys.KeyBinding; b != nil {
		at, err := parley.ParseSignedAt(b.SignedAt)
		s.signedAt = at
		s.sound = err == nil && b.SigningKid == s.kids.Signing && b.EncryptionKid == s.kids.Encryption && j.about(s).verifies(b, b.Signature, s.signingKey)
	}
	return s, nil
}

func (j *judge) about(s *servedKeys) bound { return bound{j.brand, s.AgentID, s.handle} }

// judge returns the pin that served keys lead to, or a *KeyChangedError. Errors of
// another type mean that the service could not be asked.
func (j *judge) judge(ctx context.Context, pin *Pin, keys *api.AgentKeys) (*Pin, error) {
	s, err := j.read(keys)
	if err != nil {
		return nil, err
	}
	var next *Pin
	var problem KeyProblem
	if pin == nil {
		next, problem, err = j.first(ctx, s)
	} else {
		next, problem, err = j.later(ctx, pin, s)
	}
	if err != nil {
		return nil, err
	}
	if problem != "" {
		if err := j.ask(pin, s, problem, s.toAccept(pin)...); err != nil {
			return nil, err
		}
		next = j.repin(pin, s)
	}
	return j.judgePQ(pin, next, s)
}

// ask returns a *KeyChangedError unless a person has accepted all these keys.
func (j *judge) ask(pin *Pin, s *servedKeys, problem KeyProblem, accept ...string) error {
	refused := &KeyChangedError{Handle: s.handle, AgentID: s.AgentID, Problem: problem, Served: s.kids, Accept: accept}
	if pin != nil {
		refused.Pinned = pin.kids()
	}
	for _, kid := range accept {
		if !j.accepted[kid] {
			return refused
		}
	}
	return nil
}

func (p *Pin) kids() KeyIDs { return KeyIDs{p.SigningKid, p.EncryptionKid, p.PQKid} }

// judgePQ completes the pin that the other served keys lead to. A post-quantum key may
// appear beside an encryption key, because what is sealed to both is protected by either.
// Afterwards it must stay: nothing that the agent signed could say that it changed, so a
// server that withholds or replaces it would undo the protection. A new encryption key
// comes with a post-quantum key of its own, or with none.
func (j *judge) judgePQ(pin, next *Pin, s *servedKeys) (*Pin, error) {
	if pin != nil && pin.PQKid != "" && pin.PQKid != s.kids.PostQuantum && pin.EncryptionKid == next.EncryptionKid {
		problem, accept := PQKeyChanged, s.kids.PostQuantum
		if accept == "" {
			problem, accept = PQKeyMissing, s.kids.Encryption
		}
		if err := j.ask(pin, s, problem, accept); err != nil {
			return nil, err
		}
	}
	next.PQKid = s.kids.PostQuantum
	return next, nil
}

// first judges keys at first contact. A false answer of the service at first contact goes
// undetected: only comparing words with the owner helps against that.
func (j *judge) first(ctx context.Context, s *servedKeys) (*Pin, KeyProblem, error) {
	switch {
	case s.KeyBinding == nil && s.UnboundSince != nil:
		return nil, KeysUnbound, nil
	case s.KeyBinding != nil && (!s.sound || s.KeyBinding.Continuity == api.ContinuityBroken):
		return nil, BindingBroken, nil
	}
	pin := j.repin(nil, s)
	if s.KeyBinding == nil || s.KeyBinding.Continuity == api.ContinuityFirst {
		return pin, "", nil
	}
	former, err := j.before(ctx, s)
	pin.Former = former
	return pin, "", err
}

// later judges keys by a pin.
func (j *judge) later(ctx context.Context, pin *Pin, s *servedKeys) (*Pin, KeyProblem, error) {
	unchanged := pin.SigningKid == s.kids.Signing && pin.EncryptionKid == s.kids.Encryption
	switch {
	case pin.AgentID != s.AgentID || pin.Handle != s.handle:
		return nil, OtherAgent, nil
	case s.KeyBinding == nil && pin.Bound():
		return nil, BindingMissing, nil
	case unchanged && !pin.Bound() && !s.sound: // pinned, or accepted, without a binding
		return pin.clone(), "", nil
	case s.KeyBinding == nil:
		return nil, KeysChanged, nil
	case !s.sound:
		return nil, BindingBroken, nil
	case unchanged && pin.SignedAt == s.KeyBinding.SignedAt:
		return pin.clone(), "", nil
	case pin.Bound() && !s.signedAt.After(pin.signedAt()):
		return nil, KeysOlder, nil
	}
	// One signature of the pinned key is enough, whatever keys were in between.
	if j.about(s).follows(s.KeyBinding, s.signingKey, pin.SigningKid, pin.SigningKey) {
		return j.advance(pin, s.KeyBinding, s.signingKey), "", nil
	}
	next, err := j.walk(ctx, pin, s)
	if err != nil || next == nil {
		return nil, KeysChanged, err
	}
	return next, "", nil
}

func (p *Pin) signedAt() time.Time {
	at, _ := parley.ParseSignedAt(p.SignedAt) // zero for keys that were never bound
	return at
}

// walk follows the agent's bindings from the pinned key, step by step. It skips a binding
// that the current key did not sign: that proves nothing, and the next may be the agent's
// own again. It returns nil if no step leads to the served keys, or if too many keys are
// in between, so that another agent cannot keep this one busy.
func (j *judge) walk(ctx context.Context, pin *Pin, s *servedKeys) (*Pin, error) {
	bindings, err := j.c.Keys.Bindings(ctx, s.AgentID.String())
	if err != nil {
		return nil, err
	}
	at, between := pin, 0
	for i := range bindings {
		b := &bindings[i]
		signedAt, err := parley.ParseSignedAt(b.SignedAt)
		if err != nil || !signedAt.After(at.signedAt()) {
			continue
		}
		if b.SigningKid != at.SigningKid && b.SigningKid != s.kids.Signing {
			if between++; between > formerKeysMax {
				return nil, nil
			}
		}
		key, err := j.signingKey(ctx, at, s, b.SigningKid)
		if err != nil {
			return nil, err
		}
		if j.about(s).follows(b, key, at.SigningKid, at.SigningKey) {
			at = j.advance(at, b, key)
		}
	}
	if at.SigningKid != s.kids.Signing || at.EncryptionKid != s.kids.Encryption || at.SignedAt != s.KeyBinding.SignedAt {
		return nil, nil
	}
	return at, nil
}

// signingKey returns the key of a kid, empty if there is none.
func (j *judge) signingKey(ctx context.Context, at *Pin, s *servedKeys, kid string) (string, error) {
	switch kid {
	case at.SigningKid:
		return at.SigningKey, nil
	case s.kids.Signing:
		return s.signingKey, nil
	}
	record, err := j.c.Keys.Record(ctx, s.AgentID.String(), kid)
	switch {
	case errors.Is(err, client.NotFound):
		return "", nil
	case err != nil:
		return "", err
	case kidOf(record.SigningPublicKey) != kid:
		return "", nil
	}
	return record.SigningPublicKey.X, nil
}

// before returns the signing keys that led to the served one, newest last, as far back as
// each signed for the next.
func (j *judge) before(ctx context.Context, s *servedKeys) (former []FormerKey, err error) {
	bindings, err := j.c.Keys.Bindings(ctx, s.AgentID.String())
	if err != nil {
		return nil, err
	}
	at, atKey := s.KeyBinding, s.signingKey
	for i := len(bindings) - 1; i >= 0 && len(former) < formerKeysMax; i-- {
		b := &bindings[i]
		if b.SigningKid == at.SigningKid {
			at = b
			continue
		}
		key, err := j.signingKey(ctx, &Pin{SigningKid: at.SigningKid, SigningKey: atKey}, s, b.SigningKid)
		if err != nil {
			return nil, err
		}
		if !j.about(s).verifies(b, b.Signature, key) || !j.about(s).follows(at, atKey, b.SigningKid, key) {
			break
		}
		former = append([]FormerKey{{key, b.SigningKid}}, former...)
		at, atKey = b, key
	}
	return former, nil
}

// advance returns the pin after a binding that its signing key, or one that it vouches
// for, has signed.
func (j *judge) advance(pin *Pin, b *api.KeyBinding, signingKey string) *Pin {
	next := pin.clone()
	if b.SigningKid != pin.SigningKid {
		next.replaced()
		next.SigningKid, next.SigningKey = b.SigningKid, signingKey
	}
	next.EncryptionKid, next.SignedAt = b.EncryptionKid, b.SignedAt
	return next
}

// repin returns a pin of the served keys, whatever was pinned.
func (j *judge) repin(pin *Pin, s *servedKeys) *Pin {
	next := &Pin{PinnedAt: j.now, UsedAt: j.now}
	if pin != nil {
		next = pin.clone()
		if pin.SigningKid != s.kids.Signing {
			next.replaced()
		}
	}
	next.Handle, next.AgentID, next.SigningKey = s.handle, s.AgentID, s.signingKey
	next.SigningKid, next.EncryptionKid, next.SignedAt = s.kids.Signing, s.kids.Encryption, ""
	if s.sound {
		next.SignedAt = s.KeyBinding.SignedAt
	}
	return next
}

// toAccept returns the keys that only a person can vouch for: a signing key that is not
// the pinned one, and an encryption key that the served signing key does not bind.
func (s *servedKeys) toAccept(pin *Pin) []string {
	var kids []string
	if pin == nil || pin.SigningKid != s.kids.Signing {
		kids = append(kids, s.kids.Signing)
	}
	if len(kids) == 0 || !s.sound {
		kids = append(kids, s.kids.Encryption)
	}
	return kids
}
