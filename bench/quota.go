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

// quota is scenario.Quota.
type quota struct{ *runner }

// Run implements scenario.Scenario. The run holds the last window with limits and the failures of
// all windows; the figures cover all windows.
func (q *quota) Run(ctx context.Context, r *scenario.Round) (err error) {
	dir, err := os.MkdirTemp(q.Dir, "parley-quota-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var two [2]*runner
	for i, terms := range [...][]string{freeTerms, limitedTerms} {
		one := q.apart(filepath.Join(dir, fmt.Sprint(i)), terms, i*limitedTier)
		if err := one.start(ctx); err != nil {
			return fmt.Errorf("a server with %q: %w", terms, err)
		}
		defer func() { err = errors.Join(err, one.stop()) }()
		two[i] = one
	}
	free, limited := scenario.Terms{Host: two[0].here[0].host.Host}, scenario.Terms{Host: two[1].here[0].host.Host}
	if _, err := free.Check(ctx, false); err != nil {
		return err
	}
	before, err := limited.Check(ctx, true)
	if err != nil {
		return err
	}
	r.Bench.Begin(ctx)
	var windows quotaTally
	for n := range quotaWindows {
		for i, one := range two {
			window, err := q.window(ctx, one, two, r.Result, n)
			if err != nil {
				return err
			}
			windows.add(window, i == 1)
		}
	}
	after, err := limited.Spent(ctx)
	if err != nil {
		return err
	}
	windows.fill(r.Result)
	return windows.counted(before, after, limited.Host.Stored())
}

// apart returns a runner for a server of the bench with further flags. Its measurements
// are not kept.
func (q *quota) apart(dir string, terms []string, tier int) *runner {
	one := &runner{out: &result.Report{Versions: map[string]string{}}, Config: q.Config}
	one.Params.Keep, one.Params.Sample, one.Params.Tier = false, 0, tier
	one.Targets = []target.Target{q.Own(dir, terms...)}
	return one
}

// window measures sends on one of two servers while the other is idle.
func (q *quota) window(ctx context.Context, one *runner, two [2]*runner, of *result.Run, n int) (result.Run, error) {
	var pids []int
	for _, each := range two {
		pids = append(pids, each.here[0].target.Processes()...)
	}
	settle(ctx, pids)
	window := result.Run{Target: of.Target, Scenario: scenario.Send, Clients: of.Clients, Repeat: n + 1}
	_, err := one.measure(ctx, one.here[0], &window, report.Task{Repeat: n + 1, Repeats: quotaWindows, WarmUp: q.WarmUp, Duration: q.Duration})
	if err == nil {
		q.Live.End(window)
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
