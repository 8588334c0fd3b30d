package reports

import (
	"context"
	"errors"
	"testing"
	"time"

	"parley/client/parley"
)

// TestCapacity: at most openMax reports are open. The stored number is read once a second, and what
// this node accepts meanwhile is added to it.
func TestCapacity(t *testing.T) {
	stored, counts := openMax-2, 0
	r := capacity{count: func(context.Context) (int, error) { counts++; return stored, nil }}
	now := time.Unix(1, 0)
	take := func() error { return r.take(t.Context(), now) }
	for n := range 4 {
		if err := take(); (err != nil) != (n >= 2) || err != nil && !errors.Is(err, parley.ErrOverloaded) {
			t.Errorf("report %d of 2: %v", n+1, err)
		}
	}
	if stored = openMax - 1; take() == nil || counts != 1 {
		t.Errorf("within a second the reports were counted %d times", counts)
	}
	now = now.Add(countEvery)
	if err := take(); err != nil || take() == nil {
		t.Errorf("after one was closed: %v", err)
	}
}
