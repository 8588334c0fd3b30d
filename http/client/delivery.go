package client

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/http/api"
)

// Errors of deliveries that a receiver must not believe.
var (
	// ErrDeliverySecret says that what should be a webhook's secret is none.
	ErrDeliverySecret = errors.New("a webhook's secret is whsec_ and base64")
	// ErrDeliverySignature says that one of the two signatures is absent or wrong.
	ErrDeliverySignature = errors.New("the delivery is not signed with this secret")
	// ErrDeliveryStale says that the delivery was signed too long ago, or for a time
	// to come: it may be an old one that somebody sends again.
	ErrDeliveryStale = errors.New("the delivery's timestamp is more than five minutes off")
)

// deliveryAge is how far the clocks of both sides may be apart.
// source: Standard Webhooks 1.0, Verifying webhook authenticity
const deliveryAge = 5 * time.Minute

// Delivered is a delivery whose signatures are right.
type Delivered struct {
	api.HookPayload
	// ID is the same for each attempt of a delivery: who has it seen already has to
	// do nothing but answer 2xx.
	ID string
	// SignedAt is when this attempt was signed.
	SignedAt time.Time
}

// OpenDelivery checks what a webhook's receiver got: both signatures, over the
// body as it came, and the age. brand is the word in the service's header names,
// svc by default. While a secret is being rotated either of the two will do.
func OpenDelivery(secret, brand string, head http.Header, body []byte, now time.Time) (*Delivered, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 || !strings.HasPrefix(secret, "whsec_") {
		return nil, ErrDeliverySecret
	}
	id, stamp := head.Get("Webhook-Id"), head.Get("Webhook-Timestamp")
	plain := "sha256=" + hex.EncodeToString(mac([]byte(secret), body))
	standard := "v1," + base64.StdEncoding.EncodeToString(mac(key, []byte(id+"."+stamp+"."), body))
	if !amongst(plain, []string{head.Get("X-" + brand + "-Signature"), head.Get("X-" + brand + "-Signature-Previous")}) || !amongst(standard, strings.Fields(head.Get("Webhook-Signature"))) {
		return nil, ErrDeliverySignature
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return nil, ErrDeliverySignature
	}
	d := &Delivered{ID: id, SignedAt: time.Unix(seconds, 0).UTC()}
	if age := now.Sub(d.SignedAt); age > deliveryAge || age < -deliveryAge {
		return nil, ErrDeliveryStale
	}
	return d, json.NewDecoder(bytes.NewReader(body)).Decode(&d.HookPayload)
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

// amongst compares in a time that tells nothing of where texts differ.
func amongst(want string, found []string) bool {
	ok := false
	for _, text := range found {
		ok = hmac.Equal([]byte(want), []byte(strings.TrimSpace(text))) || ok
	}
	return ok
}
