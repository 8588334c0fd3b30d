package api

import (
	"encoding/base64"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client/parley"
)

// JWK is a public key of kind OKP (RFC 8037): an Ed25519 key for verifying signatures
// or an X25519 key to which messages are sealed.
type JWK struct {
	KeyType string `json:"kty" required:"true" enum:"OKP"`
	Curve   string `json:"crv" required:"true" enum:"Ed25519,X25519"`
	// X is the raw 32-byte public key in base64url without padding.
	X string `json:"x" required:"true" minLength:"43" maxLength:"43" example:"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"`
	// Kid is the RFC 7638 thumbprint. The service computes and always sends it; it
	// ignores an uploaded kid.
	Kid string `json:"kid,omitzero" input:"false"`

	private bool
}

var (
	// ErrPrivateKey is returned if a JWK has a private part. // docs: encryption.md
	ErrPrivateKey = errors.New("a private key must never be sent")
	// ErrKeyKind is returned if a JWK is not an OKP key on the requested curve.
	ErrKeyKind = errors.New("value should be an OKP key on the curve expected")
	// ErrKeyBytes is returned if the x of a JWK is not 32 bytes in canonical base64url.
	ErrKeyBytes = errors.New("x should be 32 bytes in canonical base64url without padding")
)

// NewJWK returns the JWK of a raw 32-byte public key, including its thumbprint.
func NewJWK(curve string, raw []byte) JWK {
	return JWK{KeyType: "OKP", Curve: curve, X: base64.RawURLEncoding.EncodeToString(raw), Kid: parley.Thumbprint(curve, raw)}
}

// Private reports whether the JWK was read from JSON that had a member d. The
// private value itself is not kept.
func (k JWK) Private() bool { return k.private }

// Raw returns the 32-byte public key if k is a public OKP key on the curve.
func (k JWK) Raw(curve string) ([]byte, error) {
	if k.private {
		return nil, ErrPrivateKey
	}
	if k.KeyType != "OKP" || k.Curve != curve {
		return nil, ErrKeyKind
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
	// The decoder skips line ends, so the length of the text is checked too.
	if err != nil || len(raw) != 32 || len(k.X) != 43 {
		return nil, ErrKeyBytes
	}
	return raw, nil
}

// UnmarshalJSON reads kty, crv, x and kid, records whether d is present, and ignores
// everything else.
func (k *JWK) UnmarshalJSON(b []byte) error {
	var in struct {
		KeyType string         `json:"kty"`
		Curve   string         `json:"crv"`
		X       string         `json:"x"`
		Kid     jsontext.Value `json:"kid"`
		D       jsontext.Value `json:"d"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*k = JWK{KeyType: in.KeyType, Curve: in.Curve, X: in.X, private: in.D != nil}
	if in.Kid.Kind() == '"' { // what else may stand there is dropped, as one uploaded is
		return json.Unmarshal(in.Kid, &k.Kid)
	}
	return nil
}
