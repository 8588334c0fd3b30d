package auth

import (
	"encoding/base64"
	"strings"
	"testing"
)

// FuzzBase64url: base64url that is accepted has one spelling, the one that encoding it
// again gives.
func FuzzBase64url(f *testing.F) {
	for _, seed := range []string{"", "YQ", "YQ==", "YR", "Y\nQ", "YQ\n", "+/", "-_", "AA", "A", "=", "\x00", "é", strings.Repeat("A", 43), strings.Repeat("_", 86)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if raw, ok := decodePart(text); ok && base64.RawURLEncoding.EncodeToString(raw) != text {
			t.Fatalf("%q is read as %x", text, raw)
		}
		for _, size := range []int{0, 1, 32, 64} {
			raw, ok := decodeFixed(text, size)
			if ok && (len(raw) != size || base64.RawURLEncoding.EncodeToString(raw) != text) {
				t.Fatalf("%q is read as %x for %d bytes", text, raw, size)
			}
		}
	})
}
