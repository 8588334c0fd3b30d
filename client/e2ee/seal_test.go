package e2ee

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"parley/client/api"
	"parley/client/parley"
)

var update = flag.Bool("update", false, "make the test vectors anew")

func fixedRing(t testing.TB, n byte, agent string) *KeyRing {
	t.Helper()
	k, err := NewKeyRing(bytes.Repeat([]byte{n}, 32), bytes.Repeat([]byte{n + 100}, 32))
	if err != nil {
		t.Fatal(err)
	}
	var id parley.AgentID
	if err := id.UnmarshalText([]byte(agent)); err != nil {
		t.Fatal(err)
	}
	if err := k.Bind(id, ""); err != nil {
		t.Fatal(err)
	}
	return k
}

// twinOf returns an agent with its own signing key that publishes another agent's
// encryption key.
func twinOf(t testing.TB, k *KeyRing) *KeyRing {
	t.Helper()
	twin := fixedRing(t, 4, "01932f00-0000-7004-8000-00000000000d")
	twin.current.encryption, twin.current.hybrid = k.current.encryption, k.current.hybrid
	return twin
}

// cast returns Ann, who writes, Bob, who receives, and Eve, who interferes.
func cast(t testing.TB) (ann, bob, eve *KeyRing) {
	return fixedRing(t, 1, "01932f00-0000-7001-8000-00000000000a"),
		fixedRing(t, 2, "01932f00-0000-7002-8000-00000000000b"),
		fixedRing(t, 3, "01932f00-0000-7003-8000-00000000000e")
}

// published returns the lookup of a server that publishes these signing keys.
func published(rings ...*KeyRing) KeyLookup {
	return func(kid string) (api.JWK, error) {
		for _, k := range rings {
			if key := k.SigningKey(); key.Kid == kid {
				return key, nil
			}
		}
		return api.JWK{}, ErrForged
	}
}

func seal(t testing.TB, from, to *KeyRing, payload string) string {
	t.Helper()
	text, err := Seal(from, to.AgentID(), to.EncryptionKey(), []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSealAndOpen(t *testing.T) {
	ann, bob, _ := cast(t)
	for _, payload := range []string{"", "x", `{"hello":"wörld"}`, strings.Repeat("z", PayloadBytesMax)} {
		text := seal(t, ann, bob, payload)
		if len(text) > parley.PayloadCharsMax {
			t.Fatalf("%d bytes became %d characters", len(payload), len(text))
		}
		got, err := Open(bob, ann.AgentID(), text, published(ann))
		if err != nil || string(got.Payload) != payload || got.SenderKid != ann.SigningKey().Kid {
			t.Fatalf("%d bytes: %v %+v", len(payload), err, got)
		}
		if _, err := Open(bob, ann.AgentID(), text+"==", published(ann)); err != nil {
			t.Fatalf("padded: %v", err)
		}
	}
	if _, err := Seal(ann, bob.AgentID(), bob.EncryptionKey(), make([]byte, PayloadBytesMax+1)); !errors.Is(err, ErrPayloadTooLong) {
		t.Fatalf("too long: %v", err)
	}
	full := seal(t, ann, bob, strings.Repeat("z", PayloadBytesMax))
	if len(full) != parley.PayloadCharsMax {
		t.Fatalf("PayloadBytesMax fills %d of %d characters", len(full), parley.PayloadCharsMax)
	}
}

func TestSealRefusesBadKeys(t *testing.T) {
	ann, bob, _ := cast(t)
	zero := api.NewJWK(parley.X25519, make([]byte, 32))
	for name, key := range map[string]api.JWK{"signing key": bob.SigningKey(), "none": {}, "low order": zero} {
		if text, err := Seal(ann, bob.AgentID(), key, nil); err == nil {
			t.Errorf("%s: sealed to it: %s", name, text)
		}
	}
	loose, err := GenerateKeyRing()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Seal(loose, bob.AgentID(), bob.EncryptionKey(), nil); !errors.Is(err, ErrUnbound) {
		t.Errorf("unbound ring: %v", err)
	}
	if _, err := Seal(ann, parley.AgentID{}, bob.EncryptionKey(), nil); !errors.Is(err, ErrUnbound) {
		t.Errorf("to no agent: %v", err)
	}
}

func TestEveryTamperedBitFails(t *testing.T) {
	ann, bob, _ := cast(t)
	text := seal(t, ann, bob, "payload")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << bit
			if _, err := Open(bob, ann.AgentID(), base64.RawURLEncoding.EncodeToString(bad), published(ann)); err == nil {
				// RFC 7748 ignores the top bit of a public key. HPKE binds enc as it
				// was sent, so a change of this bit must fail too.
				t.Fatalf("byte %d bit %d: opened", i, bit)
			}
		}
	}
	for n := range raw {
		if _, err := Open(bob, ann.AgentID(), base64.RawURLEncoding.EncodeToString(raw[:n]), published(ann)); err == nil {
			t.Fatalf("cut to %d bytes: opened", n)
		}
	}
	for _, bad := range []string{"", "!", text + "\n", text[:10] + "\n" + text[10:], "=" + text, text + "==="} {
		if _, err := Open(bob, ann.AgentID(), bad, published(ann)); !errors.Is(err, ErrSealedForm) {
			t.Fatalf("%q: %v", bad[:min(len(bad), 12)], err)
		}
	}
}

func TestForeignMailFails(t *testing.T) {
	ann, bob, eve := cast(t)
	text := seal(t, ann, bob, "for Bob alone")
	for name, c := range map[string]struct {
		ring   *KeyRing
		sender *KeyRing
		text   string
		lookup KeyLookup
		want   error
	}{
		"another recipient":          {eve, ann, text, published(ann), ErrCannotOpen},
		"in another sender's name":   {bob, eve, text, published(ann, eve), ErrForged},
		"under a key not published":  {bob, ann, text, published(eve), ErrForged},
		"to another with this key":   {twinOf(t, bob), ann, text, published(ann), ErrForged},
		"called version 1":           {bob, ann, relabel(t, text, 1), published(ann), ErrOldClient},
		"forwarded by the recipient": {eve, ann, reseal(t, bob, text, eve.EncryptionKey()), published(ann), ErrForged},
		"signed by another": {bob, ann, seal(t, impostor(eve, ann.AgentID()), bob, "x"), func(string) (api.JWK, error) {
			return ann.SigningKey(), nil
		}, ErrForged},
		"no room for a signature": {bob, ann, sealPlain(t, bob.EncryptionKey(), "\x01k"), published(ann), ErrSealedForm},
		"empty kid":               {bob, ann, sealPlain(t, bob.EncryptionKey(), "\x00"+strings.Repeat("s", 80)), published(ann), ErrSealedForm},
		"empty plaintext":         {bob, ann, sealPlain(t, bob.EncryptionKey(), ""), published(ann), ErrSealedForm},
	} {
		if got, err := Open(c.ring, c.sender.AgentID(), c.text, c.lookup); !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: %v (%+v), want %v", name, err, got, c.want)
		}
	}
}

// impostor returns a key ring with one agent's keys and another agent's id.
func impostor(keys *KeyRing, name parley.AgentID) *KeyRing {
	return &KeyRing{agent: name, current: keys.current}
}

// reseal opens what holder received and seals the same signed plaintext to another key.
func reseal(t testing.TB, holder *KeyRing, text string, to api.JWK) string {
	t.Helper()
	_, sealed, err := decodeSealed(text)
	if err != nil {
		t.Fatal(err)
	}
	plain, _, err := openWith(holder.openers(), sealed)
	if err != nil {
		t.Fatal(err)
	}
	return sealPlain(t, to, string(plain))
}

// resealHybrid is reseal of a text of version 3.
func resealHybrid(t testing.TB, holder *KeyRing, text string, to *api.PQKey) string {
	t.Helper()
	_, sealed, err := decodeSealed(text)
	if err != nil {
		t.Fatal(err)
	}
	plain, _, err := openWith(holder.hybridOpeners(), sealed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := to.Raw(parley.XWing)
	if err != nil {
		t.Fatal(err)
	}
	key, err := hpke.MLKEM768X25519().NewPublicKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	again, err := encrypt(sealVersion3, key, plain)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// relabel replaces the version byte of a text.
func relabel(t testing.TB, text string, version byte) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	b[0] = version
	return base64.RawURLEncoding.EncodeToString(b)
}

func sealPlain(t testing.TB, to api.JWK, plain string) string {
	t.Helper()
	raw, err := to.Raw(parley.X25519)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	key, err := hpke.NewDHKEMPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	text, err := encrypt(sealVersion, key, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// FuzzSealedPlaintext: for any plaintext that a stranger seals, opening it neither
// panics nor returns anything.
func FuzzSealedPlaintext(f *testing.F) {
	ann, bob, _ := cast(f)
	for _, seed := range []string{"", "\x00", "\xff", "\x2b" + ann.SigningKey().Kid, "\x2b" + ann.SigningKey().Kid + strings.Repeat("s", 64)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		if got, err := Open(bob, ann.AgentID(), sealPlain(t, bob.EncryptionKey(), string(plain)), published(ann)); err == nil || got != nil {
			t.Fatalf("opened %q", plain)
		}
	})
}

// vectors is the shape of both files; docs/encryption.md explains it.
type vectors struct {
	Info string      `json:"info"`
	Keys []vectorKey `json:"agents"`
	Open []vector    `json:"open"`
	// Refuse lists texts that must not open.
	Refuse []sealedCase `json:"refuse"`
}

type vectorKey struct {
	Name              string `json:"name"`
	AgentID           string `json:"agent_id"`
	SigningSeed       string `json:"signing_seed_hex"`
	SigningPublic     string `json:"signing_public_hex"`
	SigningKid        string `json:"signing_kid"`
	EncryptionPrivate string `json:"encryption_private_hex"`
	EncryptionPublic  string `json:"encryption_public_hex"`
	EncryptionKid     string `json:"encryption_kid"`
	PQPrivate         string `json:"pq_private_hex,omitempty"`
	PQPublic          string `json:"pq_public_hex,omitempty"`
	PQKid             string `json:"pq_kid,omitempty"`
}

// sealedCase is a text with the agents that it is said to be from and to.
type sealedCase struct {
	Why  string `json:"why"`
	From string `json:"from"`
	To   string `json:"to"`
	Text string `json:"text"`
}

// vector is a text that opens, with its parts.
type vector struct {
	sealedCase
	Enc        string `json:"enc_hex"`
	Ciphertext string `json:"ciphertext_hex"`
	Plaintext  string `json:"plaintext_hex"`
	SignedText string `json:"signed_text_hex"`
	Signature  string `json:"signature_hex"`
	Payload    string `json:"payload_hex"`
}

const (
	// vectorFile has texts of version 2, vectorFile3 of version 3.
	vectorFile  = "testdata/hpke-v1-byte2.json"
	vectorFile3 = "testdata/hpke-v1-byte3.json"
)

func TestVectors(t *testing.T) {
	ann, bob, eve := cast(t)
	rings := map[string]*KeyRing{"ann": ann, "bob": bob, "eve": eve, "twin": twinOf(t, bob)}
	ann, bob, eve = hybridCast(t)
	hybrids := map[string]*KeyRing{"ann": ann, "bob": bob, "eve": eve, "twin": twinOf(t, bob)}
	if *update {
		makeVectors(t, vectorFile, rings)
		makeVectors(t, vectorFile3, hybrids)
	}
	t.Run(vectorFile, func(t *testing.T) { judgeVectors(t, vectorFile, rings, false) })
	t.Run(vectorFile3, func(t *testing.T) { judgeVectors(t, vectorFile3, hybrids, true) })
}

func judgeVectors(t *testing.T, file string, rings map[string]*KeyRing, postQuantum bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if v.Info != sealInfo || len(v.Open) < 3 || len(v.Refuse) < 4 || len(v.Keys) < 3 {
		t.Fatalf("the file differs from the vectors of this test: %+v", v)
	}
	for _, k := range v.Keys {
		if want := vectorKeyOf(k.Name, rings[k.Name]); k != want {
			t.Errorf("keys of %s: %+v, want %+v", k.Name, k, want)
		}
	}
	for _, c := range v.Open {
		got, err := Open(rings[c.To], rings[c.From].AgentID(), c.Text, published(rings[c.From]))
		if err != nil || hex.EncodeToString(got.Payload) != c.Payload || got.SenderKid != rings[c.From].SigningKey().Kid || got.PostQuantum != postQuantum {
			t.Errorf("%s: %v %+v", c.Why, err, got)
		}
		if want := explain(t, c.sealedCase, rings); c != want {
			t.Errorf("%s: the parts differ from the text", c.Why)
		}
	}
	for _, c := range v.Refuse {
		if _, err := Open(rings[c.To], rings[c.From].AgentID(), c.Text, published(rings[c.From])); err == nil {
			t.Errorf("%s: opened", c.Why)
		}
	}
}

func makeVectors(t *testing.T, file string, rings map[string]*KeyRing) {
	ann, bob, eve := rings["ann"], rings["bob"], rings["eve"]
	seal, forward := seal, func(text string) string { return reseal(t, bob, text, eve.EncryptionKey()) }
	if bob.PQKey() != nil {
		seal, forward = sealHybrid, func(text string) string { return resealHybrid(t, bob, text, eve.PQKey()) }
	}
	v := vectors{Info: sealInfo}
	for _, name := range []string{"ann", "bob", "eve", "twin"} {
		v.Keys = append(v.Keys, vectorKeyOf(name, rings[name]))
	}
	for _, c := range [][2]string{{"json", `{"hello":"world"}`}, {"empty payload", ""}, {"every byte value", allBytes()}} {
		v.Open = append(v.Open, explain(t, sealedCase{c[0], "ann", "bob", seal(t, ann, bob, c[1])}, rings))
	}
	v.Open = append(v.Open, explain(t, sealedCase{"copy to self", "ann", "ann", seal(t, ann, ann, "mine")}, rings))
	good := v.Open[0].Text
	version, _, err := decodeSealed(good)
	if err != nil {
		t.Fatal(err)
	}
	v.Refuse = []sealedCase{
		{Why: "sealed to another key", From: "ann", To: "eve", Text: good},
		{Why: "for another agent that publishes the same encryption key", From: "ann", To: "twin", Text: good},
		{Why: "version byte changed to 1", From: "ann", To: "bob", Text: relabel(t, good, 1)},
		{Why: "version byte changed", From: "ann", To: "bob", Text: relabel(t, good, sealVersion+sealVersion3-version)},
		{Why: "unknown version byte", From: "ann", To: "bob", Text: relabel(t, good, 9)},
		{Why: "sent on by its recipient, sealed anew", From: "ann", To: "eve", Text: forward(good)},
		{Why: "in another sender's name", From: "eve", To: "bob", Text: good},
		{Why: "signed by another than the sender named", From: "ann", To: "bob", Text: seal(t, impostor(eve, ann.AgentID()), bob, "x")},
		{Why: "cut short", From: "ann", To: "bob", Text: good[:len(good)-4]},
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func vectorKeyOf(name string, k *KeyRing) vectorKey {
	v := vectorKey{
		Name: name, AgentID: k.AgentID().String(),
		SigningSeed:       hex.EncodeToString(k.current.signing.key.Seed()),
		SigningPublic:     hex.EncodeToString(k.current.signing.key[32:]),
		SigningKid:        k.SigningKey().Kid,
		EncryptionPrivate: hex.EncodeToString(k.current.encryption.Bytes()),
		EncryptionPublic:  hex.EncodeToString(k.current.encryption.PublicKey().Bytes()),
		EncryptionKid:     k.EncryptionKey().Kid,
	}
	if h := k.current.hybrid; h != nil {
		v.PQPrivate, v.PQPublic, v.PQKid = hex.EncodeToString(h.seed), hex.EncodeToString(h.private.PublicKey().Bytes()), h.public.Kid
	}
	return v
}

// explain returns a text with its parts.
func explain(t *testing.T, of sealedCase, rings map[string]*KeyRing) vector {
	t.Helper()
	c := vector{sealedCase: of}
	version, sealed, err := decodeSealed(c.Text)
	if err != nil {
		t.Fatal(err)
	}
	keys, enc := rings[c.To].openers(), encSize
	if version == sealVersion3 {
		keys, enc = rings[c.To].hybridOpeners(), encSizeHybrid
	}
	plain, kid, err := openWith(keys, sealed)
	if err != nil {
		t.Fatal(err)
	}
	at := 1 + int(plain[0])
	payload := plain[at+64:]
	c.Enc, c.Ciphertext = hex.EncodeToString(sealed[:enc]), hex.EncodeToString(sealed[enc:])
	c.Plaintext, c.Signature, c.Payload = hex.EncodeToString(plain), hex.EncodeToString(plain[at:at+64]), hex.EncodeToString(payload)
	c.SignedText = hex.EncodeToString(signedText{version, rings[c.From].AgentID(), rings[c.To].AgentID(), kid, payload}.bytes())
	return c
}
