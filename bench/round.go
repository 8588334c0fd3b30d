package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"parley/bench/load"
	"parley/bench/machine"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/bench/target"
)

// sparedFiles is the number of file descriptors that either side needs besides its
// connections.
const sparedFiles = 512

// round is the bench as one run of a scenario sees it.
type round struct {
	*runner
	side *side
	run  *result.Run
	plan load.Plan
	// runsOfCase is how often the case is run.
	runsOfCase int
	// watch is nil until Begin, meter until Meter.
	watch *watch
	meter *meter
	// others are the servers that were started by Another.
	others []target.Target
}

// pids returns the processes that count as the target's.
func (r *round) pids() []int {
	pids := r.side.target.Processes()
	for _, other := range r.others {
		pids = append(pids, other.Processes()...)
	}
	return pids
}

// Begin implements scenario.Bench.
func (r *round) Begin(ctx context.Context) load.Watch {
	r.settle(ctx)
	title := fmt.Sprintf("[%d/%d] %s, %s", r.number, r.of, r.run.Target, report.CaseOf(*r.run))
	if r.runsOfCase > 1 {
		title += fmt.Sprintf(", repeat %d of %d", r.run.Repeat, r.runsOfCase)
	}
	r.Live.Begin(title, r.plan.WarmUp, r.plan.Duration)
	r.watch = newWatch(r.Live, r.pids())
	return r.watch
}

// Meter implements scenario.Bench.
func (r *round) Meter() host.Meter {
	if r.meter == nil {
		r.meter = &meter{pids: r.pids(), target: r.side.target, endpoint: r.side.host.Endpoint()}
	}
	return r.meter
}

// Limit implements scenario.Bench.
func (r *round) Limit(n int, what string) int {
	most := int(r.out.Machine.FileMax) - sparedFiles
	if r.out.Machine.FileMax == 0 || n <= most {
		return n
	}
	r.Live.Note(fmt.Sprintf("only %d %s instead of %d: a process may open %d files here", most, what, n, r.out.Machine.FileMax))
	return most
}

// Restart implements scenario.Bench.
func (r *round) Restart(ctx context.Context) (time.Duration, error) {
	if err := r.side.target.Stop(); err != nil {
		return 0, err
	}
	r.meter = nil
	took, err := r.startAgain(ctx, r.side)
	if _, remote := r.side.target.(*target.Remote); remote {
		return 0, err
	}
	return took, err
}

// Kill implements scenario.Bench.
func (r *round) Kill(ctx context.Context) (time.Duration, error) {
	_, took, err := r.killUnderLoad(ctx, r.side)
	r.meter = nil
	return took, err
}

// Another implements scenario.Bench.
func (r *round) Another(ctx context.Context, params host.Params, flags ...string) (*host.Host, func() error, error) {
	dir, err := os.MkdirTemp(r.Dir, "parley-another-")
	if err != nil {
		return nil, nil, err
	}
	other := r.Own(dir, flags...)
	stop := func() error {
		r.others = nil
		r.meter = nil
		return errors.Join(other.Stop(), os.RemoveAll(dir))
	}
	endpoint, err := other.Start(ctx)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("another server with %q: %w", flags, err), stop())
	}
	host, err := host.NewHost(ctx, r.side.host.Name()+" beside", endpoint, params)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	r.others = []target.Target{other}
	r.meter = nil
	return host, stop, nil
}

// Nodes implements scenario.Bench.
func (r *round) Nodes() host.Nodes { return r.side.target.(host.Nodes) }

// meter measures the processes of one target.
type meter struct {
	pids     []int
	target   target.Target
	endpoint target.Endpoint
}

// Resident implements scenario.Meter.
func (m *meter) Resident() uint64 {
	if len(m.pids) == 0 {
		return 0
	}
	return machine.Processes(m.pids...).Resident
}

// Peak implements scenario.Meter.
func (m *meter) Peak() (peak uint64) {
	for _, pid := range m.pids {
		peak += machine.PeakResident(pid)
	}
	return peak
}

// ForgetPeak implements scenario.Meter.
func (m *meter) ForgetPeak() {
	for _, pid := range m.pids {
		_ = machine.ForgetPeak(pid) // then it is the peak of all runs so far
	}
}

// CPU implements scenario.Meter.
func (m *meter) CPU() time.Duration {
	if len(m.pids) == 0 {
		return 0
	}
	return machine.Processes(m.pids...).CPU
}

// Live implements scenario.Meter.
func (m *meter) Live(ctx context.Context) uint64 {
	bytes, err := adminNumbers(ctx, m.endpoint, heapPage, heapAlive, heapStacks)
	if err != nil {
		return 0
	}
	return uint64(bytes)
}

// Open implements scenario.Meter. It counts the descriptors of the process if it can read
// them, and otherwise uses the server's own metric.
func (m *meter) Open() int {
	if len(m.pids) > 0 {
		if n, err := machine.OpenFiles(m.pids[0]); err == nil {
			return n
		}
	}
	if n, err := adminNumbers(context.Background(), m.endpoint, metricsPage, metricStreams); err == nil {
		return int(n)
	}
	return -1
}

// Disk implements scenario.Meter.
func (m *meter) Disk() (taken, written uint64) {
	if own, is := m.target.(*target.Server); is {
		if files, err := machine.FilesUnder(own.Dir); err == nil {
			return files.Taken, files.Written
		}
	}
	return 0, 0
}

// Log implements scenario.Meter.
func (m *meter) Log() (bytes uint64, known bool) {
	time.Sleep(metricsAge)
	n, err := adminNumbers(context.Background(), m.endpoint, metricsPage, metricLog)
	return uint64(n), err == nil
}

// Settle implements scenario.Meter.
func (m *meter) Settle(ctx context.Context) { settle(ctx, m.pids) }
