package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/bench/scenario/host"
	"parley/bench/target"
)

// Pages of the operator's interface, and what they say with a space behind it. A heap profile is
// made after a garbage collection.
const (
	metricsPage = "/metrics"
	heapPage    = "/debug/pprof/heap?gc=1&debug=1"

	metricStreams = "parley_streams_open "
	metricLog     = "parley_engine_log_bytes_total "
	heapAlive     = "# HeapAlloc = "
	heapStacks    = "# Stack = "
)

// metricsAge is longer than a server keeps metrics before it counts again.
const metricsAge = 200 * time.Millisecond

// adminNumbers returns the sum of the numbers that follow the names at the beginning of lines of
// a page.
func adminNumbers(ctx context.Context, endpoint target.Endpoint, page string, names ...string) (sum float64, err error) {
	text, err := host.Operator(ctx, endpoint, "GET", page, nil)
	if err != nil {
		return 0, err
	}
	missing := len(names)
	for line := range strings.Lines(string(text)) {
		for _, name := range names {
			number, found := strings.CutPrefix(line, name)
			if !found {
				continue
			}
			number, _, _ = strings.Cut(number, " ")
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil {
				return 0, err
			}
			sum += n
			missing--
		}
	}
	if missing > 0 {
		return 0, fmt.Errorf("%s does not say all of %q", page, names)
	}
	return sum, nil
}
