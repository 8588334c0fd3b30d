package blackbox

import (
	"testing"
	"time"
)

// TestRatesOfNodes: a caller whose requests go to each node in turn has one rate, not one for each
// node.
func TestRatesOfNodes(t *testing.T) {
	t.Parallel()
	const rate = 60
	n := startNodes(t, 3, "--rate", "writes=60")
	one, other := pair(t, n.server())
	admitted, began := 0, time.Now()
	for range 3 * rate {
		switch a := one.trySend(other, obj{}); a.status {
		case 201:
			admitted++
		case 429:
		default:
			t.Fatalf("%d %s", a.status, a.raw)
		}
		time.Sleep(10 * time.Millisecond) // so that what a node tells is of a few requests
	}
	// What came back meanwhile, and what three nodes admit before they are told: each at most
	// what came in 100 ms, and some more on a busy machine.
	most := rate + int(time.Since(began).Seconds()) + 30
	t.Logf("%d of %d admitted", admitted, 3*rate)
	if admitted < rate/2 || admitted > most {
		t.Errorf("%d requests were admitted, %d to %d should be", admitted, rate/2, most)
	}
}
