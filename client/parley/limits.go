package parley

import "time"

// Limits from the specification, in its order. // spec: Limits
const (
	PayloadCharsMax        = 131072
	MetadataBytesMax       = 4096
	AttestationBytesMax    = 8192
	IdempotencyKeyMax      = 255
	InboxLimitMax          = 100
	InboxLimitDefault      = 20
	SyncTimeoutMin         = 1000 * time.Millisecond
	SyncTimeoutMax         = 300000 * time.Millisecond
	SyncTimeoutDefault     = 30000 * time.Millisecond
	HeartbeatEvery         = 30 * time.Second
	HeartbeatsBeforeClose  = 30
	PollSinceDefault       = 24 * time.Hour
	BatchKeysMax           = 200
	AgentNameMax           = 200
	CardNameMax            = 500
	CardDescriptionMax     = 5000
	TranscriptLimitDefault = 50
	TranscriptLimitMax     = 200
	TokenLifetime          = 15 * time.Minute
	JWKSCacheSeconds       = 3600
)

// SigningKeyPublication is how long a new signing key is published before it signs, unless the
// operator demands it at once: as long as verifiers may cache the key document, and those that fetch
// it at an unknown key may wait before they do so again.
const SigningKeyPublication = JWKSCacheSeconds*time.Second + 5*time.Minute

// Limits that the specification leaves open; see docs/limits.md.
const (
	MessageTypeMax    = 200
	ContentTypeMax    = 255
	PayloadSchemaMax  = 2048
	SigningKidMax     = 255
	StatusReasonMax   = 500
	OrgNameMax        = 200
	EmailMax          = 254
	RequestIDMax      = 128
	BodyBytesMax      = 1 << 20
	PageBytesMax      = 1 << 20
	ArrayBytesMax     = 8 << 20
	ChallengeLifetime = 10 * time.Minute
	ChallengeTriesMax = 20
	// SVIDChallengeLifetime is how long a challenge to prove a workload identity is valid,
	// and SVIDChallengesMax how many of them an agent may have at a time.
	SVIDChallengeLifetime = 5 * time.Minute
	SVIDChallengesMax     = 100
	// SVIDBytesMax bounds a JWT-SVID, and each certificate of an X.509-SVID in base64;
	// SVIDCertificatesMax bounds the certificates.
	SVIDBytesMax        = 16 << 10
	SVIDCertificatesMax = 8
	NonceMax            = 64
	// CredentialsMax is how many live credentials of scope org an organization may have,
	// ScopedCredentialsMax how many others, ScopedCredentialsTier3 if its trust tier is 3.
	CredentialsMax         = 10
	ScopedCredentialsMax   = 100
	ScopedCredentialsTier3 = 1000
	// CredentialAgentsMax is how many agents a credential may be limited to.
	CredentialAgentsMax = 100
	// CredentialTextMax bounds a credential's description, in characters.
	CredentialTextMax = 200
	// RevokedCredentialsKept is how long a revoked credential stays in the state of its
	// organization; RevokedCredentialsMax is how many of them stay at most.
	RevokedCredentialsKept = 30 * 24 * time.Hour
	RevokedCredentialsMax  = 100
	// CredentialNoticeFirst and CredentialNoticeLast are how long before its end a credential is
	// announced to the webhooks that ask for it.
	CredentialNoticeFirst = 7 * 24 * time.Hour
	CredentialNoticeLast  = 24 * time.Hour
	// CardBytesMax bounds the compact JSON of a card.
	CardBytesMax        = 64 << 10
	SigningKeyLifetime  = 90 * 24 * time.Hour
	SigningKeyAfterlife = 24 * time.Hour
	// FormerKeysMax and KeyBindingsMax bound the keys and bindings of its owner in an
	// agent's state. ForeignKeysMax bounds further keys, which no binding names, and
	// ForeignBindingsMax bindings that no chain of signatures connects with the current
	// one.
	FormerKeysMax      = 1000
	KeyBindingsMax     = 1000
	ForeignKeysMax     = 250
	ForeignBindingsMax = 250
	// KeyPackagesMax is how many MLS KeyPackages an agent may keep for others to claim,
	// KeyPackagesPerUpload how many one request may upload, and KeyPackageBytesMax how
	// many bytes one may have.
	KeyPackagesMax       = 1000
	KeyPackagesPerUpload = 100
	KeyPackageBytesMax   = 16 << 10
	// MLSBodyBytesMax bounds the body of a request with an MLS commit.
	MLSBodyBytesMax = 8 << 20
	// KeyBindingAhead is how far ahead of the server's clock a binding may be dated.
	KeyBindingAhead = 5 * time.Minute
	// JoinRequestsMax is how many join requests of a group may be pending, and
	// JoinRequestsPerOrg how many of them may be applications of one organization.
	JoinRequestsMax    = 1000
	JoinRequestsPerOrg = 20
	// InvitationLife is how long an invitation to a group may be accepted.
	InvitationLife = 7 * 24 * time.Hour
	SettleWait     = 100 * time.Millisecond
	DrainWait      = 10 * time.Second
)
