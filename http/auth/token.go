package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"parley/client/parley"
)

const (
	tokenType = "at+jwt"
	// tokenBytesMax bounds a token before anything is decoded, in bytes.
	tokenBytesMax = 4096
	// leeway tolerates the clock of another node that issued a token. It does not
	// lengthen a token's life.
	leeway = 30 * time.Second
	// verifiedMax bounds the cache of verified tokens, in tokens.
	verifiedMax = 1 << 16
)

// Claims is the content of a verified token. The caller reads from state whether the
// organization and the client still exist, and the current tier.
type Claims struct {
	OrgID    parley.OrgID
	Slug     string
	ClientID parley.ClientID
	Expires  time.Time
}

// Issuer issues and verifies access tokens: EdDSA JWTs of type at+jwt that live fifteen
// minutes. It is safe for concurrent use. // spec: Authentication
type Issuer struct {
	issuer   string
	audience string
	clock    parley.Clock
	entropy  parley.Entropy
	parser   *jwt.Parser
	keys     atomic.Pointer[keyring]
	// verified caches verified tokens until they expire, because verifying a signature
	// costs more than all other checks before the handler. The key is a hash under a seed
	// of this process. The verdict contains the token itself, so that two tokens with the
	// same hash are not confused.
	verified *otter.Cache[uint64, verdict]
	seed     maphash.Seed
}

// keyring is a key set prepared for lookup. It is identified by its address: a verdict
// reached under another keyring does not count.
type keyring struct {
	set   KeySet
	byKid map[string]SigningKey
}

type verdict struct {
	token  string
	claims Claims
	under  *keyring
}

// NewIssuer returns an issuer. issuer and audience are the values of iss and aud, both
// the base URL in a plain installation.
func NewIssuer(issuer, audience string, keys KeySet, clock parley.Clock, entropy parley.Entropy) *Issuer {
	i := &Issuer{
		issuer: issuer, audience: audience, clock: clock, entropy: entropy,
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{Algorithm}), jwt.WithStrictDecoding(), jwt.WithIssuer(issuer),
			jwt.WithAudience(audience), jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(),
			jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(clock)),
		seed: maphash.MakeSeed(),
		verified: otter.Must(&otter.Options[uint64, verdict]{
			MaximumSize: verifiedMax,
			ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[uint64, verdict]) time.Duration {
				return e.Value.claims.Expires.Sub(clock())
			}),
			Clock: cacheClock{clock},
		}),
	}
	i.SetKeys(keys)
	return i
}

// SetKeys replaces all signing keys at once. Cached verdicts under the former keys no
// longer count.
func (i *Issuer) SetKeys(keys KeySet) {
	ring := &keyring{set: keys, byKid: map[string]SigningKey{}}
	for _, k := range keys.Others {
		ring.byKid[k.Kid] = k
	}
	ring.byKid[keys.Current.Kid] = keys.Current
	i.keys.Store(ring)
}

// Keys returns the signing keys in use.
func (i *Issuer) Keys() KeySet { return i.keys.Load().set }

// Grant is what a token is minted for. Expires is when the credential ends, zero for never.
type Grant struct {
	Org     parley.OrgID
	Slug    string
	Client  parley.ClientID
	Scope   parley.Scope
	Expires time.Time
}

// Mint signs a token for a client of an organization and returns it with its time of expiry,
// which is that of the credential if that is earlier.
func (i *Issuer) Mint(g Grant) (string, time.Time, error) {
	now, key := i.clock(), i.keys.Load().set.Current
	expires := time.Unix(now.Unix(), 0).Add(parley.TokenLifetime).UTC()
	if !g.Expires.IsZero() && g.Expires.Before(expires) {
		expires = time.Unix(g.Expires.Unix(), 0).UTC()
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"iss": i.issuer, "aud": i.audience, "sub": g.Org, "org_id": g.Org, "org_slug": g.Slug, "client_id": g.Client, "scope": g.Scope,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(), "jti": shortID(i.entropy),
	})
	token.Header["kid"], token.Header["typ"] = key.Kid, tokenType
	text, err := token.SignedString(key.Private)
	return text, expires, err
}

// Verify verifies a bearer token. It keeps no reference to the token's memory. The error
// is ErrInvalidToken if the form is wrong, ErrNotAuthenticated if the form is right but
// this service did not issue the token for itself, and ErrTokenExpired if it has expired.
// // spec: Errors
func (i *Issuer) Verify(token []byte) (Claims, error) {
	if len(token) > tokenBytesMax {
		return Claims{}, ErrInvalidToken
	}
	ring, sum := i.keys.Load(), maphash.Bytes(i.seed, token)
	if known, ok := i.verified.GetIfPresent(sum); ok && known.under == ring && known.token == string(token) {
		if !i.clock().Before(known.claims.Expires) {
			return Claims{}, ErrTokenExpired
		}
		return known.claims, nil
	}
	text := string(token)
	claims, err := i.judge(text, ring)
	if err != nil {
		return Claims{}, err
	}
	i.verified.Set(sum, verdict{token: text, claims: claims, under: ring})
	return claims, nil
}

// accessClaims are the claims as they are parsed.
type accessClaims struct {
	jwt.RegisteredClaims
	OrgID    parley.OrgID    `json:"org_id"`
	Slug     string          `json:"org_slug"`
	ClientID parley.ClientID `json:"client_id"`
}

func (i *Issuer) judge(token string, ring *keyring) (Claims, error) {
	kid, err := readHeader(token)
	if err != nil {
		return Claims{}, err
	}
	read := accessClaims{}
	_, err = i.parser.ParseWithClaims(token, &read, func(*jwt.Token) (any, error) {
		if key, ok := ring.byKid[kid]; ok && key.live(i.clock()) {
			return public(key.Private), nil
		}
		return ed25519.PublicKey(nil), ErrNotAuthenticated
	})
	switch {
	case err == nil:
	case errors.Is(err, jwt.ErrTokenMalformed):
		return Claims{}, ErrInvalidToken
	case errors.Is(err, jwt.ErrTokenExpired):
		return Claims{}, ErrTokenExpired
	default:
		return Claims{}, ErrNotAuthenticated
	}
	// The parser applies the leeway to exp too, but a token's life is exact.
	if !i.clock().Before(read.ExpiresAt.Time) {
		return Claims{}, ErrTokenExpired
	}
	if read.OrgID.Zero() || read.ClientID.Zero() || read.Subject != read.OrgID.String() || read.ID == "" || read.IssuedAt == nil {
		return Claims{}, ErrNotAuthenticated
	}
	return Claims{OrgID: read.OrgID, Slug: strings.Clone(read.Slug), ClientID: read.ClientID, Expires: read.ExpiresAt.UTC()}, nil
}

// readHeader checks the form of a token and its whole header, and returns the key id.
// This service writes exactly three members. Any other member, such as a URL to fetch a
// key from, indicates a forgery.
func readHeader(token string) (kid string, err error) {
	head, rest, ok := strings.Cut(token, ".")
	if !ok || strings.Count(rest, ".") != 1 || strings.ContainsAny(token, "\r\n") {
		return "", ErrInvalidToken
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(head)
	if err != nil {
		return "", ErrInvalidToken
	}
	members := map[string]any{}
	if err := json.Unmarshal(raw, &members); err != nil || members["alg"] != Algorithm {
		return "", ErrInvalidToken
	}
	kid, _ = members["kid"].(string)
	if kid == "" || members["typ"] != tokenType || len(members) != 3 {
		return "", ErrNotAuthenticated
	}
	return kid, nil
}
