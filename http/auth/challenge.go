package auth

import (
	"encoding/hex"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"parley"
)

// ChallengeAlgorithm names the proof of work in registration answers.
const ChallengeAlgorithm = "sha256-hashcash"

// NewChallenge returns the random text of a proof-of-work challenge: 32 hex digits.
func NewChallenge(entropy parley.Entropy) string {
	b := draw(entropy)
	return hex.EncodeToString(b[8:24])
}

const (
	// freeRegistrations is how many registrations per address and hour cost nothing
	// extra.
	freeRegistrations = 10
	// extraBitsMax bounds the bits beyond the base that an address must find: 256 times
	// the work.
	extraBitsMax = 8
	// difficultyAddresses bounds the memory of Difficulty, in addresses.
	difficultyAddresses = 1 << 16
)

// Difficulty determines how many zero bits the next registration from an address has to
// find. It rises by one bit when the registrations of the last hour reach ten and by one
// more with each doubling, up to eight bits above the base. It is safe for concurrent
// use. // spec: Authentication
type Difficulty struct {
	base  int
	clock parley.Clock
	// seen is nil if the difficulty is fixed.
	seen *otter.Cache[string, *hourly]
}

// hourly counts events over a sliding hour, estimated from the counts of the
// current and the previous clock hour.
type hourly struct {
	mu       sync.Mutex
	hour     int64
	current  int
	previous int
}

// NewDifficulty returns a Difficulty that starts at base bits. It stays there if adaptive
// is false, as in development.
func NewDifficulty(base int, adaptive bool, clock parley.Clock) *Difficulty {
	d := &Difficulty{base: base, clock: clock}
	if adaptive {
		d.seen = otter.Must(&otter.Options[string, *hourly]{
			MaximumSize:      difficultyAddresses,
			ExpiryCalculator: otter.ExpiryAccessing[string, *hourly](2*time.Hour + time.Minute),
			Clock:            cacheClock{clock},
		})
	}
	return d
}

// Bits returns the difficulty of the next challenge for an address. The address is the
// key by which the caller counts, for instance an IPv6 /64.
func (d *Difficulty) Bits(address string) int {
	if d.seen == nil {
		return d.base
	}
	cell, ok := d.seen.GetIfPresent(address)
	if !ok {
		return d.base
	}
	return d.base + min(extraBitsMax, bits.Len(uint(cell.count(d.clock(), 0)/freeRegistrations)))
}

// Count records one registration from an address.
func (d *Difficulty) Count(address string) {
	if d.seen == nil {
		return
	}
	cell, _ := d.seen.ComputeIfAbsent(address, func() (*hourly, bool) { return &hourly{}, false })
	cell.count(d.clock(), 1)
}

// count adds n events at now and returns the estimate for the hour that ends there.
func (h *hourly) count(now time.Time, n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch hour := now.Unix() / 3600; {
	case hour == h.hour+1:
		h.hour, h.previous, h.current = hour, h.current, 0
	case hour > h.hour+1:
		h.hour, h.previous, h.current = hour, 0, 0
	}
	h.current += n
	remaining := 3600 - now.Unix()%3600
	return h.current + h.previous*int(remaining)/3600
}

// Tries counts wrong nonces of challenges in memory, so that a client cannot make the
// server hash a sealed challenge without limit. It is bounded: when it is full, it
// forgets the challenges with the fewest tries, and a restart forgets all. It is safe for
// concurrent use.
type Tries struct {
	taken *otter.Cache[string, *atomic.Int32]
}

// triesChallenges bounds the memory of Tries, in challenges.
const triesChallenges = 1 << 16

// NewTries returns a Tries that forgets a challenge when it expires.
func NewTries(clock parley.Clock) *Tries {
	return &Tries{otter.Must(&otter.Options[string, *atomic.Int32]{
		MaximumSize:      triesChallenges,
		ExpiryCalculator: otter.ExpiryCreating[string, *atomic.Int32](parley.ChallengeLifetime + time.Minute),
		Clock:            cacheClock{clock},
	})}
}

// Take takes one of a challenge's tries before the nonce is checked, so that concurrent
// requests cannot exceed the limit. It returns false if none is left.
func (t *Tries) Take(challenge string) bool {
	taken, _ := t.taken.ComputeIfAbsent(challenge, func() (*atomic.Int32, bool) { return new(atomic.Int32), false })
	for {
		n := taken.Load()
		if n >= parley.ChallengeTriesMax {
			return false
		}
		if taken.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// GiveBack undoes a Take whose nonce was not wrong.
func (t *Tries) GiveBack(challenge string) {
	if taken, known := t.taken.GetIfPresent(challenge); known {
		taken.Add(-1)
	}
}

// cacheClock makes caches use the service's clock. It has no ticks: expired entries leave
// when others arrive.
type cacheClock struct{ now parley.Clock }

func (c cacheClock) NowNano() int64                      { return c.now().UnixNano() }
func (c cacheClock) Tick(time.Duration) <-chan time.Time { return nil }
