package actors

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"parley/client/parley"
)

// TestPairRate: of 120 a minute either direction has 60 for itself, at once or spread.
func TestPairRate(t *testing.T) {
	clock := newManualClock(noon)
	r := newTestNode(t, withClock(clock.now))
	acme, ids := r.agents("acme", 3)
	other, theirs := r.agents("other", 1)
	rate := 120
	send := func(from, to int) error {
		s := direct(acme, ids[from], ids[to], fmt.Sprint(from, to, clock.now()), "")
		s.PairRate = rate
		_, err := r.send(s)
		return err
	}
	sent := func(from, to int) (n int) {
		for send(from, to) == nil {
			if n++; n > 1000 {
				t.Fatal("there is no rate")
			}
		}
		return n
	}
	if n := sent(0, 1); n != 60 {
		t.Errorf("%d messages at once, want 60", n)
	}
	err := send(0, 1)
	if refusal, ok := err.(*parley.Refusal); !ok || refusal.Code != "rate_limited" || fmt.Sprint(refusal.Extra) != "map[limit:60 rate:pair retry_after:1]" {
		t.Errorf("beyond the rate: %v", err)
	}
	if n := sent(1, 0); n != 60 {
		t.Errorf("%d messages at once in the other direction, want 60", n)
	}
	if n := sent(0, 2); n != 60 {
		t.Errorf("%d messages to another agent, want 60", n)
	}
	clock.advance(10 * time.Second)
	if n := sent(0, 1); n != 10 {
		t.Errorf("%d messages after 10 s, want 10", n)
	}
	// What the quota refuses does not count.
	clock.advance(time.Minute)
	s := direct(acme, ids[0], ids[1], "over", "")
	s.PairRate, s.DayLimit = rate, new(0)
	for range 5 {
		if _, err := r.send(s); overWhich(err) != parley.QuotaMessages {
			t.Fatal(err)
		}
	}
	if n := sent(0, 1); n != 60 {
		t.Errorf("%d messages after refusals by the quota, want 60", n)
	}
	// Replies count, and updates of a task do not.
	for _, task := range []bool{false, true} {
		opening := direct(acme, ids[0], theirs[0], "question", "")
		opening.ToOrg, opening.Task = other, task
		first := must(r.send(opening))(t)
		n := 0
		for ; n < 100; n++ {
			a := answerTo(other, first.Message, "more", "")
			a.ToOrg, a.PairRate, a.Update = acme, rate, true
			if _, err := r.reply(a); err != nil {
				break
			}
		}
		if want := map[bool]int{false: 60, true: 100}[task]; n != want {
			t.Errorf("task %v: %d replies, want %d", task, n, want)
		}
	}
}

// TestPairsForget: the pairs that are remembered are bounded, and busy ones are among them.
func TestPairsForget(t *testing.T) {
	var p pairs
	busy := direction{from: parley.AgentID{0xff}}
	for range 60 {
		if err := p.take(busy, 120, noon); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * pairsMax {
		var d direction
		binary.BigEndian.PutUint64(d.to[:], uint64(i))
		if err := p.take(d, 120, noon.Add(time.Duration(i)*time.Microsecond)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.free) > pairsMax {
		t.Errorf("%d are remembered, want at most %d", len(p.free), pairsMax)
	}
	if err := p.take(busy, 120, noon.Add(time.Millisecond)); err == nil {
		t.Error("the busiest pair was forgotten")
	}
}
