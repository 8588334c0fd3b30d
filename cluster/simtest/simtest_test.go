package simtest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"
)

// A failing seed is replayed with its trace by:
//
//	go test ./cluster/simtest -run Sim -seed 42
//	go test ./cluster/simtest -run Sim -seed 42 -plant 2
var (
	seeds = flag.Int("seeds", 150, "number of runs of TestSim")
	seed  = flag.Uint64("seed", 0, "the only run, with its trace")
	plant = flag.Int("plant", 0, "the defect of the only run")
)

// defectSeeds is within how many seeds every defect must be found.
const defectSeeds = 150

func TestSim(t *testing.T) {
	if *seed > 0 {
		r := Run(Options{Seed: *seed, Defect: Defect(*plant), Trace: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }})
		if r.Violation != nil {
			t.Error(r.Violation)
		}
		return
	}
	var sum Result
	begun := time.Now()
	for i := range *seeds {
		r := Run(Options{Seed: uint64(i + 1)})
		if r.Violation != nil {
			t.Errorf("seed %d: %v", i+1, r.Violation)
		}
		sum.add(r)
	}
	t.Logf("%d seeds in %v: %+v", *seeds, time.Since(begun).Round(time.Millisecond), sum)
	for what, enough := range map[string]bool{
		"acknowledged": sum.Acknowledged > 50**seeds, "fences": sum.Fences > 50**seeds, "terms": sum.Terms > *seeds,
		"crashes": sum.Crashes > *seeds, "unknown": sum.Unknown > *seeds/10, "never": sum.Never > *seeds/10,
		"snapshots": sum.Snapshots > *seeds/10, "changes": sum.Changes > *seeds/10, "refused older copies": sum.Refused > *seeds/10,
		"noticed older copies": sum.Refused > 3*sum.Unnoticed,
	} {
		if !enough {
			t.Errorf("too few for a test: %s", what)
		}
	}
}

// TestDefects takes one protection away at a time. The simulation has to notice.
func TestDefects(t *testing.T) {
	if *seed > 0 {
		t.Skip("one seed is replayed")
	}
	for d := None + 1; d < Defects; d++ {
		found := false
		for i := uint64(1); i <= defectSeeds && !found; i++ {
			r := Run(Options{Seed: i, Defect: d})
			if found = r.Violation != nil; found {
				first, _, _ := strings.Cut(r.Violation.Error(), "\n")
				t.Logf("%-32v seed %3d: %s", d, i, first)
			}
		}
		if !found {
			t.Errorf("%v: not found within %d seeds", d, defectSeeds)
		}
	}
}

// TestSeedReproducesRun compares everything that happens in two runs.
func TestSeedReproducesRun(t *testing.T) {
	trace := func(seed uint64) (uint64, Result) {
		h := fnv.New64a()
		r := Run(Options{Seed: seed, Trace: func(format string, args ...any) { _, _ = fmt.Fprintf(h, format+"\n", args...) }})
		return h.Sum64(), r
	}
	lines, result := trace(3)
	if again, second := trace(3); again != lines || second != result {
		t.Errorf("two runs of a seed differ:\n%+v\n%+v", result, second)
	}
	if other, _ := trace(5); other == lines {
		t.Error("two seeds give the same run")
	}
}
