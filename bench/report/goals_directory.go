package report

import "parley/bench/result"

// Names of the scenario, the figure and the laps that goals of the directory use.
const (
	scenarioDirectory = "directory"
	figureCards       = "cards"
	lapWords          = "words"
	lapMeaning        = "meaning"
	lapFilters        = "filters"
	lapFound          = "100 published a second: found by its words after the 200"
)

// cardsLeast is how many cards a directory must have for its goals to apply.
const cardsLeast = 100_000

// directoryGoals compares a target's results in Directory with the published goals. They
// are those of one client: searches of several wait for each other.
func directoryGoals(cases []caseGroups, target string) (out []result.Goal) {
	for _, c := range cases {
		g, there := c.of(target)
		if !there || c.Scenario != scenarioDirectory || c.Clients != 1 || c.Rate > 0 || g.spread(figure(figureCards)).Median < cardsLeast {
			continue
		}
		for _, one := range []struct {
			what  string
			of    measure
			bound float64
		}{
			{"search by words, one in five misspelled, p50, ms", lapOf(lapWords, p50), 5},
			{"search by words, one in five misspelled, p99, ms", lapOf(lapWords, p99), 30},
			{"search by meaning, p50, ms", lapOf(lapMeaning, p50), 20},
			{"filters, p50, ms", lapOf(lapFilters, p50), 5},
			{"a published card is found, the slowest, ms", lapOf(lapFound, func(l result.Latency) float64 { return l.Max }), 1000},
		} {
			if s := g.spread(one.of); s.Runs > 0 {
				out = append(out, judged(result.Goal{Target: target, What: one.what, Measured: s.Median, Bound: one.bound, AtMost: true, Doubtful: g.doubtful}))
			}
		}
	}
	return out
}

// lapOf measures a part of an operation.
func lapOf(name string, part func(result.Latency) float64) measure {
	return func(r result.Run) (float64, bool) {
		l, there := r.Laps[name]
		return part(l), there && l.Count > 0
	}
}
