package api

import "parley/client/parley"

// CreateSVIDChallenge requests a challenge to prove a workload identity:
// POST /agents/{id}/verify-svid/challenge.
type CreateSVIDChallenge struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// SVIDChallenge is a challenge to prove a workload identity for one agent. It can be used
// once.
type SVIDChallenge struct {
	// ChallengeID contains the challenge, sealed.
	ChallengeID string `json:"challenge_id"`
	// Nonce is 32 hexadecimal characters.
	Nonce string `json:"nonce"`
	// Audience is what a JWT-SVID is to be minted for.
	Audience  string `json:"audience"`
	ExpiresAt Time   `json:"expires_at"`
	// Methods are the documents that the server accepts.
	Methods []string `json:"methods"`
}

// Documents that prove a workload identity.
const (
	MethodJWTSVID  = "jwt-svid"
	MethodX509SVID = "x509-svid"
)

// VerifySVID proves a workload identity: POST /agents/{id}/verify-svid. It has either a
// JWT-SVID or an X.509-SVID with a signature.
type VerifySVID struct {
	ID          parley.AgentID `json:"-" path:"id" required:"true"`
	ChallengeID string         `json:"challenge_id" required:"true" maxLength:"1024"`
	// JWTSVID is a JWT-SVID that was minted for the audience of the challenge.
	JWTSVID *string `json:"jwt_svid,omitzero" minLength:"1" maxLength:"16384" example:"eyJhbGciOiJFUzI1NiIsImtpZCI6IjEifQ.e30.c2ln"`
	// X509SVID is a chain of certificates, the leaf first, each in DER and base64.
	X509SVID []string `json:"x509_svid,omitzero" maxItems:"8" minLength:"1" maxLength:"16384"`
	// Signature is that of the leaf's key over the brand, -svid-v1, a zero byte, the
	// agent's id, a zero byte and the nonce, in base64: ECDSA (ASN.1) or RSA with SHA-256,
	// or Ed25519.
	Signature *string `json:"signature,omitzero" minLength:"1" maxLength:"2048"`
}

// Check checks that there is exactly one document, and a signature if it needs one.
func (in *VerifySVID) Check() []FieldError {
	fault := func(field, msg string) []FieldError {
		return []FieldError{{Loc: []any{"body", field}, Msg: "Value error, " + msg, Type: valueError}}
	}
	switch {
	case (in.JWTSVID == nil) == (len(in.X509SVID) == 0):
		return fault("jwt_svid", "exactly one of jwt_svid and x509_svid is required")
	case in.JWTSVID == nil && in.Signature == nil:
		return fault("signature", "an X.509-SVID needs a signature")
	}
	return nil
}

// VerifiedSVID is a proven workload identity.
type VerifiedSVID struct {
	Verified bool `json:"verified"`
	// SPIFFEID belongs to the agent's organization from now on.
	SPIFFEID    string `json:"spiffe_id"`
	TrustDomain string `json:"trust_domain"`
	// TrustTier is the organization's.
	TrustTier  int  `json:"trust_tier"`
	VerifiedAt Time `json:"verified_at"`
}
