package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

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
	if endpoint.Admin == "" {
		return 0, errors.New("the operator's address is not known")
	}
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+endpoint.Admin+page, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+endpoint.AdminToken)
	c := http.Client{Timeout: 30 * time.Second}
	answer, err := c.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", page, answer.Status)
	}
	missing := len(names)
	lines := bufio.NewScanner(io.LimitReader(answer.Body, 64<<20))
	for lines.Scan() {
		for _, name := range names {
			text, found := strings.CutPrefix(lines.Text(), name)
			if !found {
				continue
			}
			text, _, _ = strings.Cut(text, " ")
			n, err := strconv.ParseFloat(text, 64)
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
	return sum, lines.Err()
}
