package egress_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/egress"
)

// TestStandardWebhooksSignature: the test vector of the reference implementations of
// Standard Webhooks. The other value was computed with OpenSSL: openssl dgst -sha256
// -hmac whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
func TestStandardWebhooksSignature(t *testing.T) {
	head := http.Header{}
	err := egress.Sign(head, "svc", "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"webhook-id":        "msg_p5jXN8AQM9LWM0D4loKWxJek",
		"webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		"X-Svc-Signature":   "sha256=80ec8a89ce3cd22133a1066caecb4d04fea7467657c8514d717ec42c38a5c94c",
	} {
		if got := head.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestBothSecretsSignDuringARotation(t *testing.T) {
	older, newer := egress.NewSecret(parley.CountingEntropy()), egress.NewSecret(parley.RandomEntropy)
	sign := func(secrets ...string) http.Header {
		head := http.Header{}
		if err := egress.Sign(head, "svc", "job", noon, []byte(`{}`), secrets...); err != nil {
			t.Fatal(err)
		}
		return head
	}
	both, one, other := sign(newer, older), sign(newer), sign(older)
	for name, want := range map[string]string{
		"X-Svc-Signature": one.Get("X-Svc-Signature"), "X-Svc-Signature-Previous": other.Get("X-Svc-Signature"),
		"Webhook-Signature": one.Get("Webhook-Signature") + " " + other.Get("Webhook-Signature"),
	} {
		if both.Get(name) != want || one.Get(name) == other.Get(name) && one.Get(name) != "" || len(both[name]) != 1 {
			t.Errorf("%s: got %q, want %q", name, both[name], want)
		}
	}
	if previous, there := one["X-Svc-Signature-Previous"]; there {
		t.Errorf("with one secret, a previous secret signs: %q", previous)
	}
	if oldest := egress.NewSecret(parley.RandomEntropy); sign(newer, older, oldest).Get("X-Svc-Signature-Previous") != both.Get("X-Svc-Signature-Previous") {
		t.Error("of three secrets, the previous one is not the second")
	}
}

func TestSecrets(t *testing.T) {
	entropy := parley.CountingEntropy()
	first, second := egress.NewSecret(entropy), egress.NewSecret(entropy)
	text, ok := strings.CutPrefix(first, egress.SecretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) != 32 || first == second {
		t.Errorf("got %q, then %q", first, second)
	}
	for _, bad := range []string{"", "whsec_", "whsec_!", text, "whsec_" + strings.TrimRight(text, "="), "WHSEC_" + text} {
		head := http.Header{}
		if err := egress.Sign(head, "svc", "job", noon, nil, first, bad); !errors.Is(err, egress.ErrSecret) || len(head) != 0 {
			t.Errorf("%q: got %v and %v", bad, err, head)
		}
	}
	if err := egress.Sign(http.Header{}, "svc", "job", noon, nil); !errors.Is(err, egress.ErrSecret) {
		t.Errorf("an empty secret: %v", err)
	}
}
