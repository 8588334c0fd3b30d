package api

import "parley/client/parley"

// AgentKeys are the public keys of an agent and their binding.
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

// BindKeys binds an agent's current keys: PUT /agents/{id}/key-binding.
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
