package plain

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/valyala/fasthttp"
)

// tokens admits requests with a valid EdDSA token. It verifies a token once and then caches
// its digest: verification costs more than the rest of a request, and every fast server
// caches it.
type tokens struct {
	key    ed25519.PublicKey
	parser *jwt.Parser
	known  sync.Map // [sha256.Size]byte to the time.Time of expiry
}

// newTokens creates a key and a token that is valid for a day.
func newTokens() (*tokens, string, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.RegisteredClaims{
		Issuer: "bench", Subject: uuid.NewString(), ID: uuid.NewString(),
		ExpiresAt: jwt.NewNumericDate(time.Now().Add(24 * time.Hour)),
	}).SignedString(private)
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithExpirationRequired())
	return &tokens{key: public, parser: parser}, token, err
}

func (t *tokens) guard(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(c *fasthttp.RequestCtx) {
		token, ok := bytes.CutPrefix(c.Request.Header.Peek("Authorization"), []byte("Bearer "))
		if !ok || !t.passes(token) {
			c.SetStatusCode(fasthttp.StatusUnauthorized)
			return
		}
		next(c)
	}
}

func (t *tokens) passes(token []byte) bool {
	digest := sha256.Sum256(token)
	if expires, ok := t.known.Load(digest); ok {
		return time.Now().Before(expires.(time.Time))
	}
	var claims jwt.RegisteredClaims
	_, err := t.parser.ParseWithClaims(string(token), &claims, func(*jwt.Token) (any, error) { return t.key, nil })
	if err != nil {
		return false
	}
	t.known.Store(digest, claims.ExpiresAt.Time)
	return true
}
