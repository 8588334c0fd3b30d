package bench

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/target"
)

// TestQuotaNeedsServersOfItsOwn: with a named server there is nothing to compare.
func TestQuotaNeedsServersOfItsOwn(t *testing.T) {
	config, _ := quick(t, &plain{name: "a"})
	config.Cases = []Case{{Scenario: scenario.Quota, Clients: 2}}
	if _, err := Run(t.Context(), config); !errors.Is(err, errNotOwn) || !strings.Contains(err.Error(), "--url") {
		t.Errorf("quota without servers of its own: %v", err)
	}
	config.Own = func(string, ...string) target.Target { return &plain{name: "a"} }
	if err := config.check(); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestQuotaHasNoRates(t *testing.T) {
	got, err := Cases([]string{scenario.Quota}, nil, []float64{1000})
	if err != nil || !slices.Equal(got, []Case{{Scenario: scenario.Quota, Clients: defaultClients}}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestQuotaTerms: the two servers differ in their limits, and every quota and rate that
// affects a sender is a number.
func TestQuotaTerms(t *testing.T) {
	for _, wanted := range []string{
		"public", "tier3.agents=", "tier3.messages_per_day=", "tier3.groups=", "register=", "token=", "writes=", "reads=", "public=",
	} {
		if !slices.ContainsFunc(limitedTerms, func(word string) bool { return strings.HasPrefix(word, wanted) }) {
			t.Errorf("the server with limits has no %s", wanted)
		}
	}
	if !slices.Equal(freeTerms, []string{"--quota-profile", "open"}) {
		t.Errorf("the server without limits is started with %q", freeTerms)
	}
}

// windowOf returns a window with that many sends a second.
func windowOf(perSecond float64, change func(*result.Run)) result.Run {
	w := result.Run{Scenario: scenario.Send, Repeat: 3, Seconds: 1, Operations: int64(perSecond), PerSecond: perSecond, Reasons: map[string]int64{}}
	if change != nil {
		change(&w)
	}
	return w
}

func TestQuotaTally(t *testing.T) {
	slip := func(w *result.Run) { w.Failures, w.Reasons = 2, map[string]int64{"status 429": 2} }
	spoilt := func(w *result.Run) { w.Invalid = "neighbours" }
	for name, c := range map[string]struct {
		change   [2]func(*result.Run) // of the first window of each server
		invalid  string
		failures int64
	}{
		"sound":                  {},
		"a neighbour, free":      {change: [2]func(*result.Run){spoilt, nil}, invalid: "neighbours"},
		"a neighbour, limited":   {change: [2]func(*result.Run){nil, spoilt}, invalid: "neighbours"},
		"refusals, free":         {change: [2]func(*result.Run){slip, nil}, invalid: "not all sends were accepted", failures: 2},
		"refusals, with limits":  {change: [2]func(*result.Run){nil, slip}, invalid: "not all sends were accepted", failures: 2},
		"refusals of both sides": {change: [2]func(*result.Run){slip, slip}, invalid: "not all sends were accepted", failures: 4},
	} {
		var q quotaTally
		for n := range quotaWindows {
			changes := c.change
			if n > 0 {
				changes = [2]func(*result.Run){}
			}
			q.add(windowOf(1000+float64(n), changes[0]), false)
			q.add(windowOf(980+float64(n), changes[1]), true)
		}
		run := result.Run{Target: "parley", Scenario: scenario.Quota, Repeat: 2}
		q.fill(&run)
		f := run.Figures
		if f[scenario.FigureFree] != 1001 || f[scenario.FigureLimited] != 981 || f[scenario.FigureLimitedOfFree] != f[scenario.FigureLimited]/f[scenario.FigureFree] {
			t.Errorf("%s: figures %v", name, f)
		}
		if run.Scenario != scenario.Quota || run.Repeat != 2 || run.PerSecond != 982 {
			t.Errorf("%s: the last window with limits is not a separate run: %+v", name, run)
		}
		if run.Failures != c.failures || run.Reasons["status 429"] != c.failures || !strings.HasPrefix(run.Invalid, c.invalid) || c.invalid == "" && run.Invalid != "" {
			t.Errorf("%s: %d failures %v, invalid %q", name, run.Failures, run.Reasons, run.Invalid)
		}
	}
}

// TestQuotaIsCounted: a server that counts fewer messages than it accepted has not
// enforced its quota, unless the day ended meanwhile.
func TestQuotaIsCounted(t *testing.T) {
	var q quotaTally
	midnight := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	before := scenario.Spent{Messages: 10, Resets: midnight}
	for _, c := range []struct {
		after   scenario.Spent
		refused bool
	}{
		{scenario.Spent{Messages: 110, Resets: midnight}, false},
		{scenario.Spent{Messages: 111, Resets: midnight}, false}, // one answer was lost
		{scenario.Spent{Messages: 109, Resets: midnight}, true},
		{scenario.Spent{Messages: 10, Resets: midnight}, true},
		{scenario.Spent{Messages: 5, Resets: midnight.AddDate(0, 0, 1)}, false},
	} {
		if err := q.counted(before, c.after, 100); (err != nil) != c.refused {
			t.Errorf("%+v: %v", c.after, err)
		}
	}
}
