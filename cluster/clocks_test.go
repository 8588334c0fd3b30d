package cluster

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/wire"
)

// distantPeer is a peer whose requests and answers take their time.
type distantPeer struct {
	answer   func(context.Context, []byte) ([]byte, error)
	now      *time.Time
	to, from time.Duration
}

func (distantPeer) Malformed(error) {}

func (p distantPeer) Call(ctx context.Context, request []byte) ([]byte, error) {
	*p.now = p.now.Add(p.to)
	defer func() { *p.now = p.now.Add(p.from) }()
	return p.answer(ctx, request)
}

func registeredTypes() *wire.Types {
	t := wire.NewTypes()
	RegisterTypes(t)
	return t
}

// TestClockOffset: the offset is that of the middle of the round trip, and unknown if that took
// long.
func TestClockOffset(t *testing.T) {
	s := &replicas{t: t, journals: 1, dir: "group", disks: []vfs.FS{vfs.NewMem()}}
	g := s.openAll()
	defer func() {
		close(g.over)
		if err := g.stores[0].Close(); err != nil {
			t.Error(err)
		}
		if err := g.logs[0].Close(); err != nil {
			t.Error(err)
		}
	}()
	ms, now := time.Millisecond, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	asking, err := NewNode(Options{Store: g.stores[0], Types: registeredTypes(), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ahead, to, from, want time.Duration
		unknown               bool
	}{
		"the same clock":          {0, 2 * ms, 2 * ms, 0, false},
		"a clock that is ahead":   {time.Minute, 2 * ms, 2 * ms, time.Minute, false},
		"a clock that is behind":  {-time.Hour, 2 * ms, 2 * ms, -time.Hour, false},
		"a slow way there":        {0, 400 * ms, 0, 200 * ms, false},
		"a slow way back":         {0, 0, 400 * ms, -200 * ms, false},
		"a way that is too slow":  {time.Minute, 300 * ms, 300 * ms, 0, true},
		"a peer that was stopped": {0, 0, time.Minute, 0, true},
	} {
		answering := &Node{
			Options: Options{Types: registeredTypes(), Group: NewGroup(nil, 1, func() time.Time { return now.Add(c.ahead) }, func() NodeState { return NodeState{State: "ready"} }, nil)},
		}
		answer := func(ctx context.Context, request []byte) ([]byte, error) {
			return answering.Answer(ctx, 2, true, request)
		}
		got, ok := asking.ClockOffset(t.Context(), distantPeer{answer, &now, c.to, c.from})
		if got != c.want || ok == c.unknown {
			t.Errorf("%s: %v %v, want %v", name, got, ok, c.want)
		}
	}
}

// compared has the nodes of a cluster compare their clocks, and says which of them are wrong.
type compared struct {
	nodes []*Clocks
	log   strings.Builder
}

func newCompared(nodes int) *compared {
	c := &compared{}
	for range nodes {
		c.nodes = append(c.nodes, &Clocks{Logger: slog.New(slog.NewTextHandler(&c.log, nil))})
	}
	return c
}

// unknown is the clock of a node that does not answer.
const unknown = time.Duration(-1 << 63)

// rounds compares some times, with clocks that show so much more than the right time.
func (c *compared) rounds(times int, clocks ...time.Duration) (wrong []int) {
	for range times {
		for i, here := range c.nodes {
			var others []uint64
			offsets := map[uint64]time.Duration{}
			for j, clock := range clocks {
				if i == j {
					continue
				}
				others = append(others, uint64(j+1))
				if clock != unknown && clocks[i] != unknown {
					offsets[uint64(j+1)] = clock - clocks[i]
				}
			}
			here.Note(others, offsets)
		}
	}
	for i, here := range c.nodes {
		if here.Wrong() {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// TestWrongClocks: nodes whose clocks differ from those of most members are wrong, and at least
// one never is.
func TestWrongClocks(t *testing.T) {
	s, far := time.Second, time.Minute
	for name, c := range map[string]struct {
		clocks []time.Duration
		wrong  []int
	}{
		"right clocks":                     {[]time.Duration{0, s, -s}, nil},
		"clocks as far apart as they may":  {[]time.Duration{0, 5 * s, -5 * s}, nil},
		"one that is ahead":                {[]time.Duration{0, far, 0}, []int{1}},
		"one that is behind":               {[]time.Duration{-far, 0, s}, []int{0}},
		"three that all differ":            {[]time.Duration{-far, 0, far}, []int{0, 2}},
		"two that are wrong":               {[]time.Duration{far, 0, far}, []int{1}},
		"a node on its own":                {[]time.Duration{far}, nil},
		"two nodes":                        {[]time.Duration{0, far}, nil},
		"two nodes of three":               {[]time.Duration{0, far, unknown}, nil},
		"two and two":                      {[]time.Duration{0, far, 0, far}, nil},
		"one of four":                      {[]time.Duration{0, 0, 0, -far}, []int{3}},
		"one of five, and one that is off": {[]time.Duration{0, far, unknown, 0, 0}, []int{1}},
		"five that all differ":             {[]time.Duration{0, far, 2 * far, 3 * far, 4 * far}, []int{0, 1, 3, 4}},
	} {
		if got := newCompared(len(c.clocks)).rounds(1, c.clocks...); !slices.Equal(got, c.wrong) {
			t.Errorf("%s: %v are wrong, want %v", name, got, c.wrong)
		}
	}
}

// TestClockJumpsCountLate: while a node runs, its clock counts as wrong after some measurements
// in a row, and as right again after as many. It says so once. A peer that does not answer for a
// moment changes nothing.
func TestClockJumpsCountLate(t *testing.T) {
	c, far := newCompared(3), time.Minute
	for _, step := range []struct {
		what   string
		rounds int
		clocks []time.Duration
		wrong  []int
	}{
		{"nodes that do not answer yet", 1, []time.Duration{unknown, unknown, unknown}, nil},
		{"a jump when they begin to", clockRounds - 1, []time.Duration{0, far, 0}, nil},
		{"all are right", 3, []time.Duration{0, 0, 0}, nil},
		{"a jump", clockRounds - 1, []time.Duration{0, far, 0}, nil},
		{"its end", 1, []time.Duration{0, 0, 0}, nil},
		{"a second jump", clockRounds - 1, []time.Duration{0, far, 0}, nil},
		{"a jump that lasts", 1, []time.Duration{0, far, 0}, []int{1}},
		{"a node that is down for a moment", clockRounds - 1, []time.Duration{0, far, unknown}, []int{1}},
		{"the node is back", 20, []time.Duration{0, far, 0}, []int{1}},
		{"a clock that is set right", clockRounds - 1, []time.Duration{0, 0, 0}, []int{1}},
		{"a clock that stays right", 1, []time.Duration{0, 0, 0}, nil},
		{"all are right again", 20, []time.Duration{0, 0, 0}, nil},
	} {
		if got := c.rounds(step.rounds, step.clocks...); !slices.Equal(got, step.wrong) {
			t.Fatalf("%s: %v are wrong, want %v", step.what, got, step.wrong)
		}
	}
	said := map[string]int{}
	for line := range strings.Lines(c.log.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		said[line]++
	}
	const other = `level=WARN msg="the wall clock of another node differs from that of this one; let all nodes keep their time by NTP" node=0000000000000002 offset=1m0s`
	want := map[string]int{
		`level=WARN msg="the wall clock of this node is wrong: those of most nodes differ from it; the node is not ready until it is set right" offset=1m0s`: 1,
		`level=INFO msg="the wall clock of this node no longer differs from those of most nodes, as far as they answer"`:                                     1,
		other: 2, // by each of the other two
	}
	if !maps.Equal(said, want) {
		t.Errorf("the nodes said\n%s", c.log.String())
	}
	if got := c.nodes[1].Offsets(); !maps.Equal(got, map[uint64]time.Duration{1: 0, 3: 0}) {
		t.Errorf("the offsets are %v", got)
	}
}

// TestApplicantsClock: a node with a wrong clock is not taken in, and hears how wrong it is.
func TestApplicantsClock(t *testing.T) {
	here := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for there, want := range map[time.Time]string{
		here: "", here.Add(5 * time.Second): "", here.Add(-5 * time.Second): "",
		here.Add(time.Minute):                      "the wall clock of the new node is 1m0s ahead of that of this node, and they may differ by 5s: set the wrong one right",
		here.Add(-time.Hour - 40*time.Millisecond): "the wall clock of the new node is 1h0m0.04s behind that of this node, and they may differ by 5s: set the wrong one right",
	} {
		said := ""
		if err := checkClock(there, here); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%v: %q, want %q", there, said, want)
		}
	}
}
