package org

import "parley/client/parley"

// ErrErasing is the answer to all that would change an organization that is being erased.
var ErrErasing = parley.ErrGone.Saying("The organization is being erased.")

// Erase begins the organization's erasure: its credentials are revoked, and it takes no
// further command that changes what it has.
type Erase struct{}

// Erasing reports whether the organization's erasure has begun.
func (s *State) Erasing() bool { return s.GetErasingMs() != 0 }

// decideErasing is Decide for an organization that is being erased: what others report to
// it changes nothing any more.
func decideErasing(c Command) ([]Event, error) {
	switch c.(type) {
	case Erase, RetireAgent, RetireGroup, Register:
		return nil, nil
	case AddAgent, AddCredential, AddGroup, Change, ConfirmEmail, GrantTier, LiftAllowance, ProveWorkload, Resume, RevokeCredential, SetAllowance, Suspend:
		return nil, ErrErasing
	}
	panic("org: unknown command")
}

func (s *State) evolveErasureBegun(e *ErasureBegun) {
	s.ErasingMs = e.AtMs
	for _, c := range s.Credentials {
		if c.Live() {
			c.RevokedMs = e.AtMs
		}
	}
	s.Epoch++
}
