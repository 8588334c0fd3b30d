package load

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestLadderFindsTheKnee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Four at a time for 2 ms each: exactly 2000 a second.
		s := &server{service: 2 * time.Millisecond, slots: make(chan struct{}, 4)}
		search := Search{
			Plan:  Plan{Clients: 16, WarmUp: 100 * time.Millisecond, Duration: 2 * time.Second},
			Bound: 10 * time.Millisecond,
		}
		var watched []float64
		climb, err := Ladder(t.Context(), search, s.dial, func(rate float64) Watch {
			watched = append(watched, rate)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(climb.Capacity-2000) > 20 || climb.Closed.Operations == 0 {
			t.Errorf("capacity %v", climb.Capacity)
		}
		if climb.Best == nil || climb.Best.Rate < 1880 || climb.Best.Rate > 2010 {
			t.Fatalf("best %+v", climb.Best)
		}
		if len(watched) != len(climb.Rungs)+1 || watched[0] != 0 {
			t.Errorf("watched %v of %d rungs", watched, len(climb.Rungs))
		}
	})
}

// TestLadderBisects: the closed loop reports a wrong rate, so the first steps miss the
// knee widely.
func TestLadderBisects(t *testing.T) {
	for name, boast := range map[string]float64{"between steps": 3, "under the first step": 12} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{service: 8 * time.Millisecond, slots: make(chan struct{}, 4)} // 500 a second
				s.service = time.Duration(float64(s.service) / boast)
				search := Search{
					Plan:      Plan{Clients: 12, Duration: 2 * time.Second},
					Bound:     40 * time.Millisecond,
					Precision: 0.02,
				}
				climb, err := Ladder(t.Context(), search, s.dial, func(rate float64) Watch {
					if rate > 0 {
						s.service = 8 * time.Millisecond
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(climb.Capacity-500*boast) > 25*boast {
					t.Errorf("capacity %v", climb.Capacity)
				}
				if climb.Best == nil || climb.Best.Rate < 480 || climb.Best.Rate > 515 {
					t.Fatalf("best %+v", climb.Best)
				}
				if len(climb.Rungs) > usualRungs {
					t.Errorf("%d rungs", len(climb.Rungs))
				}
			})
		})
	}
}

func TestRungsThatDoNotHold(t *testing.T) {
	search := Search{Plan: Plan{Clients: 1, Duration: 5 * time.Second}, Bound: 500 * time.Millisecond}.complete()
	measured := func(n, failures, inTime int64, latency func(i int64) time.Duration) *Measurement {
		m := &Measurement{Intended: n, Operations: n - failures, Failures: failures, InTime: inTime, Latency: NewHistogram()}
		for i := range n {
			m.Latency.Record(latency(i))
		}
		return m
	}
	steady := func(d time.Duration) func(int64) time.Duration { return func(int64) time.Duration { return d } }
	// A backlog that grows to a quarter of a second stays within the bound, but it
	// grows.
	growing := func(i int64) time.Duration { return time.Duration(i) * 50 * time.Microsecond }
	cases := map[string]struct {
		measurement *Measurement
		holds       bool
	}{
		"good":            {measured(5000, 0, 4999, steady(time.Millisecond)), true},
		"slow but steady": {measured(5000, 0, 4600, steady(400*time.Millisecond)), true},
		"one failure":     {measured(5000, 1, 4998, steady(time.Millisecond)), true},
		"failures":        {measured(5000, 50, 4950, steady(time.Millisecond)), false},
		"slow":            {measured(5000, 0, 4999, steady(600*time.Millisecond)), false},
		"growing backlog": {measured(5000, 0, 4750, growing), false},
	}
	for name, c := range cases {
		if fails := search.fails(c.measurement); (fails == "") != c.holds {
			t.Errorf("%s: %q", name, fails)
		}
	}
}

func TestLadderWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		search := Search{Plan: Plan{Clients: 2, Duration: time.Second}, Bound: time.Millisecond}
		s := &server{service: time.Millisecond, answer: func(int, int) error { return Refused{"full"} }}
		if climb, err := Ladder(t.Context(), search, s.dial, nil); err == nil || climb.Best != nil || climb.Closed.Reasons["full"] == 0 {
			t.Errorf("%v, %+v", err, climb)
		}
		gone := errors.New("gone")
		dial := func(context.Context, int) (Client, error) { return nil, gone }
		if _, err := Ladder(t.Context(), search, dial, nil); !errors.Is(err, gone) {
			t.Error(err)
		}
		search.Steps = []float64{0.5, 0.5}
		if _, err := Ladder(t.Context(), search, s.dial, nil); !errors.Is(err, errPlan) {
			t.Error(err)
		}
	})
}

func TestRatesAreRounded(t *testing.T) {
	for rate, want := range map[float64]float64{9876.54: 9880, 123: 123, 99.96: 100, 12.345: 12.3, 0.98765: 0.988, 123456: 123000} {
		if got := round(rate); got != want {
			t.Errorf("%v is rounded to %v, want %v", rate, got, want)
		}
	}
}
