package http

import (
	"context"
	"sync/atomic"
	"time"

	"parley/actors"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/rest"
	"parley/http/view"
)

// receiptKeys are the keys that sign receipts. All former ones stay published, because a
// receipt is kept for as long as somebody may have to prove something.
type receiptKeys struct {
	of   *actors.Keys
	keys atomic.Pointer[auth.KeySet]
	// published is the part of the key document that belongs to the keys in use.
	published atomic.Pointer[publishedReceiptKeys]
}

type publishedReceiptKeys struct {
	with   *auth.KeySet // the keys in use when it was read
	all    []api.SigningKey
	newest int64 // when the newest was minted, in milliseconds
}

func newReceiptKeys(of *actors.Keys, keys auth.KeySet) *receiptKeys {
	r := &receiptKeys{of: of}
	r.use(keys)
	return r
}

func (r *receiptKeys) use(keys auth.KeySet) { r.keys.Store(&keys) }

// Keys returns the keys in use.
func (r *receiptKeys) Keys() auth.KeySet { return *r.keys.Load() }

// document returns every key that has signed receipts, or will soon, and when the newest
// was minted.
func (r *receiptKeys) document(ctx context.Context) (*publishedReceiptKeys, error) {
	used := r.keys.Load()
	if known := r.published.Load(); known != nil && known.with == used {
		return known, nil
	}
	minted, err := r.of.Minted(ctx)
	if err != nil {
		return nil, err
	}
	p := &publishedReceiptKeys{with: used}
	for _, k := range minted {
		p.all = append(p.all, view.SigningKey(k.GetPublic(), k.GetKid()))
		p.newest = max(p.newest, k.GetAtMs())
	}
	r.published.Store(p)
	return p, nil
}

// receiptKey returns the key that signs receipts now, on all nodes.
func (s *core) receiptKey(ctx context.Context) (auth.SigningKey, error) {
	if err := s.takeKeys(ctx); err != nil {
		return auth.SigningKey{}, err
	}
	return s.receiptKeys.Keys().Current, nil
}

// logKeyLifetime is the age at which the key that signs checkpoints is replaced: never.
// Clients remember it, and one that changes looks like another log.
const logKeyLifetime = 200 * 365 * 24 * time.Hour

// logKey returns the key that signs checkpoints of the key log.
func (s *core) logKey(ctx context.Context) (auth.SigningKey, error) {
	keys, err := SigningKeys(ctx, s.Node.LogKeys, s.Vault, logKeyLifetime, s.Clock, s.Entropy)
	return keys.Current, err
}

// jwks publishes the keys that tokens, A2A cards and receipts are verified with. // spec: Directory and discovery (all public, no auth)
func (s serverInfo) jwks(c *rest.Call, _ *api.Nothing) (rest.Rendered, error) {
	if err := s.takeKeys(c.Context()); err != nil {
		return rest.Rendered{}, err
	}
	keys, changed := api.SigningKeys{Keys: []api.SigningKey{}}, time.Time{}
	for _, of := range []auth.KeySet{s.Issuer.Keys(), s.bridgeCards.Keys()} {
		newest := time.Time{}
		for _, k := range of.Published(c.Now()) {
			if k.Created.After(newest) {
				newest = k.Created
			}
			keys.Keys = append(keys.Keys, view.SigningKey(k.Public(), k.Kid))
		}
		// The former key was retired when the newest was created, and is published for
		// SigningKeyAfterlife after that.
		if left := newest.Add(parley.SigningKeyAfterlife); !c.Now().Before(left) {
			newest = left
		}
		if newest.After(changed) {
			changed = newest
		}
	}
	receipts, err := s.receiptKeys.document(c.Context())
	if err != nil {
		return rest.Rendered{}, err
	}
	keys.Keys = append(keys.Keys, receipts.all...)
	if newest := time.UnixMilli(receipts.newest); newest.After(changed) {
		changed = newest
	}
	return c.Document(keys, changed, rest.CacheHour)
}
