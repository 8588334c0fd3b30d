package delivery

import "time"

const (
	// ThrottleWindow is the time over which requests and deliveries are compared.
	ThrottleWindow = 100 * time.Millisecond
	// ThrottleShare bounds the throttle: at least one delivery begins for so many
	// answered requests.
	ThrottleShare = 20
	// throttleGrowth is the factor by which the limit grows after a window in which the
	// processor was not short.
	throttleGrowth = 1.5
	// throttleRatio is how many deliveries per request there may be before the
	// deliveries alone are taken to keep the processor busy; then they are not
	// throttled.
	throttleRatio = 4
	// ThrottleRound is how often throttled webhooks are considered again.
	ThrottleRound = 10 * time.Millisecond
	// ThrottlePatience is how long a webhook is throttled at most. Together with the
	// longest attempt it is shorter than the life of a lease.
	ThrottlePatience = 10 * time.Second
)

// Load returns how many requests were answered since the start, and whether the
// processor is short. It is called at most ten times a second.
type Load func() (answered uint64, short bool)

// throttle limits deliveries while requests need the whole processor: deliveries are
// durable and can wait, clients cannot. It halves the number of attempts that may begin
// with each window in which the processor is short, down to a share of the requests,
// and lets it grow with each window in which it is not. The caller serializes access.
type throttle struct {
	load     Load
	since    time.Time
	answered uint64
	// limited is set while at most limit attempts may begin in a window. budget is what
	// is left of it, below zero if more began than expected.
	limited       bool
	limit, budget float64
	// begun and woken count attempts and webhooks of the window; perWebhook estimates
	// how many attempts a woken webhook begins.
	begun, woken int
	perWebhook   float64
}

// update ends a window that is over and sets the budget of the next.
func (p *throttle) update(now time.Time) {
	if p.load == nil || now.Sub(p.since) < ThrottleWindow {
		return
	}
	answered, short := p.load()
	came := float64(answered - p.answered)
	if p.since.IsZero() {
		came = 0
	}
	p.since, p.answered = now, answered
	p.learnRatio()
	began := float64(p.begun)
	p.begun, p.woken = 0, 0
	switch least := came / ThrottleShare; {
	case came == 0:
		p.limited = false
	case short && began <= throttleRatio*came:
		if !p.limited {
			p.limited, p.limit, p.budget = true, began, 0
		}
		p.limit = max(p.limit/2, least)
	case p.limited:
		// A limit that was hardly used is removed.
		p.limited, p.limit = began > p.limit/4, throttleGrowth*max(p.limit, 1)
	}
	if p.limited {
		p.budget = min(p.budget, 0) + p.limit
	}
}

// learnRatio updates perWebhook with the window. Some webhooks are woken only to store
// outcomes and begin no attempt.
func (p *throttle) learnRatio() {
	if p.woken == 0 {
		return
	}
	p.perWebhook = (p.perWebhook + max(0.5, float64(p.begun)/float64(p.woken))) / 2
}

// wake returns how many of so many webhooks may be woken now, and counts them.
func (p *throttle) wake(many int) int {
	if p.limited {
		each := max(p.perWebhook, 0.5)
		many = min(many, max(0, int(p.budget/each+0.5)))
		p.budget -= float64(many) * each
	}
	p.woken += many
	return many
}

// began counts attempts that began.
func (p *throttle) began(attempts int) { p.begun += attempts }
