package auth

import (
	"encoding/hex"
	"math/bits"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"parley/client/parley"
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
// more with each doubling, up to eight bits above the base. It is a limit.Counter, so that
// the nodes of a cluster count together, and safe for concurrent use. // spec: Authentication
type Difficulty struct {
	base  int
	clock parley.Clock
	// seen is nil if the difficulty is fixed.
	seen *otter.Cache[string, *hourly]
	// note gets each registration, for the other nodes.
	note func(address string, n int)
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
	d := &Difficulty{base: base, clock: clock, note: func(string, int) {}}
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
	d.Spend(address, 1)
	d.note(address, 1)
}

// Report implements limit.Counter.
func (d *Difficulty) Report(note func(address string, n int)) { d.note = note }

// Spend implements limit.Counter. It counts as many registrations as raise the difficulty to
// its maximum, and no more.
func (d *Difficulty) Spend(address string, n int) {
	if d.seen == nil || n <= 0 {
		return
	}
	cell, _ := d.seen.ComputeIfAbsent(address, func() (*hourly, bool) { return &hourly{}, false })
	cell.count(d.clock(), min(n, freeRegistrations<<extraBitsMax))
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

// cacheClock makes caches use the service's clock. It has no ticks: expired entries leave
// when others arrive.
type cacheClock struct{ now parley.Clock }

func (c cacheClock) NowNano() int64                      { return c.now().UnixNano() }
func (c cacheClock) Tick(time.Duration) <-chan time.Time { return nil }
