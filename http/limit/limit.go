// Package limit holds clients to a rate. It knows neither requests nor answers:
// a key goes in, a decision with the numbers for its headers comes out.
package limit

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"parley"
)

// keysMax bounds the memory of one Limiter, in keys. Beyond it the keys that
// are least used are forgotten, which gives them their whole burst back.
const keysMax = 1 << 16

// expirySlack covers the second by which the cache may forget a key early.
const expirySlack = 2 * time.Second

// stepMin is how far a clock must have gone back to count as set back. Less is
// two goroutines that read it a moment apart.
const stepMin = time.Second

// Limiter is GCRA: each key has a theoretical arrival time, moved on by one
// interval per request that is let through and never further ahead of the clock
// than the burst allows. A nil Limiter lets everything through. It is safe for
// concurrent use and lets through no more than its rate under contention.
type Limiter struct {
	limit    int
	interval int64 // nanoseconds one request takes from its key
	depth    int64 // nanoseconds of a whole burst
	clock    parley.Clock
	arrivals cells[atomic.Int64]
}

// New lets rate requests per window through for each key, and bursts of up to
// burst requests at once. A rate of zero or less lifts the limit: the result is
// nil. A burst below one counts as the rate.
func New(rate int, window time.Duration, burst int, clock parley.Clock) *Limiter {
	if rate <= 0 {
		return nil
	}
	if burst < 1 {
		burst = rate
	}
	interval := max(1, int64(window)/int64(rate))
	depth := interval * int64(burst)
	// A key at rest for the time of a whole burst is as good as a new one.
	return &Limiter{limit: rate, interval: interval, depth: depth, clock: clock, arrivals: newCells[atomic.Int64](time.Duration(depth), clock)}
}

// Limit is the rate per window, for the header that states it; 0: lifted.
func (l *Limiter) Limit() int {
	if l == nil {
		return 0
	}
	return l.limit
}

// Take asks for one request of a key. When it is let through, remaining is how
// many more would be at this instant. When it is refused, nothing is taken and
// retryAfter is the time until one would be let through. reset is the time
// until the key has its whole burst again.
func (l *Limiter) Take(key string) (ok bool, remaining int, retryAfter, reset time.Duration) {
	if l == nil {
		return true, 0, 0, 0
	}
	cell := l.arrivals.of(key)
	for {
		now, was := l.clock().UnixNano(), cell.Load()
		if was-now > l.depth+int64(stepMin) {
			// The clock was set back: the key must not wait for the difference.
			cell.CompareAndSwap(was, now+l.depth)
			continue
		}
		arrival := max(was, now)
		next := arrival + l.interval
		if wait := next - l.depth - now; wait > 0 {
			return false, 0, time.Duration(wait), time.Duration(arrival - now)
		}
		if cell.CompareAndSwap(was, next) {
			return true, int((l.depth - (next - now)) / l.interval), 0, time.Duration(next - now)
		}
	}
}

// GiveBack undoes a Take that was let through.
func (l *Limiter) GiveBack(key string) {
	if l == nil {
		return
	}
	if cell, found := l.arrivals.GetIfPresent(key); found {
		cell.Add(-l.interval)
	}
}

// Wait is how long until a request of a key would be let through, zero if one
// would be now, and the time until the key has its whole burst again. Nothing is
// taken.
func (l *Limiter) Wait(key string) (wait, reset time.Duration) {
	if l == nil {
		return 0, 0
	}
	cell, found := l.arrivals.GetIfPresent(key)
	if !found {
		return 0, 0
	}
	now := l.clock().UnixNano()
	used := min(cell.Load()-now, l.depth) // more is of a clock that was set back
	return time.Duration(max(0, used+l.interval-l.depth)), time.Duration(max(0, used))
}

// Seconds rounds a wait up to whole seconds, at least one, as Retry-After and
// RateLimit-Reset state it.
func Seconds(wait time.Duration) int {
	return max(1, int((wait+time.Second-1)/time.Second))
}

// Poll is the limit of the poll endpoint, in requests per minute; 0 lifts one
// of the two. // spec: Limits
type Poll struct {
	PerAddress int
	PerToken   int
}

// PollDefault is the specification's.
var PollDefault = Poll{PerAddress: 60, PerToken: 20}

// ErrPoll says that a text is not a poll limit.
var ErrPoll = errors.New("a poll limit is written like 60/20: per address / per token and minute; 0 lifts")

// ParsePoll reads "60/20": per address / per token and minute. "0" alone lifts
// both, another single number holds for both.
func ParsePoll(text string) (Poll, error) {
	left, right, both := strings.Cut(text, "/")
	if !both {
		right = left
	}
	address, err := parseRate(left)
	if err != nil {
		return Poll{}, err
	}
	token, err := parseRate(right)
	if err != nil {
		return Poll{}, err
	}
	return Poll{PerAddress: address, PerToken: token}, nil
}

func parseRate(text string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil {
		return 0, ErrPoll
	}
	return int(n), nil
}

func (p Poll) String() string { return strconv.Itoa(p.PerAddress) + "/" + strconv.Itoa(p.PerToken) }

// AddressKey is the key of a client address: an IPv4 address, also when it is
// mapped into IPv6, or the /64 network of an IPv6 one, since a single customer
// commands all of that. Zones are dropped.
func AddressKey(address netip.Addr) string {
	address = address.Unmap()
	if address.Is6() {
		network := address.As16()
		return string(network[:8])
	}
	return string(address.AsSlice())
}

// cells hold something for each key that asked of late, bounded in number.
type cells[T any] struct{ *otter.Cache[string, *T] }

// newCells forgets keys that have not asked for as long as rest.
func newCells[T any](rest time.Duration, clock parley.Clock) cells[T] {
	return cells[T]{otter.Must(&otter.Options[string, *T]{
		MaximumSize: keysMax, ExpiryCalculator: otter.ExpiryAccessing[string, *T](rest + expirySlack), Clock: cacheClock{clock},
	})}
}

// of is the cell of a key.
func (c cells[T]) of(key string) *T {
	cell, found := c.GetIfPresent(key)
	if !found {
		// The key outlives the call: it may be a view of a reused buffer.
		cell, _ = c.ComputeIfAbsent(strings.Clone(key), func() (*T, bool) { return new(T), false })
	}
	return cell
}

// cacheClock lets the cache age by the clock that everything else reads. It has
// no ticks: expired keys leave when others arrive.
type cacheClock struct{ now parley.Clock }

func (c cacheClock) NowNano() int64                      { return c.now().UnixNano() }
func (c cacheClock) Tick(time.Duration) <-chan time.Time { return nil }
