package egress

import (
	"time"

	"parley"
)

// Options are the settings of a Sender. What is zero takes the default stated.
type Options struct {
	// Clock and Guard are required.
	Clock parley.Clock
	Guard *Guard
	// Brand names the signature header, X-<Brand>-Signature: svc.
	Brand string
	// Agent is the User-Agent: parley-webhooks.
	Agent string
	// FurtherRoots is a PEM text of certificates that are trusted beside the
	// system's: none.
	FurtherRoots []byte

	// Timeout bounds a whole attempt: 15 s. ConnectTimeout bounds reaching the
	// target, and then the TLS handshake: 5 s. // docs: webhooks.md
	Timeout        time.Duration
	ConnectTimeout time.Duration
	// SlowAfter is when a target that has not answered yet counts as slow: 1 s.
	SlowAfter time.Duration
	// WaitMax is how long a post may wait for its turn; later it is handed back
	// as held rather than sent: 30 s. With Timeout it must stay below the time
	// for which a job is leased.
	WaitMax time.Duration

	// PerTarget is how many posts fly to one target at once: 8. A target that
	// never answered yet has one, a slow one at most two.
	PerTarget int
	// Quick, Fresh and Slow are how many posts fly at once to all targets whose
	// last answer came in time, to those that have not answered yet, and to slow
	// ones: 128, 64, 64. No kind takes from another.
	Quick, Fresh, Slow int
	// Overdue is how many posts may go on flying beside those, because their
	// target turned out slow only while they flew: 256.
	Overdue int

	// Failures is after how many failures in a row a circuit opens: 10. It stays
	// open for CooldownMin, twice as long after each probe that fails, and never
	// longer than CooldownMax: 5 s, 5 min.
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

// flightsMax is how many posts can be under way at all.
func (o Options) flightsMax() int { return o.Quick + o.Fresh + o.Slow + o.Overdue }
