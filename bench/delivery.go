package bench

import (
	"context"

	"parley/bench/report"
	"parley/bench/result"
)

// webhook performs a run of Webhook.
func (r *runner) webhook(ctx context.Context, s *side, run *result.Run, task report.Task) (measured bool, err error) {
	pids := s.target.Processes()
	r.settle(ctx)
	r.Live.Begin(task)
	w := newWatch(r.Live, pids)
	err = s.host.Webhook(ctx, r.plan(run.Clients, run.Rate), meter{pids: pids, door: s.host.Door()}, w, run)
	s.host.Settle(run)
	if w.window == 0 {
		return false, err
	}
	w.fill(run, pids)
	return true, err
}
