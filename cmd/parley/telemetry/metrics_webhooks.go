package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley/actors"
	"parley/actors/delivery"
	"parley/http/egress"
)

// webhookCollectors expose the outcomes of webhook deliveries, and those in progress.
func webhookCollectors(node *actors.Node, sender *egress.Sender) []prometheus.Collector {
	return []prometheus.Collector{
		newCollector([]string{"outcome"}, func(each func(uint64, ...string)) {
			s := node.Webhooks.Stats()
			each(s.Delivered, "delivered")
			each(s.Failed, "failed")
			each(s.Dead, "dead")
			each(s.Unsent, "unsent")
		}, counter("parley_webhook_attempts_total",
			"Delivery attempts by outcome: delivered; failed, retried later; dead, not retried; unsent, returned to the queue before they were sent.",
			func(n uint64) uint64 { return n })),
		newCollector([]string{"pool"}, func(each func(int, ...string)) {
			s := sender.Stats()
			each(s.Quick, "quick")
			each(s.Fresh, "fresh")
			each(s.Slow, "slow")
			each(s.Overdue, "overdue")
		}, gauge("parley_webhook_posts_in_flight", "Deliveries in flight, by the pool of their target: quick, fresh (new), slow, or overdue.", func(n int) int { return n })),
		newSingleCollector(node.Webhooks.Stats,
			gauge("parley_webhook_agents", "Agents that have webhooks.", func(s delivery.Stats) int { return s.Agents }),
			gauge("parley_webhook_agents_waiting", "Agents whose webhooks have new deliveries.", func(s delivery.Stats) int { return s.Waiting }),
			gauge("parley_webhook_yielding", "1 while deliveries yield because requests use the whole processor.", func(s delivery.Stats) int { return oneIf(s.SteppingBack) })),
		newSingleCollector(sender.Stats,
			gauge("parley_webhook_posts_waiting", "Deliveries that wait to be sent.", func(s egress.Stats) int { return s.Waiting }),
			gauge("parley_webhook_posts_late", "Deliveries in flight for longer than the limit for one attempt.", func(s egress.Stats) int { return s.Late }),
			gauge("parley_webhook_targets", "Targets that the sender keeps state of.", func(s egress.Stats) int { return s.Targets }),
			gauge("parley_webhook_circuits_open", "Targets with an open circuit breaker: they failed too often in a row.", func(s egress.Stats) int { return s.Open }),
		),
	}
}
