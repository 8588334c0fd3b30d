package kit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Canaries maps names of secrets to unique texts. If a text is found elsewhere, the
// secret leaked.
type Canaries map[string]string

// PlantCanaries returns the canaries that a client supplies.
func PlantCanaries() Canaries {
	c := Canaries{}
	for _, what := range []string{"encrypted_payload", "self_encrypted_payload", "metadata", "conversation_metadata", "reason", "idempotency-key", "private-jwk", "message-signature", "wrong-secret", "wrong-token", "malformed-header", "content_type", "challenge-nonce", "card"} {
		c[what] = "Canary" + strings.ReplaceAll(strings.ReplaceAll(what, "_", ""), "-", "") + RandomHex(9)
	}
	c["email"] = "canary" + RandomHex(9) + "@private.example"
	c["org-name"] = "canaryname" + RandomHex(9)
	return c
}

// spellings returns the encodings in which a text may appear inside other data.
func spellings(text string) []string {
	out := []string{text, hex.EncodeToString([]byte(text)), url.QueryEscape(text), fmt.Sprintf("%q", text)[1 : len(fmt.Sprintf("%q", text))-1]}
	for lead := range 3 { // preceding bytes shift the base64 encoding
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte("..."[:lead] + text))
			out = append(out, encoded[(lead*8+5)/6:len(encoded)-2])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Found returns the names of the canaries that occur in the bytes.
func (c Canaries) Found(in []byte) (names []string) {
	in = bytes.ToLower(in)
	for name, canary := range c {
		if canary != "" && slices.ContainsFunc(spellings(canary), func(s string) bool { return bytes.Contains(in, []byte(strings.ToLower(s))) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Only returns the named canaries.
func (c Canaries) Only(names ...string) Canaries {
	some := Canaries{}
	for _, name := range names {
		some[name] = c[name]
	}
	return some
}

// FreeAddress returns an address that no process listens on.
func FreeAddress(t *testing.T) string {
	t.Helper()
	address, err := UnusedAddress()
	Must(t, err)
	return address
}

// Fetch reads from the admin address.
func Fetch(t *testing.T, token, address string) []byte {
	t.Helper()
	req, err := http.NewRequest("GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Control checks that a secret is found that was planted.
func (c Canaries) Control(t *testing.T, in []byte) {
	t.Helper()
	for name, secret := range c {
		planted := append(in[:len(in):len(in)], "x"+secret+"y"...)
		if got := c.Found(planted); len(got) == 0 {
			t.Errorf("control: %s was not found", name)
		}
	}
}
