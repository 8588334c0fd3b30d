package host

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestPassivatedActorsAreForgotten measures the memory after all actors have been
// passivated.
func TestPassivatedActorsAreForgotten(t *testing.T) {
	e, _ := newEngine(t, 1, func(e *Engine) { e.IdleFor = time.Nanosecond })
	for n := range byte(200) {
		if a := <-askInBackground(e, streamOf(n), add(n)); a.err != nil && n != 13 {
			t.Fatal(a.err)
		}
	}
	eventually(t, "all actors have left", func() bool { e.Sweep(); return e.Stats().Live == 0 })
	for i := range e.shards {
		if n := len(e.handlesOf(i)); n != 0 {
			t.Errorf("shard %d still has %d actors", i, n)
		}
	}
	eventually(t, "the actor system has forgotten them", func() bool {
		processes := 0
		for _, bucket := range e.system.ProcessRegistry.LocalPIDs.LocalPIDs {
			processes += bucket.Count()
		}
		return processes < 10 // those of the system itself
	})
}

// TestPassivationAfterClockSetBack: actors leave also if the clock was set back after they
// were used.
func TestPassivationAfterClockSetBack(t *testing.T) {
	var back atomic.Bool
	e, _ := newEngine(t, 1, func(e *Engine) {
		e.clock = func() time.Time {
			if back.Load() {
				return time.Now().Add(-time.Hour)
			}
			return time.Now()
		}
	})
	if a := <-askInBackground(e, streamOf(1), add(1)); a.err != nil {
		t.Fatal(a.err)
	}
	if e.Sweep(); e.Stats().Live != 1 {
		t.Fatal("an actor that was just used has left")
	}
	back.Store(true)
	eventually(t, "the actor has left", func() bool { e.Sweep(); return e.Stats().Live == 0 })
}
