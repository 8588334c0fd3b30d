package e2ee

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha3"
	"errors"

	"parley/client/api"
	"parley/client/parley"
)

// hybridKey is an X-Wing key pair. Its X25519 half is the agent's encryption key, so that
// the binding and the pin of that key protect everything that is sealed to both.
type hybridKey struct {
	seed    []byte
	private hpke.PrivateKey
	public  api.PQKey
}

// hybridSeedSize is the size of an X-Wing private key, from which both halves are derived.
const hybridSeedSize = 32

// newHybridKey returns the X-Wing key of a seed and its X25519 half.
func newHybridKey(seed []byte) (*hybridKey, *ecdh.PrivateKey, error) {
	if len(seed) != hybridSeedSize {
		return nil, nil, errors.New("an X-Wing private key has 32 bytes")
	}
	private, err := hpke.MLKEM768X25519().NewPrivateKey(seed)
	if err != nil {
		return nil, nil, err
	}
	// The first 64 bytes are the seed of the ML-KEM half. // source: draft-connolly-cfrg-xwing-kem
	expanded := sha3.SumSHAKE256(seed, 64+32)
	half, err := ecdh.X25519().NewPrivateKey(expanded[64:])
	if err != nil {
		return nil, nil, err
	}
	public := private.PublicKey().Bytes()
	if !bytes.Equal(public[parley.MLKEM768Size:], half.PublicKey().Bytes()) {
		return nil, nil, errors.New("the X25519 half of an X-Wing key is not derived as its format says")
	}
	return &hybridKey{bytes.Clone(seed), private, api.NewPQKey(parley.XWing, public)}, half, nil
}

func newHybridPair(signingSeed, hybridSeed []byte) (*keyPair, error) {
	hybrid, half, err := newHybridKey(hybridSeed)
	if err != nil {
		return nil, err
	}
	pair, err := newPair(signingSeed, half.Bytes())
	if err != nil {
		return nil, err
	}
	pair.hybrid = hybrid
	return pair, nil
}

func generateHybridPair() (*keyPair, error) {
	var seed, hybrid [32]byte
	_, _ = rand.Read(seed[:]) // never fails since Go 1.24
	_, _ = rand.Read(hybrid[:])
	return newHybridPair(seed[:], hybrid[:])
}

// GenerateHybridKeyRing is GenerateKeyRing with a post-quantum key beside the others.
func GenerateHybridKeyRing() (*KeyRing, error) {
	pair, err := generateHybridPair()
	if err != nil {
		return nil, err
	}
	return &KeyRing{current: *pair}, nil
}

// NewHybridKeyRing returns a ring of given keys: the 32-byte Ed25519 seed and the 32-byte
// X-Wing private key, whose X25519 half becomes the encryption key.
func NewHybridKeyRing(signingSeed, hybridSeed []byte) (*KeyRing, error) {
	pair, err := newHybridPair(signingSeed, hybridSeed)
	if err != nil {
		return nil, err
	}
	return &KeyRing{current: *pair}, nil
}

// CreateHybridKeyRing is CreateKeyRing with a post-quantum key beside the others.
func CreateHybridKeyRing(path string) (*KeyRing, error) {
	k, err := GenerateHybridKeyRing()
	if err != nil {
		return nil, err
	}
	return k, k.Save(path)
}

func (p *keyPair) publicPQ() *api.PQKey {
	if p.hybrid == nil {
		return nil
	}
	public := p.hybrid.public
	return &public
}

// PQKey returns the public post-quantum key, nil if the ring has none.
func (k *KeyRing) PQKey() *api.PQKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current.publicPQ()
}

// hybridOpeners returns all X-Wing keys that messages may have been sealed to, likely ones
// first.
func (k *KeyRing) hybridOpeners() (keys []opener) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	add := func(h *hybridKey) {
		if h != nil {
			keys = append(keys, opener{h.private, h.public.Kid})
		}
	}
	add(k.current.hybrid)
	if k.upcoming != nil {
		add(k.upcoming.hybrid)
	}
	for i := len(k.formerHybrid) - 1; i >= 0; i-- {
		add(k.formerHybrid[i])
	}
	return keys
}

// HybridKey returns the X-Wing key among an agent's published keys, nil if there is none to
// seal to. The X25519 half must be the encryption key: the key binding and the pin do not
// cover the X-Wing key, so with any other half a server that made up the key could open
// what is sealed to it.
func HybridKey(keys *api.AgentKeys) *api.PQKey {
	if keys.PQPublicKey == nil || keys.EncryptionPublicKey == nil {
		return nil
	}
	raw, err := keys.PQPublicKey.Raw(parley.XWing)
	if err != nil {
		return nil
	}
	half, err := keys.EncryptionPublicKey.Raw(parley.X25519)
	if err != nil || !bytes.Equal(raw[parley.MLKEM768Size:], half) {
		return nil
	}
	if _, err := hpke.MLKEM768X25519().NewPublicKey(raw); err != nil {
		return nil
	}
	return keys.PQPublicKey
}

// SealHybrid is Seal to a recipient's X-Wing key, whose X25519 half must be the recipient's
// encryption key; see HybridKey. An attacker who breaks one half only cannot open the text.
func SealHybrid(sender *KeyRing, recipient parley.AgentID, key api.PQKey, payload []byte) (string, error) {
	raw, err := key.Raw(parley.XWing)
	if err != nil {
		return "", err
	}
	to, err := hpke.MLKEM768X25519().NewPublicKey(raw)
	if err != nil {
		return "", err
	}
	return sender.seal(sealVersion3, recipient, parley.AKPThumbprint(parley.XWing, raw), to, payload)
}

// SealTo seals to an agent's published keys: with SealHybrid if HybridKey finds a key among
// them, else with Seal.
func SealTo(sender *KeyRing, keys *api.AgentKeys, payload []byte) (string, error) {
	if hybrid := HybridKey(keys); hybrid != nil {
		return SealHybrid(sender, keys.AgentID, *hybrid, payload)
	}
	if keys.EncryptionPublicKey == nil {
		return "", ErrNoEncryptionKey
	}
	return Seal(sender, keys.AgentID, *keys.EncryptionPublicKey, payload)
}

// payloadMax is the maximum size of a payload that sealToSelf can seal.
func (k *KeyRing) payloadMax() int {
	if k.PQKey() != nil {
		return PayloadBytesMaxHybrid
	}
	return PayloadBytesMax
}

// sealToSelf seals a copy for the ring's own agent.
func (k *KeyRing) sealToSelf(payload []byte) (string, error) {
	if hybrid := k.PQKey(); hybrid != nil {
		return SealHybrid(k, k.AgentID(), *hybrid, payload)
	}
	return Seal(k, k.AgentID(), k.EncryptionKey(), payload)
}
