package messages

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json"

	"parley/actors/query"
	"parley/client/api"
	"parley/http/auth"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
)

// GetReceipt returns a signed statement that the service accepted a message, for those who
// may read it. It carries nothing to the recipient. // docs: receipts.md
func (s Inbox) GetReceipt(c *rest.Call, in *api.GetReceipt) (api.MessageReceipt, error) {
	m, err := s.Node.Messages.Get(c.Context(), in.ID)
	if m, err = submission.Readable(c, m, err); err != nil {
		return api.MessageReceipt{}, err
	}
	if err := c.Reserve(s.viewerOf(c, nil).SizeBound(m.Record)); err != nil {
		return api.MessageReceipt{}, err
	}
	key, err := s.ReceiptKey(c.Context())
	if err != nil {
		return api.MessageReceipt{}, err
	}
	claims, err := s.receiptOf(c, m)
	if err != nil {
		return api.MessageReceipt{}, err
	}
	signed, err := SignReceipt(key, s.Brand, claims)
	return api.MessageReceipt{Receipt: signed}, err
}

// SignReceipt signs what a receipt says.
func SignReceipt(key auth.SigningKey, brand string, claims *api.ReceiptClaims) (string, error) {
	payload, err := json.Marshal(claims, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	return auth.SignCompact(key, brand+"-receipt+jwt", payload)
}

// receiptOf returns what a receipt of a message says. It is made of the message as readers
// get it, and never changes.
func (s Inbox) receiptOf(c *rest.Call, m query.Message) (*api.ReceiptClaims, error) {
	var shown api.Message
	if err := json.Unmarshal(view.AppendMessage(nil, s.Agents.ToView(c.Context(), m), s.viewerOf(c, nil)), &shown); err != nil {
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
