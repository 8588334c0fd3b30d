package streams

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"parley/client/parley"
)

// renderings counts how often events are rendered for a hundred streams.
func renderings(t *testing.T, positions int) int64 {
	var s renderCache
	var count atomic.Int64
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			position := uint64(i % positions)
			e, err := s.event(parley.AgentID{1}, position, func() ([]byte, parley.AgentID, error) {
				count.Add(1)
				return fmt.Append(nil, position), parley.AgentID{}, nil
			})
			if err != nil || string(e.bytes) != fmt.Sprint(position) {
				t.Errorf("position %d: %s, %v", position, e.bytes, err)
			}
		})
	}
	asking.Wait()
	return count.Load()
}

func TestStreamsShareRenderedEvents(t *testing.T) {
	if n := renderings(t, 1); n != 1 {
		t.Errorf("one event for a hundred streams is rendered %d times", n)
	}
	if n := renderings(t, 100); n != 100 {
		t.Errorf("a hundred events are rendered %d times", n)
	}
	var s renderCache
	failed := errors.New("failed")
	for _, want := range []error{failed, nil} {
		if _, err := s.event(parley.AgentID{}, 1, func() ([]byte, parley.AgentID, error) { return nil, parley.AgentID{}, want }); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	for range 2 {
		s.clear()
		again := false
		_, _ = s.event(parley.AgentID{}, 1, func() ([]byte, parley.AgentID, error) { again = true; return nil, parley.AgentID{}, nil })
		if !again {
			t.Error("an event stays forever")
		}
	}
}
