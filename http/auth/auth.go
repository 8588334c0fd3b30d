// Package auth authenticates callers and verifies keys, secrets, tokens and signatures.
// It holds no state of organizations or agents: whether an authenticated caller still
// exists is checked by the actors afterwards.
//
// It uses only the clock it is given and writes nothing to disk but the master key file.
package auth

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strings"

	"parley/client/parley"
)

// Refusals of this package. // spec: Errors
var (
	// ErrInvalidToken rejects a bearer token that is not a JWT of this service's form.
	ErrInvalidToken = parley.Refuse(parley.BadToken, "invalid_token", "The bearer token is malformed. POST /oauth/token issues tokens.")
	// ErrTokenExpired rejects a token of this service that has expired.
	ErrTokenExpired = parley.Refuse(parley.Unauthenticated, "token_expired", "The bearer token has expired. POST /oauth/token issues a new one.")
	// ErrNotAuthenticated rejects a missing token, or one that proves nothing.
	ErrNotAuthenticated = parley.Refuse(parley.Unauthenticated, "not_authenticated", "A valid bearer token is required. POST /oauth/token issues one.")
	// ErrInvalidClient rejects an unknown client and a wrong secret alike.
	ErrInvalidClient = parley.Refuse(parley.Unauthenticated, "invalid_client", "The client credentials are not valid.")
	// ErrSignatureInvalid rejects a signature that the server could check and that
	// failed.
	ErrSignatureInvalid = parley.Refuse(parley.BadSignature, "signature_invalid", "The message signature does not verify.")
)

// credentialsMax bounds an Authorization header with client id and secret, in bytes.
// Tokens have their own bound.
const credentialsMax = 8 << 10

// ParseBearer returns the token in an Authorization header. The result shares the
// header's memory. It returns false if the scheme is another one or the token is missing.
func ParseBearer(header []byte) ([]byte, bool) {
	rest, ok := cutScheme(header, "bearer")
	if !ok || len(rest) == 0 {
		return nil, false
	}
	return rest, true
}

// ParseBasic returns the client id and secret in an Authorization header. It decodes both
// as form values after splitting at the colon, as OAuth requires. It returns false if the
// scheme is another one, the id is missing or the form is wrong.
// // source: RFC 6749 section 2.3.1
func ParseBasic(header []byte) (id, secret string, ok bool) {
	rest, ok := cutScheme(header, "basic")
	if !ok || len(header) > credentialsMax {
		return "", "", false
	}
	plain, err := base64.StdEncoding.DecodeString(string(rest))
	if err != nil {
		return "", "", false
	}
	rawID, rawSecret, ok := strings.Cut(string(plain), ":")
	if !ok || rawID == "" {
		return "", "", false
	}
	if id, err = url.QueryUnescape(rawID); err != nil {
		return "", "", false
	}
	if secret, err = url.QueryUnescape(rawSecret); err != nil {
		return "", "", false
	}
	return id, secret, true
}

// cutScheme returns what follows an authentication scheme, whose case is ignored.
func cutScheme(header []byte, scheme string) ([]byte, bool) {
	header = bytes.Trim(header, " \t")
	if len(header) <= len(scheme) || header[len(scheme)] != ' ' {
		return nil, false
	}
	for i := range len(scheme) {
		if header[i]|0x20 != scheme[i] {
			return nil, false
		}
	}
	return bytes.TrimLeft(header[len(scheme):], " "), true
}

// draw returns 32 random bytes from four draws. It takes the last eight bytes of each
// draw, so that a counting source gives distinct results too.
func draw(entropy parley.Entropy) (b [32]byte) {
	for i := 0; i < len(b); i += 8 {
		d := entropy()
		copy(b[i:i+8], d[2:])
		b[i] ^= d[0]
		b[i+1] ^= d[1]
	}
	return b
}

// shortID returns 20 random hex digits.
func shortID(entropy parley.Entropy) string {
	const digits = "0123456789abcdef"
	var out [20]byte
	d := entropy()
	for i, x := range d {
		out[2*i], out[2*i+1] = digits[x>>4], digits[x&15]
	}
	return string(out[:])
}

// decodeFixed decodes base64url without padding that encodes exactly size bytes in the
// canonical way. The length check excludes the line breaks that encoding/base64 would
// skip.
func decodeFixed(text string, size int) ([]byte, bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(size) {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return raw, err == nil && len(raw) == size
}
