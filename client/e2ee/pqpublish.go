package e2ee

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// checkPQ compares the published post-quantum key with the ring's. It returns nil if they
// are the same, if the published one is one that no sender uses, or if none is published:
// the session then publishes the ring's.
func (k *KeyRing) checkPQ(published *api.PQKey) error {
	own, pair := k.PQKey(), k.EncryptionKey()
	switch {
	case published == nil || own != nil && published.Pub == own.Pub && published.Algorithm == own.Algorithm:
		return nil
	case own == nil && HybridKey(&api.AgentKeys{EncryptionPublicKey: &pair, PQPublicKey: published}) == nil:
		return nil
	}
	return fmt.Errorf("%w: post-quantum key %s is published, the key ring has %s", ErrKeysNotPublished, PQKid(published), PQKid(own))
}

// PQKid computes the id of a post-quantum key. The served id is not trusted.
func PQKid(key *api.PQKey) string {
	if key == nil {
		return "none"
	}
	raw, err := key.Raw(key.Algorithm)
	if err != nil {
		return "unreadable"
	}
	return parley.AKPThumbprint(key.Algorithm, raw)
}

// Published reports whether an agent's published keys are the ring's: both keys, and no
// post-quantum key that senders would use but the ring does not have.
func (k *KeyRing) Published(keys *api.AgentKeys) bool {
	return matches(keys, k.SigningKey(), k.EncryptionKey()) == nil && k.checkPQ(keys.PQPublicKey) == nil
}

// SealedHybrid reports whether a message is sealed to a post-quantum key of its recipient.
func SealedHybrid(m api.Message) bool {
	version, _, err := decodeSealed(m.EncryptedPayload)
	return err == nil && version == sealVersion3 && m.EncryptionVersion == api.HPKEv1
}

// publishPQ publishes the ring's post-quantum key, if it has one and the service does not
// publish it. It returns no error if the service does not support such keys.
func (a *Agent) publishPQ(ctx context.Context, published *api.PQKey) error {
	own := a.Keys.PQKey()
	if own == nil || published != nil && published.Pub == own.Pub {
		return nil
	}
	_, err := a.Client.Keys.SetPQ(ctx, api.SetPQKey{ID: a.ID(), PQPublicKey: own})
	if unsupported(err) {
		return nil
	}
	return err
}

// unsupported reports whether the service has no such route.
func unsupported(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusMethodNotAllowed)
}

// restorePQ publishes the ring's post-quantum key again, or removes one that is not the
// ring's. It reports whether it replaced a key.
func (a *Agent) restorePQ(ctx context.Context, published *api.PQKey) (replaced bool, err error) {
	if a.Keys.checkPQ(published) == nil {
		return false, a.publishPQ(ctx, published)
	}
	if a.Keys.PQKey() != nil {
		return true, a.publishPQ(ctx, published)
	}
	return true, a.Client.Keys.RemovePQ(ctx, a.ID())
}

// RotateKeysTo is RotateKeys that also decides whether the new keys include a post-quantum
// key. Without one, senders that know the agent accept the new keys as after any rotation.
func (a *Agent) RotateKeysTo(ctx context.Context, postQuantum bool) error {
	err := a.rotateKeys(ctx, postQuantum)
	if err == nil && (a.Keys.PQKey() != nil) != postQuantum { // this completed an earlier rotation
		err = a.rotateKeys(ctx, postQuantum)
	}
	return err
}
