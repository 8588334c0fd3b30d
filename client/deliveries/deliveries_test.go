package deliveries

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

// TestDeliveriesNeedTheirSecret: one signature is the example of the Standard Webhooks
// specification, the other was computed with openssl.
func TestDeliveriesNeedTheirSecret(t *testing.T) {
	const (
		secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		body   = `{"test": 2432232314}`
		plain  = "sha256=80ec8a89ce3cd22133a1066caecb4d04fea7467657c8514d717ec42c38a5c94c"
	)
	now := time.Unix(1614265330, 0)
	signed := func() http.Header {
		return http.Header{
			"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
			"Webhook-Signature":        {"v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
			"X-Svc-Signature":          {"sha256=00"},
			"X-Svc-Signature-Previous": {plain},
		}
	}
	got, err := Open(secret, "svc", signed(), []byte(body), now)
	if err != nil || got.ID != "msg_p5jXN8AQM9LWM0D4loKWxJek" || !got.SignedAt.Equal(now) {
		t.Fatalf("a good delivery: %+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		secret, body string
		change       func(http.Header)
		late         time.Duration
		want         error
	}{
		"another secret":      {secret: "whsec_AAAAAAAA", want: ErrSignature},
		"no secret":           {secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", want: ErrSecret},
		"an empty secret":     {secret: "whsec_", want: ErrSecret},
		"another body":        {body: `{"test": 2432232315}`, want: ErrSignature},
		"another id":          {change: func(h http.Header) { h.Set("Webhook-Id", "msg_other") }, want: ErrSignature},
		"another time":        {change: func(h http.Header) { h.Set("Webhook-Timestamp", "1614265331") }, want: ErrSignature},
		"no plain signature":  {change: func(h http.Header) { h.Del("X-Svc-Signature-Previous") }, want: ErrSignature},
		"no standard one":     {change: func(h http.Header) { h.Del("Webhook-Signature") }, want: ErrSignature},
		"two in one":          {change: func(h http.Header) { h.Set("X-Svc-Signature-Previous", "sha256=00,"+plain) }, want: ErrSignature},
		"wrong plain":         {change: func(h http.Header) { h.Set("X-Svc-Signature-Previous", plain[:len(plain)-1]+"d") }, want: ErrSignature},
		"replayed":            {late: 6 * time.Minute, want: ErrStale},
		"from times to come":  {late: -6 * time.Minute, want: ErrStale},
		"within five minutes": {late: 4 * time.Minute},
	} {
		head, text, key := signed(), body, secret
		if c.change != nil {
			c.change(head)
		}
		if c.body != "" {
			text = c.body
		}
		if c.secret != "" {
			key = c.secret
		}
		if _, err := Open(key, "svc", head, []byte(text), now.Add(c.late)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}
