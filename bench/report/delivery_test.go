package report

import (
	"slices"
	"testing"

	"parley/bench/result"
)

func withFigures(scenario string, figures map[string]float64) result.Run {
	r := run("parley", scenario, 64, 0, 1, 5000, 5)
	r.Figures = figures
	return r
}

func webhooked(news, drained float64) result.Run {
	return withFigures("webhook", map[string]float64{"with_of_without_webhook": 0.9, "webhook_deliveries_per_second": news, "drain_per_second": drained, "beside_hanging_p99_ms": 200})
}

func TestGoalsOfDelivery(t *testing.T) {
	second := webhooked(4000, 7000)
	second.Repeat = 2
	invalid := withFigures("quota", map[string]float64{"limited_of_free": 0.99})
	invalid.Invalid = "neighbours"
	for name, c := range map[string]struct {
		runs []result.Run
		want []string
	}{
		"delivered under way":     {[]result.Run{webhooked(5000, 4000)}, []string{"0.900 met", "5,000 met", "200 met"}},
		"delivered after":         {[]result.Run{webhooked(2600, 5100)}, []string{"0.900 met", "5,100 met", "200 met"}},
		"neither":                 {[]result.Run{webhooked(2600, 4900)}, []string{"0.900 met", "4,900 missed", "200 met"}},
		"the greater of each run": {[]result.Run{webhooked(6000, 1000), second}, []string{"0.900 met", "6,500 met", "200 met"}},
		"of before there were two": {
			[]result.Run{withFigures("webhook", map[string]float64{"webhook_deliveries_per_second": 5200})}, []string{"5,200 met"},
		},
		"quota met":          {[]result.Run{withFigures("quota", map[string]float64{"limited_of_free": 0.97})}, []string{"0.970 met"}},
		"quota missed":       {[]result.Run{withFigures("quota", map[string]float64{"limited_of_free": 0.96})}, []string{"0.960 missed"}},
		"quota, no valid":    {[]result.Run{invalid}, []string{"(0.990) no valid run"}},
		"polls of too few":   {[]result.Run{withFigures("poll", map[string]float64{"messages": 1_000_000 - 1})}, nil},
		"polls":              {[]result.Run{withFigures("poll", map[string]float64{"messages": 1_000_000})}, []string{"5,000 missed"}},
		"a2a":                {[]result.Run{withFigures("a2a", map[string]float64{"a2a_of_sync": 0.49, "subscriptions": 5000})}, []string{"0.490 missed", "5,000 met"}},
		"webhooks and quota": {[]result.Run{webhooked(5000, 5000), invalid}, []string{"0.900 met", "5,000 met", "200 met", "(0.990) no valid run"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := verdicts(Goals(&result.Report{Runs: c.runs})); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestGoalsOfDirectory(t *testing.T) {
	searched := func(cards float64, clients int) result.Run {
		r := run("parley", "directory", clients, 0, 1, 500, 5)
		r.Figures = map[string]float64{"cards": cards}
		r.Parts = map[string]result.Latency{
			"words": {Count: 9, P50: 5, P99: 31}, "meaning": {Count: 9, P50: 19}, "filters": {Count: 9, P50: 6}, partFound: {Count: 9, P99: 20, Max: 1000},
		}
		return r
	}
	for name, c := range map[string]struct {
		runs []result.Run
		want []string
	}{
		"one client":    {[]result.Run{searched(100_000, 1)}, []string{"5.00 met", "31.0 missed", "19.0 met", "6.00 missed", "1,000 met"}},
		"too few cards": {[]result.Run{searched(100_000-1, 1)}, nil},
		"more clients":  {[]result.Run{searched(100_000, 2)}, nil},
	} {
		if got := verdicts(Goals(&result.Report{Runs: c.runs})); !slices.Equal(got, c.want) {
			t.Errorf("%s: got  %q\nwant %q", name, got, c.want)
		}
	}
}

func TestGoalsOfErasure(t *testing.T) {
	erased := func(agents, messages float64) result.Run {
		return withFigures("erase", map[string]float64{"agents": agents, "messages": messages, "erase_seconds": 61, "p99_of_before": 1.5})
	}
	for name, c := range map[string]struct {
		run  result.Run
		want []string
	}{
		"large":            {erased(1000, 1_000_000), []string{"61.0 missed", "1.50 met"}},
		"too few agents":   {erased(1000-1, 1_000_000), nil},
		"too few messages": {erased(1000, 1_000_000-1), nil},
	} {
		if got := verdicts(Goals(&result.Report{Runs: []result.Run{c.run}})); !slices.Equal(got, c.want) {
			t.Errorf("%s: got  %q\nwant %q", name, got, c.want)
		}
	}
}
