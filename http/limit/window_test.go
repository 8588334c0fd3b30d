package limit_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/http/limit"
)

// poller takes one request of an address and a token, as the poll endpoint does.
type poller func(address, token string) limit.Standing

func windows(perAddress, perToken int, clock *hand) poller {
	a, k := limit.NewWindow(perAddress, time.Minute, clock.now), limit.NewWindow(perToken, time.Minute, clock.now)
	return func(address, token string) limit.Standing {
		return limit.TakeAll(limit.Draw{Window: a, Key: address}, limit.Draw{Window: k, Key: token})
	}
}

// pollStep is one request after a pause.
type pollStep struct {
	pause          time.Duration
	address, token int
}

// windowOracle records every request that was accepted.
type windowOracle struct {
	clock  *hand
	passed map[string][]time.Time
}

// within returns how many requests of a key were accepted in the minute that ends now,
// and the times of the oldest and the newest of them.
func (o *windowOracle) within(key string) (n int, oldest, newest time.Time) {
	for _, at := range o.passed[key] {
		if o.clock.now().Sub(at) < time.Minute {
			if n == 0 {
				oldest = at
			}
			n, newest = n+1, at
		}
	}
	return n, oldest, newest
}

// want returns the standing that a request must get.
func (o *windowOracle) want(limits map[string]int, keys ...string) limit.Standing {
	met := limit.Standing{OK: true}
	for _, key := range keys {
		if n, _, _ := o.within(key); n >= limits[key] {
			met.OK = false
		}
	}
	if met.OK {
		for _, key := range keys {
			o.passed[key] = append(o.passed[key], o.clock.now())
		}
	}
	for i, key := range keys {
		n, oldest, newest := o.within(key)
		s := limit.Standing{OK: met.OK, Limit: limits[key], Remaining: limits[key] - n}
		if n > 0 {
			s.Reset = newest.Add(time.Minute).Sub(o.clock.now())
		}
		if !met.OK && s.Remaining == 0 {
			s.RetryAfter = oldest.Add(time.Minute).Sub(o.clock.now())
		}
		if i == 0 || met.OK && s.Remaining < met.Remaining || !met.OK && s.RetryAfter > met.RetryAfter {
			met = s
		}
	}
	return met
}

// windowsFault compares a poller with the oracle and with the rule that no minute has
// more requests than the limit.
func windowsFault(perAddress, perToken int, steps []pollStep, clock *hand, poll poller) string {
	o := &windowOracle{clock: clock, passed: map[string][]time.Time{}}
	seen := map[string][]time.Time{}
	limits := map[string]int{}
	for i, s := range steps {
		clock.advance(s.pause)
		address, token := fmt.Sprint("address ", s.address), fmt.Sprint("token ", s.token)
		limits[address], limits[token] = perAddress, perToken
		want, got := o.want(limits, address, token), poll(address, token)
		if got.OK {
			seen[address], seen[token] = append(seen[address], clock.now()), append(seen[token], clock.now())
		}
		if got != want {
			return fmt.Sprintf("request %d: %+v, want %+v", i, got, want)
		}
	}
	for key, all := range seen {
		for i := range all {
			n := 0
			for n < len(all)-i && all[i+n].Sub(all[i]) < time.Minute {
				n++
			}
			if n > limits[key] {
				return fmt.Sprintf("%d requests of %s in a minute, %d allowed", n, key, limits[key])
			}
		}
	}
	return ""
}

// TestWindowsMatchTheOracle: for each request the windows give the same answer as an
// oracle that keeps all accepted requests.
func TestWindowsMatchTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perAddress, perToken := rapid.IntRange(1, 9).Draw(t, "per address"), rapid.IntRange(1, 6).Draw(t, "per token")
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pollStep {
			pause := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(20*time.Second)), rapid.Just(int64(time.Minute)), rapid.Just(int64(time.Minute-1)))
			return pollStep{time.Duration(pause.Draw(t, "pause")), rapid.IntRange(0, 2).Draw(t, "address"), rapid.IntRange(0, 2).Draw(t, "token")}
		}), 1, 120).Draw(t, "steps")
		clock := newHand()
		if fault := windowsFault(perAddress, perToken, steps, clock, windows(perAddress, perToken, clock)); fault != "" {
			t.Fatal(fault)
		}
	})
}

// TestWindowsMatchTheOracleControl: pollers that count differently are detected.
func TestWindowsMatchTheOracleControl(t *testing.T) {
	const perAddress, perToken = 6, 2
	steps := slices.Concat(
		slices.Repeat([]pollStep{{}}, 4), // the token's window refuses two of them, and no window counts these
		slices.Repeat([]pollStep{{token: 1}, {token: 2}}, 3),
		slices.Repeat([]pollStep{{pause: 31 * time.Second}}, 4),
		[]pollStep{{pause: time.Hour}},
	)
	one := func(l *limit.Limiter, key string) limit.Standing {
		ok, remaining, retry, reset := l.Take(key)
		return limit.Standing{OK: ok, Limit: l.Limit(), Remaining: remaining, RetryAfter: retry, Reset: reset}
	}
	for defect, make := range map[string]func(*hand) poller{
		"": func(clock *hand) poller { return windows(perAddress, perToken, clock) },
		"a rate instead of a window": func(clock *hand) poller {
			k := limit.New(perToken, time.Minute, perToken, clock.now)
			return func(_, token string) limit.Standing { return one(k, token) }
		},
		"refused ones count": func(clock *hand) poller {
			a, k := limit.NewWindow(perAddress, time.Minute, clock.now), limit.NewWindow(perToken, time.Minute, clock.now)
			return func(address, token string) limit.Standing {
				first := limit.TakeAll(limit.Draw{Window: a, Key: address})
				if second := limit.TakeAll(limit.Draw{Window: k, Key: token}); !second.OK || second.Remaining < first.Remaining {
					return second
				}
				return first
			}
		},
		"only the token": func(clock *hand) poller {
			k := limit.NewWindow(perToken, time.Minute, clock.now)
			return func(_, token string) limit.Standing { return limit.TakeAll(limit.Draw{Window: k, Key: token}) }
		},
		"another length": func(clock *hand) poller {
			a, k := limit.NewWindow(perAddress, time.Minute, clock.now), limit.NewWindow(perToken, time.Minute+1, clock.now)
			return func(address, token string) limit.Standing {
				return limit.TakeAll(limit.Draw{Window: a, Key: address}, limit.Draw{Window: k, Key: token})
			}
		},
	} {
		clock := newHand()
		if fault := windowsFault(perAddress, perToken, steps, clock, make(clock)); (fault == "") != (defect == "") {
			t.Errorf("%s: %q", defect, fault)
		}
	}
}

// TestConcurrentRequestsGetNoMoreThanTheWindows: of many simultaneous requests, twenty
// per token and sixty per address are accepted, and the address uses its whole limit.
func TestConcurrentRequestsGetNoMoreThanTheWindows(t *testing.T) {
	clock := newHand()
	poll := windows(60, 20, clock)
	var passed [4]atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				for token := range passed {
					if poll("address", fmt.Sprint(token)).OK {
						passed[token].Add(1)
					}
				}
			}
		})
	}
	group.Wait()
	all := int64(0)
	for token := range passed {
		n := passed[token].Load()
		if all += n; n > 20 {
			t.Errorf("%d requests of token %d were accepted", n, token)
		}
	}
	if all != 60 {
		t.Errorf("%d requests of the address were accepted, want 60", all)
	}
}

func TestClockSetBackCostsAtMostOneWindow(t *testing.T) {
	clock := newHand()
	w := limit.NewWindow(2, time.Minute, clock.now)
	take := func() limit.Standing { return limit.TakeAll(limit.Draw{Window: w, Key: "k"}) }
	take()
	clock.advance(-time.Hour)
	if s := take(); !s.OK || s.Reset > time.Minute {
		t.Fatalf("after a step back: %+v", s)
	}
	if s := take(); s.OK || s.RetryAfter > time.Minute {
		t.Fatalf("beyond the limit: %+v", s)
	}
	clock.advance(time.Minute)
	if s := take(); !s.OK {
		t.Fatalf("a minute later: %+v", s)
	}
}

func TestZeroMeansNoWindow(t *testing.T) {
	clock := newHand()
	none, some := limit.NewWindow(0, time.Minute, clock.now), limit.NewWindow(1, time.Minute, clock.now)
	for range 100 {
		if s := limit.TakeAll(limit.Draw{Window: none, Key: "k"}); !s.OK || s.Limit != 0 {
			t.Fatalf("a window without a limit: %+v", s)
		}
	}
	for i, want := range []bool{true, false} {
		if s := limit.TakeAll(limit.Draw{Window: none, Key: "k"}, limit.Draw{Window: some, Key: "k"}); s.OK != want || s.Limit != 1 {
			t.Fatalf("request %d, with another window without a limit: %+v", i, s)
		}
	}
}

// TestWaitTakesNothing: Wait returns what Take then does, and takes nothing.
func TestWaitTakesNothing(t *testing.T) {
	clock := newHand()
	l := limit.New(20, time.Minute, 20, clock.now)
	if wait, reset := l.Wait("k"); wait != 0 || reset != 0 {
		t.Fatalf("an unknown key waits %v, reset %v", wait, reset)
	}
	for range 20 {
		if wait, _ := l.Wait("k"); wait != 0 {
			t.Fatalf("waits %v although a request would be accepted", wait)
		}
		l.Take("k")
	}
	wait, reset := l.Wait("k")
	if wait != 3*time.Second || reset != time.Minute {
		t.Fatalf("%v, %v", wait, reset)
	}
	clock.advance(wait - 1)
	if wait, _ := l.Wait("k"); wait != 1 {
		t.Fatalf("%v a nanosecond before the end of the wait", wait)
	}
	clock.advance(1)
	if wait, _ := l.Wait("k"); wait != 0 {
		t.Fatalf("%v after the end of the wait", wait)
	}
	if ok, _, _, _ := l.Take("k"); !ok {
		t.Fatal("refused after the wait")
	}
	if wait, reset := (*limit.Limiter)(nil).Wait("k"); wait != 0 || reset != 0 {
		t.Fatal("a window without a limit makes callers wait")
	}
}
