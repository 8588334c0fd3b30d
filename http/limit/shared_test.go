package limit_test

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/limit"
)

// sharing is a node with a limit of each kind.
type sharing struct {
	*limit.Shared
	l *limit.Limiter
	w *limit.Window
}

func newSharing(clock *hand) sharing {
	n := sharing{limit.NewShared(clock.now, parley.RandomEntropy), limit.New(10, time.Minute, 10, clock.now), limit.NewWindow(10, time.Minute, clock.now)}
	n.Add("l", n.l)
	n.Add("w", n.w)
	n.Add("none", (*limit.Limiter)(nil))
	return n
}

// admitted tries so often, and returns how often a caller was admitted by both limits.
func (n sharing) admitted(key string, tries int) (l, w int) {
	for range tries {
		if ok, _, _, _ := n.l.Take(key); ok {
			l++
		}
		if limit.TakeAll(limit.Draw{Window: n.w, Key: key}).OK {
			w++
		}
	}
	return l, w
}

// TestSharedLimitsCountTogether: what one node has admitted, another one does not admit any more
// when it was told, and both admit the same again after the time of the limit.
func TestSharedLimitsCountTogether(t *testing.T) {
	clock := newHand()
	a, b := newSharing(clock), newSharing(clock)
	if l, w := a.admitted("k", 4); l != 4 || w != 4 {
		t.Fatal(l, w)
	}
	b.Spend(a.Take())
	if l, w := b.admitted("k", 20); l != 6 || w != 6 {
		t.Errorf("the other node admits %d and %d, want 6", l, w)
	}
	if l, w := b.admitted("another", 20); l != 10 || w != 10 {
		t.Errorf("another key has %d and %d", l, w)
	}
	a.Spend(b.Take())
	if l, w := a.admitted("k", 20); l != 0 || w != 0 {
		t.Errorf("the first node admits %d and %d more", l, w)
	}
	if again := append(a.Take(), b.Take()...); len(again) != 0 {
		t.Errorf("what was told is told again: %v", again)
	}
	clock.advance(time.Minute)
	if l, w := a.admitted("k", 20); l != 10 || w != 10 {
		t.Errorf("a minute later it admits %d and %d", l, w)
	}
}

// TestSharedWindowGivesBack: what a node gives back can be taken again on every node, and however
// many requests come at once, no more are admitted than the limit allows.
func TestSharedWindowGivesBack(t *testing.T) {
	clock := newHand()
	a, b := newSharing(clock), newSharing(clock)
	var judged atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5 {
				if limit.TakeAll(limit.Draw{Window: a.w, Key: "k"}).OK {
					judged.Add(1)
				}
			}
		})
	}
	group.Wait()
	b.Spend(a.Take())
	if _, w := b.admitted("k", 1); judged.Load() != 10 || w != 0 {
		t.Fatalf("one node admits %d, and the other one %d", judged.Load(), w)
	}
	a.w.GiveBack("k")
	a.w.GiveBack("k")
	b.Spend(a.Take())
	if _, w := b.admitted("k", 20); w != 2 {
		t.Errorf("two were given back, and the other node admits %d", w)
	}
	a.Spend(b.Take())
	if _, w := a.admitted("k", 20); w != 0 {
		t.Errorf("the other node took them, and the first one admits %d", w)
	}
	a.w.GiveBack("unknown")
	(*limit.Window)(nil).GiveBack("k")
	if _, w := a.admitted("unknown", 20); w != 10 {
		t.Errorf("a key of which nothing was taken has %d", w)
	}
}

// TestSharedLimitsHoldForLong: a caller that asks three nodes at once again and again, which tell
// each other every 100 ms, is admitted not much more often than by one.
func TestSharedLimitsHoldForLong(t *testing.T) {
	clock := newHand()
	nodes := []sharing{newSharing(clock), newSharing(clock), newSharing(clock)}
	var ls, ws int
	const minutes = 5
	for range minutes * 600 {
		for _, n := range nodes {
			l, w := n.admitted("k", 3)
			ls, ws = ls+l, ws+w
		}
		for i, from := range nodes {
			told := from.Take()
			nodes[(i+1)%3].Spend(told)
			nodes[(i+2)%3].Spend(told)
		}
		clock.advance(100 * time.Millisecond)
	}
	const most = 10 + 10*minutes + 2*10 // what two nodes admit before they are told
	if ls > most || ws > most || ls < 10*minutes || ws < 10*minutes/2 {
		t.Errorf("%d and %d were admitted in %d minutes, at most %d should be", ls, ws, minutes, most)
	}
}

// TestSharedSpendingIsBounded: a node that tells too much, or nonsense, makes no key wait for
// longer than its limit does, and what waits to be told has a bound.
func TestSharedSpendingIsBounded(t *testing.T) {
	clock := newHand()
	a := newSharing(clock)
	a.Spend([]limit.Spent{{"l", []byte("k"), 1 << 62}, {"w", []byte("k"), 1 << 62}, {"of another version", []byte("k"), 1}, {"none", nil, 1}, {"w", []byte("k"), -5}})
	if l, w := a.admitted("k", 1); l != 0 || w != 0 {
		t.Error(l, w)
	}
	clock.advance(2 * time.Minute)
	if l, w := a.admitted("k", 20); l != 10 || w != 10 {
		t.Errorf("two minutes later it admits %d and %d", l, w)
	}
	a.Spend([]limit.Spent{{"l", []byte("k"), -1 << 62}})
	if l, _ := a.admitted("k", 20); l > 10 {
		t.Errorf("it admits %d", l)
	}
	a.Take()
	for i := range uint32(10_000) {
		a.l.Take(string(binary.BigEndian.AppendUint32(nil, i)))
	}
	if waits := len(a.Take()); waits != 4096 {
		t.Errorf("%d keys wait to be told", waits)
	}
	a.l.Take("k2")
	a.l.GiveBack("k2")
	if told := a.Take(); len(told) != 0 {
		t.Errorf("what was given back is told: %v", told)
	}
}
