package e2ee

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"parley/client/api"
	"parley/client/parley"
)

func (n *network) enrollHybrid(t *testing.T, name string) *Agent {
	t.Helper()
	return n.enrollWith(t, name, CreateHybridKeyRing)
}

// versionOf returns the version byte of a sealed text.
func versionOf(t *testing.T, text string) byte {
	t.Helper()
	version, _, err := decodeSealed(text)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// TestSendersChooseTheHybrid: messages to an agent with an X-Wing key are sealed to it, and
// so is the copy of a sender that has one.
func TestSendersChooseTheHybrid(t *testing.T) {
	n := newNetwork(t)
	agents := map[bool]*Agent{false: n.enroll(t, "ann"), true: n.enrollHybrid(t, "bob")}
	twins := map[bool]*Agent{false: n.enroll(t, "carol"), true: n.enrollHybrid(t, "dave")}
	versions := map[bool]byte{false: sealVersion, true: sealVersion3}
	for sender, from := range agents {
		for recipient, to := range agents {
			if from == to {
				to = twins[recipient]
			}
			sent, err := from.SendSealed(t.Context(), to.Handle(), []byte("hello"), "svc.v1.dm")
			if err != nil {
				t.Fatal(err)
			}
			if v := versionOf(t, sent.EncryptedPayload); v != versions[recipient] {
				t.Errorf("%s to %s: version %d", from.Handle(), to.Handle(), v)
			}
			if v := versionOf(t, *sent.SelfEncryptedPayload); v != versions[sender] {
				t.Errorf("copy of %s: version %d", from.Handle(), v)
			}
			for who, hybrid := range map[*Agent]bool{to: recipient, from: sender} {
				if o, err := who.OpenMessage(t.Context(), sent.Message); err != nil || string(o.Payload) != "hello" || o.PostQuantum != hybrid {
					t.Errorf("%s opens: %+v %v", who.Handle(), o, err)
				}
			}
		}
	}
}

// TestPostQuantumKeyIsPublished: a session publishes the ring's key if none is published,
// and notices one that is not the ring's.
func TestPostQuantumKeyIsPublished(t *testing.T) {
	n := newNetwork(t)
	bob, eve := n.enrollHybrid(t, "bob"), n.enrollHybrid(t, "eve")
	k := n.keys[bob.ID().String()]
	own := bob.Keys.PQKey().Pub
	if k.PQPublicKey.Pub != own || bob.BindError != nil {
		t.Fatal("not published at creation", bob.BindError)
	}
	k.PQPublicKey = nil
	if again(t, bob); k.PQPublicKey == nil || k.PQPublicKey.Pub != own {
		t.Fatal("not published by the next session")
	}
	rotate(t, bob, 1)
	if k.PQPublicKey == nil || k.PQPublicKey.Pub != bob.Keys.PQKey().Pub || k.PQPublicKey.Pub == own {
		t.Fatal("not replaced by a rotation")
	}
	own = bob.Keys.PQKey().Pub
	k.PQPublicKey = eve.Keys.PQKey()
	if _, err := OpenAgent(t.Context(), bob.Client, bob.Keys); !errors.Is(err, ErrKeysNotPublished) || !strings.Contains(err.Error(), eve.Keys.PQKey().Kid) {
		t.Fatalf("another's key: %v", err)
	}
	if _, was, err := RestoreKeys(t.Context(), bob.Client, bob.Keys); err != nil || was != (Restored{PostQuantum: true}) || k.PQPublicKey.Pub != own {
		t.Fatalf("restored %+v, %v", was, err)
	}
	n.serve(bob, pair(t), nil)
	k.PQPublicKey = nil
	if _, was, err := RestoreKeys(t.Context(), bob.Client, bob.Keys); err != nil || was != (Restored{Signing: true, Encryption: true}) || k.PQPublicKey.Pub != own {
		t.Fatalf("restored %+v, %v", was, err)
	}
	n.refusePQ = http.StatusNotFound
	k.PQPublicKey = nil
	if a := again(t, bob); a.BindError != nil {
		t.Errorf("a service without such keys: %v", a.BindError)
	}
	n.refusePQ = http.StatusForbidden
	if a := again(t, bob); a.BindError == nil {
		t.Error("a refused key is not reported")
	}
}

// TestForeignPostQuantumKeyIsRemoved: somebody publishes a key beside that of an agent which
// has none, so that nobody can open what is sealed to both.
func TestForeignPostQuantumKeyIsRemoved(t *testing.T) {
	n := newNetwork(t)
	bob, eve := n.enroll(t, "bob"), n.enrollHybrid(t, "eve")
	k := n.keys[bob.ID().String()]
	k.PQPublicKey = mixedKey(t, eve, bob)
	if _, err := OpenAgent(t.Context(), bob.Client, bob.Keys); !errors.Is(err, ErrKeysNotPublished) {
		t.Fatalf("%v", err)
	}
	if _, was, err := RestoreKeys(t.Context(), bob.Client, bob.Keys); err != nil || was != (Restored{PostQuantum: true}) || k.PQPublicKey != nil {
		t.Fatalf("restored %+v, %v", was, err)
	}
	k.PQPublicKey = eve.Keys.PQKey() // nobody seals to it
	again(t, bob)
}

// mixedKey returns an X-Wing key with one agent's ML-KEM key and another's encryption key.
func mixedKey(t *testing.T, kem, half *Agent) *api.PQKey {
	t.Helper()
	raw, err := kem.Keys.PQKey().Raw(parley.XWing)
	if err != nil {
		t.Fatal(err)
	}
	x, err := half.Keys.EncryptionKey().Raw(parley.X25519)
	if err != nil {
		t.Fatal(err)
	}
	key := api.NewPQKey(parley.XWing, append(raw[:parley.MLKEM768Size:parley.MLKEM768Size], x...))
	return &key
}

// TestPostQuantumKeyIsPinned: a server that withholds or replaces a key that a client has
// seen beside the same encryption key is refused.
func TestPostQuantumKeyIsPinned(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(t *testing.T, n *network, k *api.AgentKeys, bob, eve *Agent)
		problem KeyProblem
	}{
		"withheld": {func(_ *testing.T, _ *network, k *api.AgentKeys, _, _ *Agent) { k.PQPublicKey = nil }, PQKeyMissing},
		"another half": {func(_ *testing.T, _ *network, k *api.AgentKeys, _, eve *Agent) {
			k.PQPublicKey = eve.Keys.PQKey()
		}, PQKeyMissing},
		"unreadable": {func(_ *testing.T, _ *network, k *api.AgentKeys, _, _ *Agent) {
			k.PQPublicKey = &api.PQKey{KeyType: "AKP", Algorithm: parley.XWing, Pub: "AAAA"}
		}, PQKeyMissing},
		"another ML-KEM key": {func(t *testing.T, _ *network, k *api.AgentKeys, bob, eve *Agent) {
			k.PQPublicKey = mixedKey(t, eve, bob)
		}, PQKeyChanged},
		"withheld under a new binding": {func(_ *testing.T, n *network, k *api.AgentKeys, bob, _ *Agent) {
			bobs, _ := bob.Keys.pairs()
			k.KeyBinding, k.PQPublicKey = n.binding(bob, &bobs, nil, 1, api.ContinuitySigned), nil
		}, PQKeyMissing},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			ann, bob, eve := n.enroll(t, "ann"), n.enrollHybrid(t, "bob"), n.enrollHybrid(t, "eve")
			if err := write(t, ann, bob); err != nil {
				t.Fatal(err)
			}
			k, before := n.keys[bob.ID().String()], n.last.ID
			c.change(t, n, k, bob, eve)
			var refused *KeyChangedError
			if err := write(t, again(t, ann), bob); !errors.As(err, &refused) || refused.Problem != c.problem || len(refused.Accept) != 1 || n.last.ID != before {
				t.Fatalf("%v, want %s", err, c.problem)
			}
			if text := refused.Error(); !strings.Contains(text, bob.Keys.PQKey().Kid) || !strings.Contains(text, "--accept-key "+refused.Accept[0]) {
				t.Errorf("the error does not say what to do: %s", text)
			}
			accepting := again(t, ann)
			accepting.Contacts.Accept(refused.Accept...)
			if err := write(t, accepting, bob); err != nil {
				t.Fatalf("accepted: %v", err)
			}
			if err := write(t, again(t, ann), bob); err != nil {
				t.Fatalf("in the next session: %v", err)
			}
		})
	}
}

// TestPostQuantumKeysComeAndGo: a key may appear beside a known encryption key, and go with
// it in a rotation that the owner signed.
func TestPostQuantumKeysComeAndGo(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	for step, hybrid := range []bool{false, true, true, false, true} {
		if err := bob.RotateKeysTo(t.Context(), hybrid); err != nil {
			t.Fatal(err)
		}
		if hybrid { // the first message may be sent before the key is published
			n.keys[bob.ID().String()].PQPublicKey = nil
			if err := write(t, again(t, ann), bob); err != nil || versionOf(t, n.last.EncryptedPayload) != sealVersion {
				t.Fatalf("step %d: %v", step, err)
			}
			bob = again(t, bob)
		}
		if err := write(t, again(t, ann), bob); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if got := versionOf(t, n.last.EncryptedPayload) == sealVersion3; got != hybrid {
			t.Errorf("step %d: sealed to a post-quantum key is %t", step, got)
		}
		mustOpen(t, bob, n.last, "for Bob alone")
	}
	if bob.Keys.upcoming != nil || len(bob.Keys.former) != 5 || len(bob.Keys.formerHybrid) != 2 {
		t.Errorf("%d former keys, %d of them with a post-quantum key", len(bob.Keys.former), len(bob.Keys.formerHybrid))
	}
}

// TestGivingUpCompletesARotation: a rotation that was begun is completed first.
func TestGivingUpCompletesARotation(t *testing.T) {
	n := newNetwork(t)
	bob := n.enroll(t, "bob")
	n.refuse = "internal"
	if err := bob.RotateKeys(t.Context()); err == nil {
		t.Fatal("the rotation was not refused")
	}
	n.refuse = ""
	if err := bob.RotateKeysTo(t.Context(), true); err != nil || bob.Keys.PQKey() == nil || len(bob.Keys.former) != 2 {
		t.Fatalf("%v, %d former keys", err, len(bob.Keys.former))
	}
}
