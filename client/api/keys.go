package api

import (
	"encoding/base64"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client/parley"
)

// AgentKeys are the keys to seal to and to verify with, and the agent's own signature over
// them.
type AgentKeys struct {
	AgentID             parley.AgentID `json:"agent_id"`
	Handle              *string        `json:"handle"`
	SigningPublicKey    *JWK           `json:"signing_public_key"`
	EncryptionPublicKey *JWK           `json:"encryption_public_key"`
	// PQPublicKey is null if the agent has no post-quantum key. The binding does not
	// cover it.
	PQPublicKey *PQKey `json:"pq_public_key"`
	// KeyBinding binds the agent's current keys. It is null if the owner never bound
	// keys, or has changed a key since without binding it.
	KeyBinding *KeyBinding `json:"key_binding"`
	// UnboundSince is when a key first changed without a binding. It is null while the
	// keys are bound, and while they are those that the agent was created with.
	UnboundSince *Time `json:"unbound_since"`
}

// KeyRecord is the answer of GET /agents/{id}/keys?kid=: the keys of the agent, with
// the requested key in place of the current key on its curve, and the time during which
// that key was current. The binding is that of the current keys.
type KeyRecord struct {
	AgentKeys

	// ValidFrom is when the key first became current.
	ValidFrom Time `json:"valid_from"`
	// ValidUntil is when another key replaced it; null for a current key.
	ValidUntil *Time `json:"valid_until"`
	// RetiredAt is when the owner retired the key; null if it is not retired.
	// Signatures made with it later do not verify.
	RetiredAt *Time `json:"retired_at"`
}

// KeysAnswer is the answer of GET /agents/{id}/keys.
type KeysAnswer struct{}

// OneOf returns the shapes of the answer: without ?kid= and with it.
func (KeysAnswer) OneOf() []any { return []any{AgentKeys{}, KeyRecord{}} }

// Continuity of a key binding: how it follows the previous one.
const (
	// ContinuityFirst: the agent's keys were never bound before.
	ContinuityFirst = "first"
	// ContinuitySigned: the signing key is that of the former binding, or the former
	// signing key signed this binding too.
	ContinuitySigned = "signed"
	// ContinuityBroken: only the service's word connects the former signing key with
	// this one.
	ContinuityBroken = "broken"
)

// KeyBinding is an agent's own statement of which two keys are its keys: a
// signature by the signing key over the lines "<brand>-keys-v1", the agent's
// id, its handle, both key ids and signed_at, joined by line feeds.
type KeyBinding struct {
	// Signature is the Ed25519 signature in base64url without padding.
	Signature string `json:"signature"`
	// SignedAt is the signed text itself, byte for byte.
	SignedAt      string `json:"signed_at"`
	SigningKid    string `json:"signing_kid"`
	EncryptionKid string `json:"encryption_kid"`
	// PreviousSignature is the former signing key's signature over the same text; null
	// if there is none.
	PreviousSignature *string `json:"previous_signature"`
	Continuity        string  `json:"continuity" enum:"first,signed,broken"`
}

// KeyProof is a key binding as its owner sends it.
type KeyProof struct {
	// Signature is made with the signing key that is current afterwards, in base64url.
	Signature string `json:"signature" required:"true" maxLength:"88" example:"d4dS_vRKBkAM2MfUCi8jxR9piMQDO74KzHyv_96HhkpGKH2CNn-zdNpiLnsBah0DDchbSsq0jUnwXYXRWP4mBg"`
	// SignedAt is RFC 3339 with Z and at most six decimals, later than that of
	// every former binding and at most five minutes ahead.
	SignedAt string `json:"signed_at" required:"true" minLength:"20" maxLength:"27" example:"2026-11-22T09:00:00.000000Z"`
	// PreviousSignature is the former signing key's signature over the same text.
	PreviousSignature *string `json:"previous_signature,omitzero" maxLength:"88"`
}

// BindKeys has the agent's signature over its current keys: PUT /agents/{id}/key-binding.
type BindKeys struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`

	KeyProof
}

// BoundKeys is the answer of PUT /agents/{id}/key-binding.
type BoundKeys struct {
	KeyBinding KeyBinding `json:"key_binding"`
}

// GetKeyBindings lists all bindings of any active agent's keys, oldest first: GET
// /agents/{id}/key-bindings. The answer is a page of KeyBinding.
type GetKeyBindings struct {
	// ID is the agent's id or its handle.
	ID     string  `json:"-" path:"id" required:"true"`
	Limit  int     `json:"-" query:"limit" minimum:"1" maximum:"200" default:"100"`
	Cursor *string `json:"-" query:"cursor"`
}

// RetireKey declares a former key untrustworthy, permanently: POST
// /agents/{id}/keys/retire. The answer is a KeyRecord.
type RetireKey struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
	// Kid is the RFC 7638 thumbprint of a former key.
	Kid string `json:"kid" required:"true" maxLength:"255" example:"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"`
}

// Check checks the time of a binding that is sent with keys.
func (in *UploadKeys) Check() []FieldError {
	if in.KeyBinding == nil {
		return nil
	}
	return in.KeyBinding.check("body", "key_binding")
}

// Check checks the time of the binding.
func (in *BindKeys) Check() []FieldError { return in.check("body") }

func (in *KeyProof) check(under ...any) []FieldError {
	if n := len(in.SignedAt); n < 20 || n > 27 { // the schema has said so already
		return nil
	}
	if _, err := parley.ParseSignedAt(in.SignedAt); err != nil {
		return []FieldError{{Loc: append(under, "signed_at"), Msg: "Value error, " + err.Error(), Type: valueError}}
	}
	return nil
}

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

// KeyLog is the answer of GET /key-log: what it takes to verify the log's checkpoints.
type KeyLog struct {
	// Origin is the first line of every checkpoint, and the name of the key that signs them.
	Origin string `json:"origin"`
	// VerifierKey is the key in the form of signed notes: name, key hash and key.
	VerifierKey string `json:"verifier_key"`
	// Keys has the same key as a JWK.
	Keys []SigningKey `json:"keys"`
}

// GetInclusionProof proves that the leaf at an index is in the tree of the first entries of
// the log: GET /key-log/proofs/inclusion.
type GetInclusionProof struct {
	Index int `json:"-" query:"index" required:"true" minimum:"0" maximum:"9007199254740991" example:"0"`
	// Size is that of a checkpoint.
	Size int `json:"-" query:"size" required:"true" minimum:"1" maximum:"9007199254740991" example:"1"`
}

// GetConsistencyProof proves that one tree of the log begins with an earlier one: GET
// /key-log/proofs/consistency.
type GetConsistencyProof struct {
	// From is the size of the earlier tree.
	From int `json:"-" query:"from" required:"true" minimum:"1" maximum:"9007199254740991" example:"1"`
	To   int `json:"-" query:"to" required:"true" minimum:"1" maximum:"9007199254740991" example:"1"`
}

// KeyLogProof is a proof by hashes of the tree, in the order of RFC 6962.
type KeyLogProof struct {
	// Hashes are 32 bytes each, in base64.
	Hashes []string `json:"hashes"`
}

// GetKeyLogEntries lists the entries of any agent in the key log, oldest first: GET
// /agents/{id}/key-log. The answer is a page of KeyLogEntry.
type GetKeyLogEntries struct {
	// ID is the agent's id or its handle.
	ID     string  `json:"-" path:"id" required:"true"`
	Limit  int     `json:"-" query:"limit" minimum:"1" maximum:"200" default:"100"`
	Cursor *string `json:"-" query:"cursor"`
}

// KeyLogEntry is one event about an agent's keys: what a leaf of the key log commits to. Kids
// are those of the keys in force after the event.
type KeyLogEntry struct {
	// Index is the number of the leaf in the log; null if it is not there yet.
	Index   *int           `json:"index"`
	AgentID parley.AgentID `json:"agent_id"`
	// Address is the agent's handle without the domain.
	Address string `json:"address"`
	// Number counts the entries of the agent, from 0.
	Number        int     `json:"number"`
	Kind          string  `json:"kind" enum:"created,keys,binding,retired,pq,pq_removed,revoked"`
	SigningKid    string  `json:"signing_kid"`
	EncryptionKid string  `json:"encryption_kid"`
	PQKid         *string `json:"pq_kid"`
	// Subject is the kid of a retired key, or the SHA-256 of the signature of a binding in
	// base64url; null for other kinds.
	Subject *string `json:"subject"`
	// At is part of the committed text, byte for byte.
	At string `json:"at"`
	// Salt is 32 bytes in base64url.
	Salt string `json:"salt"`
}
