package blackbox

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
)

var secretForm = regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=$`)

// verified checks both signatures of a delivery as a receiver with this secret does.
// During a rotation there are several, and one must match.
func (d *delivery) verified(secret string) error {
	want := plainSignature(secret, d.raw)
	newest, previous := d.header.Values("X-Svc-Signature"), d.header.Values("X-Svc-Signature-Previous")
	if len(newest) != 1 || len(previous) > 1 || !slices.Contains(append(previous, newest...), want) {
		return fmt.Errorf("X-Svc-Signature is %q, of the previous secret %q, want %q", newest, previous, want)
	}
	stamp := d.header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Unix(seconds, 0).Sub(d.at).Abs() > 5*time.Second {
		return fmt.Errorf("webhook-timestamp is %q at %v", stamp, d.at)
	}
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return errors.New("the secret is not whsec_ and base64")
	}
	standard := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(standard, "%s.%s.%s", d.header.Get("Webhook-Id"), stamp, d.raw)
	want = "v1," + base64.StdEncoding.EncodeToString(standard.Sum(nil))
	if got := d.header.Values("Webhook-Signature"); len(got) != 1 || !slices.Contains(strings.Split(got[0], " "), want) {
		return fmt.Errorf("webhook-signature is %q, want %q", got, want)
	}
	return nil
}

// plainSignature is the signature of the specification: over the body, keyed with the
// secret's text.
func plainSignature(secret string, body []byte) string {
	plain := hmac.New(sha256.New, []byte(secret))
	plain.Write(body)
	return "sha256=" + hex.EncodeToString(plain.Sum(nil))
}

// signatures returns the number of values of each signature header.
func (d *delivery) signatures() (plain, standard int) {
	return len(d.header.Values("X-Svc-Signature")) + len(d.header.Values("X-Svc-Signature-Previous")), len(strings.Split(d.header.Get("Webhook-Signature"), " "))
}

// judged checks what holds for every delivery of a webhook.
func (d *delivery) judged(t testing.TB, h *hook) *delivery {
	t.Helper()
	if err := d.verified(h.secret); err != nil {
		t.Error(err)
	}
	if d.method != http.MethodPost || d.header.Get("Content-Type") != "application/json" || d.header.Get("User-Agent") == "" {
		t.Errorf("a delivery is %s with %v", d.method, d.header)
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Svc-Agent", "X-Request-Id", "Idempotency-Key", "Accept-Encoding"} {
		if v, present := d.header[name]; present {
			t.Errorf("a delivery has the header %s: %q", name, v)
		}
	}
	if !AnyUUID.MatchString(d.header.Get("Webhook-Id")) {
		t.Errorf("webhook-id is %q", d.header.Get("Webhook-Id"))
	}
	if d.body["agent_id"] != h.agent.ID || !OfKind(d.body["timestamp"], "time") || !OfKind(d.body["event"], "str") {
		t.Errorf("the body of a delivery is %s", d.raw)
	}
	return d
}

// TestSignatureControl: the check rejects another secret and a change to any part.
func TestSignatureControl(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	make := func() *delivery {
		d := &delivery{at: time.Now(), header: http.Header{}, raw: []byte(`{"event":"x"}`)}
		stamp := strconv.FormatInt(d.at.Unix(), 10)
		plain, standard := hmac.New(sha256.New, []byte(secret)), hmac.New(sha256.New, []byte(strings.Repeat("k", 32)))
		plain.Write(d.raw)
		_, _ = fmt.Fprintf(standard, "id.%s.%s", stamp, d.raw)
		for name, value := range map[string]string{
			"X-Svc-Signature": "sha256=" + hex.EncodeToString(plain.Sum(nil)), "Webhook-Id": "id", "Webhook-Timestamp": stamp,
			"Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(standard.Sum(nil)),
		} {
			d.header.Set(name, value)
		}
		return d
	}
	if err := make().verified(secret); err != nil {
		t.Fatal(err)
	}
	if make().verified("whsec_"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("j", 32)))) == nil {
		t.Error("another secret verifies")
	}
	for name, spoil := range map[string]func(*delivery){
		"body":      func(d *delivery) { d.raw = append(d.raw, ' ') },
		"id":        func(d *delivery) { d.header.Set("Webhook-Id", "other") },
		"plain":     func(d *delivery) { d.header.Del("X-Svc-Signature") },
		"standard":  func(d *delivery) { d.header.Set("Webhook-Signature", "v1,AAAA") },
		"timestamp": func(d *delivery) { d.header.Set("Webhook-Timestamp", "1") },
	} {
		d := make()
		spoil(d)
		if d.verified(secret) == nil {
			t.Errorf("a changed %s was not found", name)
		}
	}
}
