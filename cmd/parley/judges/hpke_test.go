package judges

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"

	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
)

// job is a request to hpke.mjs, outcome its answer; bytes are encoded as base64url.
type job struct {
	Do               string `json:"do"`
	Version          int    `json:"version,omitempty"` // to seal with
	Payload          string `json:"payload"`
	Sealed           string `json:"sealed,omitempty"`
	Sender           string `json:"sender"`
	Signer           string `json:"signer"`
	SignerPrivate    string `json:"signer_private,omitempty"`
	Recipient        string `json:"recipient"`
	RecipientPublic  string `json:"recipient_public"`
	RecipientPrivate string `json:"recipient_private,omitempty"`
}

type outcome struct {
	Payload string `json:"payload"`
	Kid     string `json:"kid"`
	Version int    `json:"version"`
	Sealed  string `json:"sealed"`
	Refused string `json:"refused"`
}

var (
	b64      = base64.RawURLEncoding.EncodeToString
	payloads = [][]byte{{}, []byte("a"), []byte(`{"text":"Grüße"}`), bytes.Repeat([]byte{0xA5}, e2ee.PayloadBytesMax)}
)

// party is an agent whose private keys the Node.js script may also have.
type party struct {
	ring *e2ee.KeyRing
	id   parley.AgentID
	seed []byte
	key  []byte
}

func newParty(t *testing.T) party {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := e2ee.NewKeyRing(seed, key.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var id parley.AgentID
	_, _ = rand.Read(id[:])
	if err := ring.Bind(id, "judge@judge.localhost"); err != nil {
		t.Fatal(err)
	}
	return party{ring: ring, id: id, seed: seed, key: key.Bytes()}
}

func (p party) job(do string, to party) job {
	return job{
		Do: do, Sender: p.id.String(), Signer: p.ring.SigningKey().X, SignerPrivate: b64(p.seed),
		Recipient: to.id.String(), RecipientPublic: to.ring.EncryptionKey().X, RecipientPrivate: b64(to.key),
	}
}

func (p party) published(kid string) (api.JWK, error) {
	if kid == parley.Thumbprint(parley.Ed25519, p.public()) {
		return p.ring.SigningKey(), nil
	}
	return api.JWK{}, errors.New("no such key")
}

func (p party) public() []byte {
	return ed25519.NewKeyFromSeed(p.seed).Public().(ed25519.PublicKey)
}

func judge(t *testing.T, jobs []job) []outcome {
	t.Helper()
	in, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []outcome
	if err := json.Unmarshal([]byte(node(t, string(in), "hpke.mjs")), &outcomes); err != nil {
		t.Fatal(err)
	}
	if len(outcomes) != len(jobs) {
		t.Fatalf("%d outcomes of %d jobs", len(outcomes), len(jobs))
	}
	return outcomes
}

// TestHPKEOpensWhatGoSealed makes @hpke/core open what the Go client sealed, and reject
// modified payloads and wrong senders.
func TestHPKEOpensWhatGoSealed(t *testing.T) {
	needNode(t)
	alice, bob := newParty(t), newParty(t)
	var jobs []job
	for _, payload := range payloads {
		sealed, err := e2ee.Seal(alice.ring, bob.id, bob.ring.EncryptionKey(), payload)
		if err != nil {
			t.Fatal(err)
		}
		j := alice.job("open", bob)
		j.Sealed = sealed
		jobs = append(jobs, j)
	}
	changed := jobs[2]
	changed.Sealed = swapLast(changed.Sealed)
	posed, passedOn, renumbered := jobs[2], jobs[2], jobs[2]
	posed.Sender = bob.id.String()
	passedOn.Recipient = newParty(t).id.String()
	box, err := base64.RawURLEncoding.DecodeString(renumbered.Sealed)
	if err != nil {
		t.Fatal(err)
	}
	box[0] = 1
	renumbered.Sealed = b64(box)
	outcomes := judge(t, append(jobs, changed, posed, passedOn, renumbered))
	for i, payload := range payloads {
		if o := outcomes[i]; o.Refused != "" || o.Payload != b64(payload) || o.Version != 2 {
			t.Errorf("payload of %d bytes: refused %q, opened %d characters of version %d", len(payload), o.Refused, len(o.Payload), o.Version)
		}
	}
	for _, o := range outcomes[len(payloads):] {
		if o.Refused == "" {
			t.Error("a changed payload, or one of another sender, recipient or version, was opened")
		}
	}
	t.Logf("ok - @hpke/core opens %d payloads that the Go client sealed and refuses a changed one, a false sender, recipient and version", len(payloads))
}

// TestGoOpensWhatHPKESealed tests the other direction.
func TestGoOpensWhatHPKESealed(t *testing.T) {
	needNode(t)
	alice, bob := newParty(t), newParty(t)
	var jobs []job
	for _, payload := range payloads {
		j := alice.job("seal", bob)
		j.Payload, j.Version = b64(payload), 2
		jobs = append(jobs, j)
	}
	outcomes := judge(t, jobs)
	for i, o := range outcomes {
		want := payloads[i]
		got, err := e2ee.Open(bob.ring, alice.id, o.Sealed, alice.published)
		if err != nil {
			t.Errorf("payload of %d bytes: %v (judge: %q)", len(want), err, o.Refused)
			continue
		}
		if !bytes.Equal(got.Payload, want) || got.SenderKid != parley.Thumbprint(parley.Ed25519, alice.public()) {
			t.Errorf("payload of %d bytes: opened %d bytes, signed by %s", len(want), len(got.Payload), got.SenderKid)
		}
	}
	last := outcomes[2].Sealed
	if _, err := e2ee.Open(bob.ring, alice.id, swapLast(last), alice.published); !errors.Is(err, e2ee.ErrCannotOpen) {
		t.Errorf("a changed payload: %v, want %v", err, e2ee.ErrCannotOpen)
	}
	if _, err := e2ee.Open(bob.ring, bob.id, last, alice.published); !errors.Is(err, e2ee.ErrForged) {
		t.Errorf("a false sender: %v, want %v", err, e2ee.ErrForged)
	}
	t.Logf("ok - the Go client opens %d payloads that @hpke/core sealed and refuses a changed one and a false sender", len(payloads))
}

// swapLast changes the last byte but one of a base64url text's bytes.
func swapLast(sealed string) string {
	b := []byte(sealed)
	i := len(b) - 4
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}
