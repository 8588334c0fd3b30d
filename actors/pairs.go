package actors

import (
	"math"
	"sync"
	"time"

	"parley/client/parley"
)

// pairsMax is how many directions of pairs of agents are remembered. Those that could send as many
// messages as ever are forgotten first: nothing is lost with them.
const pairsMax = 2 * 65_536

// pairs bounds how fast two agents write to each other. Each direction has half of the rate for
// itself. It is in memory only: another node that leads begins anew, and lets through at most what
// was saved up. // docs: limits.md
type pairs struct {
	mu sync.Mutex
	// free is the instant from which a direction could send all that it may at once, in Unix
	// nanoseconds.
	free map[direction]int64
}

type direction struct{ from, to parley.AgentID }

var errPairRate = parley.Refuse(parley.RateLimited, "rate_limited", "These two agents write to each other too often. Try again later.").With("rate", "pair")

// take counts a message, of a pair that may exchange rate messages a minute, or refuses it.
func (p *pairs) take(d direction, rate int, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == nil {
		p.free = map[direction]int64{}
	}
	one := int64(time.Minute) / int64(max((rate+1)/2, 1))
	at := now.UnixNano()
	free := max(p.free[d], at)
	if wait := time.Duration(free + one - at - int64(time.Minute)); wait > 0 {
		return errPairRate.With("retry_after", int(math.Ceil(wait.Seconds()))).With("limit", max((rate+1)/2, 1))
	}
	if _, known := p.free[d]; !known && len(p.free) >= pairsMax {
		p.forget(at)
	}
	p.free[d] = free + one
	return nil
}

// giveBack takes back what take counted.
func (p *pairs) giveBack(d direction, rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[d] -= int64(time.Minute) / int64(max((rate+1)/2, 1))
}

// forget makes room: directions that have used nothing any more, or else one of those that have used
// least. The caller holds mu.
func (p *pairs) forget(at int64) {
	const looked = 64
	var least direction
	seen, gone, lowest := 0, 0, int64(math.MaxInt64)
	for d, free := range p.free {
		if free <= at {
			delete(p.free, d)
			gone++
		} else if free < lowest {
			least, lowest = d, free
		}
		if seen++; seen == looked {
			break
		}
	}
	if gone == 0 {
		delete(p.free, least)
	}
}
