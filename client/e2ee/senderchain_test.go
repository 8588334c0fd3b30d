package e2ee

import (
	"bytes"
	"errors"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/client/parley"
)

func sampleScope(generation uint64) chainScope {
	return chainScope{circle, parley.AgentID{15: 0xa}, generation}
}

func sampleLink(n byte) chainLink { return chainLink{Key: bytes.Repeat([]byte{n}, chainKeySize)} }

// keysOf returns the first n message keys of a chain, as its sender makes them.
func keysOf(t testing.TB, scope chainScope, link chainLink, n int) [][]byte {
	t.Helper()
	keys := make([][]byte, n)
	for i := range keys {
		key, err := link.messageKey(scope)
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = key
		if link, err = link.next(scope); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// TestMessagesInAnyOrder: messages arrive in any order, repeated, late or never. Each
// yields its own key, again for the same id, and none for another id.
func TestMessagesInAnyOrder(t *testing.T) {
	const count = 40
	scope := sampleScope(9)
	keys := keysOf(t, scope, sampleLink(1), count)
	rapid.Check(t, func(r *rapid.T) {
		p := &peerKeys{}
		if fresh, err := p.accept(scope, sampleLink(1)); err != nil || !fresh {
			r.Fatalf("%v %v", fresh, err)
		}
		came := map[uint32]bool{}
		for range rapid.IntRange(1, 80).Draw(r, "deliveries") {
			counter := uint32(rapid.IntRange(0, count-1).Draw(r, "counter"))
			m := broadcast{chainScope: scope, counter: counter}
			replay := rapid.Bool().Draw(r, "under another id")
			id := parley.MessageID{1, byte(counter)}
			if replay {
				id[0] = 2
			}
			key, err := p.key(m, id)
			switch {
			case replay && came[counter]:
				if !errors.Is(err, ErrReplayed) || p.opened(m, id) == nil {
					r.Fatalf("counter %d was opened under another id: %v", counter, err)
				}
				continue
			case err != nil || !bytes.Equal(key, keys[counter]):
				r.Fatalf("counter %d: %x, %v", counter, key, err)
			}
			if replay { // the text was wrong for another reason: nothing is recorded
				continue
			}
			came[counter] = true
			if err := p.opened(m, id); err != nil {
				r.Fatalf("counter %d: %v", counter, err)
			}
		}
		g := p.find(9)
		if len(g.Opened) != len(came) || len(g.Opened)+len(g.Skipped) != int(g.Counter) {
			r.Fatalf("%d opened, %d skipped, chain at %d", len(g.Opened), len(g.Skipped), g.Counter)
		}
		for counter := range came {
			if _, still := g.Skipped[counter]; still {
				r.Fatalf("the key of %d is kept as if its message were missing", counter)
			}
		}
	})
}

func TestChainDoesNotGoBack(t *testing.T) {
	scope, later := sampleScope(9), sampleLink(1)
	for range 3 {
		later, _ = later.next(scope)
	}
	p := &peerKeys{}
	if _, err := p.accept(scope, later); err != nil {
		t.Fatal(err)
	}
	if _, err := p.key(broadcast{chainScope: scope, counter: 2}, parley.MessageID{1}); !errors.Is(err, ErrKeyForgotten) {
		t.Fatalf("an earlier message: %v", err)
	}
	if _, err := p.key(broadcast{chainScope: scope, counter: 3}, parley.MessageID{1}); err != nil {
		t.Fatal(err)
	}
	// The same generation, given again from its beginning or with another chain,
	// changes nothing.
	if fresh, err := p.accept(scope, sampleLink(2)); err != nil || fresh || p.find(9).Counter != 3 {
		t.Fatalf("%v %v", fresh, err)
	}
	if _, err := p.key(broadcast{chainScope: sampleScope(10), counter: 3}, parley.MessageID{1}); !errors.Is(err, ErrNoSenderKey) {
		t.Fatalf("an unknown generation: %v", err)
	}
}

func TestInvalidChainsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		scope chainScope
		link  chainLink
	}{
		"no generation": {sampleScope(0), sampleLink(1)},
		"short key":     {sampleScope(1), chainLink{Key: []byte("short")}},
		"far counter":   {sampleScope(1), chainLink{Counter: generationMessages + 1, Key: sampleLink(1).Key}},
	} {
		if fresh, err := new(peerKeys).accept(c.scope, c.link); err == nil || fresh {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestOldGenerationsAreForgotten: the state kept for a sender is bounded, and what was
// dropped is not accepted again.
func TestOldGenerationsAreForgotten(t *testing.T) {
	p := &peerKeys{}
	take := func(generation uint64) error {
		scope := sampleScope(generation)
		if _, err := p.accept(scope, sampleLink(byte(generation))); err != nil {
			return err
		}
		return p.opened(broadcast{chainScope: scope, counter: generationMessages - 1}, parley.MessageID{1})
	}
	for generation := uint64(1); generation <= 6; generation++ {
		if err := take(generation); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for _, g := range p.Generations {
		kept += len(g.Skipped) + len(g.Opened)
	}
	if kept > peerKeysMax || p.Floor != 2 {
		t.Fatalf("%d keys kept, forgotten up to %d", kept, p.Floor)
	}
	if err := take(2); !errors.Is(err, ErrKeyForgotten) {
		t.Fatalf("a forgotten generation came back: %v", err)
	}
	if _, err := p.key(broadcast{chainScope: sampleScope(2)}, parley.MessageID{1}); !errors.Is(err, ErrKeyForgotten) {
		t.Fatal(err)
	}
	p = &peerKeys{}
	for generation := uint64(1); generation <= peerGenerationsMax+3; generation++ {
		if _, err := p.accept(sampleScope(generation), sampleLink(1)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.Generations) != peerGenerationsMax || p.Floor != 3 {
		t.Fatalf("%d generations, forgotten up to %d", len(p.Generations), p.Floor)
	}
}

func TestGenerations(t *testing.T) {
	ann, bob := parley.AgentID{15: 0xa}, parley.AgentID{15: 0xb}
	members := map[parley.AgentID]string{ann: "1", bob: "2"}
	now := time.UnixMilli(1000)
	o := &ownKeys{}
	g, due, fresh := o.prepare(now, members)
	if !fresh || g.Generation != 1000 || len(due) != 2 || due[0] != ann {
		t.Fatalf("first: %+v %v %v", g, due, fresh)
	}
	g.give(ann, "1", g.chainLink)
	if again, due, fresh := o.prepare(now, members); fresh || again != g || len(due) != 1 || due[0] != bob {
		t.Fatalf("a member that was not reached is not due: %v %v", due, fresh)
	}
	g.give(bob, "2", g.chainLink)
	if _, due, fresh := o.prepare(now, members); fresh || len(due) != 0 {
		t.Fatalf("all members have the key: %v %v", due, fresh)
	}
	for name, change := range map[string]func(){
		"gone":     func() { delete(members, bob) },
		"returned": func() { members[ann] = "3" },
		"used up":  func() { o.current().Counter = generationMessages },
	} {
		before := o.current()
		change()
		g, due, fresh := o.prepare(now.Add(-time.Hour), members)
		if !fresh || g.Generation <= before.Generation || bytes.Equal(g.Key, before.Key) || g.Counter != 0 || len(due) != len(members) {
			t.Fatalf("%s: %+v %v %v", name, g, due, fresh)
		}
		for id, membership := range maps.All(members) {
			g.give(id, membership, g.chainLink)
		}
	}
	for range 10 {
		o.rotate(now)
	}
	if len(o.Generations) != formerGenerations+1 {
		t.Fatalf("%d generations kept", len(o.Generations))
	}
}

func TestKeyRequestsAreRateLimited(t *testing.T) {
	p, now := &peerKeys{}, time.UnixMilli(1000)
	if !p.ask(1, now) || p.ask(1, now.Add(askAgainAfter-1)) || !p.ask(2, now) || !p.ask(1, now.Add(askAgainAfter)) {
		t.Fatal("the client asks too often or not at all")
	}
	for generation := range uint64(10 * peerGenerationsMax) {
		p.ask(generation, now)
	}
	if len(p.Asked) > peerGenerationsMax {
		t.Fatalf("%d requests are kept", len(p.Asked))
	}
	o := &ownKeys{}
	for i := range 2 * answeredMax {
		o.answer(parley.MessageID{byte(i >> 8), byte(i)})
	}
	if len(o.Answered) != answeredMax || o.answered(parley.MessageID{}) || !o.answered(parley.MessageID{byte((2*answeredMax - 1) >> 8), byte((2*answeredMax - 1) & 0xff)}) {
		t.Fatalf("%d answers are kept", len(o.Answered))
	}
}
