package rest

import (
	"regexp"
	"strings"
	"testing"
)

// TestPatternScan compares the table scan with the regular expression engine.
func TestPatternScan(t *testing.T) {
	texts := []string{"", "a", "=", "a=", "a==", "a===", "=a", "ab_-9", "ab cd", "é", "a\n", "aa=\n", "A1-", "xyxyx", "aaaa", "b", "ab", "aab", "abb", "svc.v1.dm", "a.b", "a.b.c.d", "a..b.c", "a.b.c.", ".a.b.c", "a.b.c\n", "a.b.é", "x@y", "@", strings.Repeat("Az09", 300) + "=="}
	for pattern, scanned := range map[string]bool{
		`^[A-Za-z0-9_-]+={0,2}$`: true, `^[A-Za-z]{2}$`: true, `^a+b*$`: true, `^a{1,3}b?$`: true, `^[a-y]+[x-z]$`: false, `^a*b$`: false,
		`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){2,}$`: true, `@`: true, `^a(\.b+){1,2}$`: true, `^a+(ab){2,}$`: false, `^a(b+b){2,}$`: false, `^(?i)a+b$`: false, `^[^@]+@$`: false,
	} {
		m := compilePattern(pattern)
		if _, compiled := m.(*regexp.Regexp); compiled == scanned {
			t.Errorf("%s: is a %T, want a scan: %v", pattern, m, scanned)
		}
		for _, text := range texts {
			if want := regexp.MustCompile(pattern).MatchString(text); m.MatchString(text) != want {
				t.Errorf("%s on %.20q: got %v, want %v", pattern, text, !want, want)
			}
		}
	}
}
