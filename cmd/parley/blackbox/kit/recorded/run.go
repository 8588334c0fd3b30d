package recorded

import (
	"slices"
	"sync"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/history"
)

// ClientCounts is the number of concurrent clients of each kind.
type ClientCounts struct{ Writers, Movers, Readers int }

// Listeners returns listeners for the popular recipients and for one participant that only
// receives replies.
func (w *Server) Listeners() []*Listener {
	listeners := []*Listener{{name: "first", of: w.Popular[0]}, {name: "second", of: w.Popular[0]}, {name: "third", of: w.Senders[0]}}
	for _, p := range w.Popular[1:] {
		listeners = append(listeners, &Listener{name: "fourth", of: p})
	}
	return listeners
}

// RunClients runs clients for a while, and then a fault during their last requests.
func (w *Server) RunClients(listeners []*Listener, c ClientCounts, d time.Duration, fault func()) {
	clients := w.StartClients(listeners, c)
	time.Sleep(d)
	w.Tally.Lived += d
	w.Dying.Store(true)
	fault()
	clients.Wait()
	w.Tally.Kills++
}

// RunThrough runs clients for a while, and goes on with them during a fault that breaks no
// connections.
func (w *Server) RunThrough(listeners []*Listener, c ClientCounts, d time.Duration, fault func()) {
	clients := w.StartClients(listeners, c)
	time.Sleep(d)
	w.Tally.Lived += d
	w.Apart.Store(true)
	fault()
	w.Dying.Store(true)
	clients.Wait()
	w.Apart.Store(false)
	w.Tally.Kills++
}

// StartClients starts clients, which go on until the server dies.
func (w *Server) StartClients(listeners []*Listener, c ClientCounts) *sync.WaitGroup {
	w.Dying.Store(false)
	for i := range 6 {
		if len(w.Conversations.live) <= i {
			w.Begin(w.Senders[i%len(w.Senders)], append(w.Popular, w.Senders[0])[i%2])
		}
	}
	wg := &sync.WaitGroup{}
	for i := range c.Writers {
		wg.Go(func() { loadClient{w}.writer(w.Senders[i%len(w.Senders)]) })
	}
	for range c.Movers {
		wg.Go(loadClient{w}.mover)
	}
	for range c.Readers {
		wg.Go(loadClient{w}.reader)
	}
	for _, l := range listeners {
		wg.Go(func() { l.listen(w) })
	}
	return wg
}

// RepeatUnanswered repeats the requests of which nobody knows what became of them.
func (w *Server) RepeatUnanswered() {
	w.Dying.Store(false)
	again := w.Pending
	w.Pending = nil
	seen := map[string]bool{}
	again = slices.DeleteFunc(again, func(at Attempt) bool {
		twice := seen[at.From.ID+at.Key]
		seen[at.From.ID+at.Key] = true
		return twice
	})
	outs := kit.Concurrently(len(again), func(i int) history.Send {
		out := w.Write(again[i])
		if out.Outcome == history.Acked {
			_, _ = w.Page(again[i].To, 5, 1) // a message acknowledged to its sender is in the inbox
		}
		return out
	})
	for i, out := range outs {
		w.Tally.Retried++
		switch {
		case out.Outcome == history.Unknown:
			w.unexpected("key %s, asked again, is still unknown", again[i].Key)
		case out.Outcome == history.Acked && out.Repeat:
			w.Tally.before++
			w.Tally.Acked.Add(1)
		}
	}
}

// ReadAll reads everything to be checked after all writes have ended. It first sends a
// last message to each participant, which arrives after all others.
func (w *Server) ReadAll(listeners []*Listener, streams bool) {
	parties := w.Parties()
	last := kit.Concurrently(len(parties), func(i int) history.Send {
		return w.Write(Attempt{From: parties[(i+1)%len(parties)], To: parties[i], Key: w.NewKey()})
	})
	ends := map[*Participant]history.ID{}
	for i, out := range last {
		ends[parties[i]] = out.Result.ID
	}
	kit.Concurrently(len(parties), func(i int) bool { return w.Whole(parties[i]) })
	if streams {
		for _, p := range parties {
			listeners = append(listeners, &Listener{name: "whole", of: p})
		}
	}
	for few := range slices.Chunk(listeners, 4) {
		kit.Concurrently(len(few), func(i int) bool {
			caught := few[i].follow(w, 15*time.Second, ends[few[i].of])
			if !caught {
				w.unexpected("the stream of %s does not come to its end", few[i].of.Name)
			}
			return caught
		})
	}
	all := w.Conversations.everyone()
	kit.Concurrently(4, func(part int) error {
		for i, k := range all {
			if i%4 != part {
				continue
			}
			for _, reader := range k.Sides {
				if err := w.transcript(k, reader, 200, 1000); err != nil {
					return err
				}
			}
			if _, err := w.Look(w.T.Context(), k, k.Sides[i/4%2]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Whole reads an inbox until it has everything that was acknowledged. After a slow answer
// the effects may follow later; what is missing after 5 s is lost.
func (w *Server) Whole(p *Participant) bool {
	for began := w.Now(); ; time.Sleep(5 * time.Millisecond) {
		page, err := w.Page(p, 100, 1<<20)
		if err != nil || w.H.Unread(page) == 0 || w.Now()-began > 5*time.Second {
			return err == nil
		}
	}
}

// Check ends the test at the first fault, because later faults would only repeat it.
func (w *Server) Check() {
	w.T.Helper()
	if faults := w.H.Check(); len(faults) > 0 {
		w.T.Fatalf("after %d kills:\n%s", w.Tally.Kills, history.Report(faults))
	}
	if w.T.Failed() {
		w.T.FailNow()
	}
}

// CheckDetectsLosses removes acknowledged messages from the inbox that was read last: the
// check must report each of them.
func (w *Server) CheckDetectsLosses() {
	w.T.Helper()
	p, err := w.Page(w.Popular[0], 100, 1<<20)
	if err != nil || len(p.Rows) < 20 {
		w.T.Fatalf("no inbox to remove messages from: %d rows, %v", len(p.Rows), err)
	}
	for _, at := range []int{1, len(p.Rows) / 2, len(p.Rows) - 1} {
		reduced := p
		reduced.Asked = w.Now()
		reduced.Rows = slices.Delete(slices.Clone(p.Rows), at, at+1)
		other := w.H.Clone()
		other.Paged(reduced)
		faults := other.Check()
		lost := func(f history.Fault) bool { return f.Rule == history.Lost }
		if n := len(slices.DeleteFunc(slices.Clone(faults), func(f history.Fault) bool { return !lost(f) })); n != 1 {
			w.T.Errorf("row %d was removed from the inbox; the check misses %d messages:\n%s", at, n, history.Report(faults))
		}
	}
}

// next is where the next request goes. The function reports later whether that node was
// struck meanwhile, so that connections to it may break.
func (w *Server) next() (*kit.Server, func() bool) {
	if w.Direct == nil {
		return w.S, func() bool { return false }
	}
	return w.Direct.AnyNode()
}
