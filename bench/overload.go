package bench

import (
	"context"
	"fmt"

	"parley/bench/machine"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
)

const (
	// defaultConnections is the default of Params.Connections.
	defaultConnections = 4096
	// pressClients is the number of clients in the closed loop that finds capacity.
	pressClients = 256
)

// pressFactors are the steps of Overload, as shares of capacity. The first is the
// reference for the others.
var pressFactors = []float64{report.Unloaded, 1, 2, 5}

// Overload returns the cases that show what a server does beyond its capacity: the closed
// loop that finds it, and open loops at shares of it.
func Overload() []Case {
	cases := []Case{{Scenario: scenario.Overload, Clients: pressClients}}
	for _, factor := range pressFactors {
		cases = append(cases, Case{Scenario: scenario.Overload, Clients: defaultConnections, Share: factor})
	}
	return cases
}

// isOverload reports whether a case loads the target beyond its capacity. The messages
// accepted in such a case are always read back.
func isOverload(c Case) bool { return c.Scenario == scenario.Overload }

// overload performs a run of Overload.
func (r *runner) overload(ctx context.Context, s *side, run *result.Run, task report.Task, share float64) (measured bool, err error) {
	press := scenario.Press{Connections: r.connections(), Rate: run.Rate, WarmUp: r.WarmUp, Duration: r.Duration}
	press.Clients = min(pressClients, press.Connections)
	if run.Clients = press.Connections; run.Rate == 0 {
		run.Clients = press.Clients
	}
	pids := s.target.Processes()
	r.settle(ctx)
	task.Clients = run.Clients
	r.Live.Begin(task)
	for _, pid := range pids {
		_ = machine.ForgetPeak(pid) // otherwise it would be the peak of all runs so far
	}
	w := newWatch(r.Live, pids)
	err = s.host.Press(ctx, press, w, run)
	s.host.Settle(run)
	if run.Figures == nil {
		return false, err
	}
	w.fill(run, pids)
	run.Figures[report.FigureFactor] = share
	var peak uint64
	for _, pid := range pids {
		peak += machine.PeakResident(pid)
	}
	if peak > 0 {
		run.Figures[report.FigurePeak] = float64(peak)
	}
	return true, err
}

// connections returns how many connections Overload opens, within the limit of open
// files.
func (r *runner) connections() int {
	n := r.Params.Connections
	if n == 0 {
		n = defaultConnections
	}
	if most := int(r.out.Machine.FileMax) - sparedFiles; r.out.Machine.FileMax > 0 && n > most {
		r.Live.Note(fmt.Sprintf("only %d connections instead of %d: a process may open %d files here", most, n, r.out.Machine.FileMax))
		n = most
	}
	return n
}
