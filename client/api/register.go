package api

import "parley/client/parley"

// Register requests a proof-of-work challenge: POST /auth/register.
type Register struct {
	// Email becomes the organization's contact_email.
	Email string `json:"email" required:"true" minLength:"3" maxLength:"254" pattern:"^[^@\\s<>(),;\"\\\\]+@[^@\\s<>(),;\"\\\\]+$" words:"a bare email address: something@something, without a display name" format:"email" example:"ada@acme.example"`
	// OrgSlug becomes part of every handle and can never change.
	OrgSlug string `json:"org_slug" required:"true" minLength:"2" maxLength:"32" pattern:"^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])$" words:"2 to 32 lowercase letters, digits and interior hyphens" example:"acme"`
	// OrgName defaults to the slug. It has no invisible characters.
	OrgName *string `json:"org_name,omitzero" minLength:"1" maxLength:"200" example:"Acme"`
}

// Challenge is a proof of work: find a nonce such that the SHA-256 of challenge, a
// colon and the nonce begins with difficulty zero bits.
type Challenge struct {
	// ChallengeID contains the challenge and its request, sealed. It may have several
	// thousand characters.
	ChallengeID string `json:"challenge_id"`
	Algorithm   string `json:"algorithm" enum:"sha256-hashcash"`
	// Challenge is 32 hexadecimal characters; they are hashed as text.
	Challenge string `json:"challenge"`
	// Difficulty is a number of bits.
	Difficulty int  `json:"difficulty"`
	ExpiresAt  Time `json:"expires_at"`
	// ExpiresIn is a number of seconds.
	ExpiresIn int `json:"expires_in"`
	// Instructions are the same in words.
	Instructions string `json:"instructions"`
}

// Solve submits the solution: POST /auth/register/solve.
type Solve struct {
	ChallengeID string `json:"challenge_id" required:"true"`
	// Nonce is any text that solves the challenge.
	Nonce string `json:"nonce" required:"true" maxLength:"64" aliases:"solution" example:"48213"`
}

// Credentials authenticate an organization: the answer of POST /auth/register/solve and
// of POST /org/credentials.
type Credentials struct {
	OrgID    parley.OrgID    `json:"org_id"`
	OrgSlug  string          `json:"org_slug"`
	ClientID parley.ClientID `json:"client_id"`
	// ClientSecret is shown only here; the service stores only a hash.
	ClientSecret string `json:"client_secret"`
	TrustTier    int    `json:"trust_tier"`
	// TokenURL is the absolute address of the token endpoint.
	TokenURL  string `json:"token_url"`
	CreatedAt Time   `json:"created_at"`
}

// VerifyEmail submits the token that was mailed to the address given at registration:
// POST /auth/verify-email.
type VerifyEmail struct {
	Token string `json:"token" required:"true" minLength:"1" maxLength:"1024" example:"eyJhbGciOi"`
}

// VerifiedEmail is the organization that the token belongs to.
type VerifiedEmail struct {
	OrgID   parley.OrgID `json:"org_id"`
	OrgSlug string       `json:"org_slug"`
	// TrustTier is the organization's tier after the verification.
	TrustTier int `json:"trust_tier"`
}

// CreateCredentials creates a second pair of credentials: POST /org/credentials.
type CreateCredentials struct{}

// DeleteCredentials revokes a pair: DELETE /org/credentials/{client_id}.
type DeleteCredentials struct {
	ClientID parley.ClientID `json:"-" path:"client_id" required:"true"`
}
