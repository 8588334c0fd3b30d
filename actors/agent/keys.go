package agent

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"time"

	"parley/client/parley"
)

// Key is a public key that is or was the agent's.
type Key struct {
	// Curve is Ed25519 or X25519; of a post-quantum key, its algorithm.
	Curve string
	Raw   []byte
	// Since is when the key first became current.
	Since time.Time
	// Until is when another key replaced it; zero for a current key.
	Until time.Time
	// Retired is when the owner declared the key untrustworthy; zero if never.
	Retired time.Time
}

// KeyByKid returns the public key, current or former, whose RFC 7638 thumbprint is kid.
// Former post-quantum keys are not kept: nothing was signed with them.
// Anyone may ask, and a send asks once for each attestation. An agent may have had many
// keys, so they are compared without allocating.
func (s *State) KeyByKid(kid string) (Key, bool) {
	wanted, sound := parley.ParseThumbprint(kid)
	switch {
	case !sound:
		return Key{}, false
	case parley.ThumbprintSum(parley.Ed25519, s.GetSigningKey()) == wanted:
		return Key{Curve: parley.Ed25519, Raw: s.SigningKey, Since: s.since(s.SigningSinceMs)}, true
	case parley.ThumbprintSum(parley.X25519, s.GetEncryptionKey()) == wanted:
		return Key{Curve: parley.X25519, Raw: s.EncryptionKey, Since: s.since(s.EncryptionSinceMs)}, true
	}
	for _, k := range s.GetFormerKeys() {
		if parley.ThumbprintSum(k.Curve, k.Raw) == wanted {
			return Key{Curve: k.Curve, Raw: k.Raw, Since: s.since(k.SinceMs), Until: instant(k.RetiredMs), Retired: instant(k.DistrustedMs)}, true
		}
	}
	return s.pqKey(wanted)
}

// since returns when a key became current: by default when the agent was created.
func (s *State) since(ms int64) time.Time {
	if ms == 0 {
		return s.CreatedAt()
	}
	return instant(ms)
}

// instant converts Unix milliseconds to a time in UTC; zero stays the zero time.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (s *State) former(curve string, raw []byte) *FormerKey {
	for _, k := range s.GetFormerKeys() {
		if k.is(curve, raw) {
			return k
		}
	}
	return nil
}

func (k *FormerKey) is(curve string, raw []byte) bool {
	return k.Curve == curve && bytes.Equal(k.Raw, raw)
}

// UnboundSince returns when a key first changed without a binding. It is zero while the
// keys are bound, and while they are those that the agent was created with.
func (s *State) UnboundSince() time.Time { return instant(s.GetUnboundMs()) }

// BindingInForce returns the index of the binding of the current keys; false if they are
// not bound.
func (s *State) BindingInForce() (place int, bound bool) {
	place = len(s.GetBindings()) - 1
	return place, place >= 0 && s.GetUnboundMs() == 0
}

// Continuity of a binding. A client that trusted the former binding may accept a signed
// one, and must ask its user about a broken one.
const (
	First  = "first"
	Signed = "signed"
	Broken = "broken"
)

// Continuity returns how the binding at index place follows the one before it. Previous
// signatures were verified when the binding was made.
func (s *State) Continuity(place int) string {
	switch b := s.Bindings[place]; {
	case place == 0:
		return First
	case bytes.Equal(b.SigningKey, s.Bindings[place-1].SigningKey) || len(b.PreviousSignature) > 0:
		return Signed
	}
	return Broken
}

// KeysChangedAt returns when a key was last created, rotated, bound or retired.
func (s *State) KeysChangedAt() time.Time { return instant(max(s.GetCreatedMs(), s.GetKeysMs())) }

// Proof is the owner's statement of which two keys are the agent's.
type Proof struct {
	// Brand and Handle are part of the signed text, in lower case.
	Brand  string
	Handle string
	// Signature is made by the signing key in force afterwards. A signature of the wrong
	// length does not verify.
	Signature []byte
	// SignedAt is an instant in the format of parley.ParseSignedAt.
	SignedAt string
	// PreviousSignature is made by the former signing key; nil for none.
	PreviousSignature []byte
}

// RotateKeys replaces public keys. A nil key is not replaced.
type RotateKeys struct {
	Signing    []byte
	Encryption []byte
	// Proof, if set, binds the keys in force afterwards. Without it, changed keys are not
	// bound.
	Proof *Proof
}

// BindKeys binds the current keys. Binding them again with the same proof changes
// nothing.
type BindKeys struct{ Proof }

// RetireKey declares a former key untrustworthy for good. Retiring it again changes
// nothing.
type RetireKey struct{ Kid string }

// Refusals about keys.
var (
	ErrBindingSignature  = parley.Refuse(parley.BadSignature, "signature_invalid", "The key binding is not signed by the agent's signing key, or not over these keys.")
	ErrPreviousSignature = parley.Refuse(parley.BadSignature, "signature_invalid", "The previous_signature of the key binding is not by the former signing key.")
	ErrBindingStale      = parley.Refuse(parley.Unprocessable, "binding_stale", "Value error, signed_at should be later than that of every former binding").With("loc", "signed_at")
	ErrBindingAhead      = parley.Refuse(parley.Unprocessable, "binding_stale", "Value error, signed_at should be at most five minutes ahead").With("loc", "signed_at")
	ErrUnknownKey        = parley.ErrNotFound.Saying("The agent never had a key of this thumbprint.")
	ErrKeyInUse          = parley.Refuse(parley.Conflict, "invalid_transition", "The key is in use. Rotate it before you retire it.")
	ErrKeyRetired        = parley.Refuse(parley.Conflict, "invalid_transition", "The key was retired and cannot come into use again.")
	ErrKeyUnlinked       = parley.Refuse(parley.Conflict, "invalid_transition", "No chain of signed key bindings leads from this key to the current signing key, so it cannot be retired. First bind the current keys with a previous_signature by this key, or make this key current again.")
	errTooManyKeys       = parley.Refuse(parley.Forbidden, "quota_exceeded", "The agent has as many former keys as it may have. Create another agent.")
	errTooManyForeign    = parley.Refuse(parley.Forbidden, "quota_exceeded", "The agent has as many former keys as it may have that no signed binding names. Rotate with a key_binding that the former signing key signs too.")
	errTooManyBindings   = parley.Refuse(parley.Forbidden, "quota_exceeded", "The agent has as many key bindings as it may have. Create another agent.")
)

func decideRotateKeys(s *State, c RotateKeys, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	rotated := &KeysRotated{
		SigningKey: replacing(s.GetSigningKey(), c.Signing), EncryptionKey: replacing(s.GetEncryptionKey(), c.Encryption),
		AtMs: now.UnixMilli(),
	}
	if rotated.SigningKey == nil && rotated.EncryptionKey == nil {
		if c.Proof == nil {
			return nil, nil
		}
		return decideBindKeys(s, BindKeys{*c.Proof}, now)
	}
	var binding *KeyBinding
	if c.Proof != nil {
		var err error
		if binding, err = s.verified(c.Proof, first(rotated.SigningKey, s.GetSigningKey()), first(rotated.EncryptionKey, s.GetEncryptionKey())); err != nil {
			return nil, err
		}
	}
	if err := s.mayRotate(rotated, binding); err != nil {
		return nil, err
	}
	if binding == nil {
		return []Event{rotated}, nil
	}
	bound, err := s.bound(binding, now)
	if err != nil {
		return nil, err
	}
	return []Event{rotated, bound}, nil
}

// replacing returns fresh, or nil if fresh is empty or the current key.
func replacing(current, fresh []byte) []byte {
	if len(fresh) == 0 || bytes.Equal(current, fresh) {
		return nil
	}
	return fresh
}

func first(fresh, current []byte) []byte {
	if fresh != nil {
		return fresh
	}
	return current
}

func decideBindKeys(s *State, c BindKeys, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	binding, err := s.verified(&c.Proof, s.GetSigningKey(), s.GetEncryptionKey())
	if err != nil {
		return nil, err
	}
	if last, bound := s.BindingInForce(); bound && binding.equal(s.Bindings[last]) {
		return nil, nil
	}
	bound, err := s.bound(binding, now)
	if err != nil {
		return nil, err
	}
	return []Event{bound}, nil
}

func (b *KeyBinding) equal(other *KeyBinding) bool {
	return b.SignedAt == other.SignedAt && bytes.Equal(b.Signature, other.Signature) && bytes.Equal(b.PreviousSignature, other.PreviousSignature) &&
		bytes.Equal(b.SigningKey, other.SigningKey) && bytes.Equal(b.EncryptionKey, other.EncryptionKey)
}

// verified returns the binding of two keys by a proof, if its signatures verify.
func (s *State) verified(p *Proof, signing, encryption []byte) (*KeyBinding, error) {
	text := parley.KeyBindingText(
		p.Brand, s.AgentID(), p.Handle, parley.Thumbprint(parley.Ed25519, signing), parley.Thumbprint(parley.X25519, encryption), p.SignedAt,
	)
	if !verifies(signing, text, p.Signature) {
		return nil, ErrBindingSignature
	}
	binding := &KeyBinding{
		Signature: p.Signature, SignedAt: p.SignedAt, SigningKey: signing, EncryptionKey: encryption, PreviousSignature: p.PreviousSignature,
	}
	if p.PreviousSignature != nil {
		binding.PreviousKey = s.predecessor(signing)
		if !verifies(binding.PreviousKey, text, p.PreviousSignature) {
			return nil, ErrPreviousSignature
		}
	}
	return binding, nil
}

func verifies(key, text, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, text, signature)
}

// predecessor returns the former signing key that clients trust: the key of the latest
// binding with another key or, if the keys were never bound, the last signing key before
// this one. It returns nil if there is none or if that key was retired, because a retired
// key vouches for nothing.
func (s *State) predecessor(signing []byte) []byte {
	candidates := [][]byte{}
	for _, b := range s.GetBindings() {
		candidates = append(candidates, b.SigningKey)
	}
	if len(candidates) == 0 {
		for _, k := range s.GetFormerKeys() {
			if k.Curve == parley.Ed25519 {
				candidates = append(candidates, k.Raw)
			}
		}
		candidates = append(candidates, s.GetSigningKey())
	}
	for _, key := range slices.Backward(candidates) {
		if bytes.Equal(key, signing) {
			continue
		}
		if s.former(parley.Ed25519, key).GetDistrustedMs() != 0 {
			return nil
		}
		return key
	}
	return nil
}

// linked returns the signing keys that a key leads to in signed steps, including itself.
// Each is in a binding with a previous signature by this key or by another linked key.
func (s *State) linked(from []byte) map[string]bool {
	linked := map[string]bool{string(from): true}
	for _, b := range s.GetBindings() {
		if linked[string(b.PreviousKey)] {
			linked[string(b.SigningKey)] = true
		}
	}
	return linked
}

// decideRetireKey decides the retirement of a former key. Once keys are bound, a former
// signing key can be retired only if it leads to the current one. Otherwise a caller with
// only the organization's token could replace the keys and retire the owner's, which
// could then never be restored.
func decideRetireKey(s *State, c RetireKey, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	k, known := s.KeyByKid(c.Kid)
	switch {
	case !known:
		return nil, ErrUnknownKey
	case k.Until.IsZero():
		return nil, ErrKeyInUse
	case !k.Retired.IsZero():
		return nil, nil
	case k.Curve == parley.Ed25519 && len(s.GetBindings()) > 0 && !s.linked(k.Raw)[string(s.GetSigningKey())]:
		return nil, ErrKeyUnlinked
	}
	return []Event{&KeyDistrusted{Curve: k.Curve, Raw: k.Raw, AtMs: now.UnixMilli()}}, nil
}
