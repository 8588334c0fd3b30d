package agent_test

import (
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/client/parley"
)

// pairs makes signing keys and proofs beyond the few named ones.
type pairs struct {
	l  *actorstest.Life[*agent.State, agent.Command, agent.Event]
	at int
}

func numbered(n int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(rawKey(n))
}

func public(k ed25519.PrivateKey) []byte { return k.Public().(ed25519.PublicKey) }

// rotate replaces both keys by the nth pair. The new key signs the binding; so does the
// former one, unless former is nil.
func (p *pairs) rotate(t *testing.T, n int, former ed25519.PrivateKey) error {
	t.Helper()
	p.at++
	signedAt := actorstest.Epoch.Add(time.Duration(p.at) * time.Microsecond).Format(instant)
	signing, encryption := numbered(n), rawKey(n)
	text := boundText(actorstest.Named("alice"), public(signing), encryption, signedAt)
	proof := agent.Proof{Brand: "svc", Handle: handle, Signature: ed25519.Sign(signing, text), SignedAt: signedAt}
	if former != nil {
		proof.PreviousSignature = ed25519.Sign(former, text)
	}
	_, err := p.l.Do(t, agent.RotateKeys{Signing: public(signing), Encryption: encryption, Proof: &proof})
	return err
}

// upload replaces both keys by the nth pair, without a binding.
func (p *pairs) upload(t *testing.T, n int) error {
	t.Helper()
	_, err := p.l.Do(t, agent.RotateKeys{Signing: public(numbered(n)), Encryption: rawKey(n)})
	return err
}

func begun(t *testing.T, n int) *pairs {
	t.Helper()
	p := &pairs{l: rules.Begin()}
	p.l.Do(t, agent.Create{ID: actorstest.Named("alice"), SigningKey: public(numbered(n)), EncryptionKey: rawKey(n)})
	return p
}

// TestUploadsLeaveTheOwnersRoom: someone who has stolen the organization's token
// uploads keys up to the limit, without bindings or with self-signed ones. The owner
// can still restore and rotate keys, and the keys named by the owner's bindings are
// kept.
func TestUploadsLeaveTheOwnersRoom(t *testing.T) {
	for name, foreign := range map[string]func(t *testing.T, p *pairs, n int) error{
		"without bindings": func(t *testing.T, p *pairs, n int) error { return p.upload(t, n) },
		"bound":            func(t *testing.T, p *pairs, n int) error { return p.rotate(t, n, nil) },
		"bound in a chain": func(t *testing.T, p *pairs, n int) error { return p.rotate(t, n, numbered(n-1)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := begun(t, 0)
			for n := range 3 { // the owner's 0, 1 and 2
				var former ed25519.PrivateKey
				if n > 0 {
					former = numbered(n - 1)
				}
				if err := p.rotate(t, n, former); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.rotate(t, 9_999, nil); name == "bound in a chain" && err != nil {
				t.Fatal(err)
			}
			taken, refused := 0, 0
			for n := range 1_000 {
				err := foreign(t, p, 10_000+n)
				refusal := (*parley.Refusal)(nil)
				switch {
				case err == nil:
					taken++
				case errors.As(err, &refusal) && refusal.Code == "quota_exceeded" && refusal.Extra["limit"] == parley.ForeignKeysMax:
					refused++
				case name == "bound in a chain" && refused > 0: // the previous key was not accepted
					refused++
				default:
					t.Fatalf("upload %d: %v", n, err)
				}
			}
			if taken < 100 || refused < 100 {
				t.Errorf("%d uploads were accepted and %d refused", taken, refused)
			}
			if data, err := encoding.Marshal(p.l.State); err != nil || len(data) > 64<<10 {
				t.Errorf("the state stored with each change has %d bytes, %v", len(data), err)
			}
			if n := len(p.l.State.GetFormerKeys()); n > parley.ForeignKeysMax+6 {
				t.Errorf("%d former keys", n)
			}
			if err := p.rotate(t, 2, nil); err != nil {
				t.Fatalf("the owner restores: %v", err)
			}
			for n := 3; n < 200; n++ {
				if err := p.rotate(t, n, numbered(n-1)); err != nil {
					t.Fatalf("the owner's rotation to %d: %v", n, err)
				}
			}
			for n := range 200 {
				for curve, raw := range map[string][]byte{parley.Ed25519: public(numbered(n)), parley.X25519: rawKey(n)} {
					if k, known := p.l.State.KeyByKid(parley.Thumbprint(curve, raw)); !known || k.Until.IsZero() != (n == 199) {
						t.Fatalf("the owner's %s key %d: %+v, %t", curve, n, k, known)
					}
				}
			}
		})
	}
}

// TestOwnerRotatesAFullAgent: an agent whose keys were never bound may have 1,000 former
// keys. If these counted after its owner binds keys, the owner could not rotate keys.
func TestOwnerRotatesAFullAgent(t *testing.T) {
	p := begun(t, 0)
	if err := p.rotate(t, 0, nil); err != nil {
		t.Fatal(err)
	}
	for n := range parley.FormerKeysMax {
		p.l.State.FormerKeys = append(p.l.State.FormerKeys, &agent.FormerKey{Curve: parley.X25519, Raw: rawKey(50_000 + n), RetiredMs: 1})
	}
	if grown := len(p.l.State.GetFormerKeys()) + 2; grown <= parley.FormerKeysMax {
		t.Fatalf("without separate limits there would still be room: %d keys", grown)
	}
	if err := p.upload(t, 7); err != nil { // the owner's keys become former
		t.Errorf("the first upload: %v", err)
	}
	if err := p.upload(t, 8); err == nil {
		t.Error("an upload without a binding was accepted")
	}
	if err := p.rotate(t, 8, nil); err == nil {
		t.Error("an upload with a self-signed binding was accepted")
	}
	if err := p.rotate(t, 0, nil); err != nil {
		t.Errorf("the owner restores: %v", err)
	}
	if err := p.rotate(t, 1, numbered(0)); err != nil {
		t.Errorf("the owner's rotation: %v", err)
	}
	if err := p.upload(t, 0); err != nil { // adds no key that no binding names
		t.Errorf("the owner's former keys come back: %v", err)
	}
	if err := p.rotate(t, 1, nil); err != nil {
		t.Errorf("the owner restores: %v", err)
	}
}

// TestOwnersFormerKeysAreBounded: the owner can have 1,000 former keys that the owner's
// bindings name.
func TestOwnersFormerKeysAreBounded(t *testing.T) {
	p := begun(t, 0)
	if err := p.rotate(t, 0, nil); err != nil {
		t.Fatal(err)
	}
	n := 1
	for ; n <= parley.FormerKeysMax/2; n++ {
		if err := p.rotate(t, n, numbered(n-1)); err != nil {
			t.Fatalf("rotation %d: %v", n, err)
		}
	}
	overQuota(t, p.rotate(t, n, numbered(n-1)), "former_keys")
}
