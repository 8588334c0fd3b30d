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
