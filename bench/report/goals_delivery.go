package report

import "parley/bench/result"

// Names of the scenarios and figures that goals of delivery and of A2A use.
const (
	scenarioPoll    = "poll"
	scenarioWebhook = "webhook"
	scenarioQuota   = "quota"
	scenarioA2A     = "a2a"
	figurePolled    = "messages"
	figureNews      = "webhook_deliveries_per_second"
	figureDrained   = "drain_per_second"
)

// polledLeast is how many messages a poll must count for its goal to apply.
const polledLeast = 1_000_000

// deliveryGoals compares a target's results in Poll, Webhook, Quota and A2A with the
// published goals.
func deliveryGoals(cases []caseGroups, target string) (out []result.Goal) {
	if g, _, ok := largest(cases, scenarioPoll, target); ok && g.spread(figure(figurePolled)).Median >= polledLeast {
		s := g.spread(throughput)
		out = append(out, judged(result.Goal{
			Target: target, What: "polls a second of " + whole(g.spread(figure(figurePolled)).Median) + " messages",
			Measured: s.Median, Bound: 10_000, Doubtful: g.doubtful,
		}))
	}
	for _, one := range []struct {
		scenario, what string
		of             measure
		bound          float64
		atMost         bool
	}{
		{scenarioWebhook, "sends a second to agents with a webhook by those without, in turn", figure("hooked_of_bare"), 0.85, false},
		{scenarioWebhook, "webhook deliveries a second", delivered, 5000, false},
		{scenarioWebhook, "p99 from the 201 to the delivery while 1 % of the targets hang, ms", figure("beside_hanging_p99_ms"), 250, true},
		{scenarioWebhook, "processor time for a delivery after the sends, µs", figure("us_per_delivery"), 100, true},
		{scenarioQuota, "sends a second with quota and rate checks, by those without, in turn", figure("limited_of_free"), 0.97, false},
		{scenarioA2A, "SendMessage through to the reply, by messages/sync, in turn", figure("a2a_of_sync"), 0.5, false},
		{scenarioA2A, "subscriptions at once that got the end of their task", figure("subscriptions"), 5000, false},
	} {
		g, _, ok := largest(cases, one.scenario, target)
		if !ok {
			continue
		}
		if s := g.spread(one.of); s.Runs > 0 {
			out = append(out, judged(result.Goal{
				Target: target, What: one.what, Measured: s.Median, Bound: one.bound, AtMost: one.atMost, Doubtful: g.doubtful,
			}))
		}
	}
	return out
}

// delivered returns the rate of deliveries. A server whose processors are all busy
// handles sends first, so its rate may show only after the sends have ended.
func delivered(r result.Run) (float64, bool) {
	all, there := figure(figureNews)(r)
	drained, ebbed := figure(figureDrained)(r)
	return max(all, drained), there || ebbed
}
