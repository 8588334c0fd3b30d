package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestSignatureControl: the check rejects another secret and a change to any part.
func TestSignatureControl(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	make := func() *hooktest.Delivery {
		d := &hooktest.Delivery{At: time.Now(), Header: http.Header{}, Raw: []byte(`{"event":"x"}`)}
		stamp := strconv.FormatInt(d.At.Unix(), 10)
		plain, standard := hmac.New(sha256.New, []byte(secret)), hmac.New(sha256.New, []byte(strings.Repeat("k", 32)))
		plain.Write(d.Raw)
		_, _ = fmt.Fprintf(standard, "id.%s.%s", stamp, d.Raw)
		for name, value := range map[string]string{
			"X-Svc-Signature": "sha256=" + hex.EncodeToString(plain.Sum(nil)), "Webhook-Id": "id", "Webhook-Timestamp": stamp,
			"Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(standard.Sum(nil)),
		} {
			d.Header.Set(name, value)
		}
		return d
	}
	if err := make().Verified(secret); err != nil {
		t.Fatal(err)
	}
	if make().Verified("whsec_"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("j", 32)))) == nil {
		t.Error("another secret verifies")
	}
	for name, spoil := range map[string]func(*hooktest.Delivery){
		"body":      func(d *hooktest.Delivery) { d.Raw = append(d.Raw, ' ') },
		"id":        func(d *hooktest.Delivery) { d.Header.Set("Webhook-Id", "other") },
		"plain":     func(d *hooktest.Delivery) { d.Header.Del("X-Svc-Signature") },
		"standard":  func(d *hooktest.Delivery) { d.Header.Set("Webhook-Signature", "v1,AAAA") },
		"timestamp": func(d *hooktest.Delivery) { d.Header.Set("Webhook-Timestamp", "1") },
	} {
		d := make()
		spoil(d)
		if d.Verified(secret) == nil {
			t.Errorf("a changed %s was not found", name)
		}
	}
}
