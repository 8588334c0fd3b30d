package admission

import (
	"testing"
	"time"
)

func TestLimiterBounds(t *testing.T) {
	b := New(2, 100)
	steps := []struct {
		size  int
		admit bool
	}{{40, true}, {61, false}, {60, true}, {0, false}}
	for _, s := range steps {
		if got := b.Admit(s.size); got != s.admit {
			t.Errorf("%d bytes: admitted %v", s.size, got)
		}
	}
	b.free(40)
	b.free(60)
	if b.entries.Load() != 0 || b.bytes.Load() != 0 || b.Admit(101) || !b.Admit(100) {
		t.Errorf("left over: %d entries, %d bytes", b.entries.Load(), b.bytes.Load())
	}
}

// TestLimiterFollowsLatency: the limit falls to the minimum if entries take
// long, rises to the maximum if it is reached and they do not, and does not change if it
// is not reached.
func TestLimiterFollowsLatency(t *testing.T) {
	const most = 5000
	turn := func(g *Limiter, mean time.Duration, pressed, flooded bool) int64 {
		for range 200 {
			g.set(mean, pressed, flooded)
		}
		return g.limit.Load()
	}
	g := New(most, 1)
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
		{"slow", 2 * goal, true, false, least},
		{"slow in a flood", 2 * goal, true, true, flood},
		{"the flood is over", 2 * goal, false, false, least},
	} {
		if got := turn(g, step.mean, step.pressed, step.flooded); got != step.want {
			t.Errorf("%s: %d are admitted, want %d", step.why, got, step.want)
		}
	}
}

// TestLimiterAdjusts admits and releases entries: a window ends with a
// release.
func TestLimiterAdjusts(t *testing.T) {
	g, now := New(5000, 1<<40), int64(1)
	for range 400 {
		came := now
		for g.Admit(1) {
			now++
		}
		g.refused.Store(0) // no overload
		if now += int64(goal) * 3; !g.Full() {
			t.Fatal("the limiter is not full but rejects")
		}
		for g.entries.Load() > 0 {
			g.Leave(1, came, now)
		}
	}
	if got := g.limit.Load(); got != least {
		t.Errorf("entries take three times the target latency, and %d are admitted", got)
	}
}

func TestLoadCountsRefusals(t *testing.T) {
	g := New(least, 100)
	if g.Admit(101) || !g.Admit(100) {
		t.Fatal("the limit of bytes does not hold")
	}
	if n := g.Load().Refused; n != 1 {
		t.Errorf("%d were rejected, not 1", n)
	}
}
