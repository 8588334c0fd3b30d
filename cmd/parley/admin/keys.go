package admin

import (
	"log/slog"
	"net/http"

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
}

// RotatedKey is the answer of POST /signing-keys/rotate.
type RotatedKey struct {
	// Kid is the id of the key that signs now.
	Kid string `json:"kid"`
}

// Mount adds POST /signing-keys/rotate.
func (k *SigningKeyEndpoint) Mount(mux *http.ServeMux) {
	mux.HandleFunc("POST /signing-keys/rotate", func(w http.ResponseWriter, r *http.Request) {
		var asked RotateKey
		var rotated RotatedKey
		err := ReadRequest(r, &asked)
		switch {
		case err != nil:
		case asked.Cards && asked.Receipts:
			err = errBadRequest
		case asked.Receipts:
			rotated.Kid, err = k.Service.RotateReceiptKeys(r.Context(), k.Master)
		case asked.Cards:
			rotated.Kid, err = k.Service.RotateCardKeys(r.Context(), k.Master)
		default:
			rotated.Kid, err = k.Service.RotateKeys(r.Context(), k.Master)
		}
		if err != nil {
			writeRefusal(w, err)
			return
		}
		slog.Info("the operator replaced the signing key", "kid", rotated.Kid, "cards", asked.Cards, "receipts", asked.Receipts, "from", r.RemoteAddr)
		writeJSON(w, http.StatusOK, rotated)
	})
}
