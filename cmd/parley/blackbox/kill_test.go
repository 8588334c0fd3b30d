package blackbox

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/history"
)

// clientCounts is the number of concurrent clients of each kind.
type clientCounts struct{ writers, movers, readers int }

// TestKillUnderLoad kills the server again and again while clients write with keys,
// follow streams, change statuses and read. After every restart the clients repeat
// unanswered requests with the same keys and read everything again. Package history
// checks the result against all answers recorded so far.
func TestKillUnderLoad(t *testing.T) {
	const kills = 10
	for _, v := range Variants {
		t.Run("journals="+v.Journals, func(t *testing.T) {
			s := Start(t, "--journals", v.Journals)
			w := newRecordedServer(t, s, 2, 6)
			listeners := w.listeners()
			for i := range kills {
				w.runUntilKilled(listeners, clientCounts{12, 3, 3}, time.Duration(100+rand.IntN(300))*time.Millisecond)
				w.restarted()
				w.readAll(listeners, i%3 == 2 || i == kills-1)
				w.check()
			}
			t.Log(&w.tally)
			if w.tally.acked.Load() < 20*kills || w.tally.retried == 0 {
				t.Errorf("too little load: %v", &w.tally)
			}
			w.checkDetectsLosses()
			VerifyDirectory(t, s)
			for _, kind := range []string{"sst", "blob"} { // each start after a kill writes what the log held into them
				if found, err := filepath.Glob(filepath.Join(s.Dir, "journal", "*."+kind)); err != nil || len(found) == 0 {
					t.Errorf("the server was never killed while it had %s files: %v", kind, err)
				}
			}
		})
	}
}

// listeners returns listeners for the popular recipients and for one participant that only
// receives replies.
func (w *recordedServer) listeners() []*listener {
	listeners := []*listener{{name: "first", of: w.popular[0]}, {name: "second", of: w.popular[0]}, {name: "third", of: w.senders[0]}}
	for _, p := range w.popular[1:] {
		listeners = append(listeners, &listener{name: "fourth", of: p})
	}
	return listeners
}

// runUntilKilled runs clients for a while and kills the server during their requests.
func (w *recordedServer) runUntilKilled(listeners []*listener, c clientCounts, d time.Duration) {
	w.runClients(listeners, c, d, w.s.Kill)
	if err := w.s.Log.Trouble(); err != nil {
		w.t.Errorf("%v\n%s", err, w.s.Log.Tail())
	}
}

// runClients runs clients for a while, and then a fault during their last requests.
func (w *recordedServer) runClients(listeners []*listener, c clientCounts, d time.Duration, fault func()) {
	clients := w.startClients(listeners, c)
	time.Sleep(d)
	w.tally.lived += d
	w.dying.Store(true)
	fault()
	clients.Wait()
	w.tally.kills++
}

// runThrough runs clients for a while, and goes on with them during a fault that breaks no
// connections.
func (w *recordedServer) runThrough(listeners []*listener, c clientCounts, d time.Duration, fault func()) {
	clients := w.startClients(listeners, c)
	time.Sleep(d)
	w.tally.lived += d
	w.apart.Store(true)
	fault()
	w.dying.Store(true)
	clients.Wait()
	w.apart.Store(false)
	w.tally.kills++
}

func (w *recordedServer) startClients(listeners []*listener, c clientCounts) *sync.WaitGroup {
	w.dying.Store(false)
	for i := range 6 {
		if len(w.conversations.live) <= i {
			w.begin(w.senders[i%len(w.senders)], append(w.popular, w.senders[0])[i%2])
		}
	}
	wg := &sync.WaitGroup{}
	for i := range c.writers {
		wg.Go(func() { loadClient{w}.writer(w.senders[i%len(w.senders)]) })
	}
	for range c.movers {
		wg.Go(loadClient{w}.mover)
	}
	for range c.readers {
		wg.Go(loadClient{w}.reader)
	}
	for _, l := range listeners {
		wg.Go(func() { l.listen(w) })
	}
	return wg
}

// restarted starts the server again and repeats the unanswered requests.
func (w *recordedServer) restarted() {
	began := time.Now()
	w.s.Restart(w.t)
	w.tally.restarts = append(w.tally.restarts, time.Since(began))
	w.repeatUnanswered()
}

// repeatUnanswered repeats the requests of which nobody knows what became of them.
func (w *recordedServer) repeatUnanswered() {
	w.dying.Store(false)
	again := w.pending
	w.pending = nil
	seen := map[string]bool{}
	again = slices.DeleteFunc(again, func(at attempt) bool {
		twice := seen[at.from.ID+at.key]
		seen[at.from.ID+at.key] = true
		return twice
	})
	outs := Concurrently(len(again), func(i int) history.Send {
		out := w.write(again[i])
		if out.Outcome == history.Acked {
			_, _ = w.page(again[i].to, 5, 1) // a message acknowledged to its sender is in the inbox
		}
		return out
	})
	for i, out := range outs {
		w.tally.retried++
		switch {
		case out.Outcome == history.Unknown:
			w.unexpected("key %s, asked again, is still unknown", again[i].key)
		case out.Outcome == history.Acked && out.Repeat:
			w.tally.before++
			w.tally.acked.Add(1)
		}
	}
}

// readAll reads everything to be checked after all writes have ended. It first sends a
// last message to each participant, which arrives after all others.
func (w *recordedServer) readAll(listeners []*listener, streams bool) {
	parties := w.parties()
	last := Concurrently(len(parties), func(i int) history.Send {
		return w.write(attempt{from: parties[(i+1)%len(parties)], to: parties[i], key: w.newKey()})
	})
	ends := map[*participant]history.ID{}
	for i, out := range last {
		ends[parties[i]] = out.Result.ID
	}
	Concurrently(len(parties), func(i int) bool { return w.whole(parties[i]) })
	if streams {
		for _, p := range parties {
			listeners = append(listeners, &listener{name: "whole", of: p})
		}
	}
	for few := range slices.Chunk(listeners, 4) {
		Concurrently(len(few), func(i int) bool {
			caught := few[i].follow(w, 15*time.Second, ends[few[i].of])
			if !caught {
				w.unexpected("the stream of %s does not come to its end", few[i].of.Name)
			}
			return caught
		})
	}
	all := w.conversations.everyone()
	Concurrently(4, func(part int) error {
		for i, k := range all {
			if i%4 != part {
				continue
			}
			for _, reader := range k.sides {
				if err := w.transcript(k, reader, 200, 1000); err != nil {
					return err
				}
			}
			if _, err := w.look(w.t.Context(), k, k.sides[i/4%2]); err != nil {
				return err
			}
		}
		return nil
	})
}

// whole reads an inbox until it has everything that was acknowledged. After a slow answer
// the effects may follow later; what is missing after 5 s is lost.
func (w *recordedServer) whole(p *participant) bool {
	for began := w.now(); ; time.Sleep(5 * time.Millisecond) {
		page, err := w.page(p, 100, 1<<20)
		if err != nil || w.h.Unread(page) == 0 || w.now()-began > 5*time.Second {
			return err == nil
		}
	}
}

// check ends the test at the first fault, because later faults would only repeat it.
func (w *recordedServer) check() {
	w.t.Helper()
	if faults := w.h.Check(); len(faults) > 0 {
		w.t.Fatalf("after %d kills:\n%s", w.tally.kills, history.Report(faults))
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// checkDetectsLosses removes acknowledged messages from the inbox that was read last: the
// check must report each of them.
func (w *recordedServer) checkDetectsLosses() {
	w.t.Helper()
	p, err := w.page(w.popular[0], 100, 1<<20)
	if err != nil || len(p.Rows) < 20 {
		w.t.Fatalf("no inbox to remove messages from: %d rows, %v", len(p.Rows), err)
	}
	for _, at := range []int{1, len(p.Rows) / 2, len(p.Rows) - 1} {
		reduced := p
		reduced.Asked = w.now()
		reduced.Rows = slices.Delete(slices.Clone(p.Rows), at, at+1)
		other := w.h.Clone()
		other.Paged(reduced)
		faults := other.Check()
		lost := func(f history.Fault) bool { return f.Rule == history.Lost }
		if n := len(slices.DeleteFunc(slices.Clone(faults), func(f history.Fault) bool { return !lost(f) })); n != 1 {
			w.t.Errorf("row %d was removed from the inbox; the check misses %d messages:\n%s", at, n, history.Report(faults))
		}
	}
}

// DistinctIDs returns the ids of rows, which must be distinct.
func DistinctIDs(t testing.TB, rows []obj) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range IDs(rows) {
		if seen[id] {
			t.Errorf("%s is in the inbox twice", id)
		}
		seen[id] = true
	}
	return seen
}

// VerifyDirectory stops the server and verifies its data directory.
func VerifyDirectory(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Drain(15 * time.Second); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(Binary, "verify", "--help")
	cmd.Env = CleanEnvironment()
	if err := cmd.Run(); err != nil {
		t.Log("this binary has no command to verify a directory")
		return
	}
	began := time.Now()
	cmd = exec.Command(Binary, "verify", "--data", s.Dir)
	cmd.Env = CleanEnvironment()
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("parley verify: %v\n%s", err, said)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	t.Logf("parley verify took %v: %s", time.Since(began).Round(time.Millisecond), lines[len(lines)-1])
}
