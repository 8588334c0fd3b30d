package main

import (
	"log/slog"
	"net/http"

	parleyhttp "parley/http"
	"parley/http/auth"
)

// signingKeys is the operator's call to replace the key that signs access tokens.
type signingKeys struct {
	service *parleyhttp.Service
	master  *auth.MasterKey
}

// rotatedKey is its answer.
type rotatedKey struct {
	// Kid is the id of the key that signs now.
	Kid string `json:"kid"`
}

func (k *signingKeys) mount(mux *http.ServeMux) {
	mux.HandleFunc("POST /signing-keys/rotate", func(w http.ResponseWriter, r *http.Request) {
		err := readOrder(r, &struct{}{})
		var rotated rotatedKey
		if err == nil {
			rotated.Kid, err = k.service.RotateKeys(r.Context(), k.master)
		}
		if err != nil {
			refuseOrder(w, err)
			return
		}
		slog.Info("the operator replaced the signing key", "kid", rotated.Kid, "from", r.RemoteAddr)
		writeOrder(w, http.StatusOK, rotated)
	})
}
