package host

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// TestAnswersWaitForTheirEntry holds an entry. Answers, refusals and reads that depend
// on it must wait.
func TestAnswersWaitForTheirEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newEngine(t, 1)
		s := streamOf(1)
		if a := <-askInBackground(e, s, look{}); a.reply != uint64(0) || a.err != nil {
			t.Fatalf("an empty tally answers %v", a)
		}
		l.hold(true)
		added := askInBackground(e, s, add(5))
		synctest.Wait()
		refused := askInBackground(e, s, add(13))
		looked := askInBackground(e, s, look{})
		synctest.Wait()
		if !noneAnswered(added, refused, looked) {
			t.Fatal("an answer left before the entry was durable")
		}
		more := askInBackground(e, s, add(2))
		synctest.Wait()
		late := askInBackground(e, s, look{})
		synctest.Wait()
		l.release(1)
		synctest.Wait()
		if a := <-added; a.reply != uint64(5) || a.err != nil {
			t.Errorf("the addition was answered with %v", a)
		}
		if a := <-refused; !errors.Is(a.err, errOdd) {
			t.Errorf("the refusal was %v", a)
		}
		if a := <-looked; a.reply != uint64(5) {
			t.Errorf("the look was answered with %v", a)
		}
		if !noneAnswered(more, late) {
			t.Error("the second entry's answers left with the first entry")
		}
		l.release(1)
		if a := <-late; a.reply != uint64(7) {
			t.Errorf("the late look was answered with %v", a)
		}
		<-more
	})
}

// TestReadOfARowWaitsForNoLaterEntry reads a row that is not durable yet. The answer
// waits for the row's entry, and not for one that was appended after the read.
func TestReadOfARowWaitsForNoLaterEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newEngine(t, 1)
		s := streamOf(1)
		<-askInBackground(e, s, add(1))
		l.hold(true)
		stored := askInBackground(e, s, put{})
		synctest.Wait()
		read := askInBackground(e, s, get{})
		synctest.Wait()
		later := askInBackground(e, s, add(2))
		synctest.Wait()
		if !noneAnswered(stored, read, later) {
			t.Fatal("an answer left before its entry was durable")
		}
		l.release(1)
		synctest.Wait()
		if noneAnswered(read) {
			t.Error("the read waits for the entry after it")
		}
		l.release(1)
		<-stored
		<-read
		<-later
	})
}

// TestFailedEntryFailsDependentAnswers has the journal reject an entry. Requests that
// depend on it get an unknown outcome; later ones are answered from rows.
func TestFailedEntryFailsDependentAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newEngine(t, 1)
		s := streamOf(1)
		<-askInBackground(e, s, add(1))
		l.hold(true)
		l.mu.Lock()
		l.fail = journal.ErrStale
		l.mu.Unlock()
		var resting []<-chan answer
		for _, request := range []any{add(5), add(13), look{}, add(6), look{}} {
			resting = append(resting, askInBackground(e, s, request))
			synctest.Wait()
		}
		if !noneAnswered(resting...) {
			t.Fatal("an answer left before the journal decided on the entry")
		}
		entered, leave := make(chan struct{}), make(chan struct{})
		busy := askInBackground(e, s, hold{entered, leave})
		<-entered
		queued := askInBackground(e, s, look{}) // not served by the failed activation
		synctest.Wait()
		l.hold(false)
		l.release(2)
		synctest.Wait()
		for i, place := range resting {
			if a := <-place; !errors.Is(a.err, parley.ErrOutcomeUnknown) {
				t.Errorf("request %d was answered with %v", i, a)
			}
		}
		close(leave)
		if a := <-queued; a.reply != uint64(1) || a.err != nil {
			t.Errorf("the queued look was answered with %v", a)
		}
		if a := <-busy; !errors.Is(a.err, parley.ErrOutcomeUnknown) {
			t.Errorf("the failed activation answered with %v", a)
		}
		if a := <-askInBackground(e, s, add(4)); a.reply != uint64(5) {
			t.Errorf("an addition after the failure was answered with %v", a)
		}
	})
}

// TestPanicIsAnsweredAtOnce: a panic ends the activation and its half-changed state;
// the next activation serves the waiting requests.
func TestPanicIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newEngine(t, 1)
		s := streamOf(1)
		<-askInBackground(e, s, add(3))
		l.hold(true)
		held := askInBackground(e, s, add(4))
		synctest.Wait()
		entered, leave := make(chan struct{}), make(chan struct{})
		busy := askInBackground(e, s, hold{entered, leave})
		<-entered
		spoiled := askInBackground(e, s, spoil{})
		synctest.Wait()
		queued := askInBackground(e, s, look{})
		synctest.Wait()
		close(leave)
		synctest.Wait()
		if a := <-spoiled; !errors.Is(a.err, parley.ErrInternal) {
			t.Errorf("a panic is answered with %v", a)
		}
		if !noneAnswered(held, busy) {
			t.Error("a panic released answers that were held")
		}
		l.hold(false)
		l.release(1)
		if a := <-held; a.reply != uint64(7) || a.err != nil {
			t.Errorf("the entry appended before the panic was answered with %v", a)
		}
		if a := <-queued; a.reply != uint64(7) || a.err != nil {
			t.Errorf("the ask queued after the panic was answered with %v", a)
		}
		<-busy
	})
}

// TestDamagedRowsAreInternal: an actor whose rows cannot be decoded answers with an
// internal error, and the process continues.
func TestDamagedRowsAreInternal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newEngine(t, 1)
		l.stream(streamOf(1)).state = []byte("rot")
		l.stream(streamOf(2)).events = []journal.StoredEvent{{Tag: 1, Data: []byte("rot")}}
		for n := byte(1); n <= 2; n++ {
			for range 3 {
				if a := <-askInBackground(e, streamOf(n), look{}); !errors.Is(a.err, parley.ErrInternal) {
					t.Errorf("damaged tally %d answers %v", n, a)
				}
			}
		}
		if a := <-askInBackground(e, streamOf(3), add(1)); a.err != nil {
			t.Errorf("an undamaged tally answers %v", a)
		}
		l.mu.Lock()
		l.streams[streamOf(1)] = &fakeStream{}
		l.mu.Unlock()
		if a := <-askInBackground(e, streamOf(1), add(1)); a.reply != uint64(1) || a.err != nil {
			t.Errorf("a repaired tally answers %v", a)
		}
	})
}

// TestDamageOfNodeIsOverload: where another node can take over, an actor that fails on a node
// with a damaged file answers that nothing was done. Without such a file it is a defect.
func TestDamageOfNodeIsOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newEngine(t, 1, func(e *Engine) { e.Router = decidesHere{} })
		for file, want := range map[string]error{"": parley.ErrInternal, "000001.sst": parley.ErrOverloaded} {
			l.damage = file
			l.stream(streamOf(1)).state = []byte("rot")
			for _, request := range []any{look{}, add(1)} {
				if a := <-askInBackground(e, streamOf(1), request); !errors.Is(a.err, want) {
					t.Errorf("with the damaged file %q %T is answered with %v", file, request, a)
				}
			}
		}
	})
}

// decidesHere is the router of a node that leads.
type decidesHere struct{}

func (decidesHere) Ask(r Request, here func(Request) (any, error)) (any, error) { return here(r) }

// TestTimeoutReportsUnknownOutcome holds an entry for longer than AnswerTimeout.
func TestTimeoutReportsUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newEngine(t, 1)
		s := streamOf(1)
		<-askInBackground(e, s, add(1))
		l.hold(true)
		began := time.Now()
		late := askInBackground(e, s, add(2))
		if a := <-late; !errors.Is(a.err, parley.ErrOutcomeUnknown) || time.Since(began) != AnswerTimeout {
			t.Errorf("after %v the ask was answered with %v", time.Since(began), a)
		}
		entered, leave := make(chan struct{}), make(chan struct{})
		busy := askInBackground(e, s, hold{entered, leave})
		<-entered
		waiting := askInBackground(e, s, add(100))
		<-busy
		<-waiting
		time.Sleep(time.Nanosecond) // past its deadline
		close(leave)
		synctest.Wait()
		l.hold(false)
		l.release(1)
		if a := <-askInBackground(e, s, look{}); a.reply != uint64(3) {
			t.Errorf("an addition whose caller had timed out was made: %v", a)
		}
	})
}

// TestQueuedMessagesAreHandledOnceDespitePassivation enqueues numbers for a tally that
// is passivated repeatedly.
func TestQueuedMessagesAreHandledOnceDespitePassivation(t *testing.T) {
	e, l := newEngine(t, 3, func(e *Engine) { e.IdleFor = time.Nanosecond })
	s := streamOf(1)
	stop, swept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swept)
		for {
			select {
			case <-stop:
				return
			default:
				e.Sweep()
			}
		}
	}()
	const words = 2000
	for n := 1; n <= words; n++ {
		l.enqueueNumber(s, 1)
		e.Drain(s)
		// No request is sent: the hint alone must make the actor drain its queue.
		eventually(t, "the queue is empty", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.stream(s).queue) == 0
		})
	}
	close(stop)
	<-swept
	if sum, err := e.ask(s, look{}, nil, func() {}); sum != uint64(words) || err != nil {
		t.Errorf("%d messages of 1 each gave %v, %v", words, sum, err)
	}
}

// TestShortActivationsStoreState: activations of one event each store the state as
// often as one long activation.
func TestShortActivationsStoreState(t *testing.T) {
	const every = 4
	e, l := newEngine(t, every)
	s := streamOf(1)
	for n := range 20 {
		if _, err := e.ask(s, add(1), nil, func() {}); err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		behind := uint64(len(l.stream(s).events)) - l.stream(s).stored
		l.mu.Unlock()
		if behind >= every {
			t.Fatalf("after %d events the stored state is %d events behind", n+1, behind)
		}
		e.drop(e.actor(s), errStopped)
	}
}

// TestActorNoticesStreamCreatedLater asks an actor before its stream exists, and again
// after another entry has created the stream.
func TestActorNoticesStreamCreatedLater(t *testing.T) {
	e, l := newEngine(t, 1)
	s := streamOf(1)
	if sum, err := e.ask(s, look{}, nil, func() {}); sum != uint64(0) || err != nil {
		t.Fatalf("without a stream the tally answers %v, %v", sum, err)
	}
	l.mu.Lock() // as an entry of another actor does
	l.stream(s).events = []journal.StoredEvent{{Tag: 1, Data: []byte{7: 9}}}
	l.mu.Unlock()
	if sum, err := e.ask(s, add(1), nil, func() {}); sum != uint64(10) || err != nil {
		t.Errorf("with a stream the tally answers %v, %v", sum, err)
	}
}
