package api

import (
	"encoding/base64"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client/parley"
)

// PQKey is a public key of kind AKP: a post-quantum key to which messages are sealed.
type PQKey struct {
	KeyType   string `json:"kty" required:"true" enum:"AKP"`
	Algorithm string `json:"alg" required:"true" enum:"ML-KEM-768,X-Wing"`
	// Pub is the raw public key in base64url without padding: 1184 bytes for ML-KEM-768;
	// for X-Wing 1216, an ML-KEM-768 key followed by an X25519 key.
	Pub string `json:"pub" required:"true" minLength:"1579" maxLength:"1622" example:"klonAK0GT_d4tNpM9RRXpIIkpSdRJQqO4QslHIGLr8rG9BIeoySK-Pyo1-RrIZtvLzgYnbQJDWeCA_weR0gismg49IGvvzqPLEPPcwCznvcwZDo_e-Jg4ZVEmBlj47V3oPq4L5Mmolo0zFtI6BNR2nIrsXeu-xuYKbJwIzxpVbQavqUmOeeS03ZN06l-TJqYq6wBtem5ykPIiqZyO1uuYOMcLqsRbikYqDDBjdMP33gsDsiJQUaqq2HF4Fk6aRmZ-wc24KsJCpg14bBnO3OQUSsymZERkXthDDeRA_U7SLbEMozNIuBGi4Z0P1uOBGJYPAiqJIOnymjIDHdWUCtdjQNVMEh8BAxHCneZnSA3FEg1agMp0Wc_cgKIDwAbXsHHTKFEPOMlgLuspjokSxSO6YeaOMZuzJpwvjnOH2sNmIEFleVf7VGhHlQfNgG0kfwAfUeu3pCNzyxWuNkqYIim5RhWDieVaIU4ZvpvaLNnlfN47KBuLAgTnsiQ2MmZNfop77oXmOxrlDWpQmQ0zPrDTnR-l7K0sxNxFPMFd0RNwfcJ1XE1IWxStFgNQAJNQOXMOQuJeJEiFODIkjU0JWOleunNAUYIxATAs6uhOGGtzslX41jKFNiGyqRx9fWqHLBa8sBmEPRK80gy5mVoNlCcv6qfbcO1e6ozTgdWsrwZxYS_g4rHNNMgfVmwNJiiZeU5OiRS0qdOWGVmQrU0OyqAo6rG7MPH8wVtI5hj6YYrDzwAmwlFNcybnoE4SRdJ-zSwV2wHFtoVwxs2y-J7bYVygqG1d4lxOZE6ErGL7MQkTEKMjQaNtgKC1ah6a9CelwJq2NlxhjeaIDAntpOiregjBsWl2umzCIe4vQSKMkauCyCLpvlNdOVl9pMdy4WST2S5jitvwOkw2rlsUfhsFSLP_0c5O2DFFClbwiEHwLNuBhy_RdKDTWNry3ePcYFHFkSoSyZUH6BSMNdMx-OCvrC6vEmn8FoVUpOPJPEGOaCmVzGedblPlCASbKEpl-HHr1BWgsFQ0iZBiKK_3OYbP_w3b0li0jmNsZQF9xUaBmpMUGxY37eiXggWGlZ_EsUZNVeBwnMZnsjFY8nCVxdE1TKl6HpOw5yTroSwR-g3m5R9GaY8X2lieUQZAupTYAg9JjejbcCz3PVRwfyJ74ugcTk_aIEcNlimRMrP_DM6SvC_RFJJdLd9N0mAwRYwDPayi2tbS_w_FNyB1ylL0zhQa9exytivKEwwptOObxU04ceMOcUiKzlZ4ZynicWAUEI1b8O-DfxAWCs59jIToLamZKMgNMlETGatn1ZEeAgNBdtIpRyeEJiALwyegjqznEhmjSQxkuK0sEKe43lSBIt3tCchcXpu53dHS8PJjwaQx1iUshRshkIfKfpECeADpbtmsfkJZyq4GGoEASy0eld2JwA9VjOzNgmRAGPDxRMx9AQAN2gpfbO9MeFlUbUvbNSK0EWK7Ou0qOY5NddnQ7BNOsgHw3wxaJBaHTou_SfFZZSx_nJU0uZ_f6GHI2XN3jQwPAOrwSCUBmKBTnrf4GmX1lK0AB_GEsK3z8qgBnwjipQoV6SFIPAJiTCnVHSLfdy0PvdaDb86DSY4GvTrpKmOqptOag"`
	// Kid is the RFC 7638 thumbprint. The service computes and always sends it; it
	// ignores an uploaded kid.
	Kid string `json:"kid,omitzero" input:"false"`

	private bool
}

var (
	// ErrPQKeyKind is returned if a key is not an AKP key of the requested algorithm.
	ErrPQKeyKind = errors.New("value should be an AKP key of the algorithm expected")
	// ErrPQKeyBytes is returned if the pub of a key is not of the size of its algorithm, in
	// canonical base64url.
	ErrPQKeyBytes = errors.New("pub should be a key of its algorithm in canonical base64url without padding")
)

// pqKeySizes are the sizes of raw public keys, in bytes, by algorithm.
var pqKeySizes = map[string]int{parley.MLKEM768: parley.MLKEM768Size, parley.XWing: parley.XWingSize}

// NewPQKey returns the JWK of a raw public key, including its thumbprint.
func NewPQKey(algorithm string, raw []byte) PQKey {
	return PQKey{KeyType: "AKP", Algorithm: algorithm, Pub: base64.RawURLEncoding.EncodeToString(raw), Kid: parley.AKPThumbprint(algorithm, raw)}
}

// Private reports whether the key was read from JSON that had a private member, priv or d.
// The private value itself is not kept.
func (k PQKey) Private() bool { return k.private }

// Raw returns the raw public key if k is a public AKP key of the algorithm.
func (k PQKey) Raw(algorithm string) ([]byte, error) {
	if k.private {
		return nil, ErrPrivateKey
	}
	if k.KeyType != "AKP" || k.Algorithm != algorithm {
		return nil, ErrPQKeyKind
	}
	size := pqKeySizes[algorithm]
	raw, err := base64.RawURLEncoding.Strict().DecodeString(k.Pub)
	// The decoder skips line ends, so the length of the text is checked too.
	if err != nil || len(raw) != size || len(k.Pub) != base64.RawURLEncoding.EncodedLen(size) {
		return nil, ErrPQKeyBytes
	}
	return raw, nil
}

// UnmarshalJSON reads kty, alg, pub and kid, records whether a private member is present,
// and ignores everything else.
func (k *PQKey) UnmarshalJSON(b []byte) error {
	var in struct {
		KeyType   string         `json:"kty"`
		Algorithm string         `json:"alg"`
		Pub       string         `json:"pub"`
		Kid       jsontext.Value `json:"kid"`
		Priv      jsontext.Value `json:"priv"`
		D         jsontext.Value `json:"d"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*k = PQKey{KeyType: in.KeyType, Algorithm: in.Algorithm, Pub: in.Pub, private: in.Priv != nil || in.D != nil}
	if in.Kid.Kind() == '"' { // what else may stand there is dropped, as one uploaded is
		return json.Unmarshal(in.Kid, &k.Kid)
	}
	return nil
}

// SetPQKey gives an agent a post-quantum key: POST /agents/{id}/keys/pq. It replaces the one
// before. The answer is an Agent.
type SetPQKey struct {
	ID          parley.AgentID `json:"-" path:"id" required:"true"`
	PQPublicKey *PQKey         `json:"pq_public_key" required:"true"`
}

// RemovePQKey removes an agent's post-quantum key: DELETE /agents/{id}/keys/pq.
type RemovePQKey struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}
