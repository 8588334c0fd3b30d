package registration

import (
	"time"

	"parley"
)

// This file reads what former releases stored: each challenge as a separate stream, which
// a timer removes. No such streams are begun any more.

// ChallengeKept is how long former releases kept a challenge after it had expired.
const ChallengeKept = 24 * time.Hour

// Exists reports whether the challenge was ever issued.
func (s *State) Exists() bool { return len(s.GetId()) > 0 }

// SolvedOrgID returns the organization that the solution registered; zero while the
// challenge is unsolved.
func (s *State) SolvedOrgID() (id parley.OrgID) {
	copy(id[:], s.GetSolvedOrg())
	return id
}

// ExpiresAt returns the instant from which solutions were refused, UTC.
func (s *State) ExpiresAt() time.Time { return time.UnixMilli(s.GetExpiresMs()).UTC() }

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

// Tag returns the number that identifies an event's kind on disk. Numbers are added,
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

// New returns an empty event of the kind with this tag, false for an unknown tag.
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
