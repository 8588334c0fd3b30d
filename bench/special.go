package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/bench/load"
	"parley/bench/machine"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/target"
)

const (
	// sparedFiles is the number of file descriptors that either side needs besides its
	// streams.
	sparedFiles = 512
	// defaultStreams is the default of Params.Streams.
	defaultStreams = 10_000
	idleTime       = time.Second
)

// meter measures the processes of one target.
type meter struct {
	pids []int
	door target.Door
	// appends measures the logs of the store; nil if nobody needs them.
	appends *machine.Appends
}

// Resident implements scenario.Meter.
func (m meter) Resident() uint64 {
	if len(m.pids) == 0 {
		return 0
	}
	return machine.Processes(m.pids...).Resident
}

// CPU implements scenario.Meter.
func (m meter) CPU() time.Duration {
	if len(m.pids) == 0 {
		return 0
	}
	return machine.Processes(m.pids...).CPU
}

// Live implements scenario.Meter.
func (m meter) Live(ctx context.Context) uint64 {
	if m.door.Admin == "" {
		return 0
	}
	bytes, err := liveBytes(ctx, m.door.Admin, m.door.AdminToken)
	if err != nil {
		return 0
	}
	return bytes
}

// Open implements scenario.Meter. It counts the descriptors of the process if it can read
// them, and otherwise uses the server's own metric.
func (m meter) Open() int {
	if len(m.pids) > 0 {
		if n, err := machine.OpenFiles(m.pids[0]); err == nil {
			return n
		}
	}
	if m.door.Admin != "" {
		if n, err := openStreams(m.door.Admin); err == nil {
			return n
		}
	}
	return -1
}

// Log implements scenario.Meter.
func (m meter) Log() (bytes uint64, seen bool) {
	if m.appends == nil {
		return 0, false
	}
	bytes, err := m.appends.Bytes()
	return bytes, err == nil
}

// Settle implements scenario.Meter.
func (m meter) Settle(ctx context.Context) { settle(ctx, m.pids) }

// streams performs a run of Stream on a server that was started for it: memory left by an
// earlier run would make streams appear smaller.
func (r *runner) streams(ctx context.Context, s *side, run *result.Run, task report.Task) (measured bool, err error) {
	if err := r.restart(ctx, s); err != nil {
		return false, err
	}
	run.Clients = r.Params.Streams
	if run.Clients == 0 {
		run.Clients = defaultStreams
	}
	if most := int(r.out.Machine.FileMax) - sparedFiles; r.out.Machine.FileMax > 0 && run.Clients > most {
		r.Live.Note(fmt.Sprintf("only %d streams instead of %d: a process may open %d files here", most, run.Clients, r.out.Machine.FileMax))
		run.Clients = most
	}
	pids := s.target.Processes()
	r.settle(ctx)
	task.Clients, task.WarmUp, task.Duration = run.Clients, 0, 0
	r.Live.Begin(task)
	w := newWatch(r.Live, pids)
	err = s.host.Streams(ctx, run.Clients, meter{pids: pids, door: s.host.Door()}, w, run)
	s.host.Settle(run)
	if err != nil {
		return false, err
	}
	w.fill(run, pids)
	run.CPU.PerOperation = run.Figures["us_per_event"]
	return true, nil
}

// idle measures a server without load.
func (r *runner) idle(ctx context.Context, s *side, run *result.Run, task report.Task) (measured bool, err error) {
	if err := r.restart(ctx, s); err != nil {
		return false, err
	}
	pids := s.target.Processes()
	r.settle(ctx)
	task.WarmUp, task.Duration = 0, idleTime
	r.Live.Begin(task)
	w := newWatch(r.Live, pids)
	w.Begin()
	err = sleep(ctx, min(idleTime, r.Duration))
	w.End()
	run.Seconds = w.window.Seconds()
	run.CPU, run.Invalid = w.cpu, machine.Invalid(w.cpu)
	run.Resident = machine.Processes(pids...).Resident
	run.Figures = map[string]float64{"resident_bytes": float64(run.Resident)}
	return err == nil, err
}

// restart stops a target in an orderly way and starts it again. A target that the bench
// did not start keeps running.
func (r *runner) restart(ctx context.Context, s *side) error {
	if err := s.target.Stop(); err != nil {
		return err
	}
	door, err := s.target.Start(ctx)
	if err != nil {
		return err
	}
	s.host.Reopen(door)
	return nil
}

const (
	killedClients = 32
	// killAfter is how long the load runs before the server is killed.
	killAfter = 500 * time.Millisecond
)

// verify kills the server under load, starts it again and reads back every message that
// was ever acknowledged.
func (r *runner) verify(ctx context.Context, s *side) error {
	killed, took, err := r.killUnderLoad(ctx, s)
	if err != nil {
		return fmt.Errorf("verification: %w", err)
	}
	r.settle(ctx) // copies of unfinished broadcasts arrive after the start
	r.Live.Note(fmt.Sprintf("%s: reading %d acknowledged messages back", s.host.Name(), s.host.Acknowledged()))
	v, err := s.host.Verify(ctx)
	if err != nil {
		return err
	}
	v.Killed, v.RestartSeconds = killed, took.Seconds()
	r.out.Verified = v
	return nil
}

func (r *runner) killUnderLoad(ctx context.Context, s *side) (killed bool, took time.Duration, err error) {
	dial, err := s.host.PrepareMedley(ctx, killedClients)
	if err != nil {
		return false, 0, err
	}
	under, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		// The error is expected: the server is killed during the run.
		_, _ = load.Run(under, load.Plan{Clients: killedClients, Duration: time.Minute}, dial, nil)
	}()
	waited := sleep(ctx, min(killAfter, r.Duration))
	err = s.target.Kill()
	cancel()
	<-over
	s.host.Settle(&result.Run{})
	switch {
	case waited != nil:
		return false, 0, waited
	case errors.Is(err, target.ErrNotOurs):
		r.Live.Note(s.host.Name() + ": the server was not started here: its messages are read back without killing it")
		return false, 0, nil
	case err != nil:
		return false, 0, err
	}
	began := time.Now()
	door, err := s.target.Start(ctx)
	if err != nil {
		return true, 0, fmt.Errorf("the server does not start after the kill: %w", err)
	}
	took = time.Since(began)
	s.host.Reopen(door)
	return true, took, nil
}
