package agent_test

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

const (
	handle  = "alice@acme.example"
	instant = "2006-01-02T15:04:05.000000Z"
)

// signer returns the private key whose public key is key(name), nil if the name has
// none.
func signer(name string) ed25519.PrivateKey {
	if !strings.HasPrefix(name, "ed") {
		return nil
	}
	half := actorstest.Named(name)
	return ed25519.NewKeyFromSeed(append(half[:], half[:]...))
}

// boundText returns the text that a binding signs, as the documents define it.
func boundText(id parley.AgentID, signing, encryption []byte, signedAt string) []byte {
	return fmt.Appendf(nil, "svc-keys-v1\n%s\n%s\n%s\n%s\n%s", id, handle,
		parley.Thumbprint("Ed25519", signing), parley.Thumbprint("X25519", encryption), signedAt)
}

func signs(name string, text []byte) []byte {
	if key := signer(name); key != nil {
		return ed25519.Sign(key, text)
	}
	return nil
}

// proof binds two keys, given by name. previous names the second signer, "" for none.
func proof(signing, encryption []byte, by, previous, signedAt string) agent.Proof {
	text := boundText(actorstest.Named("alice"), signing, encryption, signedAt)
	p := agent.Proof{Brand: "svc", Handle: handle, Signature: signs(by, text), SignedAt: signedAt}
	if previous != "" {
		p.PreviousSignature = signs(previous, text)
	}
	return p
}

// binding is a key binding as an agent publishes it.
type binding struct{ signature, signedAt, signing, encryption, previous, continuity string }

// step records that one signing key vouched for another in a binding.
type step struct{ from, to string }

// keyLife is what an oracle remembers of keys: all that were ever current, in order.
type keyLife struct {
	bindings []binding
	// unboundMs is the time of the first key change since the last binding, 0 for none.
	unboundMs int64
	changedMs int64
	// firstMs is the time at which a key first became current, by curve and raw bytes;
	// distrustedMs the time at which it was retired.
	firstMs, distrustedMs map[[2]string]int64
	// signers are all signing keys that were ever current, the current one last.
	signers []string
	// steps are in the order of the bindings.
	steps []step
}

func (o *oracle) begin(signing, encryption string, atMs int64) {
	o.keys = keyLife{
		changedMs: atMs, firstMs: map[[2]string]int64{{"Ed25519", signing}: atMs, {"X25519", encryption}: atMs},
		distrustedMs: map[[2]string]int64{}, signers: []string{signing},
	}
}

func (o *oracle) rotateKeys(c agent.RotateKeys, now time.Time) actorstest.Verdict {
	signing, encryption := o.signing, o.encryption
	if len(c.Signing) > 0 {
		signing = string(c.Signing)
	}
	if len(c.Encryption) > 0 {
		encryption = string(c.Encryption)
	}
	changes := signing != o.signing || encryption != o.encryption
	if !changes && c.Proof == nil {
		return actorstest.Accepted("nothing new")
	}
	if c.Proof != nil {
		if v, refused := o.judgeProof(*c.Proof, signing, encryption, now); refused {
			return v
		}
	}
	if o.keys.distrustedMs[[2]string{"Ed25519", signing}] != 0 || o.keys.distrustedMs[[2]string{"X25519", encryption}] != 0 && c.Proof == nil {
		return actorstest.Refused("retired", "409 invalid_transition")
	}
	if c.Proof != nil {
		if v, refused := o.judgeInstant(*c.Proof, signing, encryption, now); refused {
			return v
		}
		if !changes && o.again(*c.Proof, signing, encryption) {
			return actorstest.Accepted("nothing new")
		}
	}
	because := "bound"
	if back := [2]string{"X25519", encryption}; o.keys.distrustedMs[back] != 0 {
		delete(o.keys.distrustedMs, back)
		because = "a retired encryption key is bound again"
	}
	if signing != o.signing {
		o.packages = keyPackages{}
	}
	o.rotate(parley.Ed25519, &o.signing, signing, now)
	if encryption != o.encryption {
		o.pq = pqKey{}
	}
	o.rotate(parley.X25519, &o.encryption, encryption, now)
	if changes {
		o.keys.signers = append(o.keys.signers, signing)
		if o.keys.changedMs = now.UnixMilli(); o.keys.unboundMs == 0 {
			o.keys.unboundMs = now.UnixMilli()
		}
	}
	if c.Proof == nil {
		return actorstest.Accepted("unbound")
	}
	o.bind(*c.Proof, now)
	return actorstest.Accepted(because)
}

// former returns the signing key that must vouch for another: the last trusted one that
// is not the same key. It is "" if that key was retired or there is none.
func (o *oracle) former(signing string) string {
	known := o.keys.signers
	if len(o.keys.bindings) > 0 {
		known = nil
		for _, b := range o.keys.bindings {
			known = append(known, b.signing)
		}
	}
	for i := len(known) - 1; i >= 0; i-- {
		if known[i] != signing {
			if o.keys.distrustedMs[[2]string{"Ed25519", known[i]}] != 0 {
				return ""
			}
			return known[i]
		}
	}
	return ""
}

func verified(key string, text, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify([]byte(key), text, signature)
}

func (o *oracle) judgeProof(p agent.Proof, signing, encryption string, _ time.Time) (actorstest.Verdict, bool) {
	text := boundText(o.id, []byte(signing), []byte(encryption), p.SignedAt)
	switch {
	case p.Brand != "svc" || p.Handle != handle || !verified(signing, text, p.Signature):
		return actorstest.Refused("not signed", "403 signature_invalid"), true
	case p.PreviousSignature != nil && !verified(o.former(signing), text, p.PreviousSignature):
		return actorstest.Refused("not signed by the former", "403 signature_invalid"), true
	}
	return actorstest.Verdict{}, false
}

// again reports whether the proof equals the current binding of these keys.
func (o *oracle) again(p agent.Proof, signing, encryption string) bool {
	n := len(o.keys.bindings)
	if n == 0 || o.keys.unboundMs != 0 {
		return false
	}
	last := o.keys.bindings[n-1]
	return last.signedAt == p.SignedAt && last.signature == string(p.Signature) && last.previous == string(p.PreviousSignature) &&
		last.signing == signing && last.encryption == encryption
}

func (o *oracle) judgeInstant(p agent.Proof, signing, encryption string, now time.Time) (actorstest.Verdict, bool) {
	if o.again(p, signing, encryption) {
		return actorstest.Verdict{}, false
	}
	at, _ := time.Parse(time.RFC3339Nano, p.SignedAt)
	if at.Sub(now) > 5*time.Minute {
		return actorstest.Refused("ahead", "422 binding_stale (loc=signed_at)"), true
	}
	if n := len(o.keys.bindings); n > 0 {
		if last, _ := time.Parse(time.RFC3339Nano, o.keys.bindings[n-1].signedAt); !last.Before(at) {
			return actorstest.Refused("stale", "422 binding_stale (loc=signed_at)"), true
		}
	}
	return actorstest.Verdict{}, false
}

func (o *oracle) bind(p agent.Proof, now time.Time) {
	b := binding{string(p.Signature), p.SignedAt, o.signing, o.encryption, string(p.PreviousSignature), "first"}
	if n := len(o.keys.bindings); n > 0 {
		b.continuity = "broken"
		if o.keys.bindings[n-1].signing == o.signing || p.PreviousSignature != nil {
			b.continuity = "signed"
		}
	}
	if p.PreviousSignature != nil {
		o.keys.steps = append(o.keys.steps, step{o.voucher(p), o.signing})
	}
	o.keys.bindings = append(o.keys.bindings, b)
	o.keys.unboundMs, o.keys.changedMs = 0, now.UnixMilli()
}

// voucher returns the key that made a previous signature, searching all of them.
func (o *oracle) voucher(p agent.Proof) string {
	text := boundText(o.id, []byte(o.signing), []byte(o.encryption), p.SignedAt)
	for key := range o.keys.firstMs {
		if verified(key[1], text, p.PreviousSignature) {
			return key[1]
		}
	}
	return ""
}

// leads reports whether signed steps lead from one signing key to the current one.
func (o *oracle) leads(from string) bool {
	if from == o.signing {
		return true
	}
	for i, s := range o.keys.steps {
		rest := *o
		rest.keys.steps = o.keys.steps[i+1:]
		if s.from == from && rest.leads(s.to) {
			return true
		}
	}
	return false
}

func (o *oracle) bindKeys(c agent.BindKeys, now time.Time) actorstest.Verdict {
	if v, refused := o.judgeProof(c.Proof, o.signing, o.encryption, now); refused {
		return v
	}
	if v, refused := o.judgeInstant(c.Proof, o.signing, o.encryption, now); refused {
		return v
	}
	if o.again(c.Proof, o.signing, o.encryption) {
		return actorstest.Accepted("again")
	}
	o.bind(c.Proof, now)
	return actorstest.Accepted(o.keys.bindings[len(o.keys.bindings)-1].continuity)
}

func (o *oracle) retireKey(c agent.RetireKey, now time.Time) actorstest.Verdict {
	for key := range o.keys.firstMs {
		switch {
		case parley.Thumbprint(key[0], []byte(key[1])) != c.Kid:
			continue
		case key == [2]string{"Ed25519", o.signing} || key == [2]string{"X25519", o.encryption}:
			return actorstest.Refused("in use", "409 invalid_transition")
		case o.keys.distrustedMs[key] != 0:
			return actorstest.Accepted("again")
		case key[0] == "Ed25519" && len(o.keys.bindings) > 0 && !o.leads(key[1]):
			return actorstest.Refused("not linked", "409 invalid_transition")
		}
		o.keys.distrustedMs[key], o.keys.changedMs = now.UnixMilli(), now.UnixMilli()
		return actorstest.Accepted("retired")
	}
	return actorstest.Refused("unknown", "404 not_found")
}

// wishToBind usually returns a valid proof of the new keys.
func (o *oracle) wishToBind(t *rapid.T, signing, encryption []byte, now time.Time) agent.Proof {
	if n := len(o.keys.bindings); n > 0 && rarely.Draw(t, "the same again") {
		last := o.keys.bindings[n-1]
		p := agent.Proof{Brand: "svc", Handle: handle, Signature: []byte(last.signature), SignedAt: last.signedAt}
		if last.previous != "" {
			p.PreviousSignature = []byte(last.previous)
		}
		return p
	}
	if len(signing) == 0 {
		signing = []byte(o.signing)
	}
	if len(encryption) == 0 {
		encryption = []byte(o.encryption)
	}
	at := now.Add(rapid.SampledFrom([]time.Duration{0, 0, 0, time.Microsecond, 5 * time.Minute, 5*time.Minute + time.Microsecond, -time.Hour}).Draw(t, "dated"))
	by, previous := nameOf(signing), ""
	if rapid.Bool().Draw(t, "the former signs") {
		previous = nameOf([]byte(o.former(string(signing))))
	}
	if rarely.Draw(t, "somebody else signs") {
		by = rapid.SampledFrom([]string{"ed1", "ed2"}).Draw(t, "by")
	}
	if rarely.Draw(t, "somebody else signs besides") {
		previous = rapid.SampledFrom([]string{"ed1", "ed2", "ed3"}).Draw(t, "besides")
	}
	p := proof(signing, encryption, by, previous, at.UTC().Format(instant))
	if rarely.Draw(t, "of another") {
		p.Handle = "bob@acme.example"
	}
	return p
}

// nameOf returns the name of a key.
func nameOf(raw []byte) string {
	for _, name := range []string{"ed1", "ed2", "ed3"} {
		if slices.Equal(keysByName[name], raw) {
			return name
		}
	}
	return ""
}
