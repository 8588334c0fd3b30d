package report

import "parley/bench/result"

// Names of the scenario and the figures that goals of erasure use.
const (
	scenarioErase        = "erase"
	figureErasedAgents   = "agents"
	figureErasedMessages = "messages"
)

// erasedAgentsLeast and erasedMessagesLeast are how large an organization must be for the
// goals of its erasure to apply.
const (
	erasedAgentsLeast   = 1000
	erasedMessagesLeast = 1_000_000
)

// eraseGoals compares a target's results in Erase with the published goals.
func eraseGoals(cases []caseGroups, target string) (out []result.Goal) {
	for _, c := range cases {
		g, there := c.of(target)
		if !there || c.Scenario != scenarioErase || g.spread(figure(figureErasedAgents)).Median < erasedAgentsLeast ||
			g.spread(figure(figureErasedMessages)).Median < erasedMessagesLeast {
			continue
		}
		for _, one := range []struct {
			what, figure string
			bound        float64
		}{
			{"erasure of an organization, s", "erase_seconds", 60},
			{"others' p99 during an erasure, by that before", "p99_of_before", 2},
		} {
			s := g.spread(figure(one.figure))
			out = append(out, judged(result.Goal{Target: target, What: one.what, Measured: s.Median, Bound: one.bound, AtMost: true, Doubtful: g.doubtful}))
		}
	}
	return out
}
