package persistence

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
)

// byHand is a Sequencer that gives what is proposed to a test.
type byHand struct {
	mu       sync.Mutex
	refusing error
	batches  chan Committed
}

func (h *byHand) Propose(term uint64, batch []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusing != nil {
		return h.refusing
	}
	h.batches <- Committed{Term: term, Batch: append([]byte(nil), batch...)}
	return nil
}

func (h *byHand) Fence(context.Context) (uint64, error) { return 0, errors.ErrUnsupported }

func (h *byHand) Confirm(context.Context, uint64) error { return errors.ErrUnsupported }

// openByHand opens a replica that does not lead yet.
func openByHand(t *testing.T) (*byHand, *Store, *Replica) {
	t.Helper()
	h := &byHand{batches: make(chan Committed, 64)}
	o := testOptions(vfs.NewMem(), 1)
	o.Sequencer, o.TimerEvery = h, time.Hour
	s := mustOpen(t, "replica", o)
	t.Cleanup(func() { mustClose(t, s) })
	r, err := s.Replica()
	if err == nil {
		err = s.Start(ignoreQueue, ignoreTimer)
	}
	if err == nil {
		err = r.Begin(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h, s, r
}

// TestStepDown: what was applied is released, what was proposed has an unknown outcome unless
// it was never made, and of everything behind that nothing was done. The same replica may lead
// again.
func TestStepDown(t *testing.T) {
	h, s, r := openByHand(t)
	row := byte(0)
	// entry appends a row; wait says that its batch is waited for, so that the next entry
	// comes into another one.
	entry := func(wait bool) (<-chan error, *Committed) {
		row++
		released := make(chan error, 1)
		s.Append(&journal.Entry{
			Rows: []journal.Row{{Table: journal.OnceTable, Key: []byte{row}, Value: []byte{row}}},
			At:   testStart, Release: func(err error) { released <- err },
		})
		if !wait {
			return released, nil
		}
		c := <-h.batches
		return released, &c
	}
	expect := func(what string, released <-chan error, want error) {
		t.Helper()
		if err := <-released; !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	for term := uint64(2); term < 5; term++ {
		unproposed := int(term - 2)
		if err := r.Lead(term); err != nil {
			t.Fatal(err)
		}
		applied, c := entry(true)
		c.Index = r.Applied().Number + 1
		if err := r.Apply([]Committed{*c}, nil); err != nil {
			t.Fatal(err)
		}
		expect("applied", applied, nil)
		var proposed []<-chan error
		for range 3 {
			released, _ := entry(true)
			proposed = append(proposed, released)
		}
		stale := make(chan error, 1) // it is refused, and so writes nothing, and waits behind the batches
		s.Append(&journal.Entry{Stream: newStream(0), Activation: s.NextActivation(), At: testStart, Release: func(err error) { stale <- err }})
		for len(s.lead.Load().slots) < 4 {
			time.Sleep(time.Millisecond)
		}
		h.mu.Lock()
		h.refusing = errors.New("the term is over")
		h.mu.Unlock()
		refused, _ := entry(false)
		expect("refused", refused, journal.ErrNotLeader)
		behind, _ := entry(false)
		r.StepDown(func() int {
			late, _ := entry(false)
			expect("appended while the unproposed ones are counted", late, journal.ErrNotLeader)
			return unproposed
		})
		for i, released := range proposed {
			want := error(parley.ErrOutcomeUnknown)
			if i >= len(proposed)-unproposed {
				want = journal.ErrNotLeader
			}
			expect("proposed", released, want)
		}
		expect("a refusal that builds on them", stale, journal.ErrNotLeader)
		expect("behind a refused one", behind, journal.ErrNotLeader)
		late, _ := entry(false)
		expect("after the end", late, journal.ErrNotLeader)
		h.refusing = nil
	}
}
