package e2ee

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// signedAtLayout has microseconds, as the service's format does.
const signedAtLayout = "2006-01-02T15:04:05.000000Z"

// VerifyBinding reports whether served keys come with a binding of exactly these keys,
// signed by the served signing key. brand is that of the server.
func VerifyBinding(brand string, keys *api.AgentKeys) bool {
	s, err := (&judge{brand: brand}).read(keys)
	return err == nil && s.sound
}

// bound is the agent that a binding is about, for the signed text.
type bound struct {
	brand  string
	agent  parley.AgentID
	handle string
}

func (w bound) text(signingKid, encryptionKid, signedAt string) []byte {
	return parley.KeyBindingText(w.brand, w.agent, strings.ToLower(w.handle), signingKid, encryptionKid, signedAt)
}

// verifies reports whether a key, in base64url, made a signature over a binding's text.
func (w bound) verifies(b *api.KeyBinding, signature, key string) bool {
	raw, err := api.JWK{KeyType: "OKP", Curve: parley.Ed25519, X: key}.Raw(parley.Ed25519)
	if err != nil {
		return false
	}
	s, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	return err == nil && ed25519.Verify(raw, w.text(b.SigningKid, b.EncryptionKid, b.SignedAt), s)
}

// follows reports whether a binding is signed by the key it names, and whether that key
// is the former signing key or one that the former signing key vouches for.
func (w bound) follows(b *api.KeyBinding, key string, formerKid, formerKey string) bool {
	if !w.verifies(b, b.Signature, key) {
		return false
	}
	return b.SigningKid == formerKid || b.PreviousSignature != nil && w.verifies(b, *b.PreviousSignature, formerKey)
}

// prove makes a binding of a pair of keys. former is the signing key that the pair
// replaces, or nil.
func (w bound) prove(pair *keyPair, former *signingKey, signedAt string) *api.KeyProof {
	text := w.text(pair.publicSigning().Kid, pair.publicEncryption().Kid, signedAt)
	sign := func(key ed25519.PrivateKey) string {
		return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, text))
	}
	proof := &api.KeyProof{Signature: sign(pair.signing.key), SignedAt: signedAt}
	if former != nil && former.kid != pair.signing.kid {
		previous := sign(former.key)
		proof.PreviousSignature = &previous
	}
	return proof
}

func (a *Agent) bound() bound { return bound{a.Client.Brand(), a.ID(), a.Handle()} }

// nextSignedAt returns now, or the instant just after the last binding if that is later:
// the service accepts only a time later than all before.
func (a *Agent) nextSignedAt(ctx context.Context) (string, error) {
	now := a.clock().UTC().Truncate(time.Microsecond)
	before, err := a.Client.Keys.Bindings(ctx, a.ID().String())
	if err != nil && !errors.Is(err, client.NotFound) {
		return "", err
	}
	if len(before) > 0 {
		last, err := parley.ParseSignedAt(before[len(before)-1].SignedAt)
		if err != nil {
			return "", err
		}
		if !now.After(last) {
			now = last.Add(time.Microsecond)
		}
	}
	return now.Format(signedAtLayout), nil
}

// BindKeys binds the agent's keys to each other and to the agent, unless the service has
// such a binding. It returns no error if the service does not support bindings.
func (a *Agent) BindKeys(ctx context.Context) error {
	served, err := a.Client.Keys.Get(ctx, a.ID().String(), "")
	if err != nil {
		return err
	}
	pair, _ := a.Keys.pairs()
	signing, encryption := pair.publicSigning(), pair.publicEncryption()
	if err := matches(served, signing, encryption); err != nil {
		return err
	}
	if b := served.KeyBinding; b != nil && b.SigningKid == signing.Kid && b.EncryptionKid == encryption.Kid && a.bound().verifies(b, b.Signature, signing.X) {
		return nil
	}
	signedAt, err := a.nextSignedAt(ctx)
	if err != nil {
		return err
	}
	_, err = a.Client.Keys.Bind(ctx, api.BindKeys{ID: a.ID(), KeyProof: *a.bound().prove(&pair, nil, signedAt)})
	if unsupported(err) {
		return nil
	}
	return err
}

// matches compares both keys of an agent with those that the service publishes.
func matches(served *api.AgentKeys, signing, encryption api.JWK) error {
	for _, k := range []struct {
		use    string
		served *api.JWK
		own    api.JWK
	}{{"signing", served.SigningPublicKey, signing}, {"encryption", served.EncryptionPublicKey, encryption}} {
		if k.served == nil || k.served.X != k.own.X {
			return fmt.Errorf("%w: %s key %s is published, the key ring has %s", ErrKeysNotPublished, k.use, kidOf(k.served), k.own.Kid)
		}
	}
	return nil
}

// kidOf computes the id of a key. The served id is not trusted.
func kidOf(key *api.JWK) string {
	if key == nil {
		return "none"
	}
	raw, err := key.Raw(key.Curve)
	if err != nil {
		return "unreadable"
	}
	return parley.Thumbprint(key.Curve, raw)
}
