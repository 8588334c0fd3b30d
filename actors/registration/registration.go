// Package registration holds the rules of one proof-of-work challenge: what it
// asks for, what counts as its solution, and when it is used up. It does no I/O
// and reads no clock.
//
// It differs from other aggregates in one way: Decide may return events and a
// refusal together. A wrong nonce is refused, and yet it must be counted. The
// events are kept, the answer is the refusal.
package registration

import (
	"crypto/sha256"
	"math/bits"
	"time"

	"parley"
)

// Exists reports whether the challenge was ever issued.
func (s *State) Exists() bool { return len(s.GetId()) > 0 }

// RegistrationID is the challenge's id.
func (s *State) RegistrationID() (id parley.RegistrationID) {
	copy(id[:], s.GetId())
	return id
}

// SolvedOrgID is the organization that the solution registered; zero while the
// challenge is unsolved.
func (s *State) SolvedOrgID() (id parley.OrgID) {
	copy(id[:], s.GetSolvedOrg())
	return id
}

// ExpiresAt is the instant from which a solution comes too late, UTC.
func (s *State) ExpiresAt() time.Time { return time.UnixMilli(s.GetExpiresMs()).UTC() }

func (s *State) solved() bool { return len(s.GetSolvedOrg()) > 0 }

// spent reports whether the challenge can no longer be solved, by age or by
// the number of wrong nonces.
func (s *State) spent(now time.Time) bool {
	return now.UnixMilli() >= s.GetExpiresMs() || s.GetTries() >= parley.ChallengeTriesMax
}

// Command asks for a change of a challenge.
//
//sumtype:decl
type Command interface{ command() }

// Issue hands out a challenge to whoever wants to register an organization. It
// reserves nothing: the first to solve has the slug.
type Issue struct {
	ID      parley.RegistrationID
	Email   string
	Slug    string
	OrgName string
	// Challenge is 32 random hexadecimal digits.
	Challenge string
	// Difficulty is the number of leading zero bits asked for.
	Difficulty int
	ExpiresAt  time.Time
	// SlugTaken is a fact: an organization has the slug.
	SlugTaken bool
}

// Solve offers a nonce. Where it is right, the organization OrgID is to be
// registered.
type Solve struct {
	Nonce string
	OrgID parley.OrgID
	// SlugTaken is a fact: meanwhile another organization has the slug.
	SlugTaken bool
}

func (Issue) command() {}
func (Solve) command() {}

// Event is a fact about a challenge: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	event()
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

func (*Issued) event() {}
func (*Missed) event() {}
func (*Solved) event() {}

// Tag is the number under which an event's kind is on disk. Numbers are added,
// never changed or reused.
func Tag(e Event) byte {
	switch e.(type) {
	case *Issued:
		return 1
	case *Missed:
		return 2
	case *Solved:
		return 3
	}
	panic("registration: unknown event")
}

// New is an empty event of the kind that Tag numbers tag, false for a number
// that was never given.
func New(tag byte) (Event, bool) {
	switch tag {
	case 1:
		return &Issued{}, true
	case 2:
		return &Missed{}, true
	case 3:
		return &Solved{}, true
	}
	return nil, false
}

// Refusals of a registration.
var (
	ErrUnknown   = parley.ErrNotFound.Saying("There is no such challenge.")
	ErrUsed      = parley.Refuse(parley.Conflict, "challenge_used", "The challenge has already been solved.")
	ErrExpired   = parley.Refuse(parley.Gone, "challenge_expired", "The challenge has expired. Ask for a new one.")
	ErrPowWrong  = parley.Refuse(parley.Invalid, "pow_invalid", "The nonce does not solve the challenge.")
	ErrSlugTaken = parley.Refuse(parley.Conflict, "slug_taken", "Another organization has this slug.")
)

// Decide judges c against s and returns the events that make it true. It never
// changes s. With ErrPowWrong it returns an event as well, which must be kept
// although the answer is the refusal; every other refusal comes alone.
func Decide(s *State, c Command, now time.Time) ([]Event, error) {
	switch c := c.(type) {
	case Issue:
		return decideIssue(s, c, now)
	case Solve:
		return decideSolve(s, c, now)
	}
	panic("registration: unknown command")
}

func decideIssue(s *State, c Issue, now time.Time) ([]Event, error) {
	if s.Exists() {
		return nil, nil
	}
	if c.SlugTaken {
		return nil, ErrSlugTaken
	}
	return []Event{&Issued{
		Id: c.ID.Bytes(), Email: c.Email, Slug: c.Slug, OrgName: c.OrgName,
		Challenge: c.Challenge, Difficulty: uint32(c.Difficulty),
		ExpiresMs: c.ExpiresAt.UnixMilli(), AtMs: now.UnixMilli(),
	}}, nil
}

func decideSolve(s *State, c Solve, now time.Time) ([]Event, error) {
	switch {
	case !s.Exists():
		return nil, ErrUnknown
	case s.solved():
		return nil, ErrUsed
	case s.spent(now):
		return nil, ErrExpired
	case !Solves(s.GetChallenge(), c.Nonce, int(s.GetDifficulty())):
		return []Event{&Missed{AtMs: now.UnixMilli()}}, ErrPowWrong
	case c.SlugTaken:
		return nil, ErrSlugTaken
	}
	return []Event{&Solved{OrgId: c.OrgID.Bytes(), AtMs: now.UnixMilli()}}, nil
}

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Issued:
		s.Id, s.Email, s.Slug, s.OrgName = e.Id, e.Email, e.Slug, e.OrgName
		s.Challenge, s.Difficulty = e.Challenge, e.Difficulty
		s.IssuedMs, s.ExpiresMs = e.AtMs, e.ExpiresMs
	case *Missed:
		s.Tries++
	case *Solved:
		s.SolvedOrg = e.OrgId
	}
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
