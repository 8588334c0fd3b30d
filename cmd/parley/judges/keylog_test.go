package judges

import "testing"

// TestKeyLogJudge: a program that knows RFC 9162 and the C2SP texts only verifies the key
// log.
func TestKeyLogJudge(t *testing.T) {
	needNode(t)
	for _, journals := range []string{"1", "4"} {
		t.Run(journals, func(t *testing.T) {
			t.Parallel()
			base, _ := serveBinary(t, "--journals", journals)
			t.Log(node(t, "", "keylog.mjs", base))
		})
	}
}
