package persistence

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
)

// applyBatch is how many messages the batches below hold.
const applyBatch = 64

// applying gives an operation that applies a batch of direct messages, each of a
// speaker of its own, and throws the batch away. careless does with each message
// what a careless writer might.
func applying(t testing.TB, careless func(*item)) (operation func()) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 1))
	t.Cleanup(func() { mustClose(t, s) })
	j, to := s.journals[0], parley.NewID[parley.AgentID](1, testStart, testEntropy())
	items := make([]item, applyBatch)
	for i := range items {
		stream := newStream(parley.Slot(i))
		j.activations[stream] = activation{epoch: 1}
		items[i].Entry = directMessage(stream, to, 1, uint64(i))
	}
	return func() {
		a := newApplication(j)
		for i := range items {
			items[i] = item{Entry: items[i].Entry, announced: items[i].announced[:0]}
			if err := errors.Join(a.apply(&items[i]), items[i].err); err != nil {
				t.Fatal(err)
			}
			careless(&items[i])
		}
		if err := errors.Join(a.finish(), a.batch.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// applyMost bounds what the writer allocates for a message in a batch: 0.2 when
// it was set.
const applyMost = 0.5

func TestCostOfApplying(t *testing.T) {
	skipUnderRace(t)
	got := testing.AllocsPerRun(50, applying(t, ignoreItem)) / applyBatch
	if t.Logf("%.1f allocations", got); got > applyMost {
		t.Errorf("a message in a batch takes %.1f allocations, at most %.1f are allowed", got, applyMost)
	}
}

// TestCostOfApplyingControl has each record be copied once more.
func TestCostOfApplyingControl(t *testing.T) {
	skipUnderRace(t)
	var kept []byte
	got := testing.AllocsPerRun(50, applying(t, func(it *item) { kept = slices.Clone(it.Records[0].Data) })) / applyBatch
	if got <= applyMost {
		t.Errorf("with %d bytes copied a message takes %.1f allocations, and %.1f are allowed", len(kept), got, applyMost)
	}
}

// skipUnderRace: the race detector allocates beside the program.
func skipUnderRace(t *testing.T) {
	if raceDetector {
		t.Skip("allocations are not the program's own under the race detector")
	}
}

func ignoreItem(*item) {}

// BenchmarkApply applies batches of 64 direct messages.
func BenchmarkApply(b *testing.B) {
	apply := applying(b, ignoreItem)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		apply()
	}
}
