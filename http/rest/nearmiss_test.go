package rest

import (
	"strings"
	"testing"
)

func TestNearMisses(t *testing.T) {
	for _, c := range []struct{ sent, meant string }{
		{"to", "to_handle"},
		{"handle", "to_handle"},
		{"recipient", ""},
		{"agent_id", "to_agent_id"},
		{"toHandle", "to_handle"},
		{"to-handle", "to_handle"},
		{"payload", "encrypted_payload"},
		{"encryptedPayload", "encrypted_payload"},
		{"encypted_payload", "encrypted_payload"},
		{"payload_encrypted", ""},
		{"typ", "type"},
		{"tpye", "type"},
		{"kind", ""},
		{"t", ""},
		{"", ""},
		{"x", ""},
		{strings.Repeat("to_handle", 9), ""},
	} {
		var unknown unknownNames
		unknown.add(c.sent)
		want := ""
		if c.meant != "" {
			want = "; you sent '" + c.sent + "', did you mean '" + c.meant + "'?"
		}
		if got := unknown.hint("to_handle", "to_agent_id", "encrypted_payload", "type"); got != want {
			t.Errorf("%s: %q, want %q", c.sent, got, want)
		}
	}
}

// FuzzEdits: the edit distance has the properties of a metric.
func FuzzEdits(f *testing.F) {
	f.Add("to_handle", "to_hnadle")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > 100 || len(b) > 100 {
			return
		}
		d := edits(a, b)
		if d != edits(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)) {
			t.Errorf("%q, %q: %d", a, b, d)
		}
	})
}
