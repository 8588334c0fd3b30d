package limit_test

import (
	"slices"
	"testing"
	"time"

	"parley/http/limit"
)

// crude is a limiter with typical mistakes.
type crude struct {
	clock *hand
	rate  int
	// aligned: the count starts again at each full minute, so that two bursts may meet
	// there.
	aligned bool
	// cost is what an accepted request adds to the count. refused: a refused request
	// counts too.
	cost    int
	refused bool
	from    time.Time
	used    int
}

func (c *crude) Take(string) (ok bool, remaining int, retryAfter, reset time.Duration) {
	now := c.clock.now()
	if start := now.Truncate(time.Minute); c.aligned && !start.Equal(c.from) {
		c.from, c.used = start, 0
	}
	if c.used+c.cost > c.rate {
		if c.refused {
			c.used++
		}
		return false, 0, time.Minute / time.Duration(c.rate), time.Minute
	}
	c.used += c.cost
	return true, c.rate - c.used, 0, time.Minute
}

// TestNoWindowExceedsTheRateControl: the check detects limiters that accept too many
// requests, or too few.
func TestNoWindowExceedsTheRateControl(t *testing.T) {
	const rate = 6
	interval := time.Minute / rate
	edge := slices.Concat([]time.Duration{59 * time.Second}, make([]time.Duration, rate-1), []time.Duration{time.Second}, make([]time.Duration, rate-1))
	burst := make([]time.Duration, 2*rate)
	slow := slices.Repeat([]time.Duration{interval}, 3*rate)
	for defect, c := range map[string]struct {
		limiter func(clock *hand) taker
		gaps    []time.Duration
		sound   bool
	}{
		"none, at the edge":    {func(clock *hand) taker { return limit.New(rate, time.Minute, rate, clock.now) }, edge, true},
		"none, a burst":        {func(clock *hand) taker { return limit.New(rate, time.Minute, rate, clock.now) }, burst, true},
		"none, slowly":         {func(clock *hand) taker { return limit.New(rate, time.Minute, rate, clock.now) }, slow, true},
		"two bursts meet":      {func(clock *hand) taker { return &crude{clock: clock, rate: rate, aligned: true, cost: 1} }, edge, false},
		"never counts":         {func(clock *hand) taker { return &crude{clock: clock, rate: rate} }, burst, false},
		"counts twice":         {func(clock *hand) taker { return limit.New(rate/2, time.Minute, rate/2, clock.now) }, burst, false},
		"never forgets":        {func(clock *hand) taker { return &crude{clock: clock, rate: rate, cost: 1} }, slow, false},
		"counts what it stops": {func(clock *hand) taker { return &crude{clock: clock, rate: rate, cost: 1, refused: true} }, burst, false},
	} {
		clock := newHand()
		if fault := windowFault(c.limiter(clock), clock, c.gaps, rate, interval); (fault == "") != c.sound {
			t.Errorf("%s: %q", defect, fault)
		}
	}
}
