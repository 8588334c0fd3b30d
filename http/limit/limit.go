// Package limit implements rate limits, memory budgets and places for searches. It knows
// neither requests nor answers: it takes a key and returns a decision with the numbers for
// its headers.
package limit

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"parley/client/parley"
)

// keysMax bounds the memory of one Limiter, in keys. Beyond it the least used keys are
// forgotten, which gives them their whole burst again.
const keysMax = 1 << 16

// expirySlack covers the second by which the cache may drop a key early.
const expirySlack = 2 * time.Second

// stepMin is how far a clock must go back to count as set back. Smaller steps come from
// two goroutines that read it a moment apart.
const stepMin = time.Second

// Limiter implements GCRA: each key has a theoretical arrival time, which advances by one
// interval per admitted request and is never further ahead of the clock than the burst
// allows. A nil Limiter admits everything. It is safe for concurrent use and admits no
// more than its rate under contention.
type Limiter struct {
	limit    int
	interval int64 // nanoseconds one request takes from its key
	depth    int64 // nanoseconds of a whole burst
	clock    parley.Clock
	arrivals cells[atomic.Int64]
	// note, if set, gets what is admitted and given back, see Shared.
	note func(key string, n int)
}

// New returns a limiter that admits rate requests per window for each key, and bursts of
// up to burst requests at once. If rate is zero or less, there is no limit and the result
// is nil. A burst below one counts as the rate.
func New(rate int, window time.Duration, burst int, clock parley.Clock) *Limiter {
	if rate <= 0 {
		return nil
	}
	if burst < 1 {
		burst = rate
	}
	interval := max(1, int64(window)/int64(rate))
	depth := interval * int64(burst)
	// A key that has been idle for the time of a whole burst equals a new one.
	return &Limiter{limit: rate, interval: interval, depth: depth, clock: clock, arrivals: newCells[atomic.Int64](time.Duration(depth), clock)}
}

// most is how far the arrival time of a key may be ahead of the clock: a burst, and with what
// other nodes have admitted meanwhile two.
func (l *Limiter) most() int64 {
	if l.note == nil {
		return l.depth
	}
	return 2 * l.depth
}

// Limit returns the rate per window, for the header that states it. 0 means no limit.
func (l *Limiter) Limit() int {
	if l == nil {
		return 0
	}
	return l.limit
}

// Take counts one request of a key. If it is admitted, remaining is how many more would
// be at this instant. If it is rejected, nothing is taken and retryAfter is the time
// until one would be admitted. reset is the time until the key has its whole burst again.
func (l *Limiter) Take(key string) (ok bool, remaining int, retryAfter, reset time.Duration) {
	if l == nil {
		return true, 0, 0, 0
	}
	cell := l.arrivals.of(key)
	for {
		now, was := l.clock().UnixNano(), cell.Load()
		if was-now > l.most()+int64(stepMin) {
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
			if l.note != nil {
				l.note(strings.Clone(key), 1) // so that key need not be on the heap
			}
			return true, int((l.depth - (next - now)) / l.interval), 0, time.Duration(next - now)
		}
	}
}

// GiveBack undoes a Take that was admitted.
func (l *Limiter) GiveBack(key string) {
	if l == nil {
		return
	}
	if cell, found := l.arrivals.GetIfPresent(key); found {
		cell.Add(-l.interval)
	}
	if l.note != nil {
		l.note(strings.Clone(key), -1)
	}
}

// Wait returns the time until a request of a key would be admitted, zero if one would be
// now, and the time until the key has its whole burst again. It takes nothing.
func (l *Limiter) Wait(key string) (wait, reset time.Duration) {
	if l == nil {
		return 0, 0
	}
	cell, found := l.arrivals.GetIfPresent(key)
	if !found {
		return 0, 0
	}
	now := l.clock().UnixNano()
	used := min(cell.Load()-now, l.most()) // more means that the clock was set back
	return time.Duration(max(0, used+l.interval-l.depth)), time.Duration(max(0, used))
}

// Seconds rounds a wait up to whole seconds, at least one, as Retry-After and
// RateLimit-Reset state it.
func Seconds(wait time.Duration) int {
	return max(1, int((wait+time.Second-1)/time.Second))
}

// Poll is the limit of the poll endpoint, in requests per minute. 0 means no limit of
// that kind. // spec: Limits
type Poll struct {
	PerAddress int
	PerToken   int
}

// PollDefault is the limit of the specification.
var PollDefault = Poll{PerAddress: 60, PerToken: 20}

// ErrPoll means that a text is not a poll limit.
var ErrPoll = errors.New("a poll limit is written like 60/20: per address / per token and minute; 0 lifts")

// ParsePoll parses "60/20": per address / per token and minute. "0" alone means no
// limits; another single number applies to both.
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

// AddressKey returns the key of a client address: an IPv4 address, also if it is mapped
// into IPv6, or the /64 network of an IPv6 one, because a single customer has all of
// that. Zones are dropped.
func AddressKey(address netip.Addr) string {
	address = address.Unmap()
	if address.Is6() {
		network := address.As16()
		return string(network[:8])
	}
	return string(address.AsSlice())
}

// cells hold a value for each recently used key, bounded in number.
type cells[T any] struct{ *otter.Cache[string, *T] }

// newCells returns cells that drop keys that have been idle for the time rest.
func newCells[T any](rest time.Duration, clock parley.Clock) cells[T] {
	return cells[T]{otter.Must(&otter.Options[string, *T]{
		MaximumSize: keysMax, ExpiryCalculator: otter.ExpiryAccessing[string, *T](rest + expirySlack), Clock: cacheClock{clock},
	})}
}

// of returns the cell of a key.
func (c cells[T]) of(key string) *T {
	cell, found := c.GetIfPresent(key)
	if !found {
		// The key outlives the call, but may be a view of a reused buffer.
		cell, _ = c.ComputeIfAbsent(strings.Clone(key), func() (*T, bool) { return new(T), false })
	}
	return cell
}

// cacheClock makes the cache use the service's clock. It has no ticks: expired keys leave
// when others arrive.
type cacheClock struct{ now parley.Clock }

func (c cacheClock) NowNano() int64                      { return c.now().UnixNano() }
func (c cacheClock) Tick(time.Duration) <-chan time.Time { return nil }
