package parley_test

import (
	"errors"
	"testing"

	"parley/client/parley"
)

// A refusal is taken for a copy of a distinct one only if DistinctAs made it.
func TestDistinctAs(t *testing.T) {
	original := parley.ErrGone.Distinct()
	encoded := original.Saying("Erased.").With("a", 1)
	decoded := &parley.Refusal{Reason: encoded.Reason, Code: encoded.Code, Text: encoded.Text, Extra: encoded.Extra}
	if errors.Is(decoded, original) {
		t.Error("a refusal of the same code is taken for a copy")
	}
	restored := decoded.DistinctAs(encoded)
	if !errors.Is(restored, original) || !errors.Is(restored.Saying("x"), encoded) || !errors.Is(restored, parley.ErrGone) {
		t.Error("what DistinctAs returned is not taken for a copy")
	}
	if errors.Is(restored, parley.ErrGone.Distinct()) || errors.Is(decoded, original) {
		t.Error("a copy of one refusal is taken for a copy of another")
	}
	if restored.Text != "Erased." || restored.Extra["a"] != 1 {
		t.Errorf("%+v lost its text or a member", restored)
	}
}
