package bench

import (
	"context"
	"errors"
	"strings"

	"parley/bench/machine"
	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
)

// fanClients is the default number of concurrent broadcasts: enough that a group always
// has another broadcast to work on, without overload.
const fanClients = 8

// Groups returns the cases for groups, with the cases for comparison.
func Groups() []Case {
	return []Case{
		{Scenario: scenario.Fanout, Clients: fanClients},
		{Scenario: scenario.HotGroup, Clients: hotClients},
	}
}

// isStoreLog reports whether a store appends every batch to this file: the names of such
// files are numbers.
func isStoreLog(name string) bool {
	number, found := strings.CutSuffix(name, ".log")
	return found && number != "" && strings.Trim(number, "0123456789-") == ""
}

// fanout performs a run of Fanout.
func (r *runner) fanout(ctx context.Context, s *side, run *result.Run, task report.Task) (measured bool, err error) {
	pids := s.target.Processes()
	m := meter{pids: pids, door: s.host.Door()}
	if len(pids) > 0 {
		m.appends = machine.FollowAppends(pids[0], isStoreLog)
		defer m.appends.Close()
	}
	r.settle(ctx)
	r.Live.Begin(task)
	w := newWatch(r.Live, pids)
	err = s.host.Fanout(ctx, r.plan(run.Clients, run.Rate), m, w, run)
	s.host.Settle(run)
	if w.window == 0 {
		return false, err
	}
	w.fill(run, pids)
	if err == nil && run.Figures[scenario.FigureDeliveries] == 0 {
		err = errors.New("no copy came")
	}
	return true, err
}
