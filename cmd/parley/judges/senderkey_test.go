package judges

import (
	"encoding/json"
	"os"
	"testing"
)

// TestSenderKeyVectors makes node:crypto decrypt the published test vectors of group
// messages.
func TestSenderKeyVectors(t *testing.T) {
	needNode(t)
	text, err := os.ReadFile("../../../client/e2ee/testdata/sender-key-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Open, Refuse []struct {
			Why     string `json:"why"`
			Payload string `json:"payload_hex"`
		}
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var outcomes []struct {
		Payload *string `json:"payload_hex"`
		Refused string  `json:"refused"`
	}
	if err := json.Unmarshal([]byte(node(t, string(text), "senderkey.mjs")), &outcomes); err != nil {
		t.Fatal(err)
	}
	if len(v.Open) == 0 || len(v.Refuse) == 0 || len(outcomes) != len(v.Open)+len(v.Refuse) {
		t.Fatalf("%d texts to open, %d to refuse, %d outcomes", len(v.Open), len(v.Refuse), len(outcomes))
	}
	for i, want := range v.Open {
		if got := outcomes[i]; got.Payload == nil || *got.Payload != want.Payload {
			t.Errorf("%s: refused %q", want.Why, got.Refused)
		}
	}
	for i, row := range v.Refuse {
		if got := outcomes[len(v.Open)+i]; got.Payload != nil || got.Refused == "" {
			t.Errorf("%s: opened, and must not be", row.Why)
		}
	}
}
