package agent_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

// rawKey returns the nth of many keys.
func rawKey(n int) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 24), uint64(n)+1)
}

func overQuota(t *testing.T, err error, quota string) {
	t.Helper()
	refusal := (*parley.Refusal)(nil)
	if !errors.As(err, &refusal) || refusal.Code != "quota_exceeded" || refusal.Extra["quota"] != quota ||
		refusal.Extra["limit"] != 1000 || refusal.Extra["used"] != 1000 {
		t.Errorf("beyond the bound of %s: %v", quota, err)
	}
	if resets, told := refusal.Extra["resets_at"]; !told || resets != nil {
		t.Errorf("resets_at is %v, present: %v", resets, told)
	}
}

// TestFormerKeysAreBounded: an agent has at most 1,000 former keys. At that limit a
// former key can still become current again.
func TestFormerKeysAreBounded(t *testing.T) {
	l := rules.Begin()
	l.Do(t, agent.Create{ID: actorstest.Named("alice"), SigningKey: key("ed1"), EncryptionKey: rawKey(0)})
	for n := range parley.FormerKeysMax {
		if _, err := l.Do(t, agent.RotateKeys{Encryption: rawKey(n + 1)}); err != nil {
			t.Fatalf("after %d: %v", n, err)
		}
	}
	_, err := l.Do(t, agent.RotateKeys{Encryption: rawKey(parley.FormerKeysMax + 1)})
	overQuota(t, err, "former_keys")
	if _, err := l.Do(t, agent.RotateKeys{Encryption: rawKey(0)}); err != nil {
		t.Errorf("a former key comes back: %v", err)
	}
	if n := len(l.State.GetFormerKeys()); n != 1000 {
		t.Errorf("%d former keys", n)
	}
}

// TestBindingsAreBounded: an agent has at most 1,000 bindings.
func TestBindingsAreBounded(t *testing.T) {
	l := rules.Begin()
	l.Do(t, agent.Create{ID: actorstest.Named("alice"), SigningKey: key("ed1"), EncryptionKey: key("e1")})
	again := func(n int) error {
		at := actorstest.Epoch.Add(time.Duration(n) * time.Microsecond).Format(instant)
		_, err := l.Do(t, agent.BindKeys{Proof: proof(key("ed1"), key("e1"), "ed1", "", at)})
		return err
	}
	for n := range parley.KeyBindingsMax {
		if err := again(n); err != nil {
			t.Fatalf("after %d: %v", n, err)
		}
	}
	overQuota(t, again(parley.KeyBindingsMax), "key_bindings")
	if err := again(parley.KeyBindingsMax - 1); err != nil {
		t.Errorf("the last one again: %v", err)
	}
	if n := len(l.State.GetBindings()); n != 1000 {
		t.Errorf("%d bindings", n)
	}
}

// TestForeignBindingsMakeRoom: an intruder with the organization's token, but without
// any of the agent's signing keys, binds keys until the limit is reached. The owner can
// still restore and bind keys. The owner's bindings stay, and only they form a chain to
// the current key.
func TestForeignBindingsMakeRoom(t *testing.T) {
	l, at := rules.Begin(), 0
	bound := func(signing, previous string) {
		t.Helper()
		at++
		signedAt := actorstest.Epoch.Add(time.Duration(at) * time.Microsecond).Format(instant)
		p := proof(key(signing), key("e1"), signing, previous, signedAt)
		if _, err := l.Do(t, agent.RotateKeys{Signing: key(signing), Proof: &p}); err != nil {
			t.Fatalf("binding %d, by %s: %v", at, signing, err)
		}
	}
	l.Do(t, agent.Create{ID: actorstest.Named("alice"), SigningKey: key("ed1"), EncryptionKey: key("e1")})
	bound("ed1", "")
	bound("ed2", "")    // the intruder's
	bound("ed3", "ed2") // another key of the intruder, vouched for by the first
	for range parley.KeyBindingsMax + 100 {
		bound("ed3", "")
	}
	bound("ed1", "")
	if n := len(l.State.GetBindings()); n != parley.ForeignBindingsMax+2 {
		t.Errorf("%d bindings", n)
	}
	if first := l.State.Bindings[0]; !bytes.Equal(first.SigningKey, key("ed1")) {
		t.Error("the owner's first binding was dropped")
	}
	bound("ed4", "ed1")
	if got := l.State.Continuity(len(l.State.GetBindings()) - 1); got != agent.Signed {
		t.Errorf("the owner's rotation is %s", got)
	}
	retire := func(name string) error {
		_, err := l.Do(t, agent.RetireKey{Kid: parley.Thumbprint(parley.Ed25519, key(name))})
		return err
	}
	if err := retire("ed3"); !errors.Is(err, agent.ErrKeyUnlinked) {
		t.Errorf("the intruder's key was accepted as linked to the owner's: %v", err)
	}
	if err := retire("ed1"); err != nil {
		t.Errorf("retiring the owner's former key: %v", err)
	}
}

// TestDroppedVoucher: a binding vouched for by the intruder's key does not appear to
// follow from the owner's binding after the intruder's first binding was dropped.
func TestDroppedVoucher(t *testing.T) {
	binding := func(signing, previous string) *agent.KeyBinding {
		b := &agent.KeyBinding{SigningKey: key(signing), SignedAt: actorstest.Epoch.Format(instant)}
		if previous != "" {
			b.PreviousSignature, b.PreviousKey = key("signature"), key(previous)
		}
		return b
	}
	s := &agent.State{Id: parley.AgentID(actorstest.Named("alice")).Bytes(), SigningKey: key("ed3"), EncryptionKey: key("e1")}
	s.FormerKeys = []*agent.FormerKey{{Curve: parley.Ed25519, Raw: key("ed1"), RetiredMs: 1}}
	s.Bindings = []*agent.KeyBinding{binding("ed1", ""), binding("ed2", ""), binding("ed3", "ed2")}
	agent.Evolve(s, &agent.KeysBound{Binding: binding("ed3", ""), Drop: 1})
	if n := len(s.Bindings); n != 3 || !bytes.Equal(s.Bindings[1].SigningKey, key("ed3")) {
		t.Fatalf("%d bindings: %v", n, s.Bindings)
	}
	_, err := agent.Decide(s, agent.RetireKey{Kid: parley.Thumbprint(parley.Ed25519, key("ed1"))}, actorstest.Epoch)
	if !errors.Is(err, agent.ErrKeyUnlinked) {
		t.Errorf("the intruder retired the owner's key: %v", err)
	}
}

// TestKidsAreFoundCheaply: searching all keys that an agent may have had costs the same
// few allocations as searching none.
func TestKidsAreFoundCheaply(t *testing.T) {
	s := &agent.State{SigningKey: key("ed1"), EncryptionKey: key("e1")}
	for n := range parley.FormerKeysMax {
		s.FormerKeys = append(s.FormerKeys, &agent.FormerKey{Curve: parley.X25519, Raw: rawKey(n)})
	}
	last, none := parley.Thumbprint(parley.X25519, rawKey(parley.FormerKeysMax-1)), parley.Thumbprint(parley.Ed25519, rawKey(0))
	for kid, want := range map[string]bool{last: true, none: false, last[:42] + "\n": false, last + "\n": false, last[:42] + "_": false, last[1:]: false, "": false} {
		if _, found := s.KeyByKid(kid); found != want {
			t.Errorf("%q was found: %v", kid, found)
		}
	}
	if n := testing.AllocsPerRun(10, func() { s.KeyByKid(none) }); n > 8 {
		t.Errorf("%v allocations to search %d keys", n, parley.FormerKeysMax)
	}
}

func BenchmarkKeyByKid(b *testing.B) {
	s := &agent.State{SigningKey: key("ed1"), EncryptionKey: key("e1")}
	for n := range parley.FormerKeysMax {
		s.FormerKeys = append(s.FormerKeys, &agent.FormerKey{Curve: parley.X25519, Raw: rawKey(n)})
	}
	none := parley.Thumbprint(parley.Ed25519, rawKey(0))
	for b.Loop() {
		s.KeyByKid(none)
	}
}
