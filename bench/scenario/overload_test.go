package scenario

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/result"
)

// observer counts the calls of a window.
type observer struct {
	mu           sync.Mutex
	began, ended int
	operations   int64
}

func (o *observer) Begin() { o.mu.Lock(); defer o.mu.Unlock(); o.began++ }
func (o *observer) End()   { o.mu.Lock(); defer o.mu.Unlock(); o.ended++ }
func (o *observer) Tick(s result.Second) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.operations += s.Operations
}

var _ load.Watch = (*observer)(nil)

// pressed runs one step of Overload over twenty connections; a rate of 0 is the closed loop.
func pressed(t *testing.T, h *Set, rate float64) (result.Run, *observer) {
	t.Helper()
	h.Params.Connections = 20
	looks := &observer{}
	plan := load.Plan{Rate: rate, WarmUp: 20 * time.Millisecond, Duration: 300 * time.Millisecond}
	run, err := runOnce(t, h, Overload, plan, around{meter: blindMeter{}, window: looks})
	if err != nil {
		t.Fatal(err)
	}
	return run, looks
}

func TestPressOpenLoop(t *testing.T) {
	h := newHost(t, sound)
	run, looks := pressed(t, h, 500)
	f := run.Figures
	if run.Failures != 0 || run.Operations < 100 || f[FigureRefused] != 0 || run.Service.Count == 0 {
		t.Errorf("%d operations, failures %v, figures %v", run.Operations, run.Reasons, f)
	}
	if math.Abs(f[FigureIntended]-500) > 5 {
		t.Errorf("intended 500 a second: %v", f)
	}
	if run.Service.P50 > run.Latency.P50 || run.Parts[PartLag].Count == 0 {
		t.Errorf("on the wire %v ms, from the intended time %v ms", run.Service.P50, run.Latency.P50)
	}
	if looks.began != 1 || looks.ended != 1 || looks.operations != run.Operations {
		t.Errorf("the window counted %+v of %d", looks, run.Operations)
	}
	v, err := h.Verify(t.Context())
	if err != nil || !v.Clean() || v.Found != v.Acknowledged || v.Found < run.Operations || v.Unknown != 0 {
		t.Errorf("verification: %v, %+v", err, v)
	}
}

// TestPressSaysWhatItCouldNotOffer: requests far more than the connections can carry.
func TestPressSaysWhatItCouldNotOffer(t *testing.T) {
	run, _ := pressed(t, newHost(t, sound), 1e6)
	f := run.Figures
	if math.Abs(f[FigureIntended]-1e6) > 2e5 || f[FigureIntended]-f[FigureOffered] < 5e5 || f[FigureOffered] > 4e5 || run.Operations == 0 {
		t.Errorf("%d operations, figures %v", run.Operations, f)
	}
}

func TestPressClosedLoop(t *testing.T) {
	h := newHost(t, shedsWell)
	run, _ := pressed(t, h, 0)
	if run.Failures != 0 || run.Operations == 0 || run.Figures[FigureRefused] == 0 {
		t.Errorf("%d operations, failures %v, figures %v", run.Operations, run.Reasons, run.Figures)
	}
	// A refused client pauses, so twenty clients cannot be refused more often than this.
	if most := 20 / refusedPause.Seconds(); run.Figures[FigureRefused] > most {
		t.Errorf("%v refusals a second, at most %v are possible", run.Figures[FigureRefused], most)
	}
	if v, err := h.Verify(t.Context()); err != nil || !v.Clean() || v.Found != v.Acknowledged {
		t.Errorf("verification: %v, %+v", err, v)
	}
}

// TestPressNoticesFaults: each fault is a failure with its reason. Correct refusals
// under overload are not failures.
func TestPressNoticesFaults(t *testing.T) {
	for f, reason := range map[fault]string{
		shedsWell:      "",
		shedsForever:   "without a whole number of seconds in Retry-After",
		shedsVaguely:   "without a whole number of seconds in Retry-After",
		notCreated:     "409",
		unknownOutcome: "outcome_unknown",
		otherPayload:   "another payload",
		otherRecipient: "another recipient",
		sameID:         "an id that another message has",
		parts:          "wire: reading the answer",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			run, _ := pressed(t, newHost(t, f), 300)
			var said []string
			for r := range run.Reasons {
				said = append(said, r)
			}
			if all := strings.Join(said, "; "); (run.Failures > 0) != (reason != "") || !strings.Contains(all, reason) {
				t.Errorf("%d failures: %s", run.Failures, all)
			}
			if f == shedsWell && (run.Figures[FigureRefused] == 0 || run.Parts[PartRefused].Count == 0) {
				t.Errorf("refusals are not counted: %v", run.Figures)
			}
		})
	}
}

// TestPressedMessagesAreVerified: an acknowledged message that is missing is found, and
// so is a refused message that was stored.
func TestPressedMessagesAreVerified(t *testing.T) {
	for f, found := range map[fault]func(*result.Verification) int64{
		losesOne:      func(v *result.Verification) int64 { return v.Missing },
		keepsTwice:    func(v *result.Verification) int64 { return v.Twice },
		shedsAndKeeps: func(v *result.Verification) int64 { return v.Stray },
	} {
		h := newHost(t, f)
		pressed(t, h, 300)
		if v, err := h.Verify(t.Context()); err != nil || found(v) == 0 {
			t.Errorf("%s: %v, %+v", f, err, v)
		}
	}
}
