package auth

import (
	"crypto/mlkem"

	"parley/client/parley"
)

// ParsePQKey parses the members of a public post-quantum key of kind AKP and returns the
// raw key. It rejects private keys, non-canonical spellings of pub, ML-KEM keys with a
// coefficient outside the field and, in an X-Wing key, X25519 points of low order. Errors
// are *KeyError. // docs: encryption.md
func ParsePQKey(kty, alg, pub string, private bool) ([]byte, error) {
	if private {
		return nil, badKey("priv", "a private key must never be uploaded")
	}
	members := [3][2]string{{"kty", kty}, {"alg", alg}, {"pub", pub}}
	for _, m := range members {
		if m[1] == "" {
			return nil, &KeyError{Member: m[0], Type: "missing", Text: "Field required"}
		}
	}
	if kty != "AKP" {
		return nil, badKey("kty", "kty must be AKP")
	}
	var size int
	var text string
	switch alg {
	case parley.MLKEM768:
		size, text = parley.MLKEM768Size, "pub of an ML-KEM-768 key must be 1184 bytes in base64url without padding"
	case parley.XWing:
		size, text = parley.XWingSize, "pub of an X-Wing key must be 1216 bytes in base64url without padding"
	default:
		return nil, badKey("alg", "alg must be ML-KEM-768 or X-Wing")
	}
	raw, ok := decodeFixed(pub, size)
	if !ok {
		return nil, badKey("pub", text)
	}
	if _, err := mlkem.NewEncapsulationKey768(raw[:parley.MLKEM768Size]); err != nil {
		return nil, badKey("pub", "pub is not an ML-KEM-768 encapsulation key: a coefficient is out of range")
	}
	if alg == parley.XWing && lowOrderX25519(raw[parley.MLKEM768Size:]) {
		return nil, badKey("pub", "pub ends in a low-order X25519 point")
	}
	return raw, nil
}
