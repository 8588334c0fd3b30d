package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"parley/bench/result"
)

// benchmarkUnits are the quantities of a run that benchstat compares.
var benchmarkUnits = []struct {
	unit string
	of   measure
}{
	{"op/s", throughput},
	{"p50-ms", latency(p50)},
	{"p99-ms", latency(p99)},
	{"cpu-us/op", perOperation},
}

// Benchmarks writes the valid runs in the format of Go benchmarks, a line for each run, so that
// benchstat can compare two reports.
func Benchmarks(w io.Writer, r *result.Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "cpu: %s\nUnit op/s better=higher\n\n", printable(r.Machine.CPU))
	for _, c := range byCase(r) {
		for _, g := range c.groups {
			if g.doubtful {
				continue
			}
			for _, run := range g.counted {
				fmt.Fprintf(&b, "Benchmark%s %d", benchmarkName(c.Case, g.target), max(1, run.Operations))
				for _, q := range benchmarkUnits {
					if v, there := q.of(run); there && finite(v) {
						fmt.Fprintf(&b, " %g %s", v, q.unit)
					}
				}
				b.WriteByte('\n')
			}
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// benchmarkName names a case on a target, as in Send/clients=64/target=parley.
func benchmarkName(c Case, target string) string {
	name := strings.ToUpper(c.Scenario[:1]) + c.Scenario[1:] + fmt.Sprintf("/clients=%d", c.Clients)
	if c.Rate > 0 {
		name += fmt.Sprintf("/rate=%g", c.Rate)
	}
	if c.Window > 0 {
		name += fmt.Sprintf("/window=%gs", c.Window)
	}
	if c.Size > 0 {
		name += fmt.Sprintf("/size=%d", c.Size)
	}
	return name + "/target=" + strings.Join(strings.Fields(printable(target)), "_")
}
