package auth_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"parley/client/parley"
	"parley/http/auth"
)

const base = "https://parley.example"

// hand is a clock that a test sets.
type hand struct{ nanos atomic.Int64 }

func newHand() *hand {
	h := &hand{}
	h.nanos.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano())
	return h
}

func (h *hand) now() time.Time          { return time.Unix(0, h.nanos.Load()) }
func (h *hand) advance(d time.Duration) { h.nanos.Add(int64(d)) }

var (
	keyA   = auth.NewSigningKey(bytes.Repeat([]byte{1}, 32), time.Time{})
	keyB   = auth.NewSigningKey(bytes.Repeat([]byte{2}, 32), time.Time{})
	org    = parley.OrgID{6: 0x70, 8: 0x80, 15: 1}
	client = parley.ClientID{6: 0x70, 8: 0x80, 15: 2}
)

func newIssuer(clock *hand) *auth.Issuer {
	return auth.NewIssuer(base, base, auth.KeySet{Current: keyA}, clock.now, parley.CountingEntropy())
}

func mint(t *testing.T, i *auth.Issuer) string {
	t.Helper()
	token, _, err := i.Mint(auth.Grant{Org: org, Slug: "acme", Client: client, Scope: parley.ScopeOrg})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestMintedTokenHasItsClaims(t *testing.T) {
	clock := newHand()
	issuer := newIssuer(clock)
	token, expires, err := issuer.Mint(auth.Grant{Org: org, Slug: "acme", Client: client, Scope: parley.ScopeOrg})
	if err != nil || !expires.Equal(clock.now().Add(15*time.Minute)) {
		t.Fatalf("expires %v, %v", expires, err)
	}
	// Another library verifies the token with the published key.
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		t.Fatal(err)
	}
	header := signed.Signatures[0].Protected
	if header.KeyID != keyA.Kid || header.ExtraHeaders["typ"] != "at+jwt" {
		t.Fatalf("header %+v", header)
	}
	payload, err := signed.Verify(ed25519.PublicKey(issuer.Keys().Published(clock.now())[0].Public()))
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	jti, _ := claims["jti"].(string)
	now := float64(clock.now().Unix())
	want := map[string]any{
		"iss": base, "aud": base, "sub": org.String(), "org_id": org.String(), "org_slug": "acme",
		"client_id": client.String(), "scope": "org", "iat": now, "nbf": now, "exp": now + 900, "jti": jti,
	}
	if !maps.Equal(claims, want) || jti == "" {
		t.Fatalf("claims %v", claims)
	}
	got, err := issuer.Verify([]byte(token))
	if err != nil || got != (auth.Claims{OrgID: org, Slug: "acme", ClientID: client, Expires: expires}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if second := mint(t, issuer); second == token {
		t.Fatal("two tokens are the same")
	}
}

// forge signs a token with changed header members and claims; nil removes one.
func forge(t *testing.T, clock *hand, key ed25519.PrivateKey, header, claims map[string]any) string {
	t.Helper()
	now := clock.now().Unix()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"iss": base, "aud": base, "sub": org.String(), "org_id": org.String(), "org_slug": "acme",
		"client_id": client.String(), "scope": "org", "iat": now, "nbf": now, "exp": now + 900, "jti": "j",
	})
	token.Header["kid"], token.Header["typ"] = keyA.Kid, "at+jwt"
	change(token.Header, header)
	change(token.Claims.(jwt.MapClaims), claims)
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func change(target, with map[string]any) {
	for k, v := range with {
		if v == nil {
			delete(target, k)
		} else {
			target[k] = v
		}
	}
}

type members = map[string]any

func TestForgedTokensAreRefused(t *testing.T) {
	clock := newHand()
	now := clock.now().Unix()
	header := func(m members) string { return forge(t, clock, keyA.Private, m, nil) }
	claims := func(m members) string { return forge(t, clock, keyA.Private, nil, m) }
	cases := []struct {
		name  string
		token string
		want  error
	}{
		{"another's signature", forge(t, clock, keyB.Private, nil, nil), auth.ErrNotAuthenticated},
		{"another's kid", header(members{"kid": keyB.Kid}), auth.ErrNotAuthenticated},
		{"no kid", header(members{"kid": nil}), auth.ErrNotAuthenticated},
		{"kid of another type", header(members{"kid": 7}), auth.ErrNotAuthenticated},
		{"jku", header(members{"jku": "https://evil.example/jwks"}), auth.ErrNotAuthenticated},
		{"x5u", header(members{"x5u": "https://evil.example/x"}), auth.ErrNotAuthenticated},
		{"jwk", header(members{"jwk": members{"kty": "OKP"}}), auth.ErrNotAuthenticated},
		{"crit", header(members{"crit": []string{"exp"}}), auth.ErrNotAuthenticated},
		{"typ JWT", header(members{"typ": "JWT"}), auth.ErrNotAuthenticated},
		{"no typ", header(members{"typ": nil}), auth.ErrNotAuthenticated},
		{"alg spelled otherwise", header(members{"alg": "eddsa"}), auth.ErrInvalidToken},
		{"no alg", header(members{"alg": nil}), auth.ErrInvalidToken},
		{"wrong iss", claims(members{"iss": base + "/"}), auth.ErrNotAuthenticated},
		{"no iss", claims(members{"iss": nil}), auth.ErrNotAuthenticated},
		{"wrong aud", claims(members{"aud": "https://other.example"}), auth.ErrNotAuthenticated},
		{"no aud", claims(members{"aud": nil}), auth.ErrNotAuthenticated},
		{"expired by a second", claims(members{"exp": now - 1}), auth.ErrTokenExpired},
		{"expiring now", claims(members{"exp": now}), auth.ErrTokenExpired},
		{"expired long ago", claims(members{"exp": now - 3600}), auth.ErrTokenExpired},
		{"no exp", claims(members{"exp": nil}), auth.ErrNotAuthenticated},
		{"future nbf", claims(members{"nbf": now + 31}), auth.ErrNotAuthenticated},
		{"no nbf", claims(members{"nbf": nil}), auth.ErrNotAuthenticated},
		{"future iat", claims(members{"iat": now + 31}), auth.ErrNotAuthenticated},
		{"no iat", claims(members{"iat": nil}), auth.ErrNotAuthenticated},
		{"no jti", claims(members{"jti": nil}), auth.ErrNotAuthenticated},
		{"another sub", claims(members{"sub": client.String()}), auth.ErrNotAuthenticated},
		{"no org_id", claims(members{"org_id": nil}), auth.ErrNotAuthenticated},
		{"no client_id", claims(members{"client_id": nil}), auth.ErrNotAuthenticated},
		{"org_id that is none", claims(members{"org_id": "acme"}), auth.ErrInvalidToken},
		{"over 4 KiB", claims(members{"pad": strings.Repeat("x", 4096)}), auth.ErrInvalidToken},
	}
	issuer := newIssuer(clock)
	for _, c := range cases {
		if got, err := issuer.Verify([]byte(c.token)); !errors.Is(err, c.want) || got != (auth.Claims{}) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := issuer.Verify([]byte(claims(members{"nbf": now + 30, "iat": now + 30}))); err != nil {
		t.Errorf("a clock half a minute ahead: %v", err)
	}
}

func TestAlgorithmConfusionIsRefused(t *testing.T) {
	clock := newHand()
	issuer := newIssuer(clock)
	for _, c := range []struct {
		method jwt.SigningMethod
		key    any
	}{
		{jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType},
		{jwt.SigningMethodHS256, []byte(keyA.Private.Public().(ed25519.PublicKey))},
		{jwt.SigningMethodHS512, []byte(keyA.Kid)},
	} {
		token := jwt.NewWithClaims(c.method, jwt.MapClaims{"iss": base, "aud": base, "exp": clock.now().Unix() + 900})
		token.Header["kid"], token.Header["typ"] = keyA.Kid, "at+jwt"
		text, err := token.SignedString(c.key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := issuer.Verify([]byte(text)); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("%s: %v", c.method.Alg(), err)
		}
	}
}

func TestAlteredSpellingsAreRefused(t *testing.T) {
	issuer := newIssuer(newHand())
	token := mint(t, issuer)
	parts := strings.Split(token, ".")
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	malformed := map[string]string{
		"nothing":                  "",
		"one part":                 parts[0],
		"two parts":                parts[0] + "." + parts[1],
		"four parts":               token + ".x",
		"trailing line break":      token + "\n",
		"line break inside":        token[:len(token)-4] + "\r\n" + token[len(token)-4:],
		"trailing space":           token + " ",
		"padding":                  token + "==",
		"non-canonical signature":  token[:len(token)-1] + alphabet[last+1:last+2],
		"standard alphabet":        strings.Join([]string{parts[0], parts[1], strings.Repeat("+", 86)}, "."),
		"header is no JSON":        encode("{") + "." + parts[1] + "." + parts[2],
		"header is no object":      encode(`"EdDSA"`) + "." + parts[1] + "." + parts[2],
		"two algs":                 encode(`{"alg":"EdDSA","alg":"EdDSA","kid":"`+keyA.Kid+`","typ":"at+jwt"}`) + "." + parts[1] + "." + parts[2],
		"trailing bytes in header": encode(`{"alg":"EdDSA","kid":"`+keyA.Kid+`","typ":"at+jwt"}x`) + "." + parts[1] + "." + parts[2],
		"claims are no JSON":       parts[0] + "." + encode("{") + "." + parts[2],
		"an opaque token":          strings.Repeat("z", 40),
	}
	for name, text := range malformed {
		if _, err := issuer.Verify([]byte(text)); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	altered := map[string]string{
		"a byte more":   token + "A",
		"no signature":  parts[0] + "." + parts[1] + ".",
		"other claims":  parts[0] + "." + encode(`{}`) + "." + parts[2],
		"swapped halfs": parts[0] + "." + parts[1] + "." + parts[2][43:] + parts[2][:43],
	}
	for name, text := range altered {
		_, err := issuer.Verify([]byte(text))
		if !errors.Is(err, auth.ErrNotAuthenticated) && !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := issuer.Verify([]byte(token)); err != nil {
		t.Errorf("the token itself: %v", err)
	}
}

func TestNoChangedByteVerifies(t *testing.T) {
	issuer := newIssuer(newHand())
	token := []byte(mint(t, issuer))
	for i := range token {
		forged := bytes.Clone(token)
		forged[i] ^= 1
		if _, err := issuer.Verify(forged); err == nil {
			t.Fatalf("byte %d changed and the token still verifies", i)
		}
	}
}

func TestCachedTokenExpiresOnTime(t *testing.T) {
	clock := newHand()
	issuer := newIssuer(clock)
	token := []byte(mint(t, issuer))
	for _, step := range []struct {
		wait time.Duration
		want error
	}{{0, nil}, {0, nil}, {15*time.Minute - 1, nil}, {1, auth.ErrTokenExpired}, {0, auth.ErrTokenExpired}, {time.Hour, auth.ErrTokenExpired}} {
		clock.advance(step.wait)
		if _, err := issuer.Verify(token); !errors.Is(err, step.want) && err != step.want {
			t.Fatalf("at %v: %v, want %v", clock.now(), err, step.want)
		}
	}
}

func TestRotationKeepsOldTokensUntilTheirKeyIsWithdrawn(t *testing.T) {
	clock := newHand()
	issuer := newIssuer(clock)
	old := []byte(mint(t, issuer))
	former := keyA
	former.Until = clock.now().Add(10 * time.Minute)
	issuer.SetKeys(auth.KeySet{Current: keyB, Others: []auth.SigningKey{former}})
	if _, err := issuer.Verify(old); err != nil {
		t.Fatalf("old token after rotation: %v", err)
	}
	fresh := []byte(mint(t, issuer))
	if got := kids(issuer.Keys(), clock.now()); got != keyB.Kid+" "+keyA.Kid {
		t.Fatalf("published %s", got)
	}
	clock.advance(10 * time.Minute)
	if got := kids(issuer.Keys(), clock.now()); got != keyB.Kid {
		t.Fatalf("published %s after the afterlife", got)
	}
	other := newIssuer(clock)
	other.SetKeys(issuer.Keys())
	if _, err := other.Verify(old); !errors.Is(err, auth.ErrNotAuthenticated) {
		t.Fatalf("token of a key no longer published: %v", err)
	}
	if _, err := issuer.Verify(fresh); err != nil {
		t.Fatal(err)
	}
	issuer.SetKeys(auth.KeySet{Current: keyA})
	if _, err := issuer.Verify(fresh); !errors.Is(err, auth.ErrNotAuthenticated) {
		t.Fatalf("a remembered token of a withdrawn key: %v", err)
	}
}

func kids(set auth.KeySet, now time.Time) string {
	var all []string
	for _, k := range set.Published(now) {
		all = append(all, k.Kid)
	}
	return strings.Join(all, " ")
}

func TestCachedTokenAllocatesNothing(t *testing.T) {
	issuer := newIssuer(newHand())
	token := []byte(mint(t, issuer))
	if _, err := issuer.Verify(token); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = issuer.Verify(token) }); n != 0 {
		t.Fatalf("%v allocations per verification", n)
	}
}

func TestConcurrentMintVerifyAndRotate(t *testing.T) {
	clock := newHand()
	issuer := newIssuer(clock)
	sets := []auth.KeySet{{Current: keyA, Others: []auth.SigningKey{keyB}}, {Current: keyB, Others: []auth.SigningKey{keyA}}}
	issuer.SetKeys(sets[0])
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				token, _, err := issuer.Mint(auth.Grant{Org: org, Slug: "acme", Client: client, Scope: parley.ScopeOrg})
				if err != nil {
					t.Error(err)
				}
				for range 2 {
					if _, err := issuer.Verify([]byte(token)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Go(func() {
		for i := range 50 {
			issuer.SetKeys(sets[i%2])
		}
	})
	group.Wait()
}

// TestKidsAreThumbprints: another library computes the same kid for a key.
func TestKidsAreThumbprints(t *testing.T) {
	key := jose.JSONWebKey{Key: ed25519.PublicKey(keyA.Public())}
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil || b64(sum) != keyA.Kid {
		t.Fatalf("%s, %v, want %s", b64(sum), err, keyA.Kid)
	}
	seed := auth.NewSeed(parley.CountingEntropy())
	if len(seed) != 32 || auth.NewSigningKey(seed, newHand().now()).Kid == keyA.Kid {
		t.Fatalf("seed %x", seed)
	}
}

// TestNoGoroutineIsLeft: a virtual clock stands still when its test ends, so no
// goroutine may be left that waits for it.
func TestNoGoroutineIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := auth.NewIssuer(base, base, auth.KeySet{Current: keyA}, time.Now, parley.CountingEntropy())
		difficulty := auth.NewDifficulty(20, true, time.Now)
		difficulty.Count("a")
		token := []byte(mint(t, issuer))
		if _, err := issuer.Verify(token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute)
		if _, err := issuer.Verify(token); !errors.Is(err, auth.ErrTokenExpired) {
			t.Fatal(err)
		}
	})
}
