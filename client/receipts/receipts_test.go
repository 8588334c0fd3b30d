package receipts

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"parley/client/api"
)

// receiptVectors are those of client/api/testdata/receipt.json.
type receiptVectors struct {
	Seed     string          `json:"signing_seed_hex"`
	Type     string          `json:"type"`
	Keys     api.SigningKeys `json:"jwks"`
	Receipts []struct {
		Name    string            `json:"name"`
		Payload string            `json:"encrypted_payload"`
		Claims  api.ReceiptClaims `json:"claims"`
		Receipt string            `json:"receipt"`
	} `json:"receipts"`
}

func readReceipts(t *testing.T) (v receiptVectors, key ed25519.PrivateKey) {
	t.Helper()
	text, err := os.ReadFile("../api/testdata/receipt.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil || len(v.Receipts) < 2 {
		t.Fatal(len(v.Receipts), err)
	}
	seed, err := hex.DecodeString(v.Seed)
	if err != nil || len(seed) != ed25519.SeedSize {
		t.Fatal(len(seed), err)
	}
	return v, ed25519.NewKeyFromSeed(seed)
}

// signed returns a compact JWS of a header and a payload.
func signed(key ed25519.PrivateKey, header, payload string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
}

// decodedReceipt returns the parts of a receipt.
func decodedReceipt(t *testing.T, receipt string) (parts [3]string) {
	t.Helper()
	for i, part := range strings.Split(receipt, ".") {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = string(raw)
	}
	return parts
}

// TestReceiptVectors: the client reads every member of the test vectors, and no payload but
// the right one is covered.
func TestReceiptVectors(t *testing.T) {
	v, _ := readReceipts(t)
	for _, r := range v.Receipts {
		verified, err := Verify(r.Receipt, &v.Keys)
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		if !reflect.DeepEqual(verified.ReceiptClaims, r.Claims) || verified.Kid != v.Keys.Keys[0].Kid {
			t.Errorf("%s: read %+v, want %+v", r.Name, verified, r.Claims)
		}
		if !verified.Covers(r.Payload) {
			t.Errorf("%s: does not cover its payload", r.Name)
		}
		for i := range len(r.Payload) {
			if other := r.Payload[:i] + string(r.Payload[i]^1) + r.Payload[i+1:]; verified.Covers(other) {
				t.Errorf("%s: covers %q too", r.Name, other)
			}
		}
		for _, other := range []string{"", r.Payload + "=", r.Payload + "\n", strings.TrimRight(r.Payload, "=A") + "B"} {
			if verified.Covers(other) {
				t.Errorf("%s: covers %q too", r.Name, other)
			}
		}
	}
}

// isRefusal reports whether an error is one of those that Verify names.
func isRefusal(err error) bool {
	return errors.Is(err, ErrNoReceipt) || errors.Is(err, ErrKey) || errors.Is(err, ErrSignature)
}

// TestTamperedReceipts: a receipt of which any bit of any byte was changed is refused, as
// text and before its parts are encoded. The control is the change that is signed: what
// refuses all others is the signature.
func TestTamperedReceipts(t *testing.T) {
	v, key := readReceipts(t)
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Receipts {
		for i := range len(r.Receipt) {
			for bit := range 8 {
				changed := []byte(r.Receipt)
				changed[i] ^= 1 << bit
				if read, err := Verify(string(changed), &v.Keys); !isRefusal(err) {
					t.Fatalf("%s: character %d, bit %d: %+v, %v", r.Name, i, bit, read, err)
				}
			}
		}
		parts := decodedReceipt(t, r.Receipt)
		for n, part := range parts {
			for i := range len(part) {
				for bit := range 8 {
					changed := parts
					changed[n] = part[:i] + string([]byte{part[i] ^ 1<<bit}) + part[i+1:]
					read, err := Verify(joined(changed), &v.Keys)
					if !isRefusal(err) || n > 0 && !errors.Is(err, ErrSignature) {
						t.Fatalf("%s: part %d, byte %d, bit %d: %+v, %v", r.Name, n+1, i, bit, read, err)
					}
				}
			}
		}
		if _, err := Verify(signed(stranger, parts[0], parts[1]), &v.Keys); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: signed by a stranger: %v", r.Name, err)
		}
		if signed(key, parts[0], parts[1]) != r.Receipt {
			t.Errorf("%s: signed again it is another", r.Name)
		}
	}
}

func joined(parts [3]string) string {
	var encoded []string
	for _, part := range parts {
		encoded = append(encoded, base64.RawURLEncoding.EncodeToString([]byte(part)))
	}
	return strings.Join(encoded, ".")
}

// TestTamperedClaims: no claim can be replaced, removed or added without the key. With the
// key, the changed claims verify: the control.
func TestTamperedClaims(t *testing.T) {
	v, key := readReceipts(t)
	for _, r := range v.Receipts {
		parts := decodedReceipt(t, r.Receipt)
		var claims map[string]json.RawMessage
		if err := json.Unmarshal([]byte(parts[1]), &claims); err != nil || len(claims) != 14 {
			t.Fatal(len(claims), err)
		}
		other := map[string]string{
			"iss": `"https://other.example"`, "iat": `1767225601`, "message_id": `"01932f00-0000-7001-8000-0000000000ff"`,
			"conversation_id": `"01932f00-0000-7001-8000-0000000000ff"`, "position": `2`, "payload_sha256": `"` + strings.Repeat("0", 64) + `"`,
			"encryption_version": `"hpke-v0"`, "type": `"acme.v1.bill"`, "from_agent_id": `"01932f00-0000-7001-8000-0000000000ff"`, "from_handle": `"eve@acme.parley.example"`,
			"to_agent_id": `"01932f00-0000-7001-8000-0000000000ff"`, "to_handle": `null`, "group_id": `"01932f00-0000-7001-8000-0000000000ff"`,
			"accepted_at": `"2026-01-01T00:00:00.123457Z"`,
		}
		for name := range claims {
			if other[name] == "" {
				t.Errorf("claim %s is not changed by this test", name)
				continue
			}
			former := claims[name]
			claims[name] = json.RawMessage(other[name])
			changed, err := json.Marshal(claims)
			claims[name] = former
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(joined([3]string{parts[0], string(changed), parts[2]}), &v.Keys); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: with another %s: %v", r.Name, name, err)
			}
			read, err := Verify(signed(key, parts[0], string(changed)), &v.Keys)
			if err != nil || reflect.DeepEqual(read.ReceiptClaims, r.Claims) {
				t.Errorf("%s: control with another %s: %+v, %v", r.Name, name, read, err)
			}
		}
		for what, changed := range map[string]string{
			"another member": strings.Replace(parts[1], "{", `{"a":1,`, 1), "no member": "{}", "no object": "[]", "spaces": parts[1] + " ",
		} {
			if _, err := Verify(joined([3]string{parts[0], changed, parts[2]}), &v.Keys); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: with %s: %v", r.Name, what, err)
			}
		}
	}
}

// TestReceiptsOfSomethingElse: what the key of receipts signed is a receipt only with the
// header and the claims of one.
func TestReceiptsOfSomethingElse(t *testing.T) {
	v, key := readReceipts(t)
	parts, kid := decodedReceipt(t, v.Receipts[0].Receipt), v.Keys.Keys[0].Kid
	head := func(text string) string { return strings.ReplaceAll(text, "KID", kid) }
	for what, c := range map[string]struct {
		header, payload string
		want            error
	}{
		"control":               {head(`{"alg":"EdDSA","kid":"KID","typ":"svc-receipt+jwt"}`), parts[1], nil},
		"another brand":         {head(`{"alg":"EdDSA","kid":"KID","typ":"other-receipt+jwt"}`), parts[1], nil},
		"a token":               {head(`{"alg":"EdDSA","kid":"KID","typ":"at+jwt"}`), parts[1], ErrNoReceipt},
		"no type":               {head(`{"alg":"EdDSA","kid":"KID"}`), parts[1], ErrNoReceipt},
		"no algorithm":          {head(`{"alg":"none","kid":"KID","typ":"svc-receipt+jwt"}`), parts[1], ErrNoReceipt},
		"a shared key":          {head(`{"alg":"HS256","kid":"KID","typ":"svc-receipt+jwt"}`), parts[1], ErrNoReceipt},
		"an unknown extension":  {head(`{"alg":"EdDSA","kid":"KID","typ":"svc-receipt+jwt","crit":["exp"]}`), parts[1], ErrNoReceipt},
		"no key":                {`{"alg":"EdDSA","typ":"svc-receipt+jwt"}`, parts[1], ErrKey},
		"another key":           {`{"alg":"EdDSA","kid":"other","typ":"svc-receipt+jwt"}`, parts[1], ErrKey},
		"no header":             {"", parts[1], ErrNoReceipt},
		"no payload":            {parts[0], "", ErrNoReceipt},
		"no claims":             {parts[0], "{}", ErrNoReceipt},
		"no digest":             {parts[0], strings.Replace(parts[1], "payload_sha256", "payload_sha512", 1), ErrNoReceipt},
		"an id that is none":    {parts[0], strings.Replace(parts[1], "01932f00", "x1932f00", 1), ErrNoReceipt},
		"a place that is no no": {parts[0], strings.Replace(parts[1], `"position":1`, `"position":-1`, 1), ErrNoReceipt},
	} {
		if _, err := Verify(signed(key, c.header, c.payload), &v.Keys); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	for what, keys := range map[string][]api.SigningKey{
		"no keys":             nil,
		"a key of another id": {{Curve: "Ed25519", X: v.Keys.Keys[0].X, Kid: "other"}},
		"another curve":       {{Curve: "P-256", X: v.Keys.Keys[0].X, Kid: kid}},
		"a short key":         {{Curve: "Ed25519", X: v.Keys.Keys[0].X[:40], Kid: kid}},
	} {
		if _, err := Verify(v.Receipts[0].Receipt, &api.SigningKeys{Keys: keys}); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"", ".", "..", "...", v.Receipts[0].Receipt + ".", strings.Replace(v.Receipts[0].Receipt, ".", ".=", 1), " " + v.Receipts[0].Receipt} {
		if _, err := Verify(text, &v.Keys); !isRefusal(err) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
