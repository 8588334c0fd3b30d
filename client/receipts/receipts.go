// Package receipts verifies the receipts of messages, which a server signs.
package receipts

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/client/api"
	"parley/client/parley"
)

// typeSuffix is the end of the type of receipts; the brand of the service stands before it.
const typeSuffix = "-receipt+jwt"

var (
	// ErrNoReceipt means that a text is not a receipt of a message.
	ErrNoReceipt = errors.New("not a receipt of a message")
	// ErrKey means that the key document does not have the key of a receipt.
	ErrKey = errors.New("the key document does not have the key that signed the receipt")
	// ErrSignature means that the signature of a receipt is not by the named key, or
	// that the receipt was changed.
	ErrSignature = errors.New("the signature does not match: the receipt was changed or is forged")
)

// Verified is a receipt whose signature is right.
type Verified struct {
	api.ReceiptClaims
	// Kid is the id of the key that signed it.
	Kid string `json:"kid"`
}

// Verify checks the signature of a receipt with the keys of a key document, whose
// origin the caller vouches for, and returns what it says. The error is ErrNoReceipt,
// ErrKey or ErrSignature. // source: RFC 7515 section 5.2
func Verify(receipt string, keys *api.SigningKeys) (*Verified, error) {
	parts := strings.Split(receipt, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%w: a compact JWS has three parts", ErrNoReceipt)
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return nil, fmt.Errorf("%w: part %d is not base64url", ErrNoReceipt, i+1)
		}
	}
	var header struct {
		Algorithm string   `json:"alg"`
		Kid       string   `json:"kid"`
		Type      string   `json:"typ"`
		Critical  []string `json:"crit"`
	}
	if err := json.Unmarshal(decoded[0], &header); err != nil {
		return nil, fmt.Errorf("%w: its header is not JSON", ErrNoReceipt)
	}
	if !strings.HasSuffix(header.Type, typeSuffix) || header.Algorithm != "EdDSA" || header.Critical != nil {
		return nil, fmt.Errorf("%w: its type is %q, its algorithm %q", ErrNoReceipt, header.Type, header.Algorithm)
	}
	key, err := keyOf(header.Kid, keys)
	if err != nil {
		return nil, err
	}
	if !ed25519.Verify(key, []byte(parts[0]+"."+parts[1]), decoded[2]) {
		return nil, ErrSignature
	}
	out := &Verified{Kid: header.Kid}
	if err := json.Unmarshal(decoded[1], &out.ReceiptClaims); err != nil || out.MessageID.Zero() || out.PayloadSHA256 == "" {
		return nil, fmt.Errorf("%w: its payload is that of something else", ErrNoReceipt)
	}
	return out, nil
}

// keyOf returns the Ed25519 key with an id.
func keyOf(kid string, keys *api.SigningKeys) (ed25519.PublicKey, error) {
	for _, k := range keys.Keys {
		if k.Kid != kid || kid == "" || k.Curve != parley.Ed25519 {
			continue
		}
		if raw, err := base64.RawURLEncoding.Strict().DecodeString(k.X); err == nil && len(raw) == ed25519.PublicKeySize {
			return raw, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrKey, kid)
}

// Covers reports whether the receipt is for a payload: the text of encrypted_payload, as it
// was sent and as every reader gets it.
func (r *Verified) Covers(payload string) bool {
	sum := sha256.Sum256([]byte(payload))
	return hex.EncodeToString(sum[:]) == r.PayloadSHA256
}
