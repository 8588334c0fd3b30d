package rest

import (
	"strings"
	"testing"
)

// TestFinite: numbers beyond 64 bits are found in values of any shape, and nothing else.
func TestFinite(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":1e400}`: false, `[1,[2,{"b":-1E999}]]`: false, `1e309`: false, `[` + strings.Repeat("9", 400) + `]`: false,
		`{"a":1e308}`: true, `{"1e400":"1e400"}`: true, `["\"1e400",0]`: true, `-1.5e-400`: true, `{}`: true,
		`[` + strings.Repeat("9", 300) + `]`: true, `["` + strings.Repeat("9", 400) + `"]`: true, `[true,null,12,0.5]`: true,
	} {
		if finite([]byte(text)) != want {
			t.Errorf("%.40s: want %v", text, want)
		}
	}
}
