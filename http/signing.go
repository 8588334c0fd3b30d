package http

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"sync/atomic"
	"time"

	"parley/actors"
	"parley/actors/issuer"
	"parley/client/parley"
	"parley/http/auth"
)

// SigningKeys returns the keys of one purpose that sign and are published at this time. If
// no key is current, or the current one is due for replacement, it first mints a new key and
// stores it in the journal, sealed under the master key. While the journal takes no
// writes, the current key stays in use, and RenewKeys tries again.
//
// lifetime is the age at which a key is replaced; 0 is parley.SigningKeyLifetime.
func SigningKeys(ctx context.Context, of *actors.Keys, master *auth.MasterKey, lifetime time.Duration, clock parley.Clock, entropy parley.Entropy) (auth.KeySet, error) {
	keys, _, err := signingKeys(ctx, of, master, lifetime, clock, entropy)
	return keys, err
}

// signingKeys is SigningKeys, and also returns why the current key has not been replaced
// yet.
func signingKeys(ctx context.Context, of *actors.Keys, master *auth.MasterKey, lifetime time.Duration, clock parley.Clock, entropy parley.Entropy) (keys auth.KeySet, overdue, err error) {
	state, err := of.Current(ctx)
	if err != nil {
		return keys, nil, err
	}
	if state.Due(clock(), cmp.Or(lifetime, parley.SigningKeyLifetime)) {
		minted, refused := mintKey(ctx, of, master, issuer.Mint{Lifetime: lifetime}, entropy)
		switch {
		case refused == nil:
			state = minted
		case state.Current() == nil || !errors.Is(refused, parley.ErrOverloaded) && !errors.Is(refused, parley.ErrOutcomeUnknown):
			return keys, nil, refused
		}
		overdue = refused
	}
	keys, err = keySet(state, master, clock())
	return keys, overdue, err
}

// mintKey creates a new key, offers it to the issuer and returns the keys that are then
// in force.
func mintKey(ctx context.Context, of *actors.Keys, master *auth.MasterKey, offer issuer.Mint, entropy parley.Entropy) (*issuer.State, error) {
	seed := auth.NewSeed(entropy)
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	kid := parley.Thumbprint(parley.Ed25519, public)
	offer.Kid, offer.Public, offer.SealedSeed = kid, public, master.SealSeed(kid, seed)
	return of.Mint(ctx, offer)
}

// keySet opens the published keys, newest first. The newest key signs that verifiers have by now,
// or that a rotation demanded at once.
func keySet(state *issuer.State, master *auth.MasterKey, now time.Time) (auth.KeySet, error) {
	var keys []auth.SigningKey
	current := -1
	for i, k := range state.Published(now) {
		seed, err := master.OpenSeed(k.GetKid(), k.GetSealedSeed())
		if err != nil {
			return auth.KeySet{}, err
		}
		key := auth.NewSigningKey(seed, time.UnixMilli(k.GetMintedMs()).UTC())
		if k.GetRetiredMs() != 0 {
			key.Until = time.UnixMilli(k.GetRetiredMs()).UTC().Add(parley.SigningKeyAfterlife)
		}
		keys = append(keys, key)
		if current < 0 && (k.GetAtOnce() || now.Sub(key.Created) >= parley.SigningKeyPublication) {
			current = i
		}
	}
	if current < 0 { // the first key
		current = len(keys) - 1
	}
	set := auth.KeySet{Current: keys[current]}
	for i, k := range keys {
		if i != current {
			set.Others = append(set.Others, k)
		}
	}
	return set, nil
}

// sameKeys reports whether two sets sign with and publish the same keys.
func sameKeys(a, b auth.KeySet) bool {
	if a.Current.Kid != b.Current.Kid || len(a.Others) != len(b.Others) {
		return false
	}
	for i := range a.Others {
		if a.Others[i].Kid != b.Others[i].Kid || !a.Others[i].Until.Equal(b.Others[i].Until) {
			return false
		}
	}
	return true
}

// keyNews is set when the journal may have other signing keys than those in use: a key was
// rotated here or on another node.
type keyNews struct {
	changed atomic.Bool
	came    chan struct{}
}

// follow follows the keys of all purposes that are in use.
func (n *keyNews) follow(all ...*actors.Keys) {
	n.came = make(chan struct{}, 1)
	for _, keys := range all {
		keys.Observe(func() {
			n.changed.Store(true)
			select {
			case n.came <- struct{}{}:
			default:
			}
		})
	}
}

// KeysChanged receives when RenewKeys should be called before it is due.
func (s *Service) KeysChanged() <-chan struct{} { return s.keyNews.came }

// takeKeys puts the keys into use that were rotated before the last fence, on whichever node.
func (s *core) takeKeys(ctx context.Context) error {
	s.signing.Lock()
	defer s.signing.Unlock()
	if !s.keyNews.changed.Load() {
		return nil
	}
	return s.renewKeys(ctx, s.Vault)
}

// RenewKeys rotates the signing keys of each purpose if they are due, and puts the current
// sets into use. It is called every few minutes. If a rotation cannot be stored, it returns
// an error, and a later call makes up for it.
func (s *Service) RenewKeys(ctx context.Context, master *auth.MasterKey) error {
	s.signing.Lock()
	defer s.signing.Unlock()
	return s.renewKeys(ctx, master)
}

// renewKeys is RenewKeys while signing is held.
func (s *core) renewKeys(ctx context.Context, master *auth.MasterKey) error {
	s.keyNews.changed.Store(false)
	renew := func(of *actors.Keys, used auth.KeySet, use func(auth.KeySet)) error {
		keys, overdue, err := signingKeys(ctx, of, master, s.KeyLifetime, s.Clock, s.Entropy)
		if err == nil && !sameKeys(keys, used) {
			use(keys)
		}
		return errors.Join(overdue, err)
	}
	err := errors.Join(
		renew(s.Node.Keys, s.Issuer.Keys(), s.Issuer.SetKeys), renew(s.Node.CardKeys, s.bridgeCards.Keys(), s.bridgeCards.SetKeys),
		renew(s.Node.ReceiptKeys, s.receiptKeys.Keys(), s.receiptKeys.use))
	if err != nil {
		s.keyNews.changed.Store(true)
	}
	return err
}

// Rotated is a new signing key, and when it signs.
type Rotated struct {
	Kid   string
	Signs time.Time
}

// RotateKeys replaces the key that signs access tokens: with one that signs once it has been
// published for parley.SigningKeyPublication, or at once. The former key stays published for a day,
// so that its tokens stay valid. A verifier that has cached the key document requests it again when
// it sees the new id, but not every verifier does so at once.
func (s *Service) RotateKeys(ctx context.Context, master *auth.MasterKey, atOnce bool) (Rotated, error) {
	return s.rotateKeys(ctx, s.Node.Keys, master, atOnce, s.Issuer.SetKeys)
}

// RotateCardKeys is RotateKeys for the key that signs the A2A cards of agents.
func (s *Service) RotateCardKeys(ctx context.Context, master *auth.MasterKey, atOnce bool) (Rotated, error) {
	return s.rotateKeys(ctx, s.Node.CardKeys, master, atOnce, s.bridgeCards.SetKeys)
}

// RotateReceiptKeys is RotateKeys for the key that signs receipts of messages. The former
// key stays published for good.
func (s *Service) RotateReceiptKeys(ctx context.Context, master *auth.MasterKey, atOnce bool) (Rotated, error) {
	return s.rotateKeys(ctx, s.Node.ReceiptKeys, master, atOnce, s.receiptKeys.use)
}

func (s *Service) rotateKeys(ctx context.Context, of *actors.Keys, master *auth.MasterKey, atOnce bool, use func(auth.KeySet)) (Rotated, error) {
	s.signing.Lock()
	defer s.signing.Unlock()
	state, err := mintKey(ctx, of, master, issuer.Mint{Force: true, AtOnce: atOnce}, s.Entropy)
	if err != nil {
		return Rotated{}, err
	}
	keys, err := keySet(state, master, s.Clock())
	if err != nil {
		return Rotated{}, err
	}
	use(keys)
	newest := state.Current()
	out := Rotated{Kid: newest.GetKid(), Signs: time.UnixMilli(newest.GetMintedMs()).UTC()}
	if !atOnce {
		out.Signs = out.Signs.Add(parley.SigningKeyPublication)
	}
	return out, nil
}
