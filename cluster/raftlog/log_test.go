package raftlog

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestConformance runs random records against raft's own storage as the model, with
// openings in between.
func TestConformance(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 3))
		o := testOptions(vfs.NewMem())
		l, m, g := mustOpen(t, o), newModel(), newGenerator(seed)
		for step := range 1500 {
			if rng.IntN(100) == 0 {
				must(t, l.Close())
				l = mustOpen(t, o)
			}
			r := g.record(m)
			turn, err := l.Append(r)
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if rng.IntN(3) == 0 {
				must(t, l.Sync(turn))
			}
			m.append(t, r)
			if err := compare(l, m, rng); err != nil {
				t.Fatalf("seed %d, step %d, after %+v: %v", seed, step, r, err)
			}
		}
		s := l.Stats()
		must(t, l.Close())
		t.Logf("%+v", s)
	}
}
