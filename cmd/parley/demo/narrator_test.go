package demo

import (
	"strings"
	"testing"
)

// TestNarratorStopsAtMismatch keeps the demonstration honest: a fact that does
// not hold is told as such and ends it.
func TestNarratorStopsAtMismatch(t *testing.T) {
	var out strings.Builder
	n := newNarrator(&out)
	n.check(true, "two and two are four")
	trouble := func() (trouble any) {
		defer func() { trouble = recover() }()
		n.check(false, "two and two are five")
		return nil
	}()
	if trouble != mismatch("two and two are five") || n.facts != 1 {
		t.Errorf("the demonstration went on: %v, %d facts", trouble, n.facts)
	}
	if want := "    ✓ two and two are four\n    ✗ two and two are five\n"; out.String() != want {
		t.Errorf("told %q, want %q", out.String(), want)
	}
}
