package agent

import (
	"bytes"
	"slices"
	"time"

	"parley/client/parley"
)

// An organization's token is enough to upload and to bind keys, and it may be stolen. So
// the former keys and bindings of an agent's owner have separate limits. The owner is the
// holder of the signing key of the first binding, or of a key that the chain of signed
// rotations from there leads to. All other keys and bindings are foreign and have their
// own limits.

// owned returns the owner's signing keys, including that of a binding about to be made.
func (s *State) owned(next *KeyBinding) map[string]bool {
	if len(s.GetBindings()) == 0 {
		if next == nil {
			return nil
		}
		return map[string]bool{string(next.SigningKey): true}
	}
	owned := s.linked(s.Bindings[0].SigningKey)
	if next != nil && len(next.PreviousSignature) > 0 && owned[string(next.PreviousKey)] {
		owned[string(next.SigningKey)] = true
	}
	return owned
}

// mayRotate refuses retired keys, and more former keys than an agent may have. A retired
// encryption key may return with a binding: an organization's token is enough to retire
// it, and the signing key outweighs that.
func (s *State) mayRotate(e *KeysRotated, binding *KeyBinding) error {
	for curve, fresh := range e.fresh() {
		back := s.former(curve, fresh)
		if back.GetDistrustedMs() != 0 && !(binding != nil && curve == parley.X25519) {
			return ErrKeyRetired
		}
	}
	if len(s.GetFormerKeys())+2 <= parley.ForeignKeysMax {
		return nil
	}
	owned := s.owned(binding)
	own, foreign := s.formerAfter(e, owned)
	switch {
	case binding != nil && owned[string(binding.SigningKey)]:
		return own.within(parley.FormerKeysMax, errTooManyKeys)
	case len(s.GetBindings()) == 0: // the owner of the keys is unknown
		return foreign.within(parley.FormerKeysMax, errTooManyKeys)
	}
	return foreign.within(parley.ForeignKeysMax, errTooManyForeign)
}

// keyCount is the number of former keys of one class, before and after a rotation.
type keyCount struct{ before, after int }

// within refuses a rotation that adds a key beyond the limit.
func (n keyCount) within(limit int, refusal *parley.Refusal) error {
	if n.after > limit && n.after > n.before {
		return refusal.OverQuota("former_keys", limit, n.before, nil)
	}
	return nil
}

// fresh returns the keys that become current, by curve.
func (e *KeysRotated) fresh() map[string][]byte {
	fresh := map[string][]byte{}
	if e.SigningKey != nil {
		fresh[parley.Ed25519] = e.SigningKey
	}
	if e.EncryptionKey != nil {
		fresh[parley.X25519] = e.EncryptionKey
	}
	return fresh
}

// formerAfter counts the former keys that the owner's bindings name (own) and the others
// (foreign).
func (s *State) formerAfter(e *KeysRotated, owned map[string]bool) (own, foreign keyCount) {
	named := map[[2]string]bool{}
	for _, b := range s.GetBindings() {
		if owned[string(b.SigningKey)] {
			named[[2]string{parley.Ed25519, string(b.SigningKey)}] = true
			named[[2]string{parley.X25519, string(b.EncryptionKey)}] = true
		}
	}
	count := func(curve string, raw []byte, before, after int) {
		to := &foreign
		if named[[2]string{curve, string(raw)}] {
			to = &own
		}
		to.before, to.after = to.before+before, to.after+after
	}
	fresh := e.fresh()
	for _, k := range s.GetFormerKeys() {
		after := 1
		if raw, comes := fresh[k.Curve]; comes && bytes.Equal(raw, k.Raw) {
			after = 0
		}
		count(k.Curve, k.Raw, 1, after)
	}
	for curve := range fresh {
		replaced := s.GetSigningKey()
		if curve == parley.X25519 {
			replaced = s.GetEncryptionKey()
		}
		count(curve, replaced, 0, 1)
	}
	return own, foreign
}

// bound returns the event that binds the keys. It refuses a binding that is dated in the
// future, that is not later than all former ones, or that exceeds the owner's limit. A
// new binding beyond the limit of foreign ones drops the oldest foreign one.
func (s *State) bound(b *KeyBinding, now time.Time) (*KeysBound, error) {
	at, err := parley.ParseSignedAt(b.SignedAt)
	if err != nil || at.After(now.Add(parley.KeyBindingAhead)) {
		return nil, ErrBindingAhead
	}
	n := len(s.GetBindings())
	if n > 0 {
		if last, err := parley.ParseSignedAt(s.Bindings[n-1].SignedAt); err != nil || !at.After(last) {
			return nil, ErrBindingStale
		}
	}
	bound := &KeysBound{Binding: b, AtMs: now.UnixMilli()}
	if n < parley.ForeignBindingsMax {
		return bound, nil
	}
	owned, foreign := s.owned(b), 0
	strange := func(b *KeyBinding) bool { return !owned[string(b.SigningKey)] }
	for _, b := range append(slices.Clone(s.Bindings), b) {
		if strange(b) {
			foreign++
		}
	}
	if own := n + 1 - foreign; !strange(b) && own > parley.KeyBindingsMax {
		return nil, errTooManyBindings.OverQuota("key_bindings", parley.KeyBindingsMax, own-1, nil)
	}
	if foreign > parley.ForeignBindingsMax {
		bound.Drop = uint32(slices.IndexFunc(s.Bindings, strange))
	}
	return bound, nil
}
