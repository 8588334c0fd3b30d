package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/crashtest"
)

// garble is a message that no actor can decode.
var garble = []byte("\xff\xffthis is no word")

// enqueueMessages stores messages in an actor's queue, as another actor's turn would.
func enqueueMessages(t testing.TB, s *persistence.Store, to journal.Stream, words ...[]byte) {
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

// queueAndQuarantine returns the messages in an actor's queue and those in its
// quarantine.
func queueAndQuarantine(t testing.TB, v journal.View, s journal.Stream) (queue, quarantine [][]byte) {
	t.Helper()
	err := v.Queue(s, 0, func(r journal.QueuedMessage) bool { queue = append(queue, r.Data); return true })
	prefix := append([]byte{byte(s.Kind)}, s.ID[:]...)
	err = errors.Join(err, v.Rows(s.Slot(), journal.QuarantineTable, prefix, nil, false, func(_, value []byte) bool {
		quarantine = append(quarantine, bytes.Clone(value[8:]))
		return true
	}))
	if err != nil {
		t.Error(err)
	}
	return queue, quarantine
}

// TestUndecodableMessageIsQuarantined: the message goes to quarantine and later
// messages are handled. The log, the metric and the verifier report it.
func TestUndecodableMessageIsQuarantined(t *testing.T) {
	for _, journals := range []int{1, 4} {
		r := newTestNode(t, withJournals(journals))
		owner, ids := r.agents("acme", 2)
		to := rules.OrgStream(owner)
		log := &lockedBuffer{}
		r.node.engine.Logger = slog.New(slog.NewTextHandler(log, nil))
		enqueueMessages(t, r.store, to, garble, []byte{}, garble)
		must(r.node.Agents.Change(context.Background(), ids[0], agent.Revoke{}))(t)
		eventually(t, "the revoked agent is counted out", func() bool { return must(r.node.Orgs.Current(context.Background(), owner))(t).GetActiveAgents() == 1 })
		eventually(t, "the words are counted", func() bool { return r.node.Stats().Quarantined == 3 })
		r.restart() // quarantined messages must not prevent a restart
		v := r.contents.View()
		queue, quarantine := queueAndQuarantine(t, v, to)
		v.Close()
		if len(queue) != 0 || len(quarantine) != 3 || !bytes.Equal(quarantine[0], garble) || len(quarantine[1]) != 0 || !bytes.Equal(quarantine[2], garble) {
			t.Errorf("queue %q, quarantine %q", queue, quarantine)
		}
		if n := strings.Count(log.String(), "level=ERROR msg=\"a message between actors cannot be decoded and was put into quarantine"); n != 3 || !strings.Contains(log.String(), owner.String()) {
			t.Errorf("the log has %d such lines:\n%s", n, log)
		}
		audit := verifyStore(t, r)
		found := audit.First(10)
		if len(found) != 3 {
			t.Fatalf("verification found %d faults, want 3: %v", len(found), found)
		}
		for _, f := range found {
			if f.Check != "quarantine" || !strings.Contains(f.Where, owner.String()) {
				t.Errorf("verification found %v", f)
			}
		}
		if !strings.Contains(found[0].Means, fmt.Sprintf("%x", garble)) {
			t.Errorf("verification does not report the bytes: %v", found[0])
		}
		r.close() // before the verification at the end, which would report these messages
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

// queueMeter counts the queued messages of one stream that are read, and how many of its
// handled messages are not durable yet.
type queueMeter struct {
	journal.Journal
	stream                                journal.Stream
	page, underway, underwayMost, handled atomic.Int64
}

func (j *queueMeter) Latest() journal.View {
	return journal.ViewOf(queueMeterView{j.Journal.Latest(), j})
}

type queueMeterView struct {
	journal.View
	of *queueMeter
}

func (v queueMeterView) Queue(s journal.Stream, beyond uint64, fn func(journal.QueuedMessage) bool) error {
	n := int64(0)
	err := v.View.Queue(s, beyond, func(r journal.QueuedMessage) bool { n++; return fn(r) })
	if s == v.of.stream {
		v.of.page.Store(max(v.of.page.Load(), n))
	}
	return err
}

func (j *queueMeter) Append(e *journal.Entry) {
	if n := int64(len(e.Handled)); n > 0 && e.Stream == j.stream {
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

// readLongQueue starts an actor with a long queue and sends it a request at once. It
// returns the largest number of messages in memory, the largest number that were not
// durable, and how many messages were handled before the answer.
func readLongQueue(t *testing.T, words int, tune func(*Node)) (page, underway, before int64) {
	t.Helper()
	r := newTestNode(t)
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
		enqueueMessages(t, r.store, s, batch...)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	j := &queueMeter{stream: s}
	r.wrap, r.tune = func(under journal.Journal) journal.Journal { j.Journal = under; return journal.Of(j) }, tune
	r.open()
	if _, err := host.Ask[*agent.State](context.Background(), r.node.engine, s, 0, host.GetState{}); err != nil {
		t.Fatal(err)
	}
	before = j.handled.Load()
	eventually(t, "all words are handled", func() bool { return j.handled.Load() == int64(words) })
	v := r.contents.View()
	defer v.Close()
	if queue, quarantine := queueAndQuarantine(t, v, s); len(queue)+len(quarantine) != 0 {
		t.Errorf("%d messages are in the queue and %d in quarantine", len(queue), len(quarantine))
	}
	return j.page.Load(), j.underwayMost.Load(), before
}

// TestLongQueueIsReadInPages: the number of queued messages in memory is bounded, and
// requests are answered between pages.
func TestLongQueueIsReadInPages(t *testing.T) {
	words := 100_000
	if testing.Short() || raceDetector {
		words = 10_000
	}
	page, underway, before := readLongQueue(t, words, nil)
	t.Logf("of %d messages at most %d were read at once, %d under way; %d were handled before the answer", words, page, underway, before)
	if page > host.QueueMessages+1 || underway > host.QueueMessages || before >= int64(words) {
		t.Error("this is not bounded")
	}
	t.Run("control: one page for all", func(t *testing.T) {
		const few = 5000
		page, underway, before := readLongQueue(t, few, func(n *Node) { n.engine.QueueMessages = 1 << 30 })
		if page <= host.QueueMessages+1 || underway <= host.QueueMessages || before < few/2 {
			t.Errorf("without pages %d messages of %d were read at once, %d were under way, %d before the answer: the test measures nothing", page, few, underway, before)
		}
	})
}

// crashWithQuarantine takes crash images while undecodable messages go to quarantine,
// and checks them.
func crashWithQuarantine(t *testing.T, journals int, wrap func(journal.Journal) journal.Journal) (v *crashResult) {
	t.Helper()
	var told atomic.Int64 // messages whose storage was acknowledged
	disk := crashtest.NewDisk(vfs.NewCrashableMem(), crashDir, uint64(journals), func() int { return int(told.Load()) })
	r := &testNode{t: t, journals: journals, clock: time.Now, journalClock: time.Now, entropy: parley.CountingEntropy(), fs: disk.FS(), tuneStore: smallFiles, wrap: wrap}
	disk.Record(false)
	if err := r.start(crashDir); err != nil {
		t.Fatal(err)
	}
	owner, ids := r.agents("acme", 5)
	to := rules.OrgStream(owner)
	words := func(n int) []byte { return append(bytes.Clone(garble), byte(n)) }
	v = &crashResult{}
	var judging sync.WaitGroup
	judging.Go(func() {
		for i := range disk.Images() {
			v.add(i, checkQuarantineImage(t, i, to, words, journals))
		}
	})
	disk.Record(true)
	for n := range 4 {
		enqueueMessages(t, r.store, to, words(n))
		told.Add(1)
		must(r.node.Agents.Change(context.Background(), ids[n], agent.Revoke{}))(t)
		eventually(t, "what follows is heard", func() bool {
			return must(r.node.Orgs.Current(context.Background(), owner))(t).GetActiveAgents() == int64(4-n)
		})
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	v.tally.Add(disk.Stop())
	judging.Wait()
	return v
}

// checkQuarantineImage opens an image. Each message that was acknowledged must be in
// the queue or in quarantine, and finally in quarantine, unchanged.
func checkQuarantineImage(t *testing.T, i crashtest.Image, to journal.Stream, words func(int) []byte, journals int) (faults []string) {
	r := &testNode{t: t, journals: journals, clock: time.Now, journalClock: time.Now, entropy: parley.CountingEntropy(), fs: i.FS, tuneStore: smallFiles}
	look := func() (queue, quarantine [][]byte) {
		v := r.store.View()
		defer v.Close()
		return queueAndQuarantine(t, v, to)
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
	queue, quarantine := look()
	if err := r.store.Close(); err != nil {
		return []string{err.Error()}
	}
	for n := range 4 {
		switch have := count(queue, words(n)) + count(quarantine, words(n)); {
		case have > 1:
			faults = append(faults, fmt.Sprintf("word %d is there %d times", n, have))
		case have == 0 && n < i.Known:
			faults = append(faults, fmt.Sprintf("lost: word %d", n))
		}
	}
	if err := r.start(crashDir); err != nil {
		return append(faults, err.Error())
	}
	eventually(t, "the queue is empty", func() bool { queue, quarantine = look(); return len(queue) == 0 })
	for n := range i.Known {
		if count(quarantine, words(n)) != 1 {
			faults = append(faults, fmt.Sprintf("lost: word %d is in quarantine %d times after a start", n, count(quarantine, words(n))))
		}
	}
	if err := r.stop(); err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

// removeFirst removes messages from the queue in an entry of its own, before the entry
// that quarantines them.
type removeFirst struct{ journal.Journal }

func (j removeFirst) Append(e *journal.Entry) {
	if len(e.Handled) > 0 && len(e.Rows) > 0 {
		j.Journal.Append(&journal.Entry{Slot: e.Slot, Stream: e.Stream, Activation: e.Activation, Expect: e.Expect, At: e.At, Handled: e.Handled})
		e.Handled = nil
		time.Sleep(5 * time.Millisecond) // so that the two entries are not in one batch
	}
	j.Journal.Append(e)
}

// TestQuarantineSurvivesACrash: after a crash at any write, an undecodable message is
// in exactly one place.
func TestQuarantineSurvivesACrash(t *testing.T) {
	skipUnderRace(t)
	for _, journals := range []int{1, 4} {
		v := crashWithQuarantine(t, journals, nil)
		if v.check(t); v.tally.Distinct() < 10 {
			t.Errorf("%v: too few images", v.tally)
		}
	}
	t.Run("control: struck out before it is kept", func(t *testing.T) {
		skipUnderRace(t)
		v := crashWithQuarantine(t, 1, func(j journal.Journal) journal.Journal { return journal.Of(removeFirst{j}) })
		if !v.lost() {
			t.Errorf("%v, but no loss was found", v.tally)
		}
	})
}
