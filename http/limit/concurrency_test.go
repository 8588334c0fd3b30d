package limit_test

import (
	"encoding/binary"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/limit"
)

// opener is a node that opens and closes streams of agents, which it counts.
type opener struct {
	*limit.Shared
	c    *limit.Concurrency
	here map[uint64]int
}

func newOpener(clock *hand) *opener {
	s := limit.NewShared(clock.now, parley.RandomEntropy)
	return &opener{s, s.Concurrency("streams"), map[uint64]int{}}
}

func agentKey(n uint64) (key [16]byte) {
	binary.BigEndian.PutUint64(key[8:], n)
	return key
}

// open opens one more, unless an agent has as many as the limit allows; -1 means no limit.
func (o *opener) open(agent uint64, most int) bool {
	limit := &most
	if most < 0 {
		limit = nil
	}
	_, ok := o.c.Open(agentKey(agent), o.here[agent], limit)
	if ok {
		o.here[agent]++
	}
	return ok
}

func (o *opener) close(agent uint64) {
	o.here[agent]--
	o.c.Close(agentKey(agent), o.here[agent])
}

// TestConcurrencyCountsAllNodes: an agent has as many streams as its limit allows on all nodes
// together, and what is closed on one can be opened on another.
func TestConcurrencyCountsAllNodes(t *testing.T) {
	clock := newHand()
	a, b := newOpener(clock), newOpener(clock)
	for n := range 2 {
		if !a.open(1, 3) {
			t.Fatalf("stream %d is refused", n)
		}
	}
	b.Spend(a.Take())
	if !b.open(1, 3) || b.open(1, 3) {
		t.Error("the other node admits another number than one")
	}
	if !b.open(2, 1) || !b.open(1, 4) || !b.open(1, -1) {
		t.Error("another agent, or one with a higher limit, is refused")
	}
	a.Spend(b.Take())
	if used, ok := a.c.Open(agentKey(1), 2, new(5)); ok || used != 5 {
		t.Errorf("the first node counts %d", used)
	}
	b.close(1)
	b.close(1)
	a.Spend(b.Take())
	if !a.open(1, 4) || a.open(1, 4) {
		t.Error("two were closed on the other node, and the first one admits another number than one")
	}
	for range 3 {
		a.close(1)
	}
	b.Spend(a.Take())
	if !b.open(1, 2) || b.open(1, 2) {
		t.Error("all were closed on the first node, and the other one admits another number than one")
	}
}

// TestConcurrencyForgetsTheDead: what is open on a node counts elsewhere for as long as the node
// lives, and no longer than a client waits when it has died. It counts again if it was only cut off.
func TestConcurrencyForgetsTheDead(t *testing.T) {
	clock := newHand()
	a, b := newOpener(clock), newOpener(clock)
	a.open(1, 1)
	for range 3000 { // five minutes
		b.Spend(a.Take())
		b.Take()
		if b.open(1, 1) {
			t.Fatal("what is open on a node that lives does not count")
		}
		clock.advance(100 * time.Millisecond)
	}
	clock.advance(time.Second)
	if b.open(1, 1) {
		t.Error("a node was silent for 1.1 s, and what is open there does not count")
	}
	clock.advance(300 * time.Millisecond)
	if !b.open(1, 1) {
		t.Error("a node was silent for 1.4 s, and what was open there counts")
	}
	b.close(1)
	b.Spend(a.Take())
	if b.open(1, 1) {
		t.Error("a node is back, and what is open there does not count")
	}
}

// TestConcurrencyCorrectsWhatWasLost: news that was lost is made good within 30 s, and what was
// closed meanwhile counts no longer than three minutes, although the node lives.
func TestConcurrencyCorrectsWhatWasLost(t *testing.T) {
	for what, c := range map[string]struct {
		before, lost func(a *opener)
		silent       time.Duration // nothing arrives in this time
		within       time.Duration
		opens        bool
	}{
		"open":            {func(*opener) {}, func(a *opener) { a.open(1, 1) }, 0, 31 * time.Second, false},
		"close":           {func(a *opener) { a.open(1, 1) }, func(a *opener) { a.close(1) }, 0, 31 * time.Second, true},
		"close, for long": {func(a *opener) { a.open(1, 1) }, func(a *opener) { a.close(1) }, 31 * time.Second, 3 * time.Minute, true},
	} {
		clock := newHand()
		a, b := newOpener(clock), newOpener(clock)
		for n := range uint64(10) {
			a.open(100+n, 1)
		}
		pass := func(d time.Duration, arrives bool) {
			for range d / (100 * time.Millisecond) {
				if told := a.Take(); arrives {
					b.Spend(told)
				}
				b.Take()
				clock.advance(100 * time.Millisecond)
			}
		}
		c.before(a)
		pass(time.Second, true)
		c.lost(a)
		pass(100*time.Millisecond+c.silent, false)
		pass(time.Second, true)
		if c.silent == 0 && b.open(1, 1) == c.opens {
			continue // it was among the first to be repeated
		}
		pass(c.within-time.Second, true)
		if b.open(100, 1) {
			t.Errorf("%s: what is still open does not count", what)
		}
		if b.here[1] == 0 && b.open(1, 1) != c.opens {
			t.Errorf("%s: not corrected after %v", what, c.within)
		}
	}
}

// TestConcurrencyTellsLittle: agents without a limit cost nothing, and 100,000 with one a part of
// them at a time, so that within 30 s all are told again.
func TestConcurrencyTellsLittle(t *testing.T) {
	clock := newHand()
	a, old := newOpener(clock), limit.NewShared(clock.now, parley.RandomEntropy)
	a.open(1, -1)
	a.open(1, -1)
	a.close(1)
	if told := a.Take(); len(told) != 0 {
		t.Errorf("agents without a limit are told: %v", told)
	}
	const agents = 100_000
	for n := range uint64(agents) {
		a.open(2+n, 3)
	}
	heard := map[string]int{}
	take := func(most int) (told int) {
		all := a.Take()
		for _, one := range all {
			heard[string(one.Key)] = one.Count
		}
		old.Spend(all) // a node that does not know this limit ignores it
		if clock.advance(100 * time.Millisecond); len(all) > most {
			t.Fatalf("%d are told at a time, at most %d should be", len(all), most)
		}
		return len(all)
	}
	for range 30 {
		take(8192)
	}
	if len(heard) != agents {
		t.Errorf("%d of %d are told within 3 s", len(heard), agents)
	}
	clear(heard)
	sum := 0
	for range 302 {
		sum += take(1000)
	}
	if len(heard) != agents || sum > agents*11/10 {
		t.Errorf("%d of %d are told again within 30 s, in all %d", len(heard), agents, sum)
	}
	for n := range uint64(agents) {
		a.close(2 + n)
	}
	for range 700 {
		take(8192)
	}
	for key, n := range heard {
		if n != 0 {
			t.Fatalf("%x: closed, and told as %d", key, n)
		}
	}
	if left := take(0); left != 0 {
		t.Error(left)
	}
}

// TestConcurrencyIsBounded: a node that tells nonsense makes no agent wait for ever.
func TestConcurrencyIsBounded(t *testing.T) {
	clock := newHand()
	a, b := newOpener(clock), newOpener(clock)
	a.open(1, 3)
	told := a.Take()[:1]
	told[0].Count = -1 << 62
	b.Spend(append(told, limit.Spent{"streams", nil, 1}, limit.Spent{"streams", make([]byte, 27), 1}, limit.Spent{"of another version", []byte("k"), 1}))
	if used, ok := b.c.Open(agentKey(1), 0, new(1)); !ok || used != 0 {
		t.Errorf("%d are open", used)
	}
	told[0].Count = 1 << 62
	b.Spend(told)
	if used, ok := b.c.Open(agentKey(1), 1, new(3)); ok || used <= 0 {
		t.Errorf("%d are open", used)
	}
	clock.advance(2 * time.Second)
	if used, ok := b.c.Open(agentKey(1), 1, new(3)); !ok || used != 1 {
		t.Errorf("%d are open", used)
	}
	var alone *limit.Concurrency
	if _, ok := alone.Open(agentKey(1), 1<<20, nil); !ok {
		t.Error("a server on its own has a limit that was not set")
	}
	if used, ok := alone.Open(agentKey(1), 3, new(3)); ok || used != 3 {
		t.Error("a server on its own has no limit")
	}
	alone.Close(agentKey(1), 0)
}
