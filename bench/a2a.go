package bench

import (
	"context"
	"fmt"

	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
)

// defaultSubscriptions is the default of Params.Subscriptions.
const defaultSubscriptions = 5000

// a2a performs a run of A2A. Between the calls and the subscriptions it begins the tasks
// and restarts the server: memory left by the calls would make streams appear smaller.
func (r *runner) a2a(ctx context.Context, s *side, run *result.Run, task report.Task) (measured bool, err error) {
	pids := s.target.Processes()
	r.settle(ctx)
	r.Live.Begin(task)
	w := newWatch(r.Live, pids)
	err = s.host.A2A(ctx, r.plan(run.Clients, run.Rate), meter{pids: pids, door: s.host.Door()}, w, run)
	s.host.Settle(run)
	if w.window == 0 {
		return false, err
	}
	w.fill(run, pids)
	if err != nil {
		return true, err
	}
	run.CPU.PerOperation = run.Figures[scenario.FigureA2ACPU]
	n := r.subscriptions()
	r.Live.Note(fmt.Sprintf("%s: beginning %d tasks and subscribing to them", s.host.Name(), n))
	tasks, err := s.host.BeginTasks(ctx, n)
	if err == nil {
		err = r.restart(ctx, s)
	}
	if err != nil {
		return true, err
	}
	return true, s.host.Subscribe(ctx, tasks, meter{pids: s.target.Processes(), door: s.host.Door()}, run)
}

// subscriptions returns how many streams A2A opens, within the limit of open files.
func (r *runner) subscriptions() int {
	n := r.Params.Subscriptions
	if n == 0 {
		n = defaultSubscriptions
	}
	if most := int(r.out.Machine.FileMax) - sparedFiles; r.out.Machine.FileMax > 0 && n > most {
		r.Live.Note(fmt.Sprintf("only %d subscriptions instead of %d: a process may open %d files here", most, n, r.out.Machine.FileMax))
		n = most
	}
	return n
}
