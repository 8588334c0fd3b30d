// Package registration holds the rules of registering an organization by proof of work:
// what a challenge asks for, what solves it, and when it expires. It does no I/O and
// reads no clock.
//
// The server stores no challenge: the client that asked for one holds it, sealed in
// its id. The server stores only that a solved challenge was used.
package registration

import (
	"crypto/sha256"
	"math/bits"
	"time"

	"parley/client/parley"
)

// ExpiresAt returns the instant from which solutions are refused, UTC.
func (c *Challenge) ExpiresAt() time.Time { return time.UnixMilli(c.GetExpiresMs()).UTC() }

// Expired reports whether a solution is refused because the challenge has expired.
func (c *Challenge) Expired(now time.Time) bool { return now.UnixMilli() >= c.GetExpiresMs() }

// Solve offers a nonce for a challenge.
type Solve struct {
	Nonce string
	// Used is a lookup: the challenge was solved before.
	Used bool
	// NotOpen is a lookup: the server admits only holders of a registration token, and the one that the
	// challenge was asked for with admits nobody.
	NotOpen bool
	// SlugTaken is a lookup: another organization has the slug.
	SlugTaken bool
}

// Refusals of a registration.
var (
	ErrUnknown   = parley.ErrNotFound.Saying("There is no such challenge.")
	ErrUsed      = parley.Refuse(parley.Conflict, "challenge_used", "The challenge has already been solved.")
	ErrExpired   = parley.Refuse(parley.Gone, "challenge_expired", "The challenge has expired. Ask for a new one.")
	ErrPowWrong  = parley.Refuse(parley.Invalid, "pow_invalid", "The nonce does not solve the challenge.")
	ErrNotOpen   = parley.Refuse(parley.Forbidden, "registration_closed", "Registration on this server needs a registration token that is valid.")
	ErrSlugTaken = parley.Refuse(parley.Conflict, "slug_taken", "Another organization has this slug.")
)

// Judge returns nil if the nonce registers the organization, or else the refusal.
func (c *Challenge) Judge(s Solve, now time.Time) error {
	switch {
	case c.Expired(now):
		return ErrExpired
	case s.Used:
		return ErrUsed
	case s.NotOpen:
		return ErrNotOpen
	case !Solves(c.GetText(), s.Nonce, int(c.GetDifficulty())):
		return ErrPowWrong
	case s.SlugTaken:
		return ErrSlugTaken
	}
	return nil
}

// Solves reports whether SHA-256(challenge + ":" + nonce) begins with
// difficulty zero bits.
func Solves(challenge, nonce string, difficulty int) bool {
	return zeroBits(sha256.Sum256([]byte(challenge+":"+nonce))) >= difficulty
}

func zeroBits(sum [sha256.Size]byte) int {
	n := 0
	for _, b := range sum {
		n += bits.LeadingZeros8(b)
		if b != 0 {
			break
		}
	}
	return n
}
