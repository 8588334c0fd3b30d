package delivery

import "time"

const (
	// ThrottleWindow is the time in which requests and deliveries are weighed against
	// each other.
	ThrottleWindow = 100 * time.Millisecond
	// ThrottleShare is how many requests are answered for each delivery, at most, while
	// both want the processor.
	ThrottleShare = 20
	// throttleGrowth is how many times as many may begin in a window after one in which the
	// processor was not short.
	throttleGrowth = 1.5
	// throttleRatio is how many times as many deliveries as requests there may be before
	// it is the deliveries alone that keep the processor busy.
	throttleRatio = 4
	// ThrottleRound is how often those that have stepped back are looked at again.
	ThrottleRound = 10 * time.Millisecond
	// ThrottlePatience is how long a webhook steps back at most. With what an attempt
	// may last it stays below the life of a lease.
	ThrottlePatience = 10 * time.Second
)

// Load tells how many requests were answered since the start, and whether the
// processor is short. It is asked ten times a second at most.
type Load func() (answered uint64, short bool)

// throttle lets deliveries step back while requests want the whole processor: what
// waits is durable, and who asks is waiting. It halves what may begin with each
// window in which the processor is short, down to a share of the requests, and
// lets it grow with each in which it is not. Its owner guards it.
type throttle struct {
	load     Load
	since    time.Time
	answered uint64
	// limited: no more may begin in a window than step; room is what is left of it,
	// below zero where more began than was foreseen.
	limited       bool
	limit, budget float64
	// begun and woken count attempts and webhooks of the window; each is how many
	// attempts a webhook that is woken begins.
	begun, woken int
	perWebhook   float64
}

// update ends a window that is over and says what may begin in the next.
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
		// What was not used needs no limit.
		p.limited, p.limit = began > p.limit/4, throttleGrowth*max(p.limit, 1)
	}
	if p.limited {
		p.budget = min(p.budget, 0) + p.limit
	}
}

// learnRatio takes the window into what is known of each webhook that is woken: some
// are woken only to note how an attempt ended.
func (p *throttle) learnRatio() {
	if p.woken == 0 {
		return
	}
	p.perWebhook = (p.perWebhook + max(0.5, float64(p.begun)/float64(p.woken))) / 2
}

// wake says how many of so many webhooks may be woken now.
func (p *throttle) wake(many int) int {
	if p.limited {
		each := max(p.perWebhook, 0.5)
		many = min(many, max(0, int(p.budget/each+0.5)))
		p.budget -= float64(many) * each
	}
	p.woken += many
	return many
}

// began counts attempts.
func (p *throttle) began(attempts int) { p.begun += attempts }
