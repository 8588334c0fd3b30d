package agent

import (
	"slices"

	"parley/client/parley"
)

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	if leaf := leafOf(e); leaf != nil && *leaf != nil {
		s.KeyLeaves = (*leaf).Number + 1
	}
	switch e := e.(type) {
	case *Created:
		evolveCreated(s, e)
	case *Changed:
		evolveChanged(s, e)
	case *KeysRotated:
		evolveKeysRotated(s, e)
	case *KeysBound:
		evolveKeysBound(s, e)
	case *KeyDistrusted:
		s.KeysMs = e.AtMs
		if k := s.former(e.Curve, e.Raw); k != nil {
			k.DistrustedMs = e.AtMs
		}
	case *PollTokenIssued:
		s.PollTokenHash = e.Hash
	case *PollTokenRevoked:
		s.PollTokenHash = nil
	case *Revoked:
		s.RevokedMs = e.AtMs
		s.PollTokenHash, s.Groups, s.Card = nil, nil, nil
		s.forgetKeyPackages()
	case *Entered:
		s.Groups = append(s.without(e.Group), &Membership{Group: e.Group, Offer: e.Offer, Isolated: e.Isolated})
	case *Departed:
		s.Groups = s.without(e.Group)
	case *CardPublished:
		evolveCardPublished(s, e)
	case *CardWithdrawn:
		s.Card = nil
	case *PQKeySet:
		s.PqKey, s.KeysMs = &PQKey{Algorithm: e.Algorithm, Raw: e.Raw, SinceMs: e.AtMs}, e.AtMs
	case *PQKeyRemoved:
		s.PqKey, s.KeysMs = nil, e.AtMs
	case *Blocked:
		s.Blocks, s.BlocksMade = append(s.Blocks, e.Block), e.Block.GetNumber()
	case *Unblocked:
		s.Blocks = slices.DeleteFunc(slices.Clone(s.Blocks), func(b *Block) bool { return b.GetNumber() == e.Number })
	case *KeyPackagesStored:
		s.KeyPackages, s.LastResort = s.KeyPackages+e.Count, s.LastResort || e.LastResort
		s.KeyPackageRevision++
	case *KeyPackageClaimed:
		s.KeyPackages, s.HandedOut = s.KeyPackages-1, s.HandedOut+1
		s.KeyPackageRevision++
	case *KeyPackagesExpired:
		s.KeyPackages, s.HandedOut = s.KeyPackages-e.Kept, s.HandedOut-e.HandedOut
		s.LastResort = s.LastResort && !e.LastResort
		s.KeyPackageRevision++
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
		if s.Card != nil {
			s.Card.ShownMs = e.AtMs
		}
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

// evolveKeysRotated records when the new keys became current and that they are not bound.
func evolveKeysRotated(s *State, e *KeysRotated) {
	s.SigningKey, s.SigningSinceMs = s.rotate(parley.Ed25519, s.SigningKey, s.SigningSinceMs, e.SigningKey, e)
	s.EncryptionKey, s.EncryptionSinceMs = s.rotate(parley.X25519, s.EncryptionKey, s.EncryptionSinceMs, e.EncryptionKey, e)
	if len(e.EncryptionKey) > 0 {
		s.PqKey = nil
	}
	if len(e.SigningKey) > 0 {
		s.forgetKeyPackages()
	}
	s.KeysMs = e.AtMs
	if s.UnboundMs == 0 {
		s.UnboundMs = e.AtMs
	}
}

func evolveKeysBound(s *State, e *KeysBound) {
	s.Bindings, s.UnboundMs, s.KeysMs = append(s.Bindings, e.Binding), 0, e.AtMs
	if place := int(e.Drop); place > 0 && place < len(s.Bindings) {
		s.Bindings = slices.Concat(s.Bindings[:place], s.Bindings[place+1:])
	}
}

// rotate makes the current key a former one, replaced by fresh. It returns the key in
// force and since when. A former key that becomes current again is no longer a former
// key, and keeps the date on which it first became current.
func (s *State) rotate(curve string, current []byte, sinceMs int64, fresh []byte, e *KeysRotated) ([]byte, int64) {
	if len(fresh) == 0 {
		return current, sinceMs
	}
	was := &FormerKey{Curve: curve, Raw: current, RetiredMs: e.AtMs, SinceMs: sinceMs}
	sinceMs = e.AtMs
	if back := s.former(curve, fresh); back != nil {
		sinceMs = back.SinceMs
	}
	s.FormerKeys = append(slices.DeleteFunc(s.FormerKeys, func(k *FormerKey) bool { return k.is(curve, fresh) }), was)
	return fresh, sinceMs
}
