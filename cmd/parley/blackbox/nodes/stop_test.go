package nodes

import (
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// TestLeaderHalted halts the process of the leader under load, so that its connections stay
// open and its answers do not come, and lets it go on after others have taken over. What it
// answers then must be right too.
func TestLeaderHalted(t *testing.T) {
	n := kit.StartNodes(t, 3)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	listeners := w.Listeners()
	for i := range 3 {
		victim := n.Leader()
		w.Apart.Store(true) // when it goes on it sheds load, because nothing got a processor for long
		w.RunClients(listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, 300*time.Millisecond, func() {
			if err := victim.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			n.Avoid(victim, true) // its health check fails
			t.Logf("first 201 after the leader was halted: %v", firstSend(w).Round(time.Millisecond))
			time.Sleep(time.Duration(i) * time.Second)
			if err := victim.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			n.Avoid(victim, false)
			time.Sleep(200 * time.Millisecond)
		})
		w.Apart.Store(false)
		w.RepeatUnanswered()
		n.Ready(t)
		w.ReadAll(listeners, i == 2)
		w.Check()
	}
	t.Log(&w.Tally)
}

// TestRollingRestart stops and starts each node of a cluster in turn while clients work. A
// load balancer that heeds /readyz hides it: no request fails, and no outcome is unknown.
func TestRollingRestart(t *testing.T) {
	n := kit.StartNodes(t, 3)
	n.Heed(t)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	listeners := w.Listeners()
	for range 3 {
		victim := n.Leader()
		w.RunClients(nil, recorded.ClientCounts{Writers: 8, Movers: 2, Readers: 3}, 300*time.Millisecond, func() {
			w.Dying.Store(false) // everything has to be answered
			began := time.Now()
			if err := victim.Drain(15 * time.Second); err != nil {
				t.Errorf("%v\n%s", err, victim.Log.Tail())
			}
			took := time.Since(began)
			if err := victim.Again(); err != nil {
				t.Fatal(err)
			}
			t.Logf("node %s stopped in %v and was ready again after %v", victim.Flag("--node-name"), took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			n.Ready(t)
			w.Dying.Store(true)
		})
		if len(w.Pending) > 0 {
			t.Errorf("the outcome of %d requests is unknown", len(w.Pending))
		}
		w.RepeatUnanswered()
		w.ReadAll(listeners, true)
		w.Check()
	}
	t.Log(&w.Tally)
}
