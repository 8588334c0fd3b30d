package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestContentsAreSpaced: a node gets one content a second, however often raft asks for one; other
// nodes do not wait for it.
func TestContentsAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c contents
		began := time.Now()
		for i := range 4 {
			if err := c.wait(t.Context(), 2, time.Now); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != time.Duration(i)*time.Second {
				t.Errorf("content %d goes after %v", i+1, took)
			}
		}
		now := time.Now()
		if err := c.wait(t.Context(), 3, time.Now); err != nil || time.Since(now) != 0 {
			t.Errorf("another node waits: %v", err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := c.wait(ended, 2, time.Now); !errors.Is(err, context.Canceled) {
			t.Errorf("at the end: %v", err)
		}
	})
}
