package http

import (
	"crypto/mlkem"
	"encoding/base64"
	"fmt"
	"testing"
)

// TestPQKeysAreBounded: an organization sets twenty post-quantum keys of an agent in an hour;
// its other agents have room of their own.
func TestPQKeysAreBounded(t *testing.T) {
	h := harnessInMemory(t, 1)
	t.Cleanup(h.close)
	p := h.tenant("acme")
	ann, bob := p.agent("ann"), p.agent("bob")
	set := func(agent string) *response {
		key, err := mlkem.GenerateKey768()
		if err != nil {
			t.Fatal(err)
		}
		pub := base64.RawURLEncoding.EncodeToString(key.EncapsulationKey().Bytes())
		return p.ask("POST", "/agents/"+agent+"/keys/pq", fmt.Sprintf(`{"pq_public_key":{"kty":"AKP","alg":"ML-KEM-768","pub":%q}}`, pub))
	}
	for range 20 {
		set(ann).want(200)
	}
	if a := set(ann).want(429, "rate_limited"); a.head.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	set(bob).want(200)
}
