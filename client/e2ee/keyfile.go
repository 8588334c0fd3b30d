package e2ee

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"parley/client/api"
	"parley/client/parley"
	"parley/client/secretfile"
)

// keyFile is the stored form of a key ring. Keys are private JWKs (RFC 8037), so that any
// JOSE library can read them.
type keyFile struct {
	Version          int          `json:"version"`
	AgentID          string       `json:"agent_id,omitempty"`
	Handle           string       `json:"handle,omitempty"`
	Signing          privateJWK   `json:"signing_key"`
	Encryption       privateJWK   `json:"encryption_key"`
	NextSigning      *privateJWK  `json:"next_signing_key,omitempty"`
	NextEncryption   *privateJWK  `json:"next_encryption_key,omitempty"`
	FormerEncryption []privateJWK `json:"former_encryption_keys"`
	FormerSigning    []api.JWK    `json:"former_signing_keys,omitempty"`
	PQ               *privatePQ   `json:"pq_key,omitempty"`
	NextPQ           *privatePQ   `json:"next_pq_key,omitempty"`
	FormerPQ         []privatePQ  `json:"former_pq_keys,omitempty"`
}

// privatePQ is a private X-Wing key as a JWK of kind AKP.
type privatePQ struct {
	KeyType   string `json:"kty"`
	Algorithm string `json:"alg"`
	Pub       string `json:"pub"`
	// Priv is the 32-byte private key in base64url, from which both halves are derived.
	Priv string `json:"priv"`
	Kid  string `json:"kid"`
}

func newPrivatePQ(h *hybridKey) *privatePQ {
	if h == nil {
		return nil
	}
	return &privatePQ{h.public.KeyType, h.public.Algorithm, h.public.Pub, base64.RawURLEncoding.EncodeToString(h.seed), h.public.Kid}
}

// hybrid parses a stored key and checks its public half.
func (p privatePQ) hybrid() (*hybridKey, error) {
	seed, err := base64.RawURLEncoding.DecodeString(p.Priv)
	if err != nil {
		return nil, err
	}
	h, _, err := newHybridKey(seed)
	if err != nil {
		return nil, err
	}
	if p.Algorithm != parley.XWing || p.Pub != h.public.Pub {
		return nil, errors.New("a private key does not belong to its public key")
	}
	return h, nil
}

type privateJWK struct {
	api.JWK
	D string
}

type privateJWKFields struct {
	KeyType string `json:"kty"`
	Curve   string `json:"crv"`
	X       string `json:"x"`
	D       string `json:"d"`
	Kid     string `json:"kid"`
}

func (p privateJWK) MarshalJSON() ([]byte, error) {
	return json.Marshal(privateJWKFields{p.KeyType, p.Curve, p.X, p.D, p.Kid})
}

func (p *privateJWK) UnmarshalJSON(b []byte) error {
	var in privateJWKFields
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*p = privateJWK{api.JWK{KeyType: in.KeyType, Curve: in.Curve, X: in.X, Kid: in.Kid}, in.D}
	return nil
}

func newPrivateJWK(public api.JWK, private []byte) privateJWK {
	return privateJWK{public, base64.RawURLEncoding.EncodeToString(private)}
}

func (p privateJWK) private() []byte {
	b, err := base64.RawURLEncoding.DecodeString(p.D)
	if err != nil {
		return nil
	}
	return b
}

func privatePair(p *keyPair) (signing, encryption privateJWK) {
	return newPrivateJWK(p.publicSigning(), p.signing.key.Seed()), newPrivateJWK(p.publicEncryption(), p.encryption.Bytes())
}

// pairOf parses two keys, and a post-quantum key if there is one, and checks their public
// halves against the file.
func pairOf(signing, encryption privateJWK, pq *privatePQ) (*keyPair, error) {
	pair, err := newPair(signing.private(), encryption.private())
	if err != nil {
		return nil, err
	}
	if pair.publicSigning().X != signing.X || pair.publicEncryption().X != encryption.X {
		return nil, errors.New("a private key does not belong to its public key")
	}
	if pq == nil {
		return pair, nil
	}
	if pair.hybrid, err = pq.hybrid(); err != nil {
		return nil, err
	}
	published := &api.AgentKeys{EncryptionPublicKey: new(pair.publicEncryption()), PQPublicKey: pair.publicPQ()}
	if HybridKey(published) == nil {
		return nil, errors.New("the post-quantum key does not contain the encryption key")
	}
	return pair, nil
}

// CreateKeyRing creates new keys and stores them in a new file at path, readable only by
// its owner. It never replaces a file.
func CreateKeyRing(path string) (*KeyRing, error) {
	k, err := GenerateKeyRing()
	if err != nil {
		return nil, err
	}
	return k, k.Save(path)
}

// OpenKeyRing reads the ring stored at path. It refuses a file that others may read.
func OpenKeyRing(path string) (*KeyRing, error) {
	b, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	var file keyFile
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	k, err := file.ring()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	k.path = path
	return k, nil
}

// Save stores a ring that was only in memory in a new file at path. From then on every
// change is stored there. It never replaces a file.
func (k *KeyRing) Save(path string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.path
	k.path = path
	if err := k.write(secretfile.Create); err != nil {
		k.path = before
		return err
	}
	return nil
}

// keep writes a ring that has a path. The caller holds the lock.
func (k *KeyRing) keep() error {
	if k.path == "" {
		return nil
	}
	return k.write(secretfile.Replace)
}

func (k *KeyRing) write(store func(path string, b []byte) error) error {
	b, err := json.MarshalIndent(k.file(), "", "  ")
	if err != nil {
		return err
	}
	return store(k.path, append(b, '\n'))
}

func (k *KeyRing) file() keyFile {
	f := keyFile{Version: 1, Handle: k.handle, FormerEncryption: []privateJWK{}, FormerSigning: k.formerSigning}
	if !k.agent.Zero() {
		f.AgentID = k.agent.String()
	}
	f.Signing, f.Encryption = privatePair(&k.current)
	f.PQ = newPrivatePQ(k.current.hybrid)
	if k.upcoming != nil {
		signing, encryption := privatePair(k.upcoming)
		f.NextSigning, f.NextEncryption, f.NextPQ = &signing, &encryption, newPrivatePQ(k.upcoming.hybrid)
	}
	for _, h := range k.formerHybrid {
		f.FormerPQ = append(f.FormerPQ, *newPrivatePQ(h))
	}
	for _, key := range k.former {
		f.FormerEncryption = append(f.FormerEncryption, newPrivateJWK(api.NewJWK(parley.X25519, key.PublicKey().Bytes()), key.Bytes()))
	}
	return f
}

func (f keyFile) ring() (*KeyRing, error) {
	if f.Version != 1 {
		return nil, errors.New("unknown version of key file")
	}
	current, err := pairOf(f.Signing, f.Encryption, f.PQ)
	if err != nil {
		return nil, err
	}
	k := &KeyRing{current: *current, handle: f.Handle, formerSigning: f.FormerSigning}
	if f.AgentID != "" {
		if err := k.agent.UnmarshalText([]byte(f.AgentID)); err != nil {
			return nil, err
		}
	}
	if f.NextSigning != nil && f.NextEncryption != nil {
		if k.upcoming, err = pairOf(*f.NextSigning, *f.NextEncryption, f.NextPQ); err != nil {
			return nil, err
		}
	}
	for _, former := range f.FormerEncryption {
		key, err := ecdh.X25519().NewPrivateKey(former.private())
		if err != nil {
			return nil, err
		}
		k.former = append(k.former, key)
	}
	for _, former := range f.FormerPQ {
		h, err := former.hybrid()
		if err != nil {
			return nil, err
		}
		k.formerHybrid = append(k.formerHybrid, h)
	}
	return k, nil
}
