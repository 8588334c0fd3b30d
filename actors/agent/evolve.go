package agent

import (
	"bytes"
	"slices"

	"parley"
)

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Created:
		evolveCreated(s, e)
	case *Changed:
		evolveChanged(s, e)
	case *KeysRotated:
		s.SigningKey = s.rotate(parley.Ed25519, s.SigningKey, e.SigningKey, e.AtMs)
		s.EncryptionKey = s.rotate(parley.X25519, s.EncryptionKey, e.EncryptionKey, e.AtMs)
	case *PollTokenIssued:
		s.PollTokenHash = e.Hash
	case *PollTokenRevoked:
		s.PollTokenHash = nil
	case *Revoked:
		s.RevokedMs = e.AtMs
		s.PollTokenHash, s.Groups = nil, nil
	case *Entered:
		s.Groups = append(s.without(e.Group), &Membership{Group: e.Group, Offer: e.Offer, Isolated: e.Isolated})
	case *Departed:
		s.Groups = s.without(e.Group)
	}
}

func evolveCreated(s *State, e *Created) {
	s.Id, s.OrgId, s.Name = e.Id, e.OrgId, e.Name
	s.HumanOversight, s.Unlisted = e.HumanOversight, e.Unlisted
	s.IncomingPolicy, s.OutgoingPolicy = e.IncomingPolicy, e.OutgoingPolicy
	s.SigningKey, s.EncryptionKey = e.SigningKey, e.EncryptionKey
	s.PollTokenHash, s.CreatedMs = e.PollTokenHash, e.AtMs
}

func evolveChanged(s *State, e *Changed) {
	if e.HumanOversight != nil {
		s.HumanOversight = *e.HumanOversight
	}
	if e.IncomingPolicy != nil {
		s.IncomingPolicy = *e.IncomingPolicy
	}
	if e.OutgoingPolicy != nil {
		s.OutgoingPolicy = *e.OutgoingPolicy
	}
	if e.Unlisted != nil {
		s.Unlisted = *e.Unlisted
	}
}

// rotate retires the current key in favour of fresh and returns the one that
// holds. A former key that comes back is former no more.
func (s *State) rotate(curve string, current, fresh []byte, atMs int64) []byte {
	if len(fresh) == 0 {
		return current
	}
	s.FormerKeys = slices.DeleteFunc(s.FormerKeys, func(k *FormerKey) bool {
		return k.Curve == curve && bytes.Equal(k.Raw, fresh)
	})
	s.FormerKeys = append(s.FormerKeys, &FormerKey{Curve: curve, Raw: current, RetiredMs: atMs})
	return fresh
}
