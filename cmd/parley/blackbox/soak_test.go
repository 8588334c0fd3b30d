package blackbox

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"parley/cmd/parley/history"
)

var (
	soakFor   = flag.Duration("soak", 0, "how long TestSoak may take; it is left out without")
	soakKills = flag.Int("soak.kills", 1000, "how often TestSoak kills the server")
	soakAcked = flag.Int64("soak.acked", 1_000_000, "how many acknowledged messages TestSoak wants")
)

// pastInbox is an inbox of a past era, in the order that was checked.
type pastInbox struct {
	of    *participant
	order []history.ID // newest first
}

// TestSoak is TestKillUnderLoad for a chosen duration. Each era has new agents and a new
// history, on the same directory. After an era only the order of its inboxes is kept. It
// is read again from time to time and at the end.
//
//	go test ./cmd/parley/blackbox -run '^TestSoak$' -v -soak 20m -timeout 40m
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("runs only with -soak")
	}
	for _, v := range Variants {
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
	s := Start(t, "--journals", journals)
	began := time.Now()
	var sum tally
	var past []pastInbox
	for sum.kills < kills || sum.acked.Load() < acked {
		if time.Since(began) > soakPatience*limit {
			t.Errorf("%v have passed, with %v", soakPatience*limit, &sum)
			break
		}
		w := newRecordedServer(t, s, 4, 8)
		listeners := w.listeners()
		w.era(listeners, killsPerEra, func() time.Duration { return pace(&sum, &w.tally, kills, acked) })
		past = append(past, w.keep()...)
		w.tally.addTo(&sum)
		read(t, s, AnyOf(past))
		if sum.kills%50 == 0 {
			t.Logf("%v: %v", time.Since(began).Round(time.Second), &sum)
		}
	}
	t.Logf("%v: %v", time.Since(began).Round(time.Second), &sum)
	for _, k := range past {
		read(t, s, k)
	}
	t.Logf("%v: read everything again", time.Since(began).Round(time.Second))
	VerifyDirectory(t, s)
}

// era is a part of a soak with new agents and a new history.
func (w *recordedServer) era(listeners []*listener, kills int, life func() time.Duration) {
	for i := range kills {
		w.runUntilKilled(listeners, clientCounts{24, 3, 2}, life())
		w.restarted()
		w.readAll(listeners, i%5 == 4)
		w.check()
	}
}

// pace returns how long the server should live, so that messages and kills reach their
// targets together.
func pace(sum, now *tally, kills int, acked int64) time.Duration {
	done, lived := sum.acked.Load()+now.acked.Load(), sum.lived+now.lived
	perSecond := 2500.0
	if lived > 3*time.Second {
		perSecond = float64(done) / lived.Seconds()
	}
	left := max(1, kills-sum.kills-now.kills)
	mean := min(max(float64(acked-done)/float64(left)/perSecond, 0.2), 2)
	return time.Duration(mean * (0.5 + rand.Float64()) * float64(time.Second))
}

func (y *tally) addTo(sum *tally) {
	sum.kills += y.kills
	sum.retried += y.retried
	sum.before += y.before
	sum.acked.Add(y.acked.Load())
	sum.lived += y.lived
	sum.restarts = append(sum.restarts, y.restarts...)
}

// keep remembers the inboxes of an era.
func (w *recordedServer) keep() []pastInbox {
	var all []pastInbox
	for _, p := range w.parties() {
		page, err := w.page(p, 100, 1<<20)
		if err != nil {
			w.t.Fatal(err)
		}
		k := pastInbox{of: p}
		for _, m := range page.Rows {
			k.order = append(k.order, m.ID)
		}
		all = append(all, k)
	}
	return all
}

// read reads an inbox of a past era again: it must be unchanged.
func read(t *testing.T, s *Server, k pastInbox) {
	t.Helper()
	k.of.Token = s.Grant(t, k.of.Client, k.of.Secret).Want(200).Str("access_token")
	w := &recordedServer{t: t, s: s, h: history.New(SettleWait), began: time.Now()}
	page, err := w.page(k.of, 100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range k.order {
		if i >= len(page.Rows) || page.Rows[i].ID != id {
			t.Fatalf("row %d of the inbox of %s was %s; it now has %d rows of %d", i, k.of.ID, id, len(page.Rows), len(k.order))
		}
	}
	if len(page.Rows) != len(k.order) {
		t.Fatalf("the inbox of %s has %d rows, and had %d", k.of.ID, len(page.Rows), len(k.order))
	}
}
