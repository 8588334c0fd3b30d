package auth_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"parley/client/parley"
	"parley/http/auth"
)

// FuzzToken: a bearer token that is accepted was signed by this service. Another
// library verifies it too and reads the same claims. Every other token gets one of the
// three errors of a 401, and no claims.
func FuzzToken(f *testing.F) {
	clock := newHand()
	issuer := newIssuer(clock)
	token, _, err := issuer.Mint(auth.Grant{Org: org, Slug: "acme", Client: client, Scope: parley.ScopeOrg})
	if err != nil {
		f.Fatal(err)
	}
	parts := strings.Split(token, ".")
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, seed := range []string{
		token, token + "\n", token + "=", token[:len(token)-1], token + ".", "." + token, parts[0] + "." + parts[1] + ".", parts[0] + "..", "..", "", "a.b.c",
		encode(`{"alg":"none"}`) + "." + parts[1] + ".", encode(`{"alg":"HS256","typ":"at+jwt","kid":"`+keyA.Kid+`"}`) + "." + parts[1] + "." + parts[2],
		encode(`{"alg":"EdDSA","typ":"at+jwt","kid":"`+keyA.Kid+`","jku":"https://evil.example"}`) + "." + parts[1] + "." + parts[2],
		encode(`{"alg":"EdDSA","alg":"none","typ":"at+jwt","kid":"`+keyA.Kid+`"}`) + "." + parts[1] + "." + parts[2],
		encode(`{"alg":"EdDSA","typ":"at+jwt","kid":"`+keyB.Kid+`"}`) + "." + parts[1] + "." + parts[2],
		parts[0] + "." + encode(`{"exp":1e400,"iat":NaN}`) + "." + parts[2], parts[0] + "." + encode(`{"exp":99999999999999999999}`) + "." + parts[2],
		parts[0] + "." + encode(`{"aud":[1,[2]],"exp":"x"}`) + "." + parts[2], encode(strings.Repeat(`[`, 3000)) + "." + parts[1] + "." + parts[2], strings.Repeat("A", 5000),
	} {
		f.Add([]byte(seed))
	}
	public := ed25519.PublicKey(issuer.Keys().Published(clock.now())[0].Public())
	f.Fuzz(func(t *testing.T, text []byte) {
		claims, err := issuer.Verify(text)
		if err != nil {
			refused := errors.Is(err, auth.ErrInvalidToken) || errors.Is(err, auth.ErrNotAuthenticated) || errors.Is(err, auth.ErrTokenExpired)
			if !refused || claims != (auth.Claims{}) {
				t.Fatalf("%q: %+v, %v", text, claims, err)
			}
			return
		}
		signed, err := jose.ParseSignedCompact(string(text), []jose.SignatureAlgorithm{jose.EdDSA})
		if err != nil {
			t.Fatalf("%q is accepted; another reader says %v", text, err)
		}
		payload, err := signed.Verify(public)
		if err != nil {
			t.Fatalf("%q is accepted; another verifier says %v", text, err)
		}
		var said struct {
			Org    string `json:"org_id"`
			Client string `json:"client_id"`
		}
		if err := json.Unmarshal(payload, &said); err != nil || said.Org != claims.OrgID.String() || said.Client != claims.ClientID.String() {
			t.Fatalf("%q is read as %+v; its payload is %s", text, claims, payload)
		}
	})
}

// FuzzAuthorization: credentials that are read from an Authorization header, written
// again, are read as the same credentials.
func FuzzAuthorization(f *testing.F) {
	for _, seed := range []string{
		"Bearer a.b.c", "bearer  x", " BEARER x ", "Bearer", "Bearer ", "Bearerx", "Bearer\tx", "Bearer \x00", "Bearer a b", "Bearer a,Bearer b",
		"Basic aWQ6c2VjcmV0", "basic aWQ6", "Basic OnNlY3JldA==", "Basic aWQ=", "Basic !!!", "Basic aWQ6JXp6", "Basic aWQ6c2VjcmV0\n", "Basic aWQ6c2VjcmV0=", "Basic aWQ6_-8=", "Digest x", "", "\xff", strings.Repeat("Basic ", 2000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		token, isBearer := auth.ParseBearer(header)
		id, secret, isBasic := auth.ParseBasic(header)
		if isBearer && isBasic {
			t.Fatalf("%q is read as two schemes", header)
		}
		if isBearer {
			if again, ok := auth.ParseBearer([]byte("Bearer " + string(token))); !ok || !bytes.Equal(again, token) || len(token) == 0 || !bytes.Contains(header, token) {
				t.Fatalf("%q is read as %q and then %q", header, token, again)
			}
		}
		if isBasic {
			text := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
			againID, againSecret, ok := auth.ParseBasic([]byte(text))
			if len(text) <= 8<<10 && (!ok || againID != id || againSecret != secret || id == "") {
				t.Fatalf("%q is read as %q %q and then as %q %q", header, id, secret, againID, againSecret)
			}
		}
	})
}

// FuzzOKP: a key that is accepted is the one encoding of a point, and another strict
// library accepts it too. Every other key is refused with the name of the wrong member.
func FuzzOKP(f *testing.F) {
	for _, x := range []string{rfc8037, "", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "7P______________________________________38", rfc8037 + "=", rfc8037[:42] + "\n", rfc8037[:42] + "p", strings.Repeat("_", 43), strings.Repeat("+", 43)} {
		f.Add("OKP", "Ed25519", x, false)
		f.Add("OKP", "X25519", x, false)
	}
	f.Add("OKP", "Ed25519", rfc8037, true)
	f.Add("EC", "P-256", rfc8037, false)
	f.Add("", "", "", false)
	f.Fuzz(func(t *testing.T, kty, crv, x string, d bool) {
		raw, err := auth.ParseOKP(kty, crv, x, d)
		if err != nil {
			bad := (*auth.KeyError)(nil)
			if !errors.As(err, &bad) || raw != nil || !slices.Contains([]string{"kty", "crv", "x", "d"}, bad.Member) || !slices.Contains([]string{"missing", "value_error"}, bad.Type) || bad.Text == "" {
				t.Fatalf("%q %q %q: %x, %#v", kty, crv, x, raw, err)
			}
			return
		}
		if d || kty != "OKP" || len(raw) != 32 || b64(raw) != x || crv != parley.Ed25519 && crv != parley.X25519 {
			t.Fatalf("%q %q %q: %x", kty, crv, x, raw)
		}
		if crv != parley.Ed25519 {
			return
		}
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON([]byte(`{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}`)); err != nil || !key.Valid() || slices.Contains(worthlessEd25519, x) {
			t.Fatalf("%q is accepted: %v", x, err)
		}
	})
}

// FuzzMessageSignature: every message signature that is accepted is valid, however it
// is spelled.
func FuzzMessageSignature(f *testing.F) {
	key := keyA.Private
	public := []byte(key.Public().(ed25519.PublicKey))
	body := []byte(`{"type":"a.b.c"}`)
	good := b64(ed25519.Sign(key, auth.SignedMessage("svc", body)))
	for _, header := range []string{good, good + "==", good + "=", good + "====", good[:85] + "A", "", "=", strings.Repeat("A", 86), good + "\n", "\xff"} {
		f.Add(header, body)
	}
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		err := auth.CheckMessageSignature("svc", public, header, body)
		if err != nil {
			if !errors.Is(err, auth.ErrSignatureInvalid) {
				t.Fatalf("%q: %v", header, err)
			}
			return
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(header, "="))
		if err != nil || !ed25519.Verify(public, auth.SignedMessage("svc", body), raw) {
			t.Fatalf("%q is accepted for %q: %v", header, body, err)
		}
	})
}

// FuzzAttestations: refusals have the right kind. If every key id resolves, another
// parser verifies the attestations that are accepted.
func FuzzAttestations(f *testing.F) {
	key := keyA.Private
	public := []byte(key.Public().(ed25519.PublicKey))
	head := b64([]byte(`{"alg":"EdDSA","kid":"k"}`))
	payload := b64([]byte("said"))
	signature := b64(ed25519.Sign(key, []byte(head+"."+payload)))
	compact := head + "." + payload + "." + signature
	flat := `{"protected":"` + head + `","payload":"` + payload + `","signature":"` + signature + `"}`
	for _, seed := range []string{
		`["` + compact + `"]`, `[` + flat + `]`, `["` + compact + `",` + flat + `]`, `[]`, `[1]`, `[null]`, `["a.b"]`, `["a.b.c"]`, `["..."]`, `{}`, `[`, `["` + compact + `A"]`,
		`["` + b64([]byte(`{"alg":"none"}`)) + `.` + payload + `."]`, `["` + b64([]byte(`{"alg":"HS256","kid":"k"}`)) + `.` + payload + `.` + signature + `"]`, `["` + b64([]byte(`{"alg":"EdDSA","kid":"k","crit":["b64"],"b64":false}`)) + `.` + payload + `.` + signature + `"]`,
		`[{"payload":"` + payload + `","signatures":[]}]`, `[{"protected":"` + head + `","payload":"","signature":""}]`, `[{"protected":"` + head + `","protected":"x","payload":"` + payload + `","signature":"` + signature + `"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, array []byte) {
		asked := 0
		err := auth.CheckAttestations(array, func(string) ([]byte, bool) { asked++; return public, true })
		bad := (*auth.AttestationError)(nil)
		switch {
		case errors.As(err, &bad):
			if bad.Text == "" || bad.Index < -1 {
				t.Fatalf("%s: %#v", array, bad)
			}
		case err != nil:
			if !errors.Is(err, auth.ErrSignatureInvalid) {
				t.Fatalf("%s: %v", array, err)
			}
		case asked > 0 && !bytes.Contains(array, []byte(signature)) && !bytes.Contains(array, []byte(`\`)):
			// The only text that the key has ever signed is not in there.
			t.Fatalf("%s is accepted after %d look-ups", array, asked)
		}
	})
}

// FuzzAgentDID: a DID URL that is read names valid labels and can be written again.
func FuzzAgentDID(f *testing.F) {
	for _, seed := range []string{
		"did:web:acme.localhost:agents:alice#key-1", "did:web:acme.localhost%3A8080:agents:alice#k", "did:web:ACME.LocalHost:agents:alice#k", "did:web:acme.localhost:agents:alice", "did:web:acme.localhost:agents:alice#",
		"did:web:localhost:agents:alice#k", "did:web:a.b.localhost:agents:alice#k", "did:key:z#k", "did:web:acme.localhost:agents:alice:x#k", "did:web:\u212acme.localhost:agents:alice#k", "", "#",
	} {
		f.Add(seed, "localhost")
	}
	f.Fuzz(func(t *testing.T, kid, domain string) {
		slug, name, fragment, ok := auth.ParseAgentDID(kid, domain)
		if !ok {
			return
		}
		if !parley.ValidSlug(slug) || !parley.ValidAgentName(name) || fragment == "" {
			t.Fatalf("%q is read as %q %q %q", kid, slug, name, fragment)
		}
		if !strings.Contains(strings.ToLower(kid), slug) || !strings.Contains(kid, ":agents:"+name+"#"+fragment) {
			t.Fatalf("%q does not contain %q %q %q", kid, slug, name, fragment)
		}
	})
}

// FuzzSealedSeed: a sealed seed opens only as the seed that was sealed.
func FuzzSealedSeed(f *testing.F) {
	key, err := auth.NewMasterKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		f.Fatal(err)
	}
	seed := bytes.Repeat([]byte{9}, 32)
	sealed := key.SealSeed("kid", seed)
	for _, b := range [][]byte{sealed, sealed[:len(sealed)-1], append([]byte{2}, sealed[1:]...), {}, {1}, bytes.Repeat([]byte{1}, 61)} {
		f.Add("kid", b)
	}
	f.Fuzz(func(t *testing.T, kid string, b []byte) {
		got, err := key.OpenSeed(kid, b)
		// Seals are random: another process may have made this one.
		if err == nil && (kid != "kid" || !bytes.Equal(got, seed)) {
			t.Fatalf("%x opens for %q as %x", b, kid, got)
		}
		if err != nil && (got != nil || !errors.Is(err, auth.ErrSealed)) {
			t.Fatalf("%x: %x, %v", b, got, err)
		}
	})
}
