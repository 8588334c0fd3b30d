package a2a

import (
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/gowebpki/jcs"

	"parley/client/api"
	"parley/http/auth"
)

// Sign signs a card and returns it as JSON in its canonical form, the signature included.
// jku is the URL of the key document, where verifiers find the key.
// // source: A2A 1.0 section 8.4.2
func Sign(card api.A2ACard, key auth.SigningKey, jku string) ([]byte, error) {
	card.Signatures = nil
	payload, err := canonical(card)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key.Private, KeyID: key.Kid}},
		(&jose.SignerOptions{}).WithType("JOSE").WithHeader("jku", jku))
	if err != nil {
		return nil, err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return nil, err
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		return nil, err
	}
	parts := strings.Split(compact, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("a compact JWS of %d parts", len(parts))
	}
	card.Signatures = []api.A2ASignature{{Protected: parts[0], Signature: parts[2]}}
	return canonical(card)
}

// canonical returns a card in the form that is signed. // source: RFC 8785
func canonical(card api.A2ACard) ([]byte, error) {
	text, err := json.Marshal(card)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(text)
}

// Extend adds a top-level member with the whole extension to a signed card. The signature
// does not cover it: verifiers skip members that A2A does not have.
func Extend(signed []byte, brand string, x api.CardExtension) ([]byte, error) {
	name, err := json.Marshal(brand)
	if err != nil {
		return nil, err
	}
	members, err := json.Marshal(x, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	extended := append([]byte(nil), signed[:len(signed)-1]...)
	extended = append(append(append(extended, ','), name...), ':')
	return append(append(extended, members...), '}'), nil
}
