package auth

import "github.com/go-jose/go-jose/v4"

// SignCompact signs a payload and returns it as a compact JWS, whose type says what it is,
// so that it cannot be taken for something else. The same key, type and payload give the
// same text. // source: RFC 8725 section 3.11
func SignCompact(key SigningKey, typ string, payload []byte) (string, error) {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key.Private, KeyID: key.Kid}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
