package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"parley/bench/report"
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/target"
)

const (
	// quotaWindows is how many windows each of the two servers gets, in turn.
	quotaWindows = 3
	// limitedTier is the trust tier of the organizations on the server with limits.
	limitedTier = 3
)

// freeTerms and limitedTerms are further flags of the two servers. The limits are those
// of the public profile, raised so far that all are checked and none is ever reached, not
// even at a million messages a second for an hour.
var (
	freeTerms    = []string{"--quota-profile", "open"}
	limitedTerms = []string{
		"--quota-profile", "public",
		"--quota", "tier3.agents=1000000000", "--quota", "tier3.messages_per_day=1000000000000", "--quota", "tier3.groups=1000000000",
		"--quota", "tier3.stored_bytes=1000000000000000", "--quota", "tier3.changes_per_day=1000000000",
		"--rate", "register=100000000", "--rate", "token=100000000", "--rate", "writes=100000000", "--rate", "reads=100000000", "--rate", "public=100000000",
	}
)

// errNotOwn is returned if the bench cannot start the servers of Quota.
var errNotOwn = errors.New("quota compares two servers of the bench's own, one without and one with limits: it cannot be asked of a server named by --url")

// quota performs a run of Quota. The run holds the last window with limits and the
// failures of all windows; the figures cover all windows.
func (r *runner) quota(ctx context.Context, run *result.Run, task report.Task) (measured bool, err error) {
	if r.Own == nil {
		return false, errNotOwn
	}
	dir, err := os.MkdirTemp(r.Dir, "parley-quota-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var two [2]*runner
	for i, terms := range [...][]string{freeTerms, limitedTerms} {
		one := r.apart(filepath.Join(dir, fmt.Sprint(i)), terms, i*limitedTier)
		if err := one.start(ctx); err != nil {
			return false, fmt.Errorf("a server with %q: %w", terms, err)
		}
		defer func() { err = errors.Join(err, one.stop()) }()
		two[i] = one
	}
	free, limited := two[0].here[0], two[1].here[0]
	if _, err := free.host.CheckTerms(ctx, false); err != nil {
		return false, err
	}
	before, err := limited.host.CheckTerms(ctx, true)
	if err != nil {
		return false, err
	}
	var windows quotaTally
	for n := range quotaWindows {
		for i, one := range two {
			window, err := r.quotaWindow(ctx, one, two, task, n)
			if err != nil {
				return false, err
			}
			windows.add(window, i == 1)
		}
	}
	after, err := limited.host.Spent(ctx)
	if err != nil {
		return false, err
	}
	windows.fill(run)
	return true, windows.counted(before, after, limited.host.Stored())
}

// apart returns a runner for a server of the bench with further flags. Its measurements
// are not kept.
func (r *runner) apart(dir string, terms []string, tier int) *runner {
	one := &runner{out: &result.Report{Versions: map[string]string{}}, Config: r.Config}
	one.Params.Keep, one.Params.Sample, one.Params.Tier = false, 0, tier
	one.Targets = []target.Target{r.Own(dir, terms...)}
	return one
}

// quotaWindow measures sends on one of two servers while the other is idle.
func (r *runner) quotaWindow(ctx context.Context, one *runner, two [2]*runner, task report.Task, n int) (result.Run, error) {
	var pids []int
	for _, each := range two {
		pids = append(pids, each.here[0].target.Processes()...)
	}
	settle(ctx, pids)
	task.Scenario, task.Repeat, task.Repeats = scenario.Send, n+1, quotaWindows
	window := result.Run{Target: task.Target, Scenario: scenario.Send, Clients: task.Clients, Repeat: n + 1}
	_, err := one.load(ctx, one.here[0], &window, task)
	if err == nil {
		r.Live.End(window)
	}
	return window, err
}

// quotaTally collects the windows of a run of Quota.
type quotaTally struct {
	free, limited []result.Run
}

func (q *quotaTally) add(window result.Run, limited bool) {
	if limited {
		q.limited = append(q.limited, window)
	} else {
		q.free = append(q.free, window)
	}
}

// fill writes the last window with limits, the figures of all windows, and the reason if
// any window is invalid into a run.
func (q *quotaTally) fill(run *result.Run) {
	last := q.limited[len(q.limited)-1]
	last.Scenario, last.Repeat, last.Failures, last.Reasons = run.Scenario, run.Repeat, 0, map[string]int64{}
	mean := func(windows []result.Run) (sum float64) {
		for _, w := range windows {
			sum += w.PerSecond / float64(len(windows))
			last.Failures += w.Failures
			for reason, n := range w.Reasons {
				last.Reasons[reason] += n
			}
			if last.Invalid == "" {
				last.Invalid = w.Invalid
			}
		}
		return sum
	}
	free, limited := mean(q.free), mean(q.limited)
	last.Figures = map[string]float64{scenario.FigureFree: free, scenario.FigureLimited: limited}
	if free > 0 {
		last.Figures[scenario.FigureLimitedOfFree] = limited / free
	}
	if last.Invalid == "" && last.Failures > 0 {
		last.Invalid = "not all sends were accepted, so that the windows cannot be compared"
	}
	*run = last
}

// counted returns an error if the server with limits has not counted the accepted
// messages against the quota.
func (q *quotaTally) counted(before, after scenario.Spent, accepted int64) error {
	if counted := after.Messages - before.Messages; after.Resets.Equal(before.Resets) && counted < accepted {
		return fmt.Errorf("of %d messages that were accepted %d were counted against the quota", accepted, counted)
	}
	return nil
}
