package http

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/client/api"
	"parley/http/auth"
	"parley/http/messages"
	"parley/http/view"
)

// TestReceiptVectors: the server makes the receipts of the test vectors byte for byte, with
// the same key. Receipts are kept for years by people who check them with libraries of
// their own, so no member may be renamed, removed, added or moved.
func TestReceiptVectors(t *testing.T) {
	text, err := os.ReadFile("../client/api/testdata/receipt.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Seed     string          `json:"signing_seed_hex"`
		Type     string          `json:"type"`
		JWKS     json.RawMessage `json:"jwks"`
		Receipts []struct {
			Name    string          `json:"name"`
			Claims  json.RawMessage `json:"claims"`
			Receipt string          `json:"receipt"`
		} `json:"receipts"`
	}
	if err := json.Unmarshal(text, &v); err != nil || len(v.Receipts) < 2 {
		t.Fatal(len(v.Receipts), err)
	}
	seed, err := hex.DecodeString(v.Seed)
	if err != nil {
		t.Fatal(err)
	}
	var keys api.SigningKeys
	if err := json.Unmarshal(v.JWKS, &keys); err != nil {
		t.Fatal(err)
	}
	key := auth.SigningKey{Kid: keys.Keys[0].Kid, Private: ed25519.NewKeyFromSeed(seed)}
	if published := view.SigningKey(key.Public(), key.Kid); !slices.Equal(keys.Keys, []api.SigningKey{published}) {
		t.Errorf("the key is published as %+v, want %+v", published, keys.Keys)
	}
	for _, r := range v.Receipts {
		claims := &api.ReceiptClaims{}
		if err := json.Unmarshal(r.Claims, claims); err != nil {
			t.Fatal(r.Name, err)
		}
		made, err := messages.SignReceipt(key, "svc", claims)
		if err != nil || made != r.Receipt {
			t.Errorf("%s: the server makes %s, %v\nwant %s", r.Name, partsOf(t, made), err, partsOf(t, r.Receipt))
		}
		head, payload, _ := strings.Cut(partsOf(t, r.Receipt), ".")
		var compact bytes.Buffer
		if err := json.Compact(&compact, r.Claims); err != nil || payload != compact.String() || !strings.Contains(head, `"typ":"`+v.Type+`"`) {
			t.Errorf("%s: the vector's receipt is not that of its claims: %s", r.Name, partsOf(t, r.Receipt))
		}
	}
	if n := reflect.TypeFor[api.ReceiptClaims]().NumField(); n != 14 {
		t.Errorf("claims have %d members; the vectors have 14", n)
	}
}

// partsOf decodes the header and the payload of a receipt.
func partsOf(t *testing.T, receipt string) string {
	t.Helper()
	parts := strings.Split(receipt, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no receipt", receipt)
	}
	for i, part := range parts[:2] {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = string(raw)
	}
	return parts[0] + "." + parts[1]
}
