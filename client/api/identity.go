package api

import "parley/client/parley"

// GetWebFinger finds the documents of an active agent by its URI, also of an unlisted one.
// // source: RFC 7033 section 4
type GetWebFinger struct {
	// Resource is the URI of an agent: acct:name@org.domain.
	Resource string `json:"-" query:"resource" required:"true" minLength:"1" maxLength:"2048" example:"acct:bob@acme.localhost"`
	// Rel selects the links with these relations; without it, all links are returned. It
	// may be repeated.
	Rel []string `json:"-" query:"rel" maxItems:"32"`
}

// Relations of the links in a WebFinger answer.
const (
	RelSelf      = "self"
	RelAgentCard = "agent-card"
	RelDID       = "did"
)

// Media types of identity documents.
const (
	// MediaJRD is that of WebFinger. // source: RFC 7033 section 10.2
	MediaJRD = "application/jrd+json"
	MediaDID = "application/did+json"
)

// WebFinger says where the documents of an agent are.
type WebFinger struct {
	// Subject is the agent's acct URI in lower case.
	Subject string `json:"subject"`
	// Aliases are other URIs of the agent: its DID.
	Aliases []string        `json:"aliases"`
	Links   []WebFingerLink `json:"links"`
}

// WebFingerLink is a link to one document: self and agent-card to the agent's card, did to
// its DID document.
type WebFingerLink struct {
	Rel  string `json:"rel"`
	Type string `json:"type"`
	Href string `json:"href"`
}

// GetDIDDocument returns the document of an active agent's decentralized identifier (DID):
// did:web:org.domain:agents:name. An unlisted agent has one too.
type GetDIDDocument struct {
	// Name is the agent's name. Its handle and its id are accepted as well.
	Name string `json:"-" path:"name" required:"true"`
	// Org is the slug of the agent's organization in place of the one in the Host header.
	// It is read with --dev only.
	Org *string `json:"-" query:"org"`
	// Host names the organization: its slug is the label before the service domain.
	Host string `json:"-" header:"Host"`
}

// Types in DID documents.
const (
	// JSONWebKey is the type of all verification methods.
	JSONWebKey = "JsonWebKey2020"
	// ServiceMessaging and ServiceA2A are the types of services.
	ServiceMessaging = "AgentMessaging"
	ServiceA2A       = "A2A"
)

// DIDDocument describes an agent by its DID: its public keys, what they are for, and where
// it is reached. // source: W3C Decentralized Identifiers 1.0 section 5
type DIDDocument struct {
	Context []string `json:"@context"`
	// ID is the DID: did:web:org.domain:agents:name.
	ID string `json:"id"`
	// AlsoKnownAs are other URIs of the agent: its acct URI.
	AlsoKnownAs        []string             `json:"alsoKnownAs"`
	VerificationMethod []VerificationMethod `json:"verificationMethod"`
	// Authentication lists the ids of the keys that authenticate the agent: its signing
	// key.
	Authentication []string `json:"authentication"`
	// AssertionMethod lists the ids of the keys that sign statements: its signing key.
	AssertionMethod []string `json:"assertionMethod"`
	// KeyAgreement lists the ids of the keys that messages are encrypted to.
	KeyAgreement []string `json:"keyAgreement"`
	// Service lists the addresses at which the agent is reached.
	Service []DIDService `json:"service"`
}

// VerificationMethod is one public key in a DID document.
type VerificationMethod struct {
	// ID is the DID and, after #, the key's kid.
	ID   string `json:"id"`
	Type string `json:"type" enum:"JsonWebKey2020"`
	// Controller is the DID.
	Controller   string `json:"controller"`
	PublicKeyJWK JWK    `json:"publicKeyJwk"`
}

// DIDService is an address at which an agent is reached.
type DIDService struct {
	ID              string `json:"id"`
	Type            string `json:"type" enum:"AgentMessaging,A2A"`
	ServiceEndpoint string `json:"serviceEndpoint"`
}

// NewDIDDocument returns the DID document of an agent with these current keys and
// services. The id of a service is completed with the agent's DID.
// // spec: Directory and discovery (all public, no auth)
func NewDIDDocument(h parley.Handle, signing, encryption JWK, services ...DIDService) DIDDocument {
	did := h.DID()
	method := func(key JWK) VerificationMethod {
		return VerificationMethod{ID: did + "#" + key.Kid, Type: JSONWebKey, Controller: did, PublicKeyJWK: key}
	}
	signs, seals := method(signing), method(encryption)
	d := DIDDocument{
		Context:            []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1"},
		ID:                 did,
		AlsoKnownAs:        []string{h.Account()},
		VerificationMethod: []VerificationMethod{signs, seals},
		Authentication:     []string{signs.ID},
		AssertionMethod:    []string{signs.ID},
		KeyAgreement:       []string{seals.ID},
		Service:            []DIDService{},
	}
	for _, s := range services {
		s.ID = did + s.ID
		d.Service = append(d.Service, s)
	}
	return d
}

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
