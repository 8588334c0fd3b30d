package auth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client/parley"
)

// CheckMessageSignature verifies the optional signature header of a send: the base64url
// Ed25519 signature by key, the raw current key of the acting agent, over
// "<brand>-msg-v1\n" and the hex SHA-256 of the raw request body. brand is in lower case.
// The header may be padded. All failures give ErrSignatureInvalid. // docs: encryption.md
func CheckMessageSignature(brand string, key []byte, header string, rawBody []byte) error {
	signature, ok := decodeFixed(strings.TrimSuffix(header, "=="), ed25519.SignatureSize)
	if !ok || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, SignedMessage(brand, rawBody), signature) {
		return ErrSignatureInvalid
	}
	return nil
}

// SignedMessage returns the text that a message signature covers.
func SignedMessage(brand string, rawBody []byte) []byte {
	sum := sha256.Sum256(rawBody)
	return hex.AppendEncode([]byte(brand+"-msg-v1\n"), sum[:])
}

// AttestationError states which element of sender_attestations is not a JWS, for a 422 at
// ["body","sender_attestations",Index]. Index -1 is the whole array.
type AttestationError struct {
	Index int
	Text  string
}

func (e *AttestationError) Error() string {
	return fmt.Sprintf("sender_attestations[%d]: %s", e.Index, e.Text)
}

var attestationAlgorithms = []jose.SignatureAlgorithm{jose.EdDSA}

// CheckAttestations verifies the raw JSON array of attestations, each a compact JWS as a
// string or a flattened JWS as an object. resolve returns the raw Ed25519 key of an agent
// of this server by a thumbprint or DID URL. Attestations whose protected kid does not
// resolve are accepted unverified, whatever their algorithm. If one fails or signs
// nothing (alg none), the error is ErrSignatureInvalid with its index; if one is not a
// JWS, it is an *AttestationError.
func CheckAttestations(array []byte, resolve func(kid string) (key []byte, ok bool)) error {
	var items []jsontext.Value
	if err := json.Unmarshal(array, &items); err != nil {
		return &AttestationError{Index: -1, Text: "should be an array of JWS"}
	}
	for i, item := range items {
		jws, text := readJWS(item)
		if text != "" {
			return &AttestationError{Index: i, Text: text}
		}
		if jws.alg == "none" {
			return ErrSignatureInvalid.With("index", i)
		}
		if jws.kid == "" {
			continue
		}
		if key, ok := resolve(jws.kid); ok && !jws.verify(key) {
			return ErrSignatureInvalid.With("index", i)
		}
	}
	return nil
}

// attestation is a well-formed JWS. alg and kid come from its protected header.
type attestation struct {
	alg, kid  string
	text      string
	flattened bool
}

// readJWS checks only the form. A non-empty complaint states what is wrong.
func readJWS(item jsontext.Value) (a attestation, complaint string) {
	var protected, payload, signature string
	switch item.Kind() {
	case '"':
		if err := json.Unmarshal(item, &a.text); err != nil {
			return a, "not a string"
		}
		parts := strings.Split(a.text, ".")
		if len(parts) != 3 {
			return a, "a compact JWS has three parts"
		}
		protected, payload, signature = parts[0], parts[1], parts[2]
	case '{':
		a.text, a.flattened = string(item), true
		var flat struct {
			Protected  string         `json:"protected"`
			Payload    *string        `json:"payload"`
			Signature  *string        `json:"signature"`
			Signatures jsontext.Value `json:"signatures"`
		}
		if err := json.Unmarshal(item, &flat); err != nil || flat.Payload == nil || flat.Signature == nil || flat.Signatures != nil {
			return a, "a flattened JWS has protected, payload and signature"
		}
		protected, payload, signature = flat.Protected, *flat.Payload, *flat.Signature
	default:
		return a, "should be a compact JWS or a flattened JWS object"
	}
	head, ok := decodePart(protected)
	_, ok2 := decodePart(payload)
	_, ok3 := decodePart(signature)
	if !ok || !ok2 || !ok3 {
		return a, "the parts of a JWS are base64url without padding"
	}
	var members struct {
		Alg string `json:"alg"`
		Kid string `json:"kid"`
	}
	if err := json.Unmarshal(head, &members); err != nil || members.Alg == "" {
		return a, "the protected header of a JWS is an object with alg"
	}
	a.alg, a.kid = members.Alg, members.Kid
	return a, ""
}

// decodePart decodes canonical base64url of any length.
func decodePart(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return raw, err == nil
}

// verify checks a well-formed JWS against a key. A JWS that the library refuses to parse
// (another algorithm, an unknown crit) does not verify.
func (a attestation) verify(key []byte) bool {
	if len(key) != ed25519.PublicKeySize {
		return false
	}
	parse := jose.ParseSignedCompact
	if a.flattened {
		parse = jose.ParseSignedJSON
	}
	signed, err := parse(a.text, attestationAlgorithms)
	if err != nil || len(signed.Signatures) != 1 || signed.Signatures[0].Protected.KeyID != a.kid {
		return false
	}
	_, err = signed.Verify(ed25519.PublicKey(key))
	return err == nil
}

// ParseAgentDID parses a key id of the form
// did:web:<org_slug>.<domain>:agents:<name>#<fragment>, in which a port of the domain is
// written with %3A. It returns false for another form or another domain.
func ParseAgentDID(kid, domain string) (slug, name, fragment string, ok bool) {
	did, fragment, ok := strings.Cut(kid, "#")
	if !ok || fragment == "" {
		return "", "", "", false
	}
	rest, ok := strings.CutPrefix(did, "did:web:")
	if !ok {
		return "", "", "", false
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 3 || parts[1] != "agents" {
		return "", "", "", false
	}
	host := strings.ReplaceAll(strings.ToLower(parts[0]), "%3a", ":")
	slug, ok = strings.CutSuffix(host, "."+strings.ToLower(domain))
	if !ok || !parley.ValidSlug(slug) || !parley.ValidAgentName(parts[2]) {
		return "", "", "", false
	}
	return slug, parts[2], fragment, true
}
