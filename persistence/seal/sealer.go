package seal

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"parley/client/parley"
)

const (
	// PlaintextMax is how many bytes one envelope can seal. No request, record or state
	// comes near it.
	PlaintextMax = 8 << 20
	// IdentityMax is how many bytes of identity an envelope can be bound to.
	IdentityMax = 1024
)

var (
	// ErrErased means that an owner's key was destroyed: the content is gone for good,
	// on purpose.
	ErrErased = errors.New("the owner's key was destroyed")
	// ErrDamaged means that an envelope is not one that a Sealer made for this family
	// and identity under these keys.
	ErrDamaged = errors.New("sealed content is damaged")
	// ErrUnknownOwner means that an owner has no key and never had one, or that the key
	// is lost. Errors of AppendOpened that wrap it wrap ErrDamaged too.
	ErrUnknownOwner = errors.New("the owner has no key")
	// ErrTooLarge means that a plaintext exceeds PlaintextMax, or an identity
	// IdentityMax.
	ErrTooLarge = errors.New("too large to be sealed")

	errDamagedUnknown = fmt.Errorf("%w: %w", ErrDamaged, ErrUnknownOwner)
)

// State says whether an organization has a key.
type State uint8

const (
	// Unknown is the state of an organization that has no key and no tombstone.
	Unknown State = iota
	// Live is the state of an organization with a key.
	Live
	// Erased is the state of an organization whose key was destroyed. It is final.
	Erased
)

// Keys returns the keys of organizations.
type Keys interface {
	// Key returns an organization's key and state. The key is zero unless the state is
	// Live; a Sealer never uses a key of zeros, and treats it like Unknown. It calls Key
	// for every owner of everything that it seals or opens, from several goroutines at
	// the same time.
	Key(org parley.OrgID) (key [32]byte, state State)
}

// A Sealer seals and opens content, and hashes names. Its methods may be called from
// several goroutines at the same time.
type Sealer struct {
	keys   Keys
	shards [cacheShards]shard
	// forgets counts calls of Forget. A cipher enters the cache only if there was no
	// call since its keys were read.
	forgets atomic.Uint64
	hashes  hashes
	// random fills a nonce. Tests replace it.
	random func([]byte)
}

// New returns a Sealer that takes the keys of owners from keys. The server key keys the
// hashes of MAC and must be used for nothing else.
//
// Nonces come from the system's random generator, because a repeated nonce breaks the
// seal.
func New(keys Keys, serverKey [32]byte) *Sealer {
	s := &Sealer{keys: keys, random: readRandom}
	s.hashes.key = serverKey
	for i := range s.shards {
		s.shards[i].index = map[Owners]*derived{}
	}
	return s
}

func readRandom(b []byte) {
	_, _ = rand.Read(b) // never fails since Go 1.24
}

// AppendSealed appends an envelope of the plaintext to dst. The envelope opens only with
// the keys of its owners, and for the same family and identity; it contains neither of
// the two. Family is the family of the row, and identity what the row is about: its key
// without the slot. Plaintext must not overlap dst's unused capacity.
//
// The error is ErrErased or ErrUnknownOwner if not every owner has a key, or
// ErrTooLarge. It is ErrErased in every call that begins after Keys reported that state.
func (s *Sealer) AppendSealed(dst, plaintext []byte, owners Owners, family byte, identity []byte) ([]byte, error) {
	if len(plaintext) > PlaintextMax || len(identity) > IdentityMax {
		return nil, ErrTooLarge
	}
	dst = slices.Grow(dst, owners.SealedLen(len(plaintext)))
	header := owners.appendHeader(dst)[len(dst):]
	dst = append(dst, header...)
	nonce := dst[len(dst):][:nonceBytes]
	s.random(nonce)
	w := workspaces.Get().(*workspace)
	defer w.release()
	gcm, err := s.messageCipher(w, owners, nonce)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(dst[:len(dst)+nonceBytes], nonce[12:], plaintext, w.bind(header, family, identity)), nil
}

// AppendOpened appends the plaintext of an envelope to dst. Family and identity are
// those of AppendSealed. Envelope and dst's unused capacity must not overlap.
//
// The error is ErrErased if an owner's key was destroyed. Otherwise it wraps ErrDamaged
// if the envelope is malformed, does not authenticate, or names an owner without a key
// (ErrUnknownOwner), or is ErrTooLarge for an identity that no envelope can have.
// ErrErased does not mean that the envelope was intact: without the key nobody can tell.
func (s *Sealer) AppendOpened(dst, envelope []byte, family byte, identity []byte) ([]byte, error) {
	owners, nonce, sealed, err := parse(envelope)
	if err != nil {
		return nil, err
	}
	if len(identity) > IdentityMax {
		return nil, ErrTooLarge
	}
	w := workspaces.Get().(*workspace)
	defer w.release()
	gcm, err := s.messageCipher(w, owners, nonce)
	if errors.Is(err, ErrUnknownOwner) {
		return nil, errDamagedUnknown
	}
	if err != nil {
		return nil, err
	}
	plaintext, err := gcm.Open(dst, nonce[12:], sealed, w.bind(envelope[:owners.headerLen()], family, identity))
	if err != nil {
		return nil, ErrDamaged
	}
	return plaintext, nil
}

// Forget removes everything that derives from an organization's key from memory, and
// overwrites it. Call it after Keys began to report Erased: then no derived key of the
// organization is used, or comes back, after Forget returned. What calls in progress
// have derived for a single message is garbage for the collector, as their plaintext is.
func (s *Sealer) Forget(org parley.OrgID) {
	// Count first: a derivation that has read the key before now must not enter a
	// shard after forget has passed it.
	s.forgets.Add(1)
	for i := range s.shards {
		s.shards[i].forget(org)
	}
}

// messageCipher returns the cipher of the message with a nonce. The error is ErrErased
// or ErrUnknownOwner if not every owner has a key.
func (s *Sealer) messageCipher(w *workspace, owners Owners, nonce []byte) (cipher.AEAD, error) {
	shard := &s.shards[owners.shard()]
	for {
		before := s.forgets.Load()
		if err := s.readKeys(w, owners); err != nil {
			return nil, err
		}
		if shard.messageKey(&w.message, owners, nonce) {
			return messageCipher(&w.message)
		}
		x, err := derive(w.owners[:], owners)
		if err != nil {
			return nil, err
		}
		if shard.add(&w.message, owners, x, nonce, func() bool { return s.forgets.Load() == before }) {
			return messageCipher(&w.message)
		}
	}
}

// readKeys reads the keys of both owners. Erased outweighs unknown, because it is final.
func (s *Sealer) readKeys(w *workspace, owners Owners) error {
	if owners.form == 0 {
		return ErrUnknownOwner
	}
	low, state := s.keys.Key(owners.low)
	high, other := low, state
	if owners.form == formPair {
		high, other = s.keys.Key(owners.high)
	}
	switch zero := [keyBytes]byte{}; {
	case state == Erased || other == Erased:
		return ErrErased
	case state != Live || other != Live || low == zero || high == zero:
		return ErrUnknownOwner
	}
	copy(w.owners[:keyBytes], low[:])
	copy(w.owners[keyBytes:], high[:])
	return nil
}

// derive returns the cipher of owners from both keys in ascending order of their ids.
func derive(keys []byte, owners Owners) (*xaes, error) {
	if owners.form == formSingle {
		keys = keys[:keyBytes]
	}
	key, err := hkdf.Key(sha256.New, keys, nil, owners.info(), keyBytes)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	return newXAES(key)
}

// A workspace is the memory of one call that would otherwise be allocated, because it
// is passed to an interface.
type workspace struct {
	owners  [2 * keyBytes]byte
	message [keyBytes]byte
	bound   [1 + 2*idBytes + 1 + IdentityMax]byte
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// release returns the workspace to the pool, without the keys.
func (w *workspace) release() {
	clear(w.owners[:])
	clear(w.message[:])
	workspaces.Put(w)
}

// bind returns the additional data of an envelope. The length of the header follows
// from its first byte, so that different inputs never give the same bytes.
func (w *workspace) bind(header []byte, family byte, identity []byte) []byte {
	return append(append(append(w.bound[:0], header...), family), identity...)
}
