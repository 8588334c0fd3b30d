package admin

import (
	"log/slog"
	"net/http"
	"time"

	"parley/actors/operator"
	parleyhttp "parley/http"
	"parley/http/auth"
)

// SigningKeyEndpoint replaces the keys that sign access tokens, A2A cards or receipts.
type SigningKeyEndpoint struct {
	Service *parleyhttp.Service
	Master  *auth.MasterKey
}

// RotateKey is the body of POST /signing-keys/rotate.
type RotateKey struct {
	// Cards names the key that signs A2A cards in place of the one that signs access
	// tokens.
	Cards bool `json:"cards,omitzero"`
	// Receipts names the key that signs receipts of messages.
	Receipts bool `json:"receipts,omitzero"`
	// Now has the new key sign at once.
	Now bool `json:"now,omitzero"`
}

// RotatedKey is the answer of POST /signing-keys/rotate.
type RotatedKey struct {
	// Kid is the id of the new key, which signs from SignsAt on.
	Kid     string    `json:"kid"`
	SignsAt time.Time `json:"signs_at"`
}

// Mount adds POST /signing-keys/rotate.
func (k *SigningKeyEndpoint) Mount(calls *Calls) {
	calls.Change(operator.RoleAdmin, "/signing-keys/rotate", func(w http.ResponseWriter, r *http.Request) {
		var asked RotateKey
		var rotated parleyhttp.Rotated
		err := ReadRequest(r, &asked)
		switch {
		case err != nil:
		case asked.Cards && asked.Receipts:
			err = errBadRequest
		case asked.Receipts:
			rotated, err = k.Service.RotateReceiptKeys(r.Context(), k.Master, asked.Now)
		case asked.Cards:
			rotated, err = k.Service.RotateCardKeys(r.Context(), k.Master, asked.Now)
		default:
			rotated, err = k.Service.RotateKeys(r.Context(), k.Master, asked.Now)
		}
		if err != nil {
			writeRefusal(w, err)
			return
		}
		slog.Info("the operator replaced the signing key", "kid", rotated.Kid, "signs_at", rotated.Signs, "cards", asked.Cards, "receipts", asked.Receipts, "from", r.RemoteAddr)
		writeJSON(w, http.StatusOK, RotatedKey{rotated.Kid, rotated.Signs})
	})
}
