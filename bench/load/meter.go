package load

import (
	"sync/atomic"

	"parley/bench/result"
)

// meter counts the current second of all workers.
type meter struct{ operations, failures atomic.Int64 }

// take returns the counts and resets them. A concurrent addition counts in this second or
// the next.
func (m *meter) take() result.Second {
	return result.Second{Operations: m.operations.Swap(0), Failures: m.failures.Swap(0)}
}
