package e2ee

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"crypto/rand"
	"errors"
	"slices"
	"sync"

	"parley/client/api"
	"parley/client/parley"
)

// KeyRing holds the private keys of one agent: an Ed25519 key that signs, an X25519 key
// that others seal to, perhaps an X-Wing key made of the same X25519 key, and the former
// keys that open old messages. A ring that
// was created or opened at a path is stored there. It is safe for concurrent use within
// one process; two processes must not rotate the same ring.
type KeyRing struct {
	mu     sync.RWMutex
	path   string
	agent  parley.AgentID
	handle string

	current keyPair
	// upcoming are new stored keys that may or may not have reached the service.
	upcoming *keyPair
	former   []*ecdh.PrivateKey
	// formerHybrid are the former X-Wing keys, oldest first. The X25519 half of each is
	// also in former.
	formerHybrid []*hybridKey
	// formerSigning are the public halves of the former signing keys, oldest first.
	formerSigning []api.JWK
}

type keyPair struct {
	signing    signingKey
	encryption *ecdh.PrivateKey
	// hybrid is nil if the pair has no post-quantum key.
	hybrid *hybridKey
}

type signingKey struct {
	key ed25519.PrivateKey
	kid string
}

var (
	// ErrOtherAgent means that a key ring belongs to another agent.
	ErrOtherAgent = errors.New("the key ring belongs to another agent")
	// ErrKeysNotPublished means that the service publishes other keys for the agent than
	// the ring has.
	ErrKeysNotPublished = errors.New("the service publishes other keys for this agent than its key ring has")
)

// GenerateKeyRing creates new keys that live in memory only, until Save stores them.
func GenerateKeyRing() (*KeyRing, error) {
	pair, err := generatePair()
	if err != nil {
		return nil, err
	}
	return &KeyRing{current: *pair}, nil
}

// NewKeyRing returns a ring of given keys: the 32-byte Ed25519 seed and the 32-byte
// X25519 private key.
func NewKeyRing(signingSeed, encryptionKey []byte) (*KeyRing, error) {
	pair, err := newPair(signingSeed, encryptionKey)
	if err != nil {
		return nil, err
	}
	return &KeyRing{current: *pair}, nil
}

func generatePair() (*keyPair, error) {
	var seed, private [32]byte
	_, _ = rand.Read(seed[:]) // never fails since Go 1.24
	_, _ = rand.Read(private[:])
	return newPair(seed[:], private[:])
}

func newPair(seed, private []byte) (*keyPair, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, errors.New("an Ed25519 seed has 32 bytes")
	}
	key := ed25519.NewKeyFromSeed(seed)
	encryption, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		return nil, err
	}
	kid := parley.Thumbprint(parley.Ed25519, key.Public().(ed25519.PublicKey))
	return &keyPair{signing: signingKey{key, kid}, encryption: encryption}, nil
}

func (p *keyPair) publicSigning() api.JWK {
	return api.NewJWK(parley.Ed25519, p.signing.key.Public().(ed25519.PublicKey))
}

func (p *keyPair) publicEncryption() api.JWK {
	return api.NewJWK(parley.X25519, p.encryption.PublicKey().Bytes())
}

// SigningKey returns the public signing key.
func (k *KeyRing) SigningKey() api.JWK {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current.publicSigning()
}

// EncryptionKey returns the public key that others seal to.
func (k *KeyRing) EncryptionKey() api.JWK {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current.publicEncryption()
}

// AgentID returns the agent the ring belongs to, zero before Bind.
func (k *KeyRing) AgentID() parley.AgentID {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.agent
}

// Handle returns that agent's handle, empty before Bind.
func (k *KeyRing) Handle() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.handle
}

// FormerKids returns the ids of the ring's former keys, newest first.
func (k *KeyRing) FormerKids() (kids []string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, key := range slices.Backward(k.former) {
		kids = append(kids, parley.Thumbprint(parley.X25519, key.PublicKey().Bytes()))
	}
	for _, key := range slices.Backward(k.formerSigning) {
		kids = append(kids, kidOf(&key))
	}
	return kids
}

// Path returns where the ring is stored, empty for one in memory.
func (k *KeyRing) Path() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.path
}

// Bind binds the ring to an agent, and stores that if the ring has a path. A bound ring
// refuses another agent.
func (k *KeyRing) Bind(agent parley.AgentID, handle string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.agent.Zero() && k.agent != agent {
		return ErrOtherAgent
	}
	k.agent, k.handle = agent, handle
	return k.keep()
}

// Sign signs a text with the current signing key.
func (k *KeyRing) Sign(text []byte) []byte {
	_, s := k.signer()
	return ed25519.Sign(s.key, text)
}

func (k *KeyRing) signer() (parley.AgentID, signingKey) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.agent, k.current.signing
}

// openers returns all private keys that messages may have been sealed to, likely ones
// first.
func (k *KeyRing) openers() (keys []opener) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	add := func(key *ecdh.PrivateKey) {
		if private, err := hpke.NewDHKEMPrivateKey(key); err == nil { // fails for other curves only
			keys = append(keys, opener{private, parley.Thumbprint(parley.X25519, key.PublicKey().Bytes())})
		}
	}
	add(k.current.encryption)
	if k.upcoming != nil {
		add(k.upcoming.encryption)
	}
	for i := len(k.former) - 1; i >= 0; i-- {
		add(k.former[i])
	}
	return keys
}

// prepare creates upcoming keys, unless a rotation was begun before, and stores them
// before they are published.
func (k *KeyRing) prepare(hybrid bool) (signing, encryption api.JWK, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.upcoming == nil {
		generate := generatePair
		if hybrid {
			generate = generateHybridPair
		}
		if k.upcoming, err = generate(); err != nil {
			return api.JWK{}, api.JWK{}, err
		}
	}
	return k.upcoming.publicSigning(), k.upcoming.publicEncryption(), k.keep()
}

// settle makes the keys that the service publishes the current ones. Both must be the
// ring's, because any credential of the organization can publish others.
func (k *KeyRing) settle(published *api.AgentKeys) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.upcoming != nil && matches(published, k.upcoming.publicSigning(), k.upcoming.publicEncryption()) == nil {
		k.former = append(k.former, k.current.encryption)
		if k.current.hybrid != nil {
			k.formerHybrid = append(k.formerHybrid, k.current.hybrid)
		}
		k.formerSigning = append(k.formerSigning, k.current.publicSigning())
		k.current, k.upcoming = *k.upcoming, nil
		return k.keep()
	}
	return matches(published, k.current.publicSigning(), k.current.publicEncryption())
}

// pairs returns the current keys and those of a rotation that was begun, or nil.
func (k *KeyRing) pairs() (current keyPair, upcoming *keyPair) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current, k.upcoming
}

// signingPublic returns the public key of a kid, if it is or was the ring's.
func (k *KeyRing) signingPublic(kid string) (key api.JWK, current, own bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.current.signing.kid == kid {
		return k.current.publicSigning(), true, true
	}
	for _, former := range k.formerSigning {
		if kidOf(&former) == kid {
			return former, false, true
		}
	}
	return api.JWK{}, false, false
}
