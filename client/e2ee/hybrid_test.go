package e2ee

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/mlkem"
	"crypto/sha3"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/client/api"
	"parley/client/parley"
)

// hybridCast is cast with post-quantum keys.
func hybridCast(t testing.TB) (ann, bob, eve *KeyRing) {
	rings := [3]*KeyRing{}
	for i, plain := range [3]func() *KeyRing{
		func() *KeyRing { ann, _, _ := cast(t); return ann },
		func() *KeyRing { _, bob, _ := cast(t); return bob },
		func() *KeyRing { _, _, eve := cast(t); return eve },
	} {
		named := plain()
		k, err := NewHybridKeyRing(named.current.signing.key.Seed(), bytes.Repeat([]byte{byte(i + 201)}, hybridSeedSize))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Bind(named.AgentID(), ""); err != nil {
			t.Fatal(err)
		}
		rings[i] = k
	}
	return rings[0], rings[1], rings[2]
}

func sealHybrid(t testing.TB, from, to *KeyRing, payload string) string {
	t.Helper()
	text, err := SealHybrid(from, to.AgentID(), *to.PQKey(), []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestXWingVectors checks the keys, the KEM and the HPKE suite that hybrid sealing is made
// of with the published vectors.
func TestXWingVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/x-wing.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		KEM  []struct{ SK, PK, CT, SS string }
		HPKE struct {
			SK, PK, Enc, Info string
			Open              []struct{ AAD, CT, PT string }
		}
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	raw := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) == 0 {
			t.Fatal(err, text)
		}
		return b
	}
	for i, c := range v.KEM {
		h, half, err := newHybridKey(raw(c.SK))
		if err != nil || !bytes.Equal(h.private.PublicKey().Bytes(), raw(c.PK)) || h.public.Pub != base64.RawURLEncoding.EncodeToString(raw(c.PK)) {
			t.Fatalf("vector %d: another public key, %v", i, err)
		}
		if got := decapsulate(t, raw(c.SK), half, raw(c.CT)); !bytes.Equal(got, raw(c.SS)) {
			t.Errorf("vector %d: shared secret %x", i, got)
		}
	}
	h, _, err := newHybridKey(raw(v.HPKE.SK))
	if err != nil || !bytes.Equal(h.private.PublicKey().Bytes(), raw(v.HPKE.PK)) {
		t.Fatal("another public key", err)
	}
	r, err := hpke.NewRecipient(raw(v.HPKE.Enc), h.private, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), raw(v.HPKE.Info))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range v.HPKE.Open {
		if got, err := r.Open(raw(c.AAD), raw(c.CT)); err != nil || !bytes.Equal(got, raw(c.PT)) {
			t.Errorf("text %d: %x, %v", i, got, err)
		}
	}
	if len(v.KEM) < 3 || len(v.HPKE.Open) == 0 {
		t.Error("there are no vectors")
	}
}

// decapsulate is X-Wing written out, with the X25519 half that the ring uses.
func decapsulate(t *testing.T, seed []byte, half *ecdh.PrivateKey, ct []byte) []byte {
	t.Helper()
	kem, err := mlkem.NewDecapsulationKey768(sha3.SumSHAKE256(seed, mlkem.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	first, err := kem.Decapsulate(ct[:mlkem.CiphertextSize768])
	if err != nil {
		t.Fatal(err)
	}
	ephemeral, err := ecdh.X25519().NewPublicKey(ct[mlkem.CiphertextSize768:])
	if err != nil {
		t.Fatal(err)
	}
	second, err := half.ECDH(ephemeral)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha3.Sum256(slices.Concat(first, second, ephemeral.Bytes(), half.PublicKey().Bytes(), []byte(`\.//^\`)))
	return sum[:]
}

func TestSealHybridAndOpen(t *testing.T) {
	ann, bob, _ := hybridCast(t)
	for _, payload := range []string{"", "x", `{"hello":"wörld"}`, strings.Repeat("z", PayloadBytesMaxHybrid)} {
		text := sealHybrid(t, ann, bob, payload)
		got, err := Open(bob, ann.AgentID(), text, published(ann))
		if err != nil || string(got.Payload) != payload || got.SenderKid != ann.SigningKey().Kid || !got.PostQuantum {
			t.Fatalf("%d bytes: %v %+v", len(payload), err, got)
		}
	}
	if full := sealHybrid(t, ann, bob, strings.Repeat("z", PayloadBytesMaxHybrid)); len(full) != parley.PayloadCharsMax {
		t.Fatalf("PayloadBytesMaxHybrid fills %d of %d characters", len(full), parley.PayloadCharsMax)
	}
	if _, err := SealHybrid(ann, bob.AgentID(), *bob.PQKey(), make([]byte, PayloadBytesMaxHybrid+1)); !errors.Is(err, ErrPayloadTooLong) || !strings.Contains(err.Error(), "97059") {
		t.Fatalf("too long: %v", err)
	}
	// Senders that do not know the format seal to the X25519 half.
	if got, err := Open(bob, ann.AgentID(), seal(t, ann, bob, "plain"), published(ann)); err != nil || got.PostQuantum {
		t.Fatalf("%v %+v", err, got)
	}
}

func TestForeignHybridMailFails(t *testing.T) {
	ann, bob, eve := hybridCast(t)
	text := sealHybrid(t, ann, bob, "for Bob alone")
	for name, c := range map[string]struct {
		ring   *KeyRing
		sender *KeyRing
		text   string
		want   error
	}{
		"another recipient":          {eve, ann, text, ErrCannotOpen},
		"in another sender's name":   {bob, eve, text, ErrForged},
		"to another with this key":   {twinOf(t, bob), ann, text, ErrForged},
		"called version 2":           {bob, ann, relabel(t, text, sealVersion), ErrCannotOpen},
		"version 2 called version 3": {bob, ann, relabel(t, seal(t, ann, bob, strings.Repeat("x", 2000)), sealVersion3), ErrCannotOpen},
		"too short for version 3":    {bob, ann, relabel(t, seal(t, ann, bob, "x"), sealVersion3), ErrSealedForm},
		"forwarded by the recipient": {eve, ann, resealHybrid(t, bob, text, eve.PQKey()), ErrForged},
		"signed by another":          {bob, ann, sealHybrid(t, impostor(eve, ann.AgentID()), bob, "x"), ErrForged},
	} {
		if got, err := Open(c.ring, c.sender.AgentID(), c.text, published(c.sender)); !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: %v (%+v), want %v", name, err, got, c.want)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 1 << (i % 8)
		if _, err := Open(bob, ann.AgentID(), base64.RawURLEncoding.EncodeToString(bad), published(ann)); err == nil {
			t.Fatalf("byte %d: opened", i)
		}
	}
	for _, n := range []int{0, 1, 1088, 1120, 1121, 1136, 1137, len(raw) - 1} {
		if _, err := Open(bob, ann.AgentID(), base64.RawURLEncoding.EncodeToString(raw[:n]), published(ann)); err == nil {
			t.Fatalf("cut to %d bytes: opened", n)
		}
	}
}

// TestBothHalvesProtect: an attacker who replaces one half of the key cannot open what is
// sealed to it.
func TestBothHalvesProtect(t *testing.T) {
	_, bob, eve := hybridCast(t)
	raw := func(k *KeyRing) []byte {
		b, err := k.PQKey().Raw(parley.XWing)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, mixed := range map[string][]byte{
		"Eve's ML-KEM key":  slices.Concat(raw(eve)[:parley.MLKEM768Size], raw(bob)[parley.MLKEM768Size:]),
		"Eve's X25519 half": slices.Concat(raw(bob)[:parley.MLKEM768Size], raw(eve)[parley.MLKEM768Size:]),
	} {
		key := api.NewPQKey(parley.XWing, mixed)
		used := HybridKey(&api.AgentKeys{EncryptionPublicKey: new(bob.EncryptionKey()), PQPublicKey: &key}) != nil
		if bound := name == "Eve's ML-KEM key"; used != bound {
			t.Errorf("%s: sealed to it is %t", name, used)
		}
		text, err := SealHybrid(eve, bob.AgentID(), key, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(eve, eve.AgentID(), text, published(eve)); !errors.Is(err, ErrCannotOpen) {
			t.Errorf("%s: opened by Eve, %v", name, err)
		}
	}
	for name, keys := range map[string]*api.AgentKeys{
		"none":                     {EncryptionPublicKey: new(bob.EncryptionKey())},
		"no encryption key":        {PQPublicKey: bob.PQKey()},
		"another encryption key":   {EncryptionPublicKey: new(eve.EncryptionKey()), PQPublicKey: bob.PQKey()},
		"ML-KEM alone":             {EncryptionPublicKey: new(bob.EncryptionKey()), PQPublicKey: new(api.NewPQKey(parley.MLKEM768, raw(bob)[:parley.MLKEM768Size]))},
		"coefficient out of range": {EncryptionPublicKey: new(bob.EncryptionKey()), PQPublicKey: new(api.NewPQKey(parley.XWing, append([]byte{255, 255}, raw(bob)[2:]...)))},
		"cut":                      {EncryptionPublicKey: new(bob.EncryptionKey()), PQPublicKey: new(api.NewPQKey(parley.XWing, raw(bob)[:1215]))},
	} {
		if HybridKey(keys) != nil {
			t.Errorf("%s: a key to seal to", name)
		}
	}
}

func TestHybridKeyRingOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ann.json")
	k, err := CreateHybridKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	ann, bob, _ := cast(t)
	if err := k.Bind(bob.AgentID(), ""); err != nil {
		t.Fatal(err)
	}
	first := *k.PQKey()
	texts := []string{sealHybrid(t, ann, k, "0")}
	rotate := func(hybrid bool) *KeyRing {
		k, err := OpenKeyRing(path)
		if err != nil {
			t.Fatal(err)
		}
		signing, encryption, err := k.prepare(hybrid)
		if err != nil {
			t.Fatal(err)
		}
		if k, err = OpenKeyRing(path); err != nil { // as after a crash
			t.Fatal(err)
		}
		if err := k.settle(&api.AgentKeys{SigningPublicKey: &signing, EncryptionPublicKey: &encryption}); err != nil {
			t.Fatal(err)
		}
		return k
	}
	k = rotate(true)
	if k.PQKey() == nil || *k.PQKey() == first {
		t.Fatal("the post-quantum key was not replaced")
	}
	texts = append(texts, sealHybrid(t, ann, k, "1"))
	if k = rotate(false); k.PQKey() != nil {
		t.Fatal("a post-quantum key that was given up")
	}
	texts = append(texts, seal(t, ann, k, "2"))
	if k, err = OpenKeyRing(path); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if got, err := Open(k, ann.AgentID(), text, published(ann)); err != nil || string(got.Payload) != string(rune('0'+i)) {
			t.Errorf("text %d: %v", i, err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoiled := strings.Replace(string(raw), first.Pub[:20], ann.EncryptionKey().X[:20], 1)
	if err := os.WriteFile(path, []byte(spoiled), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeyRing(path); err == nil || spoiled == string(raw) {
		t.Error("a post-quantum key under another public key was accepted")
	}
}
