package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/cmd/parley/program"
)

// TestReceiptVerifyTampered: receipt verify, with files alone, names what is wrong with each
// changed part of a receipt, and prints nothing then. The first case is the control.
func TestReceiptVerifyTampered(t *testing.T) {
	text, err := os.ReadFile("../../../client/api/testdata/receipt.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		JWKS     json.RawMessage `json:"jwks"`
		Receipts []struct {
			Payload string `json:"encrypted_payload"`
			Receipt string `json:"receipt"`
		} `json:"receipts"`
	}
	if err := json.Unmarshal(text, &v); err != nil || len(v.Receipts) == 0 {
		t.Fatal(len(v.Receipts), err)
	}
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	payload, receipt := v.Receipts[0].Payload, v.Receipts[0].Receipt
	parts := strings.Split(receipt, ".")
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	otherKid := base64.RawURLEncoding.EncodeToString(bytes.Replace(header, []byte(`"kid":"k`), []byte(`"kid":"l`), 1))
	flip := func(text string, at int) string {
		other := byte('A')
		if text[at] == other {
			other = 'B'
		}
		return text[:at] + string(other) + text[at+1:]
	}
	for _, c := range []struct{ what, receipt, jwks, payload, says string }{
		{"unchanged", receipt, string(v.JWKS), payload, ""},
		{"as the server answers it", `{"receipt":"` + receipt + `"}`, string(v.JWKS), `{"encrypted_payload":"` + payload + `"}`, ""},
		{"its header", flip(parts[0], 2) + "." + parts[1] + "." + parts[2], string(v.JWKS), payload, "its header is not JSON"},
		{"the kid of its header", otherKid + "." + parts[1] + "." + parts[2], string(v.JWKS), payload, "does not have the key that signed the receipt"},
		{"its claims", parts[0] + "." + flip(parts[1], len(parts[1])/2) + "." + parts[2], string(v.JWKS), payload, "the receipt was changed or is forged"},
		{"its signature", parts[0] + "." + parts[1] + "." + flip(parts[2], 10), string(v.JWKS), payload, "the receipt was changed or is forged"},
		{"the end of its signature", receipt[:len(receipt)-1] + "B", string(v.JWKS), payload, "part 3 is not base64url"},
		{"no signature", parts[0] + "." + parts[1] + ".", string(v.JWKS), payload, "the receipt was changed or is forged"},
		{"two parts", parts[0] + "." + parts[1], string(v.JWKS), payload, "a compact JWS has three parts"},
		{"the signature of another", parts[0] + "." + parts[1] + "." + strings.Split(v.Receipts[1].Receipt, ".")[2], string(v.JWKS), payload, "the receipt was changed or is forged"},
		{"the key", receipt, strings.Replace(string(v.JWKS), `"x": "1`, `"x": "2`, 1), payload, "the receipt was changed or is forged"},
		{"the payload", receipt, string(v.JWKS), flip(payload, 3), "for another payload"},
		{"the payload of another", receipt, string(v.JWKS), v.Receipts[1].Payload, "for another payload"},
	} {
		var out bytes.Buffer
		command := receiptVerifyCmd{File: write("receipt", c.receipt), JWKS: write("jwks.json", c.jwks), Payload: write("payload", c.payload)}
		err := command.Run(t.Context(), &program.Streams{RawOut: &out, RawErr: &out})
		if c.says == "" {
			if err != nil || !strings.Contains(out.String(), ", matches") {
				t.Errorf("%s: %v, %s", c.what, err, out.String())
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), command.File) || out.Len() > 0 {
			t.Errorf("%s: %v, want %q\n%s", c.what, err, c.says, out.String())
		}
	}
}
