package demo

import (
	"strings"
	"testing"
)

// TestNarratorStopsAtMismatch checks that a failed check is printed as failed and
// ends the demonstration.
func TestNarratorStopsAtMismatch(t *testing.T) {
	var out strings.Builder
	n := newNarrator(&out)
	n.check(true, "two and two are four")
	trouble := func() (trouble any) {
		defer func() { trouble = recover() }()
		n.check(false, "two and two are five")
		return nil
	}()
	if trouble != mismatch("two and two are five") || n.checks != 1 {
		t.Errorf("the demonstration continued: %v, %d checks", trouble, n.checks)
	}
	if want := "    ✓ two and two are four\n    ✗ two and two are five\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
