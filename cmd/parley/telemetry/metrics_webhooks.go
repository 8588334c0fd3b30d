package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley/actors"
	"parley/actors/delivery"
	"parley/http/egress"
)

// webhookCollectors expose what became of deliveries, and those in progress.
func webhookCollectors(node *actors.Node, sender *egress.Sender) []prometheus.Collector {
	return []prometheus.Collector{
		newCollector("outcome", func(each func(uint64, ...string)) {
			s := node.Webhooks.Stats()
			each(s.Delivered, "delivered")
			each(s.Failed, "failed")
			each(s.Dead, "dead")
			each(s.Unsent, "unsent")
		}, counter("parley_webhook_attempts_total",
			"Attempts to deliver that ended: delivered; failed, to be tried again; dead, not to be tried again; unsent, handed back before they left.",
			func(n uint64) uint64 { return n })),
		newCollector("room", func(each func(int, ...string)) {
			s := sender.Stats()
			each(s.Quick, "quick")
			each(s.Fresh, "fresh")
			each(s.Slow, "slow")
			each(s.Overdue, "overdue")
		}, gauge("parley_webhook_posts_flying", "Deliveries under way, by the room that they take: that of quick, new or slow targets, or beside it.", func(n int) int { return n })),
		newSingleCollector(node.Webhooks.Stats,
			gauge("parley_webhook_agents", "Agents that have webhooks.", func(s delivery.Stats) int { return s.Agents }),
			gauge("parley_webhook_agents_waiting", "Agents whose webhooks have something new to do.", func(s delivery.Stats) int { return s.Waiting }),
			gauge("parley_webhook_stepping_back", "1 while deliveries step back, because requests want the whole processor.", func(s delivery.Stats) int {
				if s.SteppingBack {
					return 1
				}
				return 0
			})),
		newSingleCollector(sender.Stats,
			gauge("parley_webhook_posts_waiting", "Deliveries that wait for their turn.", func(s egress.Stats) int { return s.Waiting }),
			gauge("parley_webhook_posts_late", "Deliveries under way that last longer than a target may take.", func(s egress.Stats) int { return s.Late }),
			gauge("parley_webhook_targets", "Targets that are remembered.", func(s egress.Stats) int { return s.Lanes }),
			gauge("parley_webhook_circuits_open", "Targets that failed too often in a row and are left alone.", func(s egress.Stats) int { return s.Open }),
		),
	}
}
