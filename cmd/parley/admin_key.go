package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"parley/cmd/parley/program"
	parleyhttp "parley/http"
	"parley/http/auth"
)

// keyLifetime is the age at which a signing key is replaced.
func (c *Config) keyLifetime() time.Duration { return time.Duration(c.SigningKeyDays) * 24 * time.Hour }

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

type keyRotateCmd struct{ operatorFlags }

// Run replaces the key.
func (c *keyRotateCmd) Run(ctx context.Context, std *program.Streams) error {
	var rotated rotatedKey
	if err := c.get(ctx, "signing-keys/rotate", struct{}{}, &rotated); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(rotated)
	}
	return std.Say("new tokens are signed with key %s; the former key stays published for a day", rotated.Kid)
}
