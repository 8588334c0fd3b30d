package bench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parley/bench/load"
	"parley/bench/report"
	"parley/bench/scenario"
	"parley/bench/target"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		first, most int64
		want        []int64
	}{
		{1000, 1_000_000, []int64{1000, 10_000, 100_000, 1_000_000}},
		{1000, 25_000, []int64{1000, 10_000, 25_000}},
		{1000, 1000, []int64{100, 1000}},
		{1000, 200, []int64{20, 200}},
		{1000, 1, []int64{1}},
	} {
		if got := sizes(c.first, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%d: %v, want %v", c.most, got, c.want)
		}
	}
}

func TestGrowthIsChecked(t *testing.T) {
	sound := func() Growth {
		return Growth{
			Server: func(string) target.Target { return &plain{name: "a", refuses: errors.New("started")} },
			Agents: 10, Messages: 10, Clients: 1, Active: 2, Pages: 2, Duration: 1,
			Params: scenario.Params{Payload: 64, Agents: 1, Senders: 1}, Dir: t.TempDir(),
			Live: report.NewLive(&bytes.Buffer{}),
		}
	}
	for what, change := range map[string]func(*Growth){
		"nothing to grow":    func(g *Growth) { g.Agents, g.Messages = 0, 0 },
		"2 to 9999999":       func(g *Growth) { g.Agents = 1 },
		"two active":         func(g *Growth) { g.Active = 1 },
		"together at most":   func(g *Growth) { g.Duration = 0 },
		"of payload":         func(g *Growth) { g.Params.Payload = 1 },
		"are free":           func(g *Growth) { g.Messages = 10_000_000_000; g.Params.Payload = 100_000 },
		"could read back":    func(g *Growth) { g.Messages, g.Verify = 0, true },
		"messages at most t": func(g *Growth) { g.Messages = math.MaxInt64 },
	} {
		g := sound()
		change(&g)
		if out, err := Grow(t.Context(), g); out != nil || err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("no error contains %q, only %v", what, err)
		}
	}
	out, err := Grow(t.Context(), sound())
	if out == nil || err == nil || !strings.Contains(err.Error(), "started") {
		t.Errorf("a valid configuration is refused: %v", err)
	}
}

// unsteady fails every third operation.
type unsteady struct{ done *atomic.Int64 }

func (u unsteady) Do(context.Context, int, *load.Laps) error {
	if u.done.Add(1)%3 == 0 {
		return load.Refused{Reason: "tired"}
	}
	return nil
}

func (unsteady) Close() error { return nil }

func TestExactly(t *testing.T) {
	g := &grower{runner: &runner{}, growth: &Growth{Clients: 5}}
	var done atomic.Int64
	dial := func(context.Context, int) (load.Client, error) { return unsteady{&done}, nil }
	m, err := g.exactly(t.Context(), 210, false, dial, nil)
	if err != nil || done.Load() < 210 || done.Load() > 320 {
		t.Errorf("%v after %d operations", err, done.Load())
	}
	// What the other clients have under way when the last one succeeds is not counted.
	if m != nil && (m.Operations != 210 || m.Failures > done.Load()-210 || m.Failures < done.Load()-210-4) {
		t.Errorf("%d operations and %d failures of %d", m.Operations, m.Failures, done.Load())
	}
	if _, err := g.exactly(t.Context(), 50, true, dial, nil); err == nil || !strings.Contains(err.Error(), "tired") {
		t.Errorf("a strict run accepts failures: %v", err)
	}
	always := func(context.Context, int) (load.Client, error) { return tired{}, nil }
	if _, err := g.exactly(t.Context(), 50, false, always, nil); err == nil || !strings.Contains(err.Error(), "tired") {
		t.Errorf("a run that never succeeds does not end: %v", err)
	}
}

type tired struct{ unsteady }

func (tired) Do(context.Context, int, *load.Laps) error { return load.Refused{Reason: "tired"} }
