package nodes

import (
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestRatesOfNodes: a caller whose requests go to each node in turn has one rate, not one for each
// node.
func TestRatesOfNodes(t *testing.T) {
	t.Parallel()
	const rate = 60
	n := kit.StartNodes(t, 3, "--rate", "writes=60")
	one, other := kit.Pair(t, n.Server())
	spend := func(tries int, pause time.Duration) (admitted int) {
		for range tries {
			switch a := one.TrySend(other, obj{}); a.Status {
			case 201:
				admitted++
			case 429, 503: // the machine may be busy
			default:
				t.Fatalf("%d %s", a.Status, a.Raw)
			}
			time.Sleep(pause)
		}
		return admitted
	}
	began := time.Now()
	burst := spend(3*rate, 10*time.Millisecond)
	back := time.Now()
	later := spend(300, 30*time.Millisecond)
	t.Logf("%d of %d admitted, and %d later, in %v", burst, 3*rate, later, time.Since(back).Round(time.Second))
	// The rate refills meanwhile, and each node admits requests before it knows of the others':
	// on a busy machine those of more than 100 ms.
	if most := 2*rate + int(back.Sub(began).Seconds()); burst < rate/2 || burst > most {
		t.Errorf("%d requests were admitted, %d to %d should be", burst, rate/2, most)
	}
	if most := 3 * int(time.Since(back).Seconds()) / 2; later > most {
		t.Errorf("%d requests were admitted later, at most %d should be", later, most)
	}
}
