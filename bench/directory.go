package bench

import (
	"context"
	"time"

	"parley/bench/report"
	"parley/bench/result"
)

// directory performs a run of Directory. At the end it restarts a server that the bench
// has started, and waits until all cards are found again.
func (r *runner) directory(ctx context.Context, s *side, run *result.Run, task report.Task) (measured bool, err error) {
	pids := s.target.Processes()
	r.Live.Begin(task)
	w := newWatch(r.Live, pids)
	err = s.host.Directory(ctx, r.plan(run.Clients, run.Rate), meter{pids: pids, door: s.host.Door()}, w, run)
	if w.window == 0 {
		return false, err
	}
	w.fill(run, pids)
	if err != nil || r.Own == nil {
		return true, err
	}
	if err := s.target.Stop(); err != nil {
		return true, err
	}
	began := time.Now()
	door, err := s.target.Start(ctx)
	if err != nil {
		return true, err
	}
	answered := time.Now()
	s.host.Reopen(door)
	return true, s.host.AwaitDirectory(ctx, began, answered, run)
}
