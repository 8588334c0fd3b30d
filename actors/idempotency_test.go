package actors

import (
	"errors"
	"sync"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// heldJournal keeps entries from the journal while it is holding.
type heldJournal struct {
	journal.Journal
	mu      sync.Mutex
	holding bool
	held    []*journal.Entry
}

func (g *heldJournal) Append(e *journal.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holding && !e.Activate && e.Stream.Kind != journal.KeyLogStream { // the key log follows in its own time
		g.held = append(g.held, e)
		return
	}
	g.Journal.Append(e)
}

func (g *heldJournal) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = true
}

func (g *heldJournal) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}

func (g *heldJournal) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = false
	for _, e := range g.held {
		g.Journal.Append(e)
	}
	g.held = nil
}

// postResult is the outcome of a send or a reply.
type postResult struct {
	Posted
	err error
}

func inBackground(do func() (Posted, error)) <-chan postResult {
	to := make(chan postResult, 1)
	go func() {
		p, err := do()
		to <- postResult{p, err}
	}()
	return to
}

// TestKeyIsKnownBeforeItsRowIsStored: a second send under a key finds the first even
// though the journal has not received it yet. Its answer waits for the first.
func TestKeyIsKnownBeforeItsRowIsStored(t *testing.T) {
	g := &heldJournal{}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { g.Journal = j; return journal.Of(g) }))
	owner, ids := r.agents("acme", 2)
	first := must(r.send(direct(owner, ids[0], ids[1], "first", "")))(t).Message
	for name, do := range map[string]func(text string) (Posted, error){
		"send":  func(text string) (Posted, error) { return r.send(direct(owner, ids[0], ids[1], text, "k")) },
		"reply": func(text string) (Posted, error) { return r.reply(answerTo(owner, first, text, "k")) },
	} {
		before := len(r.inbox(ids[1])) + len(r.inbox(ids[0]))
		g.hold()
		one := inBackground(func() (Posted, error) { return do("one") })
		eventually(t, "the first is appended", func() bool { return g.waiting() == 1 })
		two := inBackground(func() (Posted, error) { return do("two") })
		time.Sleep(20 * time.Millisecond)
		if g.waiting() != 1 || len(one) > 0 || len(two) > 0 {
			t.Fatalf("%s: %d entries wait, %d and %d answers", name, g.waiting(), len(one), len(two))
		}
		g.release()
		a, b := <-one, <-two
		if a.err != nil || b.err != nil || a.Repeated || !b.Repeated {
			t.Fatalf("%s: %+v, then %+v", name, a, b)
		}
		if a.Message.MessageID() != b.Message.MessageID() || string(b.Message.Content) != "one" {
			t.Errorf("%s: the repeat returned %s %q", name, b.Message.MessageID(), b.Message.Content)
		}
		if after := len(r.inbox(ids[1])) + len(r.inbox(ids[0])); after != before+1 {
			t.Errorf("%s: %d messages arrived", name, after-before)
		}
	}
}

// TestConcurrentSendsUnderOneKeyMakeOneMessage sends concurrently under one key.
func TestConcurrentSendsUnderOneKeyMakeOneMessage(t *testing.T) {
	r := newTestNode(t, withJournals(4))
	owner, ids := r.agents("acme", 2)
	for _, key := range []string{"a", "b", "c"} {
		made, found := 0, map[parley.MessageID]bool{}
		var places []<-chan postResult
		for range 50 {
			places = append(places, inBackground(func() (Posted, error) { return r.send(direct(owner, ids[0], ids[1], "hello", key)) }))
		}
		for _, place := range places {
			p := <-place
			if p.err != nil {
				t.Fatal(p.err)
			}
			if found[p.Message.MessageID()] = true; !p.Repeated {
				made++
			}
		}
		if made != 1 || len(found) != 1 {
			t.Errorf("%d messages were made, %d found", made, len(found))
		}
	}
	if n := len(r.inbox(ids[1])); n != 3 {
		t.Errorf("three keys created %d messages", n)
	}
}

// TestKeyExpiresByTheThirdDay uses a key in the last second of a day.
func TestKeyExpiresByTheThirdDay(t *testing.T) {
	midnight := noon.Add(12 * time.Hour)
	clock := newManualClock(midnight.Add(-time.Second))
	r := newTestNode(t, withClock(clock.now))
	owner, ids := r.agents("acme", 2)
	send := func() Posted { t.Helper(); return must(r.send(direct(owner, ids[0], ids[1], "hello", "k")))(t) }
	first := send()
	row := idempotencyKey(journal.Day(clock.now()), ids[0][:], "k")
	for _, at := range []time.Duration{0, time.Second, 23*time.Hour + 59*time.Minute + 58*time.Second} {
		clock.nanos.Store(midnight.Add(at).UnixNano())
		if p := send(); !p.Repeated || p.Message.MessageID() != first.Message.MessageID() {
			t.Errorf("%v after midnight the key created another message", at)
		}
		r.restart()
	}
	clock.nanos.Store(midnight.Add(24 * time.Hour).UnixNano())
	second := send()
	if second.Repeated || second.Message.MessageID() == first.Message.MessageID() {
		t.Error("on the third day the key is still recognized")
	}
	if p := send(); !p.Repeated || p.Message.MessageID() != second.Message.MessageID() {
		t.Error("the new use of the key is not recognized")
	}
	eventually(t, "the row of the first day is gone", func() bool {
		_, found, err := r.store.Row(ids[0].Slot(), journal.OnceTable, row)
		return err == nil && !found
	})
}

// TestKeyIsKnownAfterClockSetBack uses a key in the first second of a day, and again when the
// clock has been set back to the day before: another node may lead whose clock is behind.
func TestKeyIsKnownAfterClockSetBack(t *testing.T) {
	clock := newManualClock(noon.Add(12 * time.Hour))
	r := newTestNode(t, withClock(clock.now))
	owner, ids := r.agents("acme", 2)
	first := must(r.send(direct(owner, ids[0], ids[1], "hello", "k")))(t)
	for _, back := range []time.Duration{time.Second, time.Hour} {
		clock.advance(-back)
		p := must(r.send(direct(owner, ids[0], ids[1], "hello", "k")))(t)
		if !p.Repeated || p.Message.MessageID() != first.Message.MessageID() {
			t.Errorf("%v back the key created another message", back)
		}
	}
}

// TestKeysAreScoped by sender and conversation, and refused requests use none.
func TestKeysAreScoped(t *testing.T) {
	r := newTestNode(t, withJournals(4))
	owner, ids := r.agents("acme", 3)
	fresh := func(what string, p Posted, err error) *record.Message {
		t.Helper()
		if err != nil || p.Repeated {
			t.Fatalf("%s: %+v, %v", what, p, err)
		}
		return p.Message
	}
	same := func(what string, m *record.Message, p Posted, err error) {
		t.Helper()
		if err != nil || !p.Repeated || p.Message.MessageID() != m.MessageID() {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
	gone := direct(owner, ids[0], ids[1], "hello", "k")
	gone.ToRevoked = true
	if _, err := r.send(gone); !errors.Is(err, agent.ErrRecipientRevoked) {
		t.Fatalf("a send to a revoked agent: %v", err)
	}
	p, err := r.send(direct(owner, ids[0], ids[1], "hello", "k"))
	one := fresh("after a refusal", p, err)
	p, err = r.send(gone) // the key is checked before the recipient
	same("a repeat to a recipient revoked since", one, p, err)
	p, err = r.send(direct(owner, ids[2], ids[1], "hello", "k"))
	two := fresh("another sender", p, err)
	p, err = r.reply(answerTo(owner, one, "yes", "k"))
	fresh("a reply", p, err)
	p, err = r.reply(answerTo(owner, two, "yes", "k"))
	fresh("a reply elsewhere", p, err)
	back := answerTo(owner, one, "and", "k")
	back.From, back.To = back.To, back.From
	p, err = r.reply(back)
	reply := fresh("the other party's reply", p, err)
	r.restart()
	p, err = r.reply(back)
	same("the same reply after a restart", reply, p, err)
	p, err = r.send(direct(owner, ids[0], ids[1], "sealed anew", "k"))
	same("the same send after a restart", one, p, err)

	elsewhere, otherwise := direct(owner, ids[0], ids[2], "hello", "k"), direct(owner, ids[0], ids[1], "hello", "k")
	otherwise.Type = "svc.v1.task_request"
	for _, s := range []DirectSend{elsewhere, otherwise} {
		if _, err := r.send(s); !errors.Is(err, agent.ErrIdempotencyMismatch) {
			t.Errorf("the key of another send: %v", err)
		}
	}
	back.Original = reply.MessageID()
	if _, err := r.reply(back); !errors.Is(err, conversation.ErrIdempotencyMismatch) {
		t.Errorf("the key of another reply: %v", err)
	}
}
