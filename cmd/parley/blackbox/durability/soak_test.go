package durability

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

var (
	soakFor   = flag.Duration("soak", 0, "how long TestSoak may take; it is left out without")
	soakKills = flag.Int("soak.kills", 1000, "how often TestSoak kills the server")
	soakAcked = flag.Int64("soak.acked", 1_000_000, "how many acknowledged messages TestSoak wants")
)

// TestSoak is TestKillUnderLoad for a chosen duration. Each era has new agents and a new
// history, on the same directory. After an era only the order of its inboxes is kept. It
// is read again from time to time and at the end.
//
//	go test ./cmd/parley/blackbox/durability -run '^TestSoak$' -v -soak 20m -timeout 40m
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("runs only with -soak")
	}
	for _, v := range kit.Variants {
		t.Run("journals="+v.Journals, func(t *testing.T) {
			t.Parallel() // each waits for its server and its disk half of the time
			soak(t, v.Journals, *soakFor, *soakKills/2, *soakAcked/2)
		})
	}
}

// soakPatience is the factor by which a soak may exceed its planned time on a busy
// machine.
const soakPatience = 3

// soak runs until there were enough kills and enough messages.
func soak(t *testing.T, journals string, limit time.Duration, kills int, acked int64) {
	const killsPerEra = 5
	s := kit.Start(t, "--journals", journals)
	began := time.Now()
	var sum recorded.Tally
	var past []recorded.PastInbox
	for sum.Kills < kills || sum.Acked.Load() < acked {
		if time.Since(began) > soakPatience*limit {
			t.Errorf("%v have passed, with %v", soakPatience*limit, &sum)
			break
		}
		w := recorded.NewServer(t, s, 4, 8)
		listeners := w.Listeners()
		runEra(w, listeners, killsPerEra, func() time.Duration { return pace(&sum, &w.Tally, kills, acked) })
		past = append(past, w.Keep()...)
		w.Tally.AddTo(&sum)
		recorded.Read(t, s, kit.AnyOf(past))
		if sum.Kills%50 == 0 {
			t.Logf("%v: %v", time.Since(began).Round(time.Second), &sum)
		}
	}
	t.Logf("%v: %v", time.Since(began).Round(time.Second), &sum)
	for _, k := range past {
		recorded.Read(t, s, k)
	}
	t.Logf("%v: read everything again", time.Since(began).Round(time.Second))
	kit.VerifyDirectory(t, s)
}

// runEra is a part of a soak with new agents and a new history.
func runEra(w *recorded.Server, listeners []*recorded.Listener, kills int, life func() time.Duration) {
	for i := range kills {
		runUntilKilled(w, listeners, recorded.ClientCounts{Writers: 24, Movers: 3, Readers: 2}, life())
		restarted(w)
		w.ReadAll(listeners, i%5 == 4)
		w.Check()
	}
}

// pace returns how long the server should live, so that messages and kills reach their
// targets together.
func pace(sum, now *recorded.Tally, kills int, acked int64) time.Duration {
	done, lived := sum.Acked.Load()+now.Acked.Load(), sum.Lived+now.Lived
	perSecond := 2500.0
	if lived > 3*time.Second {
		perSecond = float64(done) / lived.Seconds()
	}
	left := max(1, kills-sum.Kills-now.Kills)
	mean := min(max(float64(acked-done)/float64(left)/perSecond, 0.2), 2)
	return time.Duration(mean * (0.5 + rand.Float64()) * float64(time.Second))
}
