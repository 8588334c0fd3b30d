package e2ee

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

// TestKeysAreBound: a new agent's keys are bound at once. If the binding is missing or
// covers other keys, the next session makes one.
func TestKeysAreBound(t *testing.T) {
	n := newNetwork(t)
	bob := n.enroll(t, "bob")
	k := n.keys[bob.ID().String()]
	pair, _ := bob.Keys.pairs()
	sound := func(b *api.KeyBinding) bool {
		return b != nil && b.SigningKid == pair.publicSigning().Kid && b.EncryptionKid == pair.publicEncryption().Kid && bob.bound().verifies(b, b.Signature, pair.publicSigning().X)
	}
	if !sound(k.KeyBinding) || bob.BindError != nil {
		t.Fatalf("after creation: %+v %v", k.KeyBinding, bob.BindError)
	}
	first := k.KeyBinding.SignedAt
	again(t, bob)
	if k.KeyBinding.SignedAt != first {
		t.Fatal("keys that are bound were bound again")
	}
	for name, spoil := range map[string]func(){
		"missing":   func() { k.KeyBinding = nil },
		"wrong":     func() { k.KeyBinding.Signature = "AA" },
		"of others": func() { k.KeyBinding.EncryptionKid = k.KeyBinding.SigningKid },
	} {
		spoil()
		if a := again(t, bob); a.BindError != nil || !sound(k.KeyBinding) {
			t.Errorf("%s: %+v %v", name, k.KeyBinding, a.BindError)
		}
	}
	times := map[string]bool{}
	last := time.Time{}
	for _, b := range n.bindings[bob.ID().String()] {
		at, err := time.Parse(time.RFC3339, b.SignedAt)
		if err != nil || times[b.SignedAt] || !at.After(last) {
			t.Fatalf("%s after %s", b.SignedAt, last)
		}
		times[b.SignedAt], last = true, at
	}
}

// TestBindingTimesIncrease: each binding is later than all before it, even if this
// machine's clock is behind.
func TestBindingTimesIncrease(t *testing.T) {
	n := newNetwork(t)
	bob := n.enroll(t, "bob")
	bob.clock = func() time.Time { return time.Unix(0, 0) }
	bob.Contacts.clock = bob.clock
	rotate(t, bob, 2)
	all := n.bindings[bob.ID().String()]
	for i := range all[1:] {
		if all[i+1].SignedAt <= all[i].SignedAt || all[i+1].Continuity != api.ContinuitySigned {
			t.Errorf("%+v after %+v", all[i+1], all[i])
		}
	}
}

// TestSessionWorksWithoutBinding: a session starts even if the service has no bindings
// or refuses them.
func TestSessionWorksWithoutBinding(t *testing.T) {
	for status, reported := range map[int]bool{404: false, 405: false, 403: true} {
		n := newNetwork(t)
		bob := n.enroll(t, "bob")
		n.keys[bob.ID().String()].KeyBinding = nil
		n.Mux.HandleFunc("PUT /agents/"+bob.ID().String()+"/key-binding", func(w http.ResponseWriter, r *http.Request) {
			clienttest.Refuse(w, status, "suspended", nil)
		})
		if a := again(t, bob); (a.BindError != nil) != reported {
			t.Errorf("%d: %v", status, a.BindError)
		}
	}
}

// TestRotationWithLostAnswer: the service rotates the keys, but its answer is lost and
// the repeat is refused.
func TestRotationWithLostAnswer(t *testing.T) {
	n := newNetwork(t)
	bob := n.enroll(t, "bob")
	before := bob.Keys.SigningKey()
	n.after = func(w http.ResponseWriter) { clienttest.Refuse(w, 422, "binding_stale", nil) }
	rotate(t, bob, 1)
	if now := bob.Keys.SigningKey(); now == before || now.X != n.keys[bob.ID().String()].SigningPublicKey.X {
		t.Fatal("the ring does not have the published keys")
	}
	n.after = nil
	rotate(t, again(t, bob), 1)
	for _, b := range n.bindings[bob.ID().String()][1:] {
		if b.PreviousSignature == nil {
			t.Errorf("a rotation without the former key's signature: %+v", b)
		}
	}
}

// TestForeignKeysAreNoticed: someone publishes another encryption key for the agent.
// The owner's session reports it, and the owner publishes its own key again.
func TestForeignKeysAreNoticed(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	if err := write(t, ann, bob); err != nil {
		t.Fatal(err)
	}
	bobs, _ := bob.Keys.pairs()
	n.serve(bob, &keyPair{signing: bobs.signing, encryption: pair(t).encryption}, nil)
	if _, err := OpenAgent(t.Context(), bob.Client, bob.Keys); !errors.Is(err, ErrKeysNotPublished) {
		t.Fatalf("%v", err)
	}
	if _, was, err := RestoreKeys(t.Context(), bob.Client, bob.Keys); err != nil || was != (Restored{Encryption: true}) {
		t.Fatalf("replaced %+v, %v", was, err)
	}
	bindings := len(n.bindings[bob.ID().String()])
	if _, was, err := RestoreKeys(t.Context(), bob.Client, bob.Keys); err != nil || was != (Restored{}) || len(n.bindings[bob.ID().String()]) != bindings {
		t.Fatalf("after publishing its own keys again: replaced %+v, %v", was, err)
	}
	again(t, bob)
	if err := write(t, again(t, ann), bob); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, bob, n.last, "for Bob alone")
}

// TestBroadcastSkipsRefusedMembers: if one member's keys are refused, the other members
// still get a group message.
func TestBroadcastSkipsRefusedMembers(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob", "eve")
	ann, bob, eve := agents[0], agents[1], agents[2]
	if _, err := ann.SendSealed(t.Context(), bob.Handle(), nil, "svc.v1.dm"); err != nil {
		t.Fatal(err)
	}
	bobs, _ := bob.Keys.pairs()
	thief := &KeyRing{agent: bob.ID(), current: keyPair{signing: bobs.signing, encryption: pair(t).encryption}}
	w.serve(bob, &thief.current, nil)
	sent, err := ann.Broadcast(t.Context(), townGroup, []byte("hello"), "svc.v1.dm")
	if err != nil {
		t.Fatal(err)
	}
	var refused *KeyChangedError
	if !errors.As(sent.Missed[bob.ID()], &refused) || refused.Handle != bob.Handle() || len(sent.Missed) != 1 || len(sent.Given) != 1 {
		t.Fatalf("given %v, missed %v", sent.Given, sent.Missed)
	}
	mustOpen(t, eve, w.copyTo(t, eve), "hello")
	if got := w.of(bob, distributionType); len(got) != 0 {
		t.Fatal("a key was sent to the refused member")
	}
	// The key is not sent on request either.
	request := senderKey{GroupID: circle, SenderAgentID: ann.ID(), Generation: sent.Generation}
	keys, err := bob.Client.Keys.Get(t.Context(), ann.Handle(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := bob.groups.exchange(t.Context(), keys, requestType, request, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.HandleKeyExchange(t.Context(), w.of(ann, requestType)[0]); !errors.As(err, &refused) {
		t.Fatalf("a request was answered: %v", err)
	}
	ann.Contacts.Accept(refused.Accept...)
	if again := tell(t, ann, "again"); len(again.Given) != 1 {
		t.Fatalf("after the key was accepted: %v", again.Given)
	}
}

// hexText is bytes in hexadecimal.
type hexText []byte

func (h *hexText) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// TestKeyBindingVectors: this client signs and verifies the vectors of client/api.
func TestKeyBindingVectors(t *testing.T) {
	text, err := os.ReadFile("../api/testdata/key-binding.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Brand    string         `json:"brand"`
		Agent    parley.AgentID `json:"agent_id"`
		Handle   string         `json:"handle"`
		Bindings []struct {
			api.KeyBinding
			Seed       hexText `json:"signing_seed_hex"`
			Encryption hexText `json:"encryption_private_hex"`
			Previous   hexText `json:"previous_signing_seed_hex"`
			Key        string  `json:"signing_public_x"`
		} `json:"bindings"`
	}
	if err := json.Unmarshal(text, &v); err != nil || len(v.Bindings) < 3 {
		t.Fatal(err)
	}
	about := bound{v.Brand, v.Agent, strings.ToUpper(v.Handle)}
	formerKid, formerKey := v.Bindings[0].SigningKid, v.Bindings[0].Key
	for _, b := range v.Bindings {
		p, err := newPair(b.Seed, b.Encryption)
		if err != nil {
			t.Fatal(err)
		}
		var former *signingKey
		if b.Previous != nil {
			key := ed25519.NewKeyFromSeed(b.Previous)
			former = &signingKey{key, parley.Thumbprint(parley.Ed25519, key.Public().(ed25519.PublicKey))}
		}
		made := about.prove(p, former, b.SignedAt)
		if made.Signature != b.Signature || (made.PreviousSignature == nil) != (b.PreviousSignature == nil) || former != nil && *made.PreviousSignature != *b.PreviousSignature {
			t.Errorf("%s: made %+v", b.SignedAt, made)
		}
		if !about.follows(&b.KeyBinding, b.Key, formerKid, formerKey) {
			t.Errorf("%s does not follow", b.SignedAt)
		}
		formerKid, formerKey = b.SigningKid, b.Key
	}
}

// TestBroadcastContinuesAfterFailure: the client keeps which members' keys it accepted
// before a send failed, so a repeat continues from there.
func TestBroadcastContinuesAfterFailure(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob", "eve")
	ann, bob, eve := agents[0], agents[1], agents[2]
	rotate(t, eve, 1) // so that the client asks for her former keys
	limited := true
	w.Mux.HandleFunc("GET /agents/"+eve.ID().String()+"/key-bindings", func(rw http.ResponseWriter, r *http.Request) {
		if limited {
			clienttest.Refuse(rw, 429, "rate_limited", nil)
			return
		}
		r.SetPathValue("id", eve.ID().String())
		w.serveBindings(rw, r)
	})
	if _, err := ann.Broadcast(t.Context(), townGroup, []byte("hello"), "svc.v1.dm"); !errors.Is(err, client.RateLimited) {
		t.Fatal(err)
	}
	if pin, err := ann.Contacts.Pins().FindAgent(ann.Client.BaseURL(), bob.ID()); err != nil || pin == nil {
		t.Fatalf("Bob's keys were accepted before: %v", err)
	}
	limited = false
	if sent := tell(t, ann, "hello"); len(sent.Given) != 2 {
		t.Fatalf("%+v", sent)
	}
}
