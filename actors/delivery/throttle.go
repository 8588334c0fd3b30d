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
	// paceCrowd is how many times as many deliveries as requests there may be before
	// it is the deliveries alone that keep the processor busy.
	paceCrowd = 4
	// ThrottleRound is how often those that have stepped back are looked at again.
	ThrottleRound = 10 * time.Millisecond
	// ThrottlePatience is how long a webhook steps back at most. With what an attempt
	// may last it stays below the life of a lease.
	ThrottlePatience = 10 * time.Second
)

// Demand tells how many requests were answered since the start, and whether the
// processor is short. It is asked ten times a second at most.
type Demand func() (answered uint64, short bool)

// pace lets deliveries step back while requests want the whole processor: what
// waits is durable, and who asks is waiting. It halves what may begin with each
// window in which the processor is short, down to a share of the requests, and
// lets it grow with each in which it is not. Its owner guards it.
type pace struct {
	demand   Demand
	since    time.Time
	answered uint64
	// limited: no more may begin in a window than step; room is what is left of it,
	// below zero where more began than was foreseen.
	limited    bool
	step, room float64
	// begun and woken count attempts and webhooks of the window; each is how many
	// attempts a webhook that is woken begins.
	begun, woken int
	each         float64
}

// look ends a window that is over and says what may begin in the next.
func (p *pace) look(now time.Time) {
	if p.demand == nil || now.Sub(p.since) < ThrottleWindow {
		return
	}
	answered, short := p.demand()
	came := float64(answered - p.answered)
	if p.since.IsZero() {
		came = 0
	}
	p.since, p.answered = now, answered
	p.learn()
	began := float64(p.begun)
	p.begun, p.woken = 0, 0
	switch least := came / ThrottleShare; {
	case came == 0:
		p.limited = false
	case short && began <= paceCrowd*came:
		if !p.limited {
			p.limited, p.step, p.room = true, began, 0
		}
		p.step = max(p.step/2, least)
	case p.limited:
		// What was not used needs no limit.
		p.limited, p.step = began > p.step/4, throttleGrowth*max(p.step, 1)
	}
	if p.limited {
		p.room = min(p.room, 0) + p.step
	}
}

// learn takes the window into what is known of each webhook that is woken: some
// are woken only to note how an attempt ended.
func (p *pace) learn() {
	if p.woken == 0 {
		return
	}
	p.each = (p.each + max(0.5, float64(p.begun)/float64(p.woken))) / 2
}

// wake says how many of so many webhooks may be woken now.
func (p *pace) wake(many int) int {
	if p.limited {
		each := max(p.each, 0.5)
		many = min(many, max(0, int(p.room/each+0.5)))
		p.room -= float64(many) * each
	}
	p.woken += many
	return many
}

// began counts attempts.
func (p *pace) began(attempts int) { p.begun += attempts }
