package report

import "parley/bench/result"

// Names of scenarios and figures that goals of delivery are told from.
const (
	scenarioPoll    = "poll"
	scenarioWebhook = "webhook"
	figurePolled    = "messages"
)

// polledLeast is how many messages a poll has to count for its goal.
const polledLeast = 1_000_000

// deliveryGoals holds what a target did in Poll and Webhook against the published
// goals.
func deliveryGoals(cases []caseGroups, target string) (out []result.Goal) {
	if g, _, ok := largest(cases, scenarioPoll, target); ok && g.spread(figure(figurePolled)).Median >= polledLeast {
		s := g.spread(throughput)
		out = append(out, judged(result.Goal{
			Target: target, What: "polls a second of " + whole(g.spread(figure(figurePolled)).Median) + " messages",
			Measured: s.Median, Bound: 10_000, Doubtful: g.doubtful,
		}))
	}
	g, _, ok := largest(cases, scenarioWebhook, target)
	if !ok {
		return out
	}
	for _, one := range []struct {
		what, figure string
		bound        float64
		atMost       bool
	}{
		{"sends a second to agents with a webhook by those without, in turn", "hooked_of_bare", 0.85, false},
		{"webhook deliveries a second", "webhook_deliveries_per_second", 5000, false},
		{"p99 from the 201 to the delivery while 1 % of the targets hang, ms", "beside_hanging_p99_ms", 250, true},
	} {
		s := g.spread(figure(one.figure))
		if s.Runs > 0 {
			out = append(out, judged(result.Goal{
				Target: target, What: one.what, Measured: s.Median, Bound: one.bound, AtMost: one.atMost, Doubtful: g.doubtful,
			}))
		}
	}
	return out
}
