package http

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"parley/actors"
	"parley/actors/query"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/rest"
	"parley/http/submission"
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
		p.all = append(p.all, publishedKey(k.GetPublic(), k.GetKid()))
		p.newest = max(p.newest, k.GetAtMs())
	}
	r.published.Store(p)
	return p, nil
}

// publishedKey is a key of the key document.
func publishedKey(public []byte, kid string) api.SigningKey {
	jwk := api.NewJWK(parley.Ed25519, public)
	return api.SigningKey{KeyType: jwk.KeyType, Curve: jwk.Curve, X: jwk.X, Kid: kid, Use: "sig", Algorithm: auth.Algorithm}
}

// getReceipt returns a signed statement that the service accepted a message, for those who
// may read it. It carries nothing to the recipient. // docs: receipts.md
func (s inbox) getReceipt(c *rest.Call, in *api.GetReceipt) (api.MessageReceipt, error) {
	m, err := s.Node.Messages.Get(c.Context(), in.ID)
	if m, err = submission.Readable(c, m, err); err != nil {
		return api.MessageReceipt{}, err
	}
	if err := c.Reserve(s.viewerOf(c, nil).SizeBound(m.Record)); err != nil {
		return api.MessageReceipt{}, err
	}
	if err := s.takeKeys(c.Context()); err != nil {
		return api.MessageReceipt{}, err
	}
	claims, err := s.receiptOf(c, m)
	if err != nil {
		return api.MessageReceipt{}, err
	}
	signed, err := signReceipt(s.receiptKeys.Keys().Current, s.Brand, claims)
	return api.MessageReceipt{Receipt: signed}, err
}

func signReceipt(key auth.SigningKey, brand string, claims *api.ReceiptClaims) (string, error) {
	payload, err := json.Marshal(claims, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	return auth.SignCompact(key, brand+"-receipt+jwt", payload)
}

// receiptOf returns what a receipt of a message says. It is made of the message as readers
// get it, and never changes.
func (s inbox) receiptOf(c *rest.Call, m query.Message) (*api.ReceiptClaims, error) {
	var shown api.Message
	if err := json.Unmarshal(view.AppendMessage(nil, s.agents.ToView(c.Context(), m), s.viewerOf(c, nil)), &shown); err != nil {
		return nil, err
	}
	place, err := s.Node.Messages.PlaceOf(c.Context(), m.Record)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(shown.EncryptedPayload))
	return &api.ReceiptClaims{
		Issuer: s.BaseURL, IssuedAt: shown.CreatedAt.Unix(), MessageID: shown.ID, ConversationID: shown.ConversationID, Position: place,
		PayloadSHA256: hex.EncodeToString(sum[:]), EncryptionVersion: shown.EncryptionVersion, Type: shown.Type,
		FromAgentID: shown.FromAgentID, FromHandle: shown.SenderHandle, ToAgentID: shown.ToAgentID, ToHandle: shown.RecipientHandle,
		GroupID: shown.GroupID, AcceptedAt: shown.CreatedAt,
	}, nil
}
