package persistence

import (
	"testing"
	"time"
)

func TestAdmissionLimiterBounds(t *testing.T) {
	b := newAdmissionLimiter(2, 100)
	steps := []struct {
		size  int
		admit bool
	}{{40, true}, {61, false}, {60, true}, {0, false}}
	for _, s := range steps {
		if got := b.admit(s.size); got != s.admit {
			t.Errorf("%d bytes: admitted %v", s.size, got)
		}
	}
	b.free(40)
	b.free(60)
	if b.entries.Load() != 0 || b.bytes.Load() != 0 || b.admit(101) || !b.admit(100) {
		t.Errorf("left over: %d entries, %d bytes", b.entries.Load(), b.bytes.Load())
	}
}

// TestAdmissionLimiterFollowsLatency: the limit falls to the minimum if entries take
// long, rises to the maximum if it is reached and they do not, and does not change if it
// is not reached.
func TestAdmissionLimiterFollowsLatency(t *testing.T) {
	const most = 5000
	turn := func(g *admissionLimiter, mean time.Duration, pressed, flooded bool) int64 {
		for range 200 {
			g.set(mean, pressed, flooded)
		}
		return g.limit.Load()
	}
	g := newAdmissionLimiter(most, 1)
	start := g.limit.Load()
	for _, step := range []struct {
		why     string
		mean    time.Duration
		pressed bool
		flooded bool
		want    int64
	}{
		{"quick and nobody presses", time.Millisecond, false, false, start},
		{"quick and pressed", time.Millisecond, true, false, most},
		{"slow", 2 * admissionGoal, true, false, admissionLeast},
		{"slow in a flood", 2 * admissionGoal, true, true, admissionFlood},
		{"the flood is over", 2 * admissionGoal, false, false, admissionLeast},
	} {
		if got := turn(g, step.mean, step.pressed, step.flooded); got != step.want {
			t.Errorf("%s: %d are admitted, want %d", step.why, got, step.want)
		}
	}
}

// TestAdmissionLimiterAdjusts admits and releases entries: a window ends with a
// release.
func TestAdmissionLimiterAdjusts(t *testing.T) {
	g, now := newAdmissionLimiter(5000, 1<<40), int64(1)
	for range 400 {
		came := now
		for g.admit(1) {
			now++
		}
		g.refused.Store(0) // no overload
		if now += int64(admissionGoal) * 3; !g.full() {
			t.Fatal("the limiter is not full but rejects")
		}
		for g.entries.Load() > 0 {
			g.leave(1, came, now)
		}
	}
	if got := g.limit.Load(); got != admissionLeast {
		t.Errorf("entries take three times the target latency, and %d are admitted", got)
	}
}
