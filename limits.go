package parley

import "time"

// The numbers of the specification, in its order. // spec: Limits
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
	TranscriptLimitDefault = 50
	TranscriptLimitMax     = 200
	TokenLifetime          = 15 * time.Minute
	JWKSCacheSeconds       = 3600
)

// Numbers of the contract, beyond the specification.
const (
	MessageTypeMax      = 200
	ContentTypeMax      = 255
	PayloadSchemaMax    = 2048
	SigningKidMax       = 255
	StatusReasonMax     = 500
	OrgNameMax          = 200
	EmailMax            = 254
	RequestIDMax        = 128
	BodyBytesMax        = 1 << 20
	ChallengeLifetime   = 10 * time.Minute
	ChallengeTriesMax   = 20
	NonceMax            = 64
	SigningKeyLifetime  = 90 * 24 * time.Hour
	SigningKeyAfterlife = 24 * time.Hour
	// InvitationLife is how long an invitation to a group may be accepted.
	InvitationLife = 7 * 24 * time.Hour
	SettleWait     = 100 * time.Millisecond
	DrainWait      = 10 * time.Second
)
