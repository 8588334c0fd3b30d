package limit_test

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"parley/http/limit"
)

// hand is a clock that a test sets.
type hand struct{ nanos atomic.Int64 }

func newHand() *hand {
	h := &hand{}
	h.nanos.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano())
	return h
}

func (h *hand) now() time.Time          { return time.Unix(0, h.nanos.Load()) }
func (h *hand) advance(d time.Duration) { h.nanos.Add(int64(d)) }

func TestBurstIsAcceptedAndTheNextRefused(t *testing.T) {
	clock := newHand()
	l := limit.New(60, time.Minute, 60, clock.now)
	for i := range 60 {
		ok, remaining, retryAfter, reset := l.Take("a")
		if !ok || remaining != 59-i || retryAfter != 0 || reset != time.Duration(i+1)*time.Second {
			t.Fatalf("request %d: %v, %d left, retry %v, reset %v", i, ok, remaining, retryAfter, reset)
		}
	}
	ok, remaining, retryAfter, reset := l.Take("a")
	if ok || remaining != 0 || retryAfter != time.Second || reset != time.Minute {
		t.Fatalf("request 61: %v, %d left, retry %v, reset %v", ok, remaining, retryAfter, reset)
	}
	if ok, _, _, _ := l.Take("b"); !ok {
		t.Fatal("another key was refused")
	}
	clock.advance(time.Second - 1)
	if ok, _, _, _ := l.Take("a"); ok {
		t.Fatal("accepted a nanosecond too early")
	}
	clock.advance(1)
	if ok, _, _, _ := l.Take("a"); !ok {
		t.Fatal("refused although the wait is over")
	}
	clock.advance(time.Hour)
	if _, remaining, _, _ := l.Take("a"); remaining != 59 {
		t.Fatalf("%d left after a long pause", remaining)
	}
}

// taker is the interface of a limiter for its users.
type taker interface {
	Take(key string) (ok bool, remaining int, retryAfter, reset time.Duration)
}

// windowFault sends requests after the given gaps and waits as long as the limiter
// demands. It returns a fault if any window has more requests than the burst plus what
// the rate adds, or if a wait was too short or longer than the interval of one request.
func windowFault(l taker, clock *hand, gaps []time.Duration, burst int, interval time.Duration) string {
	var passed []time.Time
	for _, gap := range gaps {
		clock.advance(gap)
		ok, _, retryAfter, _ := l.Take("k")
		if !ok {
			if retryAfter > interval {
				return fmt.Sprintf("told to wait %v, one request costs %v", retryAfter, interval)
			}
			clock.advance(retryAfter)
			if ok, _, _, _ = l.Take("k"); !ok {
				return fmt.Sprintf("refused after waiting the %v that were asked", retryAfter)
			}
		}
		passed = append(passed, clock.now())
	}
	for i := range passed {
		for j := i; j < len(passed); j++ {
			if allowed := burst + int(passed[j].Sub(passed[i])/interval); j-i+1 > allowed {
				return fmt.Sprintf("%d requests in %v, %d allowed", j-i+1, passed[j].Sub(passed[i]), allowed)
			}
		}
	}
	return ""
}

// TestNoWindowExceedsTheRate: no window of any length has more requests than the burst
// plus what the rate adds.
func TestNoWindowExceedsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.IntRange(1, 40).Draw(t, "rate"), rapid.IntRange(1, 40).Draw(t, "burst")
		clock := newHand()
		interval := time.Minute / time.Duration(rate)
		gap := rapid.Map(rapid.Int64Range(0, int64(2*interval)), func(n int64) time.Duration { return time.Duration(n) })
		gaps := rapid.SliceOfN(gap, 1, 200).Draw(t, "gaps")
		if fault := windowFault(limit.New(rate, time.Minute, burst, clock.now), clock, gaps, burst, interval); fault != "" {
			t.Fatal(fault)
		}
	})
}

func TestConcurrentRequestsGetNoMoreThanTheBurst(t *testing.T) {
	const burst, takers, each = 100_000, 8, 25_000
	clock := newHand()
	l := limit.New(burst, time.Minute, burst, clock.now)
	var passed atomic.Int64
	var group sync.WaitGroup
	for range takers {
		group.Go(func() {
			for range each {
				if ok, _, _, _ := l.Take("k"); ok {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if passed.Load() != burst {
		t.Fatalf("%d of %d passed, want %d", passed.Load(), takers*each, burst)
	}
}

func TestClockSetBackCostsAtMostOneBurst(t *testing.T) {
	clock := newHand()
	l := limit.New(60, time.Minute, 2, clock.now)
	l.Take("k")
	clock.advance(-time.Hour)
	if ok, _, retryAfter, _ := l.Take("k"); ok || retryAfter > 2*time.Second {
		t.Fatalf("after a step back: %v, retry %v", ok, retryAfter)
	}
	clock.advance(time.Second)
	if ok, _, _, _ := l.Take("k"); !ok {
		t.Fatal("still refused a second later")
	}
}

// TestKeyIsCopied: servers reuse the memory that a key was read from.
func TestKeyIsCopied(t *testing.T) {
	l := limit.New(1, time.Minute, 1, newHand().now)
	buffer := []byte("first")
	if ok, _, _, _ := l.Take(unsafe.String(&buffer[0], len(buffer))); !ok {
		t.Fatal("the first request was refused")
	}
	copy(buffer, "other")
	if ok, _, _, _ := l.Take("first"); ok {
		t.Fatal("the key changed with the buffer it was read from")
	}
	if ok, _, _, _ := l.Take("other"); !ok {
		t.Fatal("another key was refused")
	}
}

func TestZeroMeansNoLimit(t *testing.T) {
	l := limit.New(0, time.Minute, 0, newHand().now)
	for range 1000 {
		if ok, _, _, _ := l.Take("k"); !ok {
			t.Fatal("a limiter without a limit refuses")
		}
	}
	if l.Limit() != 0 || limit.New(7, time.Minute, 7, newHand().now).Limit() != 7 {
		t.Fatal("the stated limit is wrong")
	}
}

// TestNoGoroutineIsLeft: a virtual clock stands still when its test ends, so no
// goroutine may be left that waits for it.
func TestNoGoroutineIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(1, time.Minute, 1, time.Now)
		for i, want := range []bool{true, false} {
			if ok, _, _, _ := l.Take("k"); ok != want {
				t.Fatalf("request %d: %v", i, ok)
			}
		}
		time.Sleep(time.Minute)
		if ok, _, _, _ := l.Take("k"); !ok {
			t.Fatal("refused a minute later")
		}
	})
}

func TestTakeAllocatesNothing(t *testing.T) {
	l := limit.New(1_000_000, time.Minute, 1_000_000, newHand().now)
	l.Take("k")
	if n := testing.AllocsPerRun(1000, func() { l.Take("k") }); n != 0 {
		t.Fatalf("%v allocations per request", n)
	}
}

func TestSeconds(t *testing.T) {
	for wait, want := range map[time.Duration]int{0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, time.Minute: 60} {
		if got := limit.Seconds(wait); got != want {
			t.Errorf("%v: %d, want %d", wait, got, want)
		}
	}
}

func TestParsePoll(t *testing.T) {
	good := map[string]limit.Poll{
		"60/20": {PerAddress: 60, PerToken: 20}, "0": {}, "0/20": {PerToken: 20}, "60/0": {PerAddress: 60},
		"5": {PerAddress: 5, PerToken: 5}, " 7 / 8 ": {PerAddress: 7, PerToken: 8},
	}
	for text, want := range good {
		if got, err := limit.ParsePoll(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/", "60/", "/20", "-1/2", "1/2/3", "a/b", "1e3", "99999999999"} {
		if got, err := limit.ParsePoll(text); !errors.Is(err, limit.ErrPoll) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if limit.PollDefault.String() != "60/20" {
		t.Errorf("the default is %s", limit.PollDefault)
	}
}

func TestAddressKey(t *testing.T) {
	key := func(text string) string { return limit.AddressKey(netip.MustParseAddr(text)) }
	same := [][2]string{{"2001:db8::1", "2001:db8::ffff:1:2:3"}, {"192.0.2.1", "::ffff:192.0.2.1"}, {"fe80::1%eth0", "fe80::2"}}
	for _, pair := range same {
		if key(pair[0]) != key(pair[1]) {
			t.Errorf("%v have different keys", pair)
		}
	}
	other := [][2]string{{"2001:db8::1", "2001:db8:0:1::1"}, {"192.0.2.1", "192.0.2.2"}, {"0.0.0.0", "::"}}
	for _, pair := range other {
		if key(pair[0]) == key(pair[1]) {
			t.Errorf("%v share a key", pair)
		}
	}
}
