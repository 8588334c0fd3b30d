package e2ee

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// pair returns a new pair of keys.
func pair(t *testing.T) *keyPair {
	t.Helper()
	p, err := generatePair()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve makes the service publish these keys, with or without a binding.
func (n *network) serve(a *Agent, p *keyPair, b *api.KeyBinding) *api.AgentKeys {
	k := n.keys[a.ID().String()]
	signing, encryption := p.publicSigning(), p.publicEncryption()
	k.SigningPublicKey, k.EncryptionPublicKey, k.KeyBinding = &signing, &encryption, b
	return k
}

// binding returns a binding of a key pair, signed at the given second. If former is not
// nil, it signs too.
func (n *network) binding(a *Agent, p *keyPair, former *signingKey, second int, continuity string) *api.KeyBinding {
	proof := a.bound().prove(p, former, time.Date(2030, 1, 1, 0, 0, second, 0, time.UTC).Format(signedAtLayout))
	return &api.KeyBinding{
		Signature: proof.Signature, SignedAt: proof.SignedAt, PreviousSignature: proof.PreviousSignature,
		SigningKid: p.publicSigning().Kid, EncryptionKid: p.publicEncryption().Kid, Continuity: continuity,
	}
}

func write(t *testing.T, from, to *Agent) error {
	t.Helper()
	_, err := from.SendSealed(t.Context(), to.Handle(), []byte("for Bob alone"), "svc.v1.dm")
	return err
}

// TestChangedKeysAreRefused: a service, or a holder of the organization's token,
// changes Bob's keys after Ann's client has pinned them.
func TestChangedKeysAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(n *network, bob *Agent, bobs, eves *keyPair)
		problem KeyProblem
		accept  int // how many kids the error lists
	}{
		"another encryption key, unbound": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			n.serve(bob, &keyPair{signing: bobs.signing, encryption: eves.encryption}, nil).UnboundSince = &api.Time{Time: n.now()}
		}, BindingMissing, 1},
		"another encryption key under the old binding": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			n.serve(bob, &keyPair{signing: bobs.signing, encryption: eves.encryption}, n.keys[bob.ID().String()].KeyBinding)
		}, BindingBroken, 1},
		"another encryption key, its kid left as it was": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			k := n.serve(bob, &keyPair{signing: bobs.signing, encryption: eves.encryption}, n.keys[bob.ID().String()].KeyBinding)
			k.EncryptionPublicKey.Kid = bobs.publicEncryption().Kid
		}, BindingBroken, 1},
		"other keys that bind each other": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			n.serve(bob, eves, n.binding(bob, eves, nil, 1, api.ContinuitySigned))
		}, KeysChanged, 1},
		"other keys, vouched for by themselves": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			b := n.binding(bob, eves, nil, 1, api.ContinuitySigned)
			b.PreviousSignature = &b.Signature
			n.serve(bob, eves, b)
			n.bindings[bob.ID().String()] = append(n.bindings[bob.ID().String()], *b)
		}, KeysChanged, 1},
		"the pinned keys without their binding": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			n.serve(bob, bobs, nil)
		}, BindingMissing, 1},
		"the pinned keys under an older binding": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			proof := bob.bound().prove(bobs, nil, "2020-01-01T00:00:00Z")
			b := *n.keys[bob.ID().String()].KeyBinding
			b.Signature, b.SignedAt = proof.Signature, proof.SignedAt
			n.serve(bob, bobs, &b)
		}, KeysOlder, 1},
		"an older encryption key, bound before": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			older := &keyPair{signing: bobs.signing, encryption: eves.encryption}
			proof := bob.bound().prove(older, nil, "2020-01-01T00:00:00Z")
			n.serve(bob, older, &api.KeyBinding{
				Signature: proof.Signature, SignedAt: proof.SignedAt, SigningKid: older.publicSigning().Kid, EncryptionKid: older.publicEncryption().Kid, Continuity: api.ContinuitySigned,
			})
		}, KeysOlder, 1},
		"another agent under the handle": {func(n *network, bob *Agent, bobs, eves *keyPair) {
			k := n.serve(bob, eves, nil)
			k.AgentID = parley.NextID(k.AgentID, time.UnixMilli(5), [10]byte{})
		}, OtherAgent, 2},
		"both keys, unbound": {func(n *network, bob *Agent, bobs, eves *keyPair) { n.serve(bob, eves, nil) }, BindingMissing, 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
			if err := write(t, ann, bob); err != nil {
				t.Fatal(err)
			}
			bobs, _ := bob.Keys.pairs()
			eves := pair(t)
			c.change(n, bob, &bobs, eves)
			before := n.last.ID
			var refused *KeyChangedError
			if err := write(t, again(t, ann), bob); !errors.As(err, &refused) || refused.Problem != c.problem || len(refused.Accept) != c.accept {
				t.Fatalf("%v, want %s", err, c.problem)
			}
			if n.last.ID != before {
				t.Fatal("a message was sent")
			}
			text := refused.Error()
			if !strings.Contains(text, "bob@acme.localhost") || !strings.Contains(text, refused.Pinned.Encryption) || !strings.Contains(text, "--accept-key "+refused.Accept[0]) {
				t.Errorf("the error does not say what to do: %s", text)
			}
			if doubtful := slices.Contains(refused.Accept, refused.Served.Encryption); doubtful == strings.Contains(text, "or the verification words") {
				t.Errorf("the words do not change with the encryption key: %s", text)
			}
			stubborn := again(t, ann)
			stubborn.Contacts.Accept("another", ann.Keys.EncryptionKey().Kid)
			if err := write(t, stubborn, bob); !errors.As(err, &refused) {
				t.Fatalf("with other keys accepted: %v", err)
			}
			stubborn.Contacts.Accept(refused.Accept...)
			if err := write(t, stubborn, bob); err != nil {
				t.Fatalf("with these keys accepted: %v", err)
			}
			if err := write(t, again(t, ann), bob); err != nil {
				t.Fatalf("in the next session: %v", err)
			}
		})
	}
}

// TestChangedKeyIsAcceptedWithoutPins: the control. Without the pins the message is
// sent and opens with Eve's key.
func TestChangedKeyIsAcceptedWithoutPins(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	if err := write(t, ann, bob); err != nil {
		t.Fatal(err)
	}
	bobs, _ := bob.Keys.pairs()
	eves := pair(t)
	n.serve(bob, &keyPair{signing: bobs.signing, encryption: eves.encryption}, nil)
	ann.Contacts.pins = &Pins{} // the pins are lost
	if err := write(t, ann, bob); err != nil {
		t.Fatal(err)
	}
	thief := &KeyRing{agent: bob.ID(), current: keyPair{signing: bobs.signing, encryption: eves.encryption}}
	got, err := Open(thief, ann.ID(), n.last.EncryptedPayload, published(ann.Keys))
	if err != nil || string(got.Payload) != "for Bob alone" {
		t.Fatalf("%v", err)
	}
}

// TestSignedChangesAreFollowed: keys that Bob changed himself are accepted without a
// question.
func TestSignedChangesAreFollowed(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, n *network, bob *Agent){
		"nothing changed":   func(t *testing.T, n *network, bob *Agent) {},
		"one rotation":      func(t *testing.T, n *network, bob *Agent) { rotate(t, bob, 1) },
		"several rotations": func(t *testing.T, n *network, bob *Agent) { rotate(t, bob, 3) },
		"another encryption key alone": func(t *testing.T, n *network, bob *Agent) {
			pair := &keyPair{signing: bob.Keys.current.signing, encryption: pair(t).encryption}
			n.serve(bob, pair, n.binding(bob, pair, nil, 1, api.ContinuitySigned))
		},
		"a thief's keys, and then Bob's again": func(t *testing.T, n *network, bob *Agent) {
			thiefs := pair(t)
			b := n.binding(bob, thiefs, nil, 1, api.ContinuityBroken)
			n.serve(bob, thiefs, b)
			n.bindings[bob.ID().String()] = append(n.bindings[bob.ID().String()], *b)
			if _, was, err := RestoreKeys(t.Context(), bob.Client, bob.Keys); err != nil || was != (Restored{Signing: true, Encryption: true}) {
				t.Fatalf("replaced %+v, %v", was, err)
			}
			rotate(t, again(t, bob), 2)
		},
	} {
		for _, bound := range []bool{true, false} {
			n := newNetwork(t)
			ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
			if k := n.keys[bob.ID().String()]; !bound {
				k.KeyBinding, n.bindings[bob.ID().String()] = nil, nil
			}
			if err := write(t, ann, bob); err != nil {
				t.Fatal(err)
			}
			change(t, n, bob)
			if err := write(t, again(t, ann), bob); err != nil {
				t.Errorf("%s (bound at first contact: %t): %v", name, bound, err)
			}
			pin, err := ann.Contacts.Pins().Find(ann.Client.BaseURL(), "Bob@acme.localhost")
			if err != nil || pin.EncryptionKid != n.keys[bob.ID().String()].EncryptionPublicKey.Kid || !pin.WroteTo {
				t.Errorf("%s: pinned is %+v, %v", name, pin, err)
			}
		}
	}
}

func rotate(t *testing.T, a *Agent, times int) {
	t.Helper()
	for range times {
		if err := a.RotateKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBrokenBindingChainIsRefused: a chain with a missing or wrong binding is refused.
func TestBrokenBindingChainIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(all []api.KeyBinding) []api.KeyBinding{
		"a binding is withheld": func(all []api.KeyBinding) []api.KeyBinding { return slices.Delete(all, 1, 2) },
		"a signature is wrong": func(all []api.KeyBinding) []api.KeyBinding {
			all[2].Signature = all[1].Signature
			return all
		},
		"a former key's signature is wrong": func(all []api.KeyBinding) []api.KeyBinding {
			all[2].PreviousSignature = all[1].PreviousSignature
			return all
		},
		"a former key's signature is missing": func(all []api.KeyBinding) []api.KeyBinding {
			all[1].PreviousSignature = nil
			return all
		},
	} {
		n := newNetwork(t)
		ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
		if err := write(t, ann, bob); err != nil {
			t.Fatal(err)
		}
		rotate(t, bob, 3)
		id := bob.ID().String()
		n.bindings[id] = spoil(n.bindings[id])
		var refused *KeyChangedError
		if err := write(t, ann, bob); !errors.As(err, &refused) || refused.Problem != KeysChanged {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFirstContact(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(n *network, bob *Agent, k *api.AgentKeys)
		problem KeyProblem
		bound   bool
	}{
		"bound":        {func(n *network, bob *Agent, k *api.AgentKeys) {}, "", true},
		"never bound":  {func(n *network, bob *Agent, k *api.AgentKeys) { k.KeyBinding = nil }, "", false},
		"unbound":      {func(n *network, bob *Agent, k *api.AgentKeys) { k.KeyBinding, k.UnboundSince = nil, &api.Time{} }, KeysUnbound, false},
		"broken":       {func(n *network, bob *Agent, k *api.AgentKeys) { k.KeyBinding.Continuity = api.ContinuityBroken }, BindingBroken, false},
		"not by Bob":   {func(n *network, bob *Agent, k *api.AgentKeys) { k.KeyBinding.Signature = strings.Repeat("A", 86) }, BindingBroken, false},
		"of other key": {func(n *network, bob *Agent, k *api.AgentKeys) { k.KeyBinding.EncryptionKid = k.KeyBinding.SigningKid }, BindingBroken, false},
		"of other agent": {func(n *network, bob *Agent, k *api.AgentKeys) {
			other := bob.bound()
			other.handle = "eve@acme.localhost"
			pair, _ := bob.Keys.pairs()
			k.KeyBinding.Signature = other.prove(&pair, nil, k.KeyBinding.SignedAt).Signature
		}, BindingBroken, false},
	} {
		n := newNetwork(t)
		ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
		c.change(n, bob, n.keys[bob.ID().String()])
		var refused *KeyChangedError
		err := write(t, ann, bob)
		if errors.As(err, &refused) != (c.problem != "") || refused != nil && refused.Problem != c.problem {
			t.Errorf("%s: %v, want %q", name, err, c.problem)
		}
		pin, err := ann.Contacts.Pins().Find(ann.Client.BaseURL(), bob.Handle())
		if err != nil || (pin == nil) != (c.problem != "") || pin != nil && pin.Bound() != c.bound {
			t.Errorf("%s: pinned is %+v, %v", name, pin, err)
		}
	}
}

// TestKeysOfAnotherAgentAreRefused: the service returns the keys of another agent than
// the one requested.
func TestKeysOfAnotherAgentAreRefused(t *testing.T) {
	n := newNetwork(t)
	ann, bob, eve := n.enroll(t, "ann"), n.enroll(t, "bob"), n.enroll(t, "eve")
	id, handle := bob.ID().String(), bob.Handle()
	n.keys[handle], n.keys[id] = n.keys[eve.Handle()], n.keys[eve.ID().String()]
	for _, to := range []string{id, handle} {
		if _, err := ann.SendSealed(t.Context(), to, nil, "svc.v1.dm"); !errors.Is(err, ErrOtherHandle) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestHandleOfAnotherPinIsRefused: Eve and the service claim that Bob's handle is hers.
// She signs the binding.
func TestHandleOfAnotherPinIsRefused(t *testing.T) {
	n := newNetwork(t)
	ann, bob, eve := n.enroll(t, "ann"), n.enroll(t, "bob"), n.enroll(t, "eve")
	for _, to := range []*Agent{bob, eve} {
		if err := write(t, ann, to); err != nil {
			t.Fatal(err)
		}
	}
	eves, _ := eve.Keys.pairs()
	eve.Record.Handle = bob.Record.Handle
	k := n.serve(eve, &eves, n.binding(eve, &eves, nil, 1, api.ContinuitySigned))
	k.Handle = bob.Record.Handle
	n.keys[bob.Handle()] = k
	var refused *KeyChangedError
	if err := write(t, ann, bob); !errors.As(err, &refused) || refused.Problem != OtherAgent {
		t.Fatalf("Bob's handle with Eve's id and keys: %v", err)
	}
}

// TestChainIsBounded: an agent that rotates repeatedly causes a bounded number of
// requests.
func TestChainIsBounded(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	if err := write(t, ann, bob); err != nil {
		t.Fatal(err)
	}
	rotate(t, bob, formerKeysMax+1)
	if err := write(t, again(t, ann), bob); err != nil {
		t.Fatal(err)
	}
	rotate(t, bob, formerKeysMax+3)
	before := n.lookup.Load()
	var refused *KeyChangedError
	if err := write(t, again(t, ann), bob); !errors.As(err, &refused) || refused.Problem != KeysChanged {
		t.Fatal(err)
	}
	if asked := n.lookup.Load() - before; asked > formerKeysMax+4 {
		t.Errorf("the client asked for %d keys", asked)
	}
}

// TestMailIsVerifiedWithThePin: mail is verified with the pinned key, whatever key the
// service publishes.
func TestMailIsVerifiedWithThePin(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	if err := write(t, ann, bob); err != nil {
		t.Fatal(err)
	}
	m := n.last
	mustOpen(t, bob, m, "for Bob alone")
	anns, _ := ann.Keys.pairs()
	eves := pair(t)
	n.serve(ann, eves, n.binding(ann, eves, nil, 1, api.ContinuitySigned))
	forged := m
	forged.EncryptedPayload = seal(t, &KeyRing{agent: ann.ID(), current: *eves}, bob.Keys, "as if I were Ann")
	fresh := again(t, bob)
	var refused *KeyChangedError
	if _, err := fresh.OpenMessage(t.Context(), forged); !errors.As(err, &refused) || refused.Problem != KeysChanged {
		t.Fatalf("signed with a key that the service published: %v", err)
	}
	o, err := fresh.OpenMessage(t.Context(), m)
	if err != nil || string(o.Payload) != "for Bob alone" {
		t.Fatalf("signed with the pinned key: %v", err)
	}
	// The service claims that Eve's key is a former key of Ann's.
	n.serve(ann, &anns, new(n.bindings[ann.ID().String()][0]))
	eveKey := eves.publicSigning()
	n.former[ann.ID().String()+eveKey.Kid] = api.KeyRecord{AgentKeys: api.AgentKeys{SigningPublicKey: &eveKey}}
	fresh = again(t, bob)
	if _, err := fresh.OpenMessage(t.Context(), forged); !errors.As(err, &refused) || refused.Problem != FormerKeyUnknown {
		t.Fatalf("signed with a false former key: %v", err)
	}
	fresh.Contacts.Accept(refused.Accept...)
	if o, err := fresh.OpenMessage(t.Context(), forged); err != nil || !o.FormerKey {
		t.Fatalf("accepted: %+v %v", o, err)
	}
}

// TestSenderHandleIsCompared: a message names its sender by handle and by id. Both must
// be those of one agent.
func TestSenderHandleIsCompared(t *testing.T) {
	n := newNetwork(t)
	ann, bob, eve := n.enroll(t, "ann"), n.enroll(t, "bob"), n.enroll(t, "eve")
	if err := write(t, eve, bob); err != nil {
		t.Fatal(err)
	}
	m := n.last
	m.SenderHandle = new(ann.Handle())
	if _, err := bob.OpenMessage(t.Context(), m); !errors.Is(err, ErrOtherHandle) {
		t.Errorf("Eve's message under Ann's handle: %v", err)
	}
	m.SenderHandle = new(strings.ToUpper(eve.Handle()))
	mustOpen(t, bob, m, "for Bob alone")
}

// TestFormerKeys: mail that was signed with a key before its replacement verifies,
// later mail does not.
func TestFormerKeys(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	if err := write(t, ann, bob); err != nil {
		t.Fatal(err)
	}
	early := n.last
	stolen, _ := ann.Keys.pairs()
	rotate(t, ann, 1)
	late := early
	late.CreatedAt = api.Time{Time: n.now()}
	late.EncryptedPayload = seal(t, &KeyRing{agent: ann.ID(), current: stolen}, bob.Keys, "stolen")
	kid := *early.SenderSigningKid
	for name, who := range map[string]*Agent{
		"met before the rotation": again(t, bob), "met after it": unmet(bob),
	} {
		if o, err := who.OpenMessage(t.Context(), early); err != nil || !o.FormerKey || o.SenderKid != kid {
			t.Errorf("%s: written before the replacement: %+v %v", name, o, err)
		}
		if _, err := who.OpenMessage(t.Context(), late); !errors.Is(err, ErrKeyReplaced) {
			t.Errorf("%s: written after the replacement: %v", name, err)
		}
	}
	record := n.former[ann.ID().String()+kid]
	record.RetiredAt, record.ValidUntil = record.ValidUntil, nil
	n.former[ann.ID().String()+kid] = record
	fresh := again(t, bob)
	if _, err := fresh.OpenMessage(t.Context(), late); !errors.Is(err, ErrKeyRetired) {
		t.Errorf("written after the key was retired: %v", err)
	}
	if o, err := fresh.OpenMessage(t.Context(), early); err != nil || !o.FormerKey {
		t.Errorf("written before: %+v %v", o, err)
	}
	own := early
	if o, err := again(t, ann).OpenMessage(t.Context(), own); err != nil || !o.FormerKey {
		t.Errorf("Ann's own copy: %+v %v", o, err)
	}
}

// TestFreshness: a session that looked the sender up a moment ago still learns of new
// keys, and of replaced ones once its answer is too old.
func TestFreshness(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	now := time.Unix(1_800_000_000, 0)
	bob.clock = func() time.Time { return now }
	bob.Contacts.clock = bob.clock
	for range 2 {
		if err := write(t, ann, bob); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, bob, n.last, "for Bob alone")
		rotate(t, ann, 1) // Bob sees the key of the next message at once
	}
	former, _ := ann.Keys.pairs()
	if err := write(t, ann, bob); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, bob, n.last, "for Bob alone")
	rotate(t, ann, 1)
	late := n.last
	late.CreatedAt = api.Time{Time: n.now()}
	late.EncryptedPayload = seal(t, &KeyRing{agent: ann.ID(), current: former}, bob.Keys, "stolen")
	now = now.Add(keyFreshness)
	if _, err := bob.OpenMessage(t.Context(), late); !errors.Is(err, ErrKeyReplaced) {
		t.Fatal(err)
	}
}
