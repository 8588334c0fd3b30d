package a2a

import (
	"errors"
	"testing"

	"parley/client/parley"
	"parley/http/rest"
)

// TestRefusedAfterStored: once a message is stored, no refusal says that nothing was done.
func TestRefusedAfterStored(t *testing.T) {
	for given, want := range map[error]error{
		rest.ErrHeld: parley.ErrOutcomeUnknown, parley.ErrOverloaded: parley.ErrOutcomeUnknown, errNotFound: errNotFound,
	} {
		if got := afterStored(given); !errors.Is(got, want) {
			t.Errorf("%v becomes %v, want %v", given, got, want)
		}
	}
	if err := afterStored(nil); err != nil {
		t.Error(err)
	}
}
