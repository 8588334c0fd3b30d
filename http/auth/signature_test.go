package auth_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"parley/client/parley"
	"parley/http/auth"
)

func publicOf(k auth.SigningKey) []byte { return []byte(k.Private.Public().(ed25519.PublicKey)) }

func TestMessageSignatures(t *testing.T) {
	body := []byte(`{"type":"a.b.c"}`)
	if got := string(auth.SignedMessage("svc", body)); got != "svc-msg-v1\n"+bodySum {
		t.Fatal(got)
	}
	header := b64(ed25519.Sign(keyA.Private, []byte("svc-msg-v1\n"+bodySum)))
	for _, good := range []string{header, header + "=="} {
		if err := auth.CheckMessageSignature("svc", publicOf(keyA), good, body); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	bad := map[string]error{
		"another key":   auth.CheckMessageSignature("svc", publicOf(keyB), header, body),
		"no key":        auth.CheckMessageSignature("svc", nil, header, body),
		"another body":  auth.CheckMessageSignature("svc", publicOf(keyA), header, append(body, ' ')),
		"another brand": auth.CheckMessageSignature("acme", publicOf(keyA), header, body),
		"empty":         auth.CheckMessageSignature("svc", publicOf(keyA), "", body),
		"cut":           auth.CheckMessageSignature("svc", publicOf(keyA), header[:85], body),
		"line break":    auth.CheckMessageSignature("svc", publicOf(keyA), header+"\n", body),
		"one pad":       auth.CheckMessageSignature("svc", publicOf(keyA), header+"=", body),
		"signed raw":    auth.CheckMessageSignature("svc", publicOf(keyA), b64(ed25519.Sign(keyA.Private, body)), body),
	}
	for name, err := range bad {
		if !errors.Is(err, auth.ErrSignatureInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// bodySum is the SHA-256 of the test's body, computed with another tool.
const bodySum = "a3f257f9f8be1e87fecd6e335e45c8c0f9a46f403bcadbf23d7094b1166b2627"

// sign makes a JWS with the library that clients may use.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string) *jose.JSONWebSignature {
	t.Helper()
	options := &jose.SignerOptions{}
	if kid != "" {
		options.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(`{"claim":"true"}`))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func compact(t *testing.T, s *jose.JSONWebSignature) string {
	t.Helper()
	text, err := s.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func check(t *testing.T, items ...any) error {
	t.Helper()
	array, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	return auth.CheckAttestations(array, func(kid string) ([]byte, bool) {
		if slug, name, _, ok := auth.ParseAgentDID(kid, "parley.example"); ok && slug == "acme" && name == "bot" {
			return publicOf(keyA), true
		}
		return publicOf(keyA), kid == keyA.Kid
	})
}

func TestValidAttestations(t *testing.T) {
	good := sign(t, jose.EdDSA, keyA.Private, keyA.Kid)
	byDID := sign(t, jose.EdDSA, keyA.Private, "did:web:acme.parley.example:agents:bot#"+keyA.Kid)
	foreign := sign(t, jose.EdDSA, keyB.Private, keyB.Kid)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, items := range map[string][]any{
		"none":           {},
		"compact":        {compact(t, good)},
		"flattened":      {json.RawMessage(good.FullSerialize())},
		"did":            {compact(t, byDID)},
		"unresolvable":   {compact(t, foreign), json.RawMessage(foreign.FullSerialize())},
		"without kid":    {compact(t, sign(t, jose.EdDSA, keyB.Private, ""))},
		"foreign family": {compact(t, sign(t, jose.RS256, rsaKey, "elsewhere"))},
		"several":        {compact(t, good), compact(t, foreign), json.RawMessage(byDID.FullSerialize())},
	} {
		if err := check(t, items...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidAttestations(t *testing.T) {
	good := compact(t, sign(t, jose.EdDSA, keyA.Private, keyA.Kid))
	parts := strings.Split(good, ".")
	otherPayload := parts[0] + "." + b64([]byte(`{"claim":"false"}`)) + "." + parts[2]
	none := b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	critical := jws(`{"alg":"EdDSA","kid":"`+keyA.Kid+`","crit":["future"],"future":1}`, parts[1])
	flattened := map[string]any{"protected": parts[0], "payload": b64([]byte("x")), "signature": parts[2]}
	for name, bad := range map[string]any{
		"another's signature":  compact(t, sign(t, jose.EdDSA, keyB.Private, keyA.Kid)),
		"another payload":      otherPayload,
		"no signature":         parts[0] + "." + parts[1] + ".",
		"alg none":             none,
		"HS256 and public key": compact(t, sign(t, jose.HS256, publicOf(keyA), keyA.Kid)),
		"unknown crit":         critical,
		"flattened, altered":   flattened,
	} {
		err := check(t, good, bad)
		refusal := (*parley.Refusal)(nil)
		if !errors.Is(err, auth.ErrSignatureInvalid) || !errors.As(err, &refusal) || refusal.Extra["index"] != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// jws signs a protected header that a library would not write.
func jws(header, payload string) string {
	input := b64([]byte(header)) + "." + payload
	return input + "." + b64(ed25519.Sign(keyA.Private, []byte(input)))
}

func TestMalformedAttestations(t *testing.T) {
	good := compact(t, sign(t, jose.EdDSA, keyA.Private, keyA.Kid))
	parts := strings.Split(good, ".")
	for name, bad := range map[string]any{
		"number":          7,
		"null":            nil,
		"array":           []any{good},
		"empty":           "",
		"two parts":       parts[0] + "." + parts[1],
		"four parts":      good + ".x",
		"padding":         good + "==",
		"line break":      good + "\n",
		"no header":       "." + parts[1] + "." + parts[2],
		"header no JSON":  b64([]byte("x")) + "." + parts[1] + "." + parts[2],
		"no alg":          b64([]byte(`{"kid":"k"}`)) + "." + parts[1] + "." + parts[2],
		"two kids":        b64([]byte(`{"alg":"EdDSA","kid":"a","kid":"b"}`)) + "." + parts[1] + "." + parts[2],
		"empty object":    map[string]any{},
		"no payload":      map[string]any{"protected": parts[0], "signature": parts[2]},
		"no signature":    map[string]any{"protected": parts[0], "payload": parts[1]},
		"no protected":    map[string]any{"payload": parts[1], "signature": parts[2]},
		"general":         map[string]any{"protected": parts[0], "payload": parts[1], "signature": parts[2], "signatures": []any{}},
		"payload a value": map[string]any{"protected": parts[0], "payload": 1, "signature": parts[2]},
	} {
		bad, wrong := check(t, good, bad), (*auth.AttestationError)(nil)
		if !errors.As(bad, &wrong) || wrong.Index != 1 || wrong.Text == "" {
			t.Errorf("%s: %v", name, bad)
		}
	}
	wrong := (*auth.AttestationError)(nil)
	if err := auth.CheckAttestations([]byte(`{}`), nil); !errors.As(err, &wrong) || wrong.Index != -1 {
		t.Errorf("no array: %v", err)
	}
}

func TestParseAgentDID(t *testing.T) {
	for _, c := range []struct {
		kid, domain          string
		slug, name, fragment string
		ok                   bool
	}{
		{"did:web:acme.parley.example:agents:bot#k1", "parley.example", "acme", "bot", "k1", true},
		{"did:web:acme.localhost%3A8080:agents:a-b#k#2", "localhost:8080", "acme", "a-b", "k#2", true},
		{"did:web:ACME.Parley.Example:agents:bot#k", "parley.example", "acme", "bot", "k", true},
		{"did:web:acme.parley.example:agents:bot", "parley.example", "", "", "", false},
		{"did:web:acme.parley.example:agents:bot#", "parley.example", "", "", "", false},
		{"did:web:acme.other.example:agents:bot#k", "parley.example", "", "", "", false},
		{"did:web:parley.example:agents:bot#k", "parley.example", "", "", "", false},
		{"did:web:a.b.parley.example:agents:bot#k", "parley.example", "", "", "", false},
		{"did:web:acme.parley.example:users:bot#k", "parley.example", "", "", "", false},
		{"did:web:acme.parley.example:agents:bot:x#k", "parley.example", "", "", "", false},
		{"did:web:acme.parley.example:agents:Bot#k", "parley.example", "", "", "", false},
		{"did:key:acme.parley.example:agents:bot#k", "parley.example", "", "", "", false},
		{keyA.Kid, "parley.example", "", "", "", false},
	} {
		slug, name, fragment, ok := auth.ParseAgentDID(c.kid, c.domain)
		if slug != c.slug || name != c.name || fragment != c.fragment || ok != c.ok {
			t.Errorf("%s: %q %q %q %v", c.kid, slug, name, fragment, ok)
		}
	}
}
