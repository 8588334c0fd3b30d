// Package deliveries verifies what a server sends to webhooks.
package deliveries

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

	"parley/client/api"
)

// Errors of deliveries that a receiver must reject.
var (
	// ErrSecret means that a text is not a webhook secret.
	ErrSecret = errors.New("a webhook's secret is whsec_ and base64")
	// ErrSignature means that one of the two signatures is missing or wrong.
	ErrSignature = errors.New("the delivery is not signed with this secret")
	// ErrStale means that the delivery was signed too long ago or in the future:
	// it may be a replay.
	ErrStale = errors.New("the delivery's timestamp is more than five minutes off")
)

// ageMax is how far the clocks of both sides may differ.
// // source: Standard Webhooks 1.0, Verifying webhook authenticity
const ageMax = 5 * time.Minute

// Delivery is a delivery whose signatures are valid.
type Delivery struct {
	api.HookPayload
	// ID is the same for each attempt of a delivery. A receiver that has seen it before
	// only needs to answer 2xx.
	ID string
	// SignedAt is when this attempt was signed.
	SignedAt time.Time
}

// Open verifies a request to a webhook's receiver: both signatures, over the raw
// body, and the age. brand is the word in the service's header names, svc by default.
// During a rotation either secret is accepted.
func Open(secret, brand string, head http.Header, body []byte, now time.Time) (*Delivery, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 || !strings.HasPrefix(secret, "whsec_") {
		return nil, ErrSecret
	}
	id, stamp := head.Get("Webhook-Id"), head.Get("Webhook-Timestamp")
	plain := "sha256=" + hex.EncodeToString(mac([]byte(secret), body))
	standard := "v1," + base64.StdEncoding.EncodeToString(mac(key, []byte(id+"."+stamp+"."), body))
	if !amongst(plain, []string{head.Get("X-" + brand + "-Signature"), head.Get("X-" + brand + "-Signature-Previous")}) || !amongst(standard, strings.Fields(head.Get("Webhook-Signature"))) {
		return nil, ErrSignature
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return nil, ErrSignature
	}
	d := &Delivery{ID: id, SignedAt: time.Unix(seconds, 0).UTC()}
	if age := now.Sub(d.SignedAt); age > ageMax || age < -ageMax {
		return nil, ErrStale
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

// amongst compares in constant time, so that timing does not reveal where texts differ.
func amongst(want string, found []string) bool {
	ok := false
	for _, text := range found {
		ok = hmac.Equal([]byte(want), []byte(strings.TrimSpace(text))) || ok
	}
	return ok
}
