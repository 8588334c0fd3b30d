package org

import (
	"time"

	"parley/client/parley"
)

// ErrErasing is the answer to all that would change an organization that is being erased.
var ErrErasing = parley.ErrGone.Saying("The organization is being erased.")

// ErrHeld is the answer to an erasure of an organization that the operator holds.
var ErrHeld = parley.Refuse(parley.Conflict, "legal_hold", "The operator holds the organization's data; it cannot be erased until the hold ends.")

// Erase begins the organization's erasure: its credentials are revoked, and it takes no
// further command that changes what it has.
type Erase struct{}

// Erasing reports whether the organization's erasure has begun.
func (s *State) Erasing() bool { return s.GetErasingMs() != 0 }

// decideErasing is Decide for an organization that is being erased: what others report to
// it changes nothing any more.
func decideErasing(c Command) ([]Event, error) {
	switch c.(type) {
	case AnnounceExpiries, Erase, RetireAgent, RetireGroup, Register:
		return nil, nil
	case AddAgent, AddCredential, AddGroup, Change, ConfirmEmail, GrantTier, Hold, LiftAllowance, ProveWorkload, Release, Resume, RevokeCredential, SetAllowance, Suspend:
		return nil, ErrErasing
	}
	panic("org: unknown command")
}

func decideErase(s *State, now time.Time) ([]Event, error) {
	if s.Held() {
		return nil, ErrHeld
	}
	return []Event{&ErasureBegun{AtMs: now.UnixMilli()}}, nil
}

// Held reports whether the operator keeps the organization from being erased.
func (s *State) Held() bool { return s.GetHeldMs() != 0 }

func decideHold(s *State, now time.Time) []Event {
	if s.Held() {
		return nil
	}
	return []Event{&Held{AtMs: now.UnixMilli()}}
}

func decideRelease(s *State, now time.Time) []Event {
	if !s.Held() {
		return nil
	}
	return []Event{&Released{AtMs: now.UnixMilli()}}
}

func (s *State) evolveErasureBegun(e *ErasureBegun) {
	s.ErasingMs = e.AtMs
	for _, c := range s.Credentials {
		if c.RevokedMs == 0 {
			c.RevokedMs = e.AtMs
		}
	}
	s.Epoch++
}
