package agent

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"parley/client/parley"
)

// Logged is a command whose events about keys become leaves of the key log. A command has
// at most two such events; each has a salt.
type Logged struct {
	Command Command
	Salts   [2][parley.KeyLogSaltBytes]byte
}

func (Logged) command() {}

// decideLogged decides the command and completes its events by what a leaf needs besides.
func decideLogged(s *State, c Logged, now time.Time) ([]Event, error) {
	events, err := Decide(s, c.Command, now)
	in, number := inForce(s), s.GetKeyLeaves()
	for _, e := range events {
		leaf := leafOf(e)
		if leaf == nil {
			continue
		}
		in.follow(e)
		*leaf = &KeyLeaf{Number: number, Salt: c.Salts[number-s.GetKeyLeaves()][:], Signing: in.signing, Encryption: in.encryption, Pq: in.pq}
		number++
	}
	return events, err
}

// leafOf returns the field for the leaf of an event about keys; nil for another event.
func leafOf(e Event) **KeyLeaf {
	switch e := e.(type) {
	case *Created:
		return &e.Leaf
	case *KeysRotated:
		return &e.Leaf
	case *KeysBound:
		return &e.Leaf
	case *KeyDistrusted:
		return &e.Leaf
	case *PQKeySet:
		return &e.Leaf
	case *PQKeyRemoved:
		return &e.Leaf
	case *Revoked:
		return &e.Leaf
	case *Changed, *PollTokenIssued, *PollTokenRevoked, *Entered, *Departed, *CardPublished, *CardWithdrawn, *KeyPackagesStored, *KeyPackageClaimed, *KeyPackagesExpired, *Blocked, *Unblocked: // not about keys
	}
	return nil
}

// keySums are the thumbprints of the keys in force, nil for none.
type keySums struct{ signing, encryption, pq []byte }

func inForce(s *State) keySums {
	in := keySums{signing: sumOf(parley.Ed25519, s.GetSigningKey()), encryption: sumOf(parley.X25519, s.GetEncryptionKey())}
	if k := s.GetPqKey(); k != nil {
		in.pq = pqSum(k.GetAlgorithm(), k.GetRaw())
	}
	return in
}

// follow changes the sums as the event changes the keys.
func (in *keySums) follow(e Event) {
	switch e := e.(type) {
	case *Created:
		in.signing, in.encryption = sumOf(parley.Ed25519, e.GetSigningKey()), sumOf(parley.X25519, e.GetEncryptionKey())
	case *KeysRotated:
		if len(e.GetSigningKey()) > 0 {
			in.signing = sumOf(parley.Ed25519, e.GetSigningKey())
		}
		if len(e.GetEncryptionKey()) > 0 {
			in.encryption, in.pq = sumOf(parley.X25519, e.GetEncryptionKey()), nil
		}
	case *PQKeySet:
		in.pq = pqSum(e.GetAlgorithm(), e.GetRaw())
	case *PQKeyRemoved:
		in.pq = nil
	case *KeysBound, *KeyDistrusted, *Revoked, *Changed, *PollTokenIssued, *PollTokenRevoked, *Entered, *Departed, *CardPublished, *CardWithdrawn, *KeyPackagesStored, *KeyPackageClaimed, *KeyPackagesExpired, *Blocked, *Unblocked: // the keys stay
	}
}

func sumOf(curve string, raw []byte) []byte {
	if len(raw) == 0 {
		return nil
	}
	sum := parley.ThumbprintSum(curve, raw)
	return sum[:]
}

func pqSum(algorithm string, raw []byte) []byte {
	sum := parley.AKPThumbprintSum(algorithm, raw)
	return sum[:]
}

// KeyLogEntry returns what a leaf of the key log commits to: an event about the keys of the
// agent with an id and an address, name@slug. It returns false for an event that is not in
// the log.
func KeyLogEntry(id parley.AgentID, address string, e Event) (out parley.KeyLogEntry, logged bool) {
	field := leafOf(e)
	if field == nil || *field == nil {
		return out, false
	}
	leaf := *field
	out = parley.KeyLogEntry{
		Agent: id, Address: address, Number: leaf.GetNumber(),
		SigningKid: text(leaf.GetSigning()), EncryptionKid: text(leaf.GetEncryption()), PQKid: text(leaf.GetPq()),
	}
	copy(out.Salt[:], leaf.GetSalt())
	var ms int64
	switch e := e.(type) {
	case *Created:
		out.Kind, ms = parley.KeyLogCreated, e.GetAtMs()
	case *KeysRotated:
		out.Kind, ms = parley.KeyLogKeys, e.GetAtMs()
	case *KeysBound:
		sum := sha256.Sum256(e.GetBinding().GetSignature())
		out.Kind, out.Subject, ms = parley.KeyLogBinding, text(sum[:]), e.GetAtMs()
	case *KeyDistrusted:
		out.Kind, out.Subject, ms = parley.KeyLogRetired, parley.Thumbprint(e.GetCurve(), e.GetRaw()), e.GetAtMs()
	case *PQKeySet:
		out.Kind, ms = parley.KeyLogPQ, e.GetAtMs()
	case *PQKeyRemoved:
		out.Kind, ms = parley.KeyLogPQRemoved, e.GetAtMs()
	case *Revoked:
		out.Kind, ms = parley.KeyLogRevoked, e.GetAtMs()
	case *Changed, *PollTokenIssued, *PollTokenRevoked, *Entered, *Departed, *CardPublished, *CardWithdrawn, *KeyPackagesStored, *KeyPackageClaimed, *KeyPackagesExpired, *Blocked, *Unblocked: // have no leaf
	}
	out.At = parley.KeyLogInstant(ms)
	return out, true
}

func text(sum []byte) string { return base64.RawURLEncoding.EncodeToString(sum) }
