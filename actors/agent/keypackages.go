package agent

import (
	"bytes"
	"time"

	"parley/client/parley"
)

// An agent keeps MLS KeyPackages, with which others add it to MLS groups. The rows that
// have them are the actor's; the state only counts them. All are signed with the current
// signing key, and end with it. // docs: mls.md

// ExpiredKeyPackages is a lookup: how many of the agent's rows are about KeyPackages whose
// lifetime is over. They are removed in the same turn.
type ExpiredKeyPackages struct {
	// Kept is how many KeyPackages nobody has claimed.
	Kept uint32
	// LastResort: that of last resort.
	LastResort bool
	// HandedOut is how many were claimed.
	HandedOut uint32
}

// StoreKeyPackages adds KeyPackages that others may claim. The caller has verified their
// form, signatures, credentials and lifetimes.
type StoreKeyPackages struct {
	// SigningKey is the key that signed all of them.
	SigningKey []byte
	// Fresh is how many of them were not uploaded before. Only these are stored.
	Fresh uint32
	// LastResort: there is one of last resort that is not the present one. It takes its
	// place.
	LastResort bool
	// Reused: one was uploaded both to be handed out once and as a last resort.
	Reused  bool
	Expired ExpiredKeyPackages
}

// ClaimKeyPackage hands out one KeyPackage. Without an event, the one of last resort is the
// answer.
type ClaimKeyPackage struct {
	// Found: there is one that suits the claim and is not expired.
	Found bool
	// LastResort: the one of last resort suits the claim and is not expired.
	LastResort bool
	Expired    ExpiredKeyPackages
}

func (StoreKeyPackages) command() {}
func (ClaimKeyPackage) command()  {}

func (*KeyPackagesStored) event()  {}
func (*KeyPackageClaimed) event()  {}
func (*KeyPackagesExpired) event() {}

// Refusals about KeyPackages.
var (
	ErrKeyPackageKey      = parley.Refuse(parley.Unprocessable, "key_package_invalid", "Value error, the signature key of a key package should be the agent's current signing key").With("loc", "key_packages")
	ErrKeyPackageReused   = parley.Refuse(parley.Unprocessable, "key_package_invalid", "Value error, a key package should be uploaded either to be handed out once or as the last resort").With("loc", "last_resort")
	ErrNoKeyPackage       = parley.ErrNotFound.Saying("There is no key package of this agent for you.")
	errTooManyKeyPackages = parley.Refuse(parley.Forbidden, "quota_exceeded", "The agent has as many key packages as it may have. Upload more when others have claimed some.")
)

func decideStoreKeyPackages(s *State, c StoreKeyPackages, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	kept := s.GetKeyPackages() - c.Expired.Kept
	switch {
	case !bytes.Equal(c.SigningKey, s.GetSigningKey()):
		return nil, ErrKeyPackageKey
	case c.Reused:
		return nil, ErrKeyPackageReused
	case kept+c.Fresh > parley.KeyPackagesMax:
		return nil, errTooManyKeyPackages.OverQuota("key_packages", parley.KeyPackagesMax, int(kept), nil)
	}
	events := c.Expired.events(now)
	if c.Fresh > 0 || c.LastResort {
		events = append(events, &KeyPackagesStored{Count: c.Fresh, LastResort: c.LastResort, AtMs: now.UnixMilli()})
	}
	return events, nil
}

// decideClaimKeyPackage refuses a claim of an agent that does not exist or was revoked as
// one of an agent that has none.
func decideClaimKeyPackage(s *State, c ClaimKeyPackage, now time.Time) ([]Event, error) {
	if s.active() != nil {
		return nil, ErrNoKeyPackage
	}
	events := c.Expired.events(now)
	switch {
	case c.Found:
		return append(events, &KeyPackageClaimed{AtMs: now.UnixMilli()}), nil
	case c.LastResort:
		return events, nil
	}
	return events, ErrNoKeyPackage
}

func (e ExpiredKeyPackages) events(now time.Time) []Event {
	if e == (ExpiredKeyPackages{}) {
		return nil
	}
	return []Event{&KeyPackagesExpired{Kept: e.Kept, LastResort: e.LastResort, HandedOut: e.HandedOut, AtMs: now.UnixMilli()}}
}

// HasKeyPackages reports whether there are rows about KeyPackages of the agent.
func (s *State) HasKeyPackages() bool {
	return s.GetKeyPackages() > 0 || s.GetLastResort() || s.GetHandedOut() > 0
}

// forgetKeyPackages removes all KeyPackages from the state.
func (s *State) forgetKeyPackages() { s.KeyPackages, s.LastResort, s.HandedOut = 0, false, 0 }
