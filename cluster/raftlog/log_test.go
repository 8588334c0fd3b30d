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
		must(t, l.Close())
		s := l.Stats()
		if files, bytes := segmentFiles(t, o); s.Segments != files || s.DiskBytes != bytes {
			t.Errorf("seed %d: the log counts %d segments of %d bytes, the directory has %d of %d bytes", seed, s.Segments, s.DiskBytes, files, bytes)
		}
		t.Logf("%+v", s)
	}
}

// segmentFiles returns how many segments the directory has, and their size.
func segmentFiles(t *testing.T, o Options) (files int, bytes int64) {
	t.Helper()
	segments, err := list(o)
	must(t, err)
	for _, s := range segments {
		info, err := o.FS.Stat(s.path)
		must(t, err)
		bytes += info.Size()
	}
	return len(segments), bytes
}
