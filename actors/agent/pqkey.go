package agent

import (
	"bytes"
	"time"

	"parley/client/parley"
)

// SetPQKey makes a post-quantum key the agent's, in place of any other. A new
// encryption key removes it: the X25519 half of an X-Wing key is that of the encryption
// key that it was made with, and a key that was replaced may be a stolen one. Setting the
// current key again changes nothing.
type SetPQKey struct {
	// Algorithm is parley.MLKEM768 or parley.XWing.
	Algorithm string
	// Raw is the public key, whose form the caller has checked.
	Raw []byte
}

// RemovePQKey removes the agent's post-quantum key. If there is none, it changes nothing.
type RemovePQKey struct{}

func (SetPQKey) command()    {}
func (RemovePQKey) command() {}

func (*PQKeySet) event()     {}
func (*PQKeyRemoved) event() {}

func decideSetPQKey(s *State, c SetPQKey, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	if has := s.GetPqKey(); has.GetAlgorithm() == c.Algorithm && bytes.Equal(has.GetRaw(), c.Raw) {
		return nil, nil
	}
	return []Event{&PQKeySet{Algorithm: c.Algorithm, Raw: c.Raw, AtMs: now.UnixMilli()}}, nil
}

func decideRemovePQKey(s *State, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	if s.GetPqKey() == nil {
		return nil, nil
	}
	return []Event{&PQKeyRemoved{AtMs: now.UnixMilli()}}, nil
}

// pqKey returns the current post-quantum key if this is its thumbprint.
func (s *State) pqKey(wanted [32]byte) (Key, bool) {
	k := s.GetPqKey()
	if k == nil || parley.AKPThumbprintSum(k.GetAlgorithm(), k.GetRaw()) != wanted {
		return Key{}, false
	}
	return Key{Curve: k.Algorithm, Raw: k.Raw, Since: instant(k.SinceMs)}, true
}
