package durability

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// TestKillUnderLoad kills the server again and again while clients write with keys,
// follow streams, change statuses and read. After every restart the clients repeat
// unanswered requests with the same keys and read everything again. Package history
// checks the result against all answers recorded so far.
func TestKillUnderLoad(t *testing.T) {
	const kills = 10
	for _, v := range kit.Variants {
		t.Run("journals="+v.Journals, func(t *testing.T) {
			s := kit.Start(t, "--journals", v.Journals)
			w := recorded.NewServer(t, s, 2, 6)
			listeners := w.Listeners()
			for i := range kills {
				runUntilKilled(w, listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, time.Duration(100+rand.IntN(300))*time.Millisecond)
				restarted(w)
				w.ReadAll(listeners, i%3 == 2 || i == kills-1)
				w.Check()
			}
			t.Log(&w.Tally)
			if w.Tally.Acked.Load() < 20*kills || w.Tally.Retried == 0 {
				t.Errorf("too little load: %v", &w.Tally)
			}
			w.CheckDetectsLosses()
			kit.VerifyDirectory(t, s)
			for _, kind := range []string{"sst", "blob"} { // each start after a kill writes what the log held into them
				if found, err := filepath.Glob(filepath.Join(s.Dir, "journal", "*."+kind)); err != nil || len(found) == 0 {
					t.Errorf("the server was never killed while it had %s files: %v", kind, err)
				}
			}
		})
	}
}

// runUntilKilled runs clients for a while and kills the server during their requests.
func runUntilKilled(w *recorded.Server, listeners []*recorded.Listener, c recorded.ClientCounts, d time.Duration) {
	w.RunClients(listeners, c, d, w.S.Kill)
	if err := w.S.Log.Trouble(); err != nil {
		w.T.Errorf("%v\n%s", err, w.S.Log.Tail())
	}
}

// restarted starts the server again and repeats the unanswered requests.
func restarted(w *recorded.Server) {
	began := time.Now()
	w.S.Restart(w.T)
	w.Tally.Restarts = append(w.Tally.Restarts, time.Since(began))
	w.RepeatUnanswered()
}
