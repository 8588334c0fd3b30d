package hooktest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// SecretForm is the form of a webhook's secret.
var SecretForm = regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=$`)

// Verified checks both signatures of a delivery as a receiver with this secret does.
// During a rotation there are several, and one must match.
func (d *Delivery) Verified(secret string) error {
	want := PlainSignature(secret, d.Raw)
	newest, previous := d.Header.Values("X-Svc-Signature"), d.Header.Values("X-Svc-Signature-Previous")
	if len(newest) != 1 || len(previous) > 1 || !slices.Contains(append(previous, newest...), want) {
		return fmt.Errorf("X-Svc-Signature is %q, of the previous secret %q, want %q", newest, previous, want)
	}
	stamp := d.Header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Unix(seconds, 0).Sub(d.At).Abs() > 5*time.Second {
		return fmt.Errorf("webhook-timestamp is %q at %v", stamp, d.At)
	}
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return errors.New("the secret is not whsec_ and base64")
	}
	standard := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(standard, "%s.%s.%s", d.Header.Get("Webhook-Id"), stamp, d.Raw)
	want = "v1," + base64.StdEncoding.EncodeToString(standard.Sum(nil))
	if got := d.Header.Values("Webhook-Signature"); len(got) != 1 || !slices.Contains(strings.Split(got[0], " "), want) {
		return fmt.Errorf("webhook-signature is %q, want %q", got, want)
	}
	return nil
}

// PlainSignature is the signature of the specification: over the body, keyed with the
// secret's text.
func PlainSignature(secret string, body []byte) string {
	plain := hmac.New(sha256.New, []byte(secret))
	plain.Write(body)
	return "sha256=" + hex.EncodeToString(plain.Sum(nil))
}

// Signatures returns the number of values of each signature header.
func (d *Delivery) Signatures() (plain, standard int) {
	return len(d.Header.Values("X-Svc-Signature")) + len(d.Header.Values("X-Svc-Signature-Previous")), len(strings.Split(d.Header.Get("Webhook-Signature"), " "))
}

// Judged checks what holds for every delivery of a webhook.
func (d *Delivery) Judged(t testing.TB, h *Hook) *Delivery {
	t.Helper()
	if err := d.Verified(h.Secret); err != nil {
		t.Error(err)
	}
	if d.Method != http.MethodPost || d.Header.Get("Content-Type") != "application/json" || d.Header.Get("User-Agent") == "" {
		t.Errorf("a delivery is %s with %v", d.Method, d.Header)
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Svc-Agent", "X-Request-Id", "Idempotency-Key", "Accept-Encoding"} {
		if v, present := d.Header[name]; present {
			t.Errorf("a delivery has the header %s: %q", name, v)
		}
	}
	if !kit.AnyUUID.MatchString(d.Header.Get("Webhook-Id")) {
		t.Errorf("webhook-id is %q", d.Header.Get("Webhook-Id"))
	}
	if d.Body["agent_id"] != h.Agent.ID || !kit.OfKind(d.Body["timestamp"], "time") || !kit.OfKind(d.Body["event"], "str") {
		t.Errorf("the body of a delivery is %s", d.Raw)
	}
	return d
}
