// Package issuer holds the rules of the platform's signing keys: when a new one is minted,
// which one signs, and how long a former one stays published. It does no I/O and reads no
// clock. There is one issuer for access tokens, one for the A2A cards of agents, and one for
// the receipts of messages.
package issuer

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

// Exists reports whether a key was ever minted.
func (s *State) Exists() bool { return len(s.GetKeys()) > 0 }

// Current returns the key that signs, nil before the first was minted.
func (s *State) Current() *Key {
	if n := len(s.GetKeys()); n > 0 && s.Keys[n-1].RetiredMs == 0 {
		return s.Keys[n-1]
	}
	return nil
}

// Published returns the keys under which signatures may still be verified: the current one
// first, then those retired less than parley.SigningKeyAfterlife ago, latest first.
func (s *State) Published(now time.Time) []*Key {
	keys := make([]*Key, 0, len(s.GetKeys()))
	for i := len(s.GetKeys()) - 1; i >= 0; i-- {
		if s.Keys[i].published(now.UnixMilli()) {
			keys = append(keys, s.Keys[i])
		}
	}
	return keys
}

func (k *Key) published(nowMs int64) bool {
	return k.RetiredMs == 0 || nowMs-k.RetiredMs < parley.SigningKeyAfterlife.Milliseconds()
}

// Due reports whether a key must be minted: no key signs, or the current key is at least
// as old as lifetime.
func (s *State) Due(now time.Time, lifetime time.Duration) bool {
	current := s.Current()
	return current == nil || now.UnixMilli()-current.MintedMs >= lifetime.Milliseconds()
}

// Command asks for a change of the signing keys.
//
//sumtype:decl
type Command interface{ command() }

// Mint offers a new key. The issuer accepts it if one is due or Force is set, and drops
// it otherwise.
type Mint struct {
	// Kid is the RFC 7638 thumbprint of Public.
	Kid string
	// Public is the raw Ed25519 key.
	Public []byte
	// SealedSeed is the private seed, encrypted by the caller.
	SealedSeed []byte
	// Lifetime is the age at which the current key is replaced; 0 means
	// parley.SigningKeyLifetime.
	Lifetime time.Duration
	Force    bool
	// AtOnce has the key sign at once, and not only when it has been published for
	// parley.SigningKeyPublication.
	AtOnce bool
}

func (Mint) command() {}

// Event is a fact about the signing keys: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	proto.Message
	event()
}

func (*Minted) event() {}

// Tag returns the number that identifies an event's kind on disk. Numbers are added,
// never changed or reused.
func Tag(e Event) byte {
	switch e.(type) {
	case *Minted:
		return 1
	}
	panic("issuer: unknown event")
}

// New returns an empty event of the kind with this tag, false for an unknown tag.
func New(tag byte) (Event, bool) {
	switch tag {
	case 1:
		return &Minted{}, true
	}
	return nil, false
}

// Decide applies the rules to c in state s and returns the resulting events. It never
// changes s and refuses nothing: a key that is not needed yields no event.
func Decide(s *State, c Command, now time.Time) ([]Event, error) {
	switch c := c.(type) {
	case Mint:
		return decideMint(s, c, now)
	}
	panic("issuer: unknown command")
}

func decideMint(s *State, c Mint, now time.Time) ([]Event, error) {
	if !c.Force && !s.Due(now, cmp.Or(c.Lifetime, parley.SigningKeyLifetime)) {
		return nil, nil
	}
	for _, k := range s.GetKeys() {
		if k.Kid == c.Kid {
			return nil, nil
		}
	}
	return []Event{&Minted{
		Kid: c.Kid, Public: c.Public, SealedSeed: c.SealedSeed, AtMs: now.UnixMilli(), AtOnce: c.AtOnce,
	}}, nil
}

// Evolve folds one event into s. It cannot fail: an event is a fact. It drops keys that
// were no longer published when the event happened.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Minted:
		kept := s.Keys[:0]
		for _, k := range s.Keys {
			if k.published(e.AtMs) {
				kept = append(kept, k)
			}
		}
		clear(s.Keys[len(kept):])
		if n := len(kept); n > 0 && kept[n-1].RetiredMs == 0 {
			kept[n-1].RetiredMs = e.AtMs
		}
		s.Keys = append(kept, &Key{Kid: e.Kid, SealedSeed: e.SealedSeed, Public: e.Public, MintedMs: e.AtMs, AtOnce: e.AtOnce})
	}
}
