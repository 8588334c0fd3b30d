// Package auth says who is calling and whether a key, a secret, a token or a
// signature is what it claims to be. It holds no state of organizations or
// agents: whether a caller that proved its identity still exists is asked of
// the actors afterwards.
//
// It reads no clock but the one it is given and writes nothing to disk but the
// master key file.
package auth

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strings"

	"parley"
)

// Refusals of this package. // spec: Errors
var (
	// ErrInvalidToken is a bearer token that is no JWT of this service's form.
	ErrInvalidToken = parley.Refuse(parley.BadToken, "invalid_token", "The bearer token is malformed.")
	// ErrTokenExpired is a token of this service whose time is over.
	ErrTokenExpired = parley.Refuse(parley.Unauthenticated, "token_expired", "The bearer token has expired.")
	// ErrNotAuthenticated is the absence of a token, or one that proves nothing.
	ErrNotAuthenticated = parley.Refuse(parley.Unauthenticated, "not_authenticated", "A valid bearer token is required.")
	// ErrInvalidClient is one answer for an unknown client and a wrong secret.
	ErrInvalidClient = parley.Refuse(parley.Unauthenticated, "invalid_client", "The client credentials are not valid.")
	// ErrSignatureInvalid is a signature that the server could check and that failed.
	ErrSignatureInvalid = parley.Refuse(parley.BadSignature, "signature_invalid", "The message signature does not verify.")
)

// credentialsMax bounds an Authorization header of client id and secret, in
// bytes. A token has its own bound.
const credentialsMax = 8 << 10

// ParseBearer takes the token out of an Authorization header. The result
// shares the header's memory. False: another scheme, or nothing.
func ParseBearer(header []byte) ([]byte, bool) {
	rest, ok := cutScheme(header, "bearer")
	if !ok || len(rest) == 0 {
		return nil, false
	}
	return rest, true
}

// ParseBasic takes client id and secret out of an Authorization header. Both
// are decoded as form values after the colon was found, as OAuth demands of its
// clients. False: another scheme, no id, or not of that form.
// source: RFC 6749 section 2.3.1
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

// cutScheme is what follows an authentication scheme, compared without case.
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

// draw is 32 bytes of randomness from four draws. The last eight bytes of each
// draw are taken, so that a counting source gives distinct results too.
func draw(entropy parley.Entropy) (b [32]byte) {
	for i := 0; i < len(b); i += 8 {
		d := entropy()
		copy(b[i:i+8], d[2:])
		b[i] ^= d[0]
		b[i+1] ^= d[1]
	}
	return b
}

// shortID is 20 hex digits that do not repeat.
func shortID(entropy parley.Entropy) string {
	const digits = "0123456789abcdef"
	var out [20]byte
	d := entropy()
	for i, x := range d {
		out[2*i], out[2*i+1] = digits[x>>4], digits[x&15]
	}
	return string(out[:])
}

// decodeFixed reads base64url without padding that stands for exactly size
// bytes in the one canonical way. A length check keeps out the line breaks
// that encoding/base64 would skip.
func decodeFixed(text string, size int) ([]byte, bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(size) {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return raw, err == nil && len(raw) == size
}
