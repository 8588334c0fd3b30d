package egress

import (
	"time"

	"parley/client/parley"
)

// Options are the settings of a Sender. Zero values mean the defaults stated below.
type Options struct {
	// Clock and Guard are required.
	Clock parley.Clock
	Guard *Guard
	// Brand names the signature header, X-<Brand>-Signature. The default is svc.
	Brand string
	// Agent is the User-Agent. The default is parley-webhooks.
	Agent string
	// FurtherRoots is a PEM text of certificates that are trusted besides the system's.
	// The default is none.
	FurtherRoots []byte

	// Timeout bounds a whole attempt; the default is 15 s. ConnectTimeout bounds
	// connecting to the target, and then the TLS handshake; the default is 5 s.
	// // docs: webhooks.md
	Timeout        time.Duration
	ConnectTimeout time.Duration
	// SlowAfter is when a target that has not answered yet counts as slow. The default is
	// 1 s.
	SlowAfter time.Duration
	// WaitMax is how long a post may wait for its turn. After that it is handed back as
	// held instead of being sent. The default is 30 s. WaitMax plus Timeout must stay
	// below the lease time of a job.
	WaitMax time.Duration

	// PerTarget is how many posts may be in flight to one target. The default is 8. A
	// target that has never answered gets one, a slow one at most two.
	PerTarget int
	// Quick, Fresh and Slow are how many posts may be in flight to all targets whose last
	// answer was in time, to those that have not answered yet, and to slow ones. The
	// defaults are 128, 64 and 64. The kinds do not share their capacity.
	Quick, Fresh, Slow int
	// Overdue is how many more posts may stay in flight because their target turned out
	// to be slow only after they were sent. The default is 256.
	Overdue int

	// Failures is the number of consecutive failures that opens a circuit; the default is
	// 10. It stays open for CooldownMin (default 5 s), twice as long after each failed
	// probe, and at most CooldownMax (default 5 min).
	Failures                 int
	CooldownMin, CooldownMax time.Duration

	// TargetQueueMax and QueueMax are how many posts may wait for one target and for
	// all targets: 256 and 65,536 by default. TargetsMax is how many targets without
	// posts are remembered: 65,536 by default.
	TargetQueueMax, QueueMax, TargetsMax int
}

func (o Options) withDefaults() Options {
	fill(&o.Brand, "svc")
	fill(&o.Agent, "parley-webhooks")
	fill(&o.Timeout, 15*time.Second)
	fill(&o.ConnectTimeout, 5*time.Second)
	fill(&o.SlowAfter, time.Second)
	fill(&o.WaitMax, 30*time.Second)
	fill(&o.PerTarget, 8)
	fill(&o.Quick, 128)
	fill(&o.Fresh, 64)
	fill(&o.Slow, 64)
	fill(&o.Overdue, 256)
	fill(&o.Failures, 10)
	fill(&o.CooldownMin, 5*time.Second)
	fill(&o.CooldownMax, 5*time.Minute)
	fill(&o.TargetQueueMax, 256)
	fill(&o.QueueMax, 1<<16)
	fill(&o.TargetsMax, 1<<16)
	return o
}

func fill[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

// flightsMax returns how many posts can be in flight in total.
func (o Options) flightsMax() int { return o.Quick + o.Fresh + o.Slow + o.Overdue }
