package admin

import (
	"log/slog"
	"net/http"

	parleyhttp "parley/http"
	"parley/http/auth"
)

// SigningKeyEndpoint replaces the key that signs access tokens.
type SigningKeyEndpoint struct {
	Service *parleyhttp.Service
	Master  *auth.MasterKey
}

// RotatedKey is the answer of POST /signing-keys/rotate.
type RotatedKey struct {
	// Kid is the id of the key that signs now.
	Kid string `json:"kid"`
}

// Mount adds POST /signing-keys/rotate.
func (k *SigningKeyEndpoint) Mount(mux *http.ServeMux) {
	mux.HandleFunc("POST /signing-keys/rotate", func(w http.ResponseWriter, r *http.Request) {
		err := readRequest(r, &struct{}{})
		var rotated RotatedKey
		if err == nil {
			rotated.Kid, err = k.Service.RotateKeys(r.Context(), k.Master)
		}
		if err != nil {
			writeRefusal(w, err)
			return
		}
		slog.Info("the operator replaced the signing key", "kid", rotated.Kid, "from", r.RemoteAddr)
		writeJSON(w, http.StatusOK, rotated)
	})
}
