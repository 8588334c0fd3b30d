package judges

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"testing"

	"parley/client/e2ee"
)

// newHybridParty is newParty with an X-Wing key, whose private key is party.key.
func newHybridParty(t *testing.T) party {
	t.Helper()
	p := newParty(t)
	_, _ = rand.Read(p.key) // never fails
	ring, err := e2ee.NewHybridKeyRing(p.seed, p.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Bind(p.id, "judge@judge.localhost"); err != nil {
		t.Fatal(err)
	}
	p.ring = ring
	return p
}

func (p party) hybridJob(do string, to party) job {
	j := p.job(do, to)
	j.RecipientPublic = to.ring.PQKey().Pub
	return j
}

var hybridPayloads = append(payloads[:3:3], bytes.Repeat([]byte{0xA5}, e2ee.PayloadBytesMaxHybrid))

// TestXWingOpensWhatGoSealed makes @hpke/hybridkem-x-wing open what the Go client sealed,
// and reject modified payloads and wrong senders.
func TestXWingOpensWhatGoSealed(t *testing.T) {
	needNode(t)
	alice, bob := newHybridParty(t), newHybridParty(t)
	var jobs []job
	for _, payload := range hybridPayloads {
		sealed, err := e2ee.SealHybrid(alice.ring, bob.id, *bob.ring.PQKey(), payload)
		if err != nil {
			t.Fatal(err)
		}
		j := alice.hybridJob("open", bob)
		j.Sealed = sealed
		jobs = append(jobs, j)
	}
	changed, posed, passedOn, half := jobs[2], jobs[2], jobs[2], jobs[2]
	changed.Sealed = swapLast(changed.Sealed)
	posed.Sender = bob.id.String()
	passedOn.Recipient = newParty(t).id.String()
	box, err := base64.RawURLEncoding.DecodeString(half.Sealed)
	if err != nil {
		t.Fatal(err)
	}
	box[5] ^= 1 // in the ML-KEM ciphertext
	half.Sealed = b64(box)
	outcomes := judge(t, append(jobs, changed, posed, passedOn, half))
	for i, payload := range hybridPayloads {
		if o := outcomes[i]; o.Refused != "" || o.Payload != b64(payload) || o.Version != 3 {
			t.Errorf("payload of %d bytes: refused %q, opened %d characters of version %d", len(payload), o.Refused, len(o.Payload), o.Version)
		}
	}
	for i, o := range outcomes[len(hybridPayloads):] {
		if o.Refused == "" {
			t.Errorf("a changed payload, or one of another sender or recipient, was opened: %d", i)
		}
	}
	t.Logf("ok - @hpke/hybridkem-x-wing opens %d payloads that the Go client sealed", len(hybridPayloads))
}

// TestGoOpensWhatXWingSealed tests the other direction.
func TestGoOpensWhatXWingSealed(t *testing.T) {
	needNode(t)
	alice, bob := newHybridParty(t), newHybridParty(t)
	var jobs []job
	for _, payload := range hybridPayloads {
		j := alice.hybridJob("seal", bob)
		j.Payload, j.Version = b64(payload), 3
		jobs = append(jobs, j)
	}
	outcomes := judge(t, jobs)
	for i, o := range outcomes {
		got, err := e2ee.Open(bob.ring, alice.id, o.Sealed, alice.published)
		if err != nil || !bytes.Equal(got.Payload, hybridPayloads[i]) || !got.PostQuantum {
			t.Errorf("payload of %d bytes: %v (judge: %q)", len(hybridPayloads[i]), err, o.Refused)
		}
	}
	if _, err := e2ee.Open(bob.ring, alice.id, swapLast(outcomes[2].Sealed), alice.published); !errors.Is(err, e2ee.ErrCannotOpen) {
		t.Errorf("a changed payload: %v, want %v", err, e2ee.ErrCannotOpen)
	}
	t.Logf("ok - the Go client opens %d payloads that @hpke/hybridkem-x-wing sealed", len(hybridPayloads))
}
