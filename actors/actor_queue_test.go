package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
	"parley/actors/agent"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/crashtest"
)

// garble is a word that nobody can decode.
var garble = []byte("\xff\xffthis is no word")

// tell stores words for an actor, as another actor's turn would.
func tell(t testing.TB, s *persistence.Store, to journal.Stream, words ...[]byte) {
	t.Helper()
	stored := make(chan error, 1)
	e := &journal.Entry{Slot: to.Slot(), At: noon, Release: func(err error) { stored <- err }}
	for _, word := range words {
		e.Effects = append(e.Effects, journal.EnqueueFor{To: to, Data: word})
	}
	s.Append(e)
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
}

// kept are the words that lie in an actor's tray and in quarantine.
func kept(t testing.TB, v journal.View, s journal.Stream) (tray, quarantine [][]byte) {
	t.Helper()
	err := v.Queue(s, 0, func(r journal.QueuedMessage) bool { tray = append(tray, r.Data); return true })
	prefix := append([]byte{byte(s.Kind)}, s.ID[:]...)
	err = errors.Join(err, v.Rows(s.Slot(), journal.QuarantineTable, prefix, nil, false, func(_, value []byte) bool {
		quarantine = append(quarantine, bytes.Clone(value[8:]))
		return true
	}))
	if err != nil {
		t.Error(err)
	}
	return tray, quarantine
}

// TestAWordThatFailsIsHeardAgain: where a word cannot be handled, it stays where it
// is and nothing of the turn is kept; it is tried again without being asked for.
func TestAWordThatFailsIsHeardAgain(t *testing.T) {
	var broken atomic.Bool
	var tries atomic.Int64
	e, l := tallies(t, 1, func(e *engine) {
		e.retries.first = time.Millisecond
		k := tallyKind(1)
		k.handleQueued = func(t *turn[*tally, add, *tally], said *record.SagaMessage) error {
			if err := t.decide(add(said.GetNumber())); err != nil {
				return err
			}
			if tries.Add(1); broken.Load() {
				return errors.New("the disk cannot be read")
			}
			return nil
		}
		register(e, k)
	})
	s := streamOf(1)
	if a := <-asking(e, s, add(1)); a.err != nil {
		t.Fatal(a.err)
	}
	broken.Store(true)
	l.tell(s, 5)
	l.tell(s, 7)
	l.onTray(s)
	eventually(t, "the word is tried three times", func() bool { return tries.Load() >= 3 })
	l.mu.Lock()
	if st := l.stream(s); len(st.tray) != 2 || len(st.facts) != 1 {
		t.Errorf("after a failure %d of 2 words are left, and there are %d events", len(st.tray), len(st.facts))
	}
	l.mu.Unlock()
	broken.Store(false)
	eventually(t, "the tray is empty", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.stream(s).tray) == 0 })
	if a := <-asking(e, s, look{}); a.err != nil || a.reply != uint64(13) {
		t.Errorf("the sum is %v (%v), not 13", a.reply, a.err)
	}
	eventually(t, "the failures are forgotten", func() bool { return e.retries.count.Load() == 0 })
}

// armed keeps what a test fires itself.
type armed struct {
	mu     sync.Mutex
	pauses []time.Duration
	fire   []func()
}

func (a *armed) after(d time.Duration, f func()) *time.Timer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pauses, a.fire = append(a.pauses, d), append(a.fire, f)
	return time.NewTimer(time.Hour)
}

func (a *armed) count() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.fire) }

func (a *armed) last() func() { a.mu.Lock(); defer a.mu.Unlock(); return a.fire[len(a.fire)-1] }

// TestRetriesComeLaterEachTime until one succeeds.
func TestRetriesComeLaterEachTime(t *testing.T) {
	a := &armed{}
	r := &retries{first: time.Second, after: a.after}
	var hints []hint
	nudge := func(_ journal.Stream, what hint) { hints = append(hints, what) }
	s := streamOf(1)
	for range 8 {
		r.failed(s, toDrain, nudge)
		r.failed(s, toWork, nudge) // goes with the timer that is armed
		a.last()()
	}
	stale := a.last()
	r.passed(s)
	r.failed(s, toDrain, nudge)
	stale()
	var want []time.Duration
	for _, n := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 1} {
		want = append(want, n*time.Second)
	}
	if !slices.Equal(a.pauses, want) {
		t.Errorf("the pauses are %v, want %v", a.pauses, want)
	}
	if !slices.Equal(hints, slices.Repeat([]hint{toDrain | toWork}, 8)) {
		t.Errorf("the hints are %v", hints)
	}
}

// TestFailuresShareOneTimer: an actor that fails at each of many asks has one retry
// pending, and the next is armed when that has failed too.
func TestFailuresShareOneTimer(t *testing.T) {
	a := &armed{}
	var tries atomic.Int64
	e, l := tallies(t, 1, func(e *engine) {
		e.retries.after = a.after
		k := tallyKind(1)
		k.handleQueued = func(*turn[*tally, add, *tally], *record.SagaMessage) error {
			tries.Add(1)
			return errors.New("the disk cannot be read")
		}
		register(e, k)
	})
	s := streamOf(1)
	l.tell(s, 5)
	const asks = 300
	for range asks {
		<-asking(e, s, look{})
	}
	if n := a.count(); n != 1 || tries.Load() < asks/2 {
		t.Fatalf("%d failures armed %d timers", tries.Load(), n)
	}
	before := tries.Load()
	a.last()()
	eventually(t, "the retry fails and arms the next", func() bool { return tries.Load() == before+1 && a.count() == 2 })
}

// TestWordsThatCannotBeDecoded lists what no actor understands.
func TestWordsThatCannotBeDecoded(t *testing.T) {
	id := make([]byte, 16)
	for name, x := range map[string]struct {
		to   journal.StreamKind
		said *record.SagaMessage
		fine bool
	}{
		"an offer":                   {journal.AgentStream, &record.SagaMessage{Kind: record.SagaMessage_offer, Group: id}, true},
		"an offer of no group":       {journal.AgentStream, &record.SagaMessage{Kind: record.SagaMessage_offer}, false},
		"an offer to a group":        {journal.GroupStream, &record.SagaMessage{Kind: record.SagaMessage_offer, Group: id}, false},
		"an answer":                  {journal.GroupStream, &record.SagaMessage{Kind: record.SagaMessage_answer, Agent: id}, true},
		"an answer of half an agent": {journal.GroupStream, &record.SagaMessage{Kind: record.SagaMessage_answer, Agent: id[:8]}, false},
		"a concern":                  {journal.AgentStream, &record.SagaMessage{Kind: record.SagaMessage_concern, Group: id, Request: id}, true},
		"a concern without a request": {
			journal.AgentStream, &record.SagaMessage{Kind: record.SagaMessage_concern, Group: id}, false,
		},
		"the end of a group":     {journal.OrgStream, &record.SagaMessage{Kind: record.SagaMessage_ended, Group: id}, true},
		"a retirement as a word": {journal.OrgStream, &record.SagaMessage{Kind: record.SagaMessage_retired, Agent: id}, false},
		"a word of a new kind":   {journal.AgentStream, &record.SagaMessage{Kind: 99, Group: id}, false},
		"the end of a webhook":   {journal.WebhookStream, &record.SagaMessage{Kind: record.SagaMessage_forget, Agent: id}, true},
		"a word for a conversation": {
			journal.ConversationStream, &record.SagaMessage{Kind: record.SagaMessage_forget, Agent: id}, false,
		},
	} {
		word, err := x.said.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := record.DecodeSagaMessage(x.to, word); (err == nil) != x.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
	if said, err := record.DecodeSagaMessage(journal.OrgStream, append([]byte{record.Retired}, id...)); err != nil || said.GetKind() != record.SagaMessage_retired {
		t.Errorf("a retirement: %v, %v", said, err)
	}
	if _, err := record.DecodeSagaMessage(journal.OrgStream, garble); err == nil {
		t.Error("what is no word was decoded")
	}
}

// TestAWordThatCannotBeDecodedIsKept: it goes to quarantine, the next ones are
// heard, and the log, the count and an audit say so.
func TestAWordThatCannotBeDecodedIsKept(t *testing.T) {
	for _, journals := range []int{1, 4} {
		r := newRig(t, withJournals(journals))
		owner, ids := r.agents("acme", 2)
		to := rules.OrgStream(owner)
		log := &lockedBuffer{}
		r.node.engine.logger = slog.New(slog.NewTextHandler(log, nil))
		tell(t, r.store, to, garble, []byte{}, garble)
		must(r.node.ChangeAgent(context.Background(), ids[0], agent.Revoke{}))(t)
		eventually(t, "the revoked agent is counted out", func() bool { return must(r.node.OrgNow(context.Background(), owner))(t).GetActiveAgents() == 1 })
		eventually(t, "the words are counted", func() bool { return r.node.Stats().Quarantined == 3 })
		r.restart() // whatever is aside must not be in the way
		v := r.store.View()
		tray, quarantine := kept(t, v, to)
		v.Close()
		if len(tray) != 0 || len(quarantine) != 3 || !bytes.Equal(quarantine[0], garble) || len(quarantine[1]) != 0 || !bytes.Equal(quarantine[2], garble) {
			t.Errorf("in the tray: %q, in quarantine: %q", tray, quarantine)
		}
		if n := strings.Count(log.String(), "level=ERROR msg=\"a stored word cannot be decoded and was put into quarantine"); n != 3 || !strings.Contains(log.String(), owner.String()) {
			t.Errorf("the log says so %d times:\n%s", n, log)
		}
		audit := auditOf(t, r.store)
		found := audit.First(10)
		if len(found) != 3 {
			t.Fatalf("the audit found %d faults, not 3: %v", len(found), found)
		}
		for _, f := range found {
			if f.Check != "quarantine" || !strings.Contains(f.Where, owner.String()) {
				t.Errorf("the audit found %v", f)
			}
		}
		if !strings.Contains(found[0].Means, fmt.Sprintf("%x", garble)) {
			t.Errorf("the audit does not tell the bytes: %v", found[0])
		}
		r.close() // with what the audit at the end would find
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// trayReader counts what is read of trays, and what of it is not durable yet.
type trayReader struct {
	journal.Journal
	page, underway, underwayMost, handled atomic.Int64
}

func (j *trayReader) Latest() journal.View { return trayView{j.Journal.Latest(), j} }

type trayView struct {
	journal.View
	of *trayReader
}

func (v trayView) Queue(s journal.Stream, beyond uint64, fn func(journal.QueuedMessage) bool) error {
	n := int64(0)
	err := v.View.Queue(s, beyond, func(r journal.QueuedMessage) bool { n++; return fn(r) })
	v.of.page.Store(max(v.of.page.Load(), n))
	return err
}

func (j *trayReader) Append(e *journal.Entry) {
	if n := int64(len(e.Handled)); n > 0 {
		release := e.Release
		j.underwayMost.Store(max(j.underwayMost.Load(), j.underway.Add(n)))
		e.Release = func(err error) {
			j.underway.Add(-n)
			j.handled.Add(n)
			release(err)
		}
	}
	j.Journal.Append(e)
}

// longTray has an agent find a tray of so many words at a start, and asks it for
// something at once. It gives what was in memory at most, and how many words were
// handled before the answer.
func longTray(t *testing.T, words int, tune func(*Node)) (page, underway, before int64) {
	t.Helper()
	r := newRig(t)
	_, ids := r.agents("acme", 1)
	s := rules.AgentStream(ids[0])
	r.node.Close()
	request := make([]byte, 16)
	for sent := 0; sent < words; {
		var batch [][]byte
		for ; len(batch) < 1000 && sent < words; sent++ {
			binary.BigEndian.PutUint64(request[8:], uint64(sent))
			word := must((&record.SagaMessage{Kind: record.SagaMessage_settled, Group: make([]byte, 16), Request: request}).MarshalVT())(t)
			batch = append(batch, word)
		}
		tell(t, r.store, s, batch...)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	j := &trayReader{}
	r.wrap, r.tune = func(under journal.Journal) journal.Journal { j.Journal = under; return j }, tune
	r.open()
	if _, err := question[*agent.State](r.node, s, 0, lookAt{}); err != nil {
		t.Fatal(err)
	}
	before = j.handled.Load()
	eventually(t, "all words are handled", func() bool { return j.handled.Load() == int64(words) })
	v := r.store.View()
	defer v.Close()
	if tray, quarantine := kept(t, v, s); len(tray)+len(quarantine) != 0 {
		t.Errorf("%d words are in the tray and %d in quarantine", len(tray), len(quarantine))
	}
	return j.page.Load(), j.underwayMost.Load(), before
}

// TestALongTrayIsReadInPages: however many words wait for an actor, a bounded
// number of them is in memory, and requests are answered in between.
func TestALongTrayIsReadInPages(t *testing.T) {
	words := 100_000
	if testing.Short() || raceDetector {
		words = 10_000
	}
	page, underway, before := longTray(t, words, nil)
	t.Logf("of %d words at most %d were read at once, %d under way; %d were handled before a request", words, page, underway, before)
	if page > queueEntries+1 || underway > queueEntries || before >= int64(words) {
		t.Error("that is not bounded")
	}
	t.Run("control: one page for all", func(t *testing.T) {
		const few = 5000
		page, underway, before := longTray(t, few, func(n *Node) { n.engine.queueEntries = 1 << 30 })
		if page <= queueEntries+1 || underway <= queueEntries || before < few/2 {
			t.Errorf("without pages %d words of %d were read at once, %d were under way, %d before a request: the test measures nothing", page, few, underway, before)
		}
	})
}

// TestAPageOfATrayIsBoundedInBytes too.
func TestAPageOfATrayIsBoundedInBytes(t *testing.T) {
	e, l := tallies(t, 1)
	s := streamOf(1)
	for range 10 {
		l.put(s, make([]byte, queueBytes/4))
	}
	x := &entity[*tally, add, *tally]{kind: tallyKind(1), engine: e, handle: &handle{stream: s}}
	if page, more, err := x.queuePage(); err != nil || len(page) != 4 || !more {
		t.Errorf("a page of %d words, more: %v, %v", len(page), more, err)
	}
	x.heard = 9
	if page, more, err := x.queuePage(); err != nil || len(page) != 1 || more {
		t.Errorf("the last page of %d words, more: %v, %v", len(page), more, err)
	}
}

// quarantineTrial takes the disk away while words that nobody can decode go to
// quarantine, and gives what is wrong on the images.
func quarantineTrial(t *testing.T, journals int, wrap func(journal.Journal) journal.Journal) (v *crashVerdict) {
	t.Helper()
	var told atomic.Int64 // words that are stored, as their speaker was told
	disk := crashtest.NewDisk(vfs.NewCrashableMem(), crashDir, uint64(journals), func() int { return int(told.Load()) })
	r := &rig{t: t, journals: journals, clock: time.Now, wheel: time.Now, entropy: parley.CountingEntropy(), fs: disk.FS(), keep: small, wrap: wrap}
	disk.Roll(false)
	if err := r.begin(crashDir); err != nil {
		t.Fatal(err)
	}
	owner, ids := r.agents("acme", 5)
	to := rules.OrgStream(owner)
	words := func(n int) []byte { return append(bytes.Clone(garble), byte(n)) }
	v = &crashVerdict{}
	var judging sync.WaitGroup
	judging.Go(func() {
		for i := range disk.Films() {
			v.add(i, inspectQuarantine(t, i, to, words, journals))
		}
	})
	disk.Roll(true)
	for n := range 4 {
		tell(t, r.store, to, words(n))
		told.Add(1)
		must(r.node.ChangeAgent(context.Background(), ids[n], agent.Revoke{}))(t)
		eventually(t, "what follows is heard", func() bool {
			return must(r.node.OrgNow(context.Background(), owner))(t).GetActiveAgents() == int64(4-n)
		})
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	v.tally.Add(disk.Stop())
	judging.Wait()
	return v
}

// inspectQuarantine opens an image: each word that its speaker knows to be stored is
// either in the tray or in quarantine, and after a while in quarantine, as it was.
func inspectQuarantine(t *testing.T, i crashtest.Image, to journal.Stream, words func(int) []byte, journals int) (faults []string) {
	r := &rig{t: t, journals: journals, clock: time.Now, wheel: time.Now, entropy: parley.CountingEntropy(), fs: i.FS, keep: small}
	look := func() (tray, quarantine [][]byte) {
		v := r.store.View()
		defer v.Close()
		return kept(t, v, to)
	}
	count := func(all [][]byte, word []byte) (n int) {
		for _, x := range all {
			if bytes.Equal(x, word) {
				n++
			}
		}
		return n
	}
	var err error
	if r.store, err = persistence.Open(crashDir, persistence.Options{FS: i.FS, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return []string{err.Error()}
	}
	tray, quarantine := look()
	if err := r.store.Close(); err != nil {
		return []string{err.Error()}
	}
	for n := range 4 {
		switch have := count(tray, words(n)) + count(quarantine, words(n)); {
		case have > 1:
			faults = append(faults, fmt.Sprintf("word %d is there %d times", n, have))
		case have == 0 && n < i.Known:
			faults = append(faults, fmt.Sprintf("lost: word %d", n))
		}
	}
	if err := r.begin(crashDir); err != nil {
		return append(faults, err.Error())
	}
	eventually(t, "the tray is empty", func() bool { tray, quarantine = look(); return len(tray) == 0 })
	for n := range i.Known {
		if count(quarantine, words(n)) != 1 {
			faults = append(faults, fmt.Sprintf("lost: word %d is in quarantine %d times after a start", n, count(quarantine, words(n))))
		}
	}
	if err := r.end(); err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

// strikingFirst strikes words from the tray in an entry of its own, before the entry
// that keeps them.
type strikingFirst struct{ journal.Journal }

func (j strikingFirst) Append(e *journal.Entry) {
	if len(e.Handled) > 0 && len(e.Rows) > 0 {
		j.Journal.Append(&journal.Entry{Slot: e.Slot, Stream: e.Stream, Activation: e.Activation, Expect: e.Expect, At: e.At, Handled: e.Handled})
		e.Handled = nil
		time.Sleep(5 * time.Millisecond) // the two are not in one batch
	}
	j.Journal.Append(e)
}

// TestQuarantineSurvivesACrash: at whatever write the disk is taken away, a word
// that cannot be decoded is in one place.
func TestQuarantineSurvivesACrash(t *testing.T) {
	for _, journals := range []int{1, 4} {
		v := quarantineTrial(t, journals, nil)
		if v.judge(t); v.tally.Distinct() < 10 {
			t.Errorf("%v: too few", v.tally)
		}
	}
	t.Run("control: struck out before it is kept", func(t *testing.T) {
		unraced(t)
		v := quarantineTrial(t, 1, func(j journal.Journal) journal.Journal { return strikingFirst{j} })
		if !v.lost() {
			t.Errorf("%v, and no loss was seen", v.tally)
		}
	})
}
