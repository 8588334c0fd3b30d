// Package journaltest is the conformance suite that every journal must pass. Its tests
// state what actors and the server require, independent of how a journal stores it.
package journaltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// Journal is a journal that can be closed.
type Journal struct {
	journal.Journal
	Close func() error
}

// Harness is a journal under test with its clock and its disk.
type Harness struct {
	// Journal is open and not started.
	Journal Journal
	// Reopen closes the journal returned last and opens it again, not started.
	Reopen func() Journal
	// Crash opens, not started, the state that a power failure would leave at this
	// moment. The journal returned last is abandoned.
	Crash func() Journal
	// Clock is the journal's. Only Advance moves it.
	Clock   parley.Clock
	Advance func(time.Duration)
	// Follower says that a replica serves the reads which does not build the batches: it
	// has no records of messages at hand.
	Follower bool
	// Moving says that the leader changes at each claim or append: what was admitted by one is
	// not known to the next.
	Moving bool
}

// less returns n, or fewer in short tests: the same happens, less often.
func less(n, fewer int) int {
	if testing.Short() {
		return fewer
	}
	return n
}

// Run tests a journal with one home, unless the tests are short, and with four. open creates a new one with the given number of homes, and
// closes the one that is open at the end of the test.
func Run(t *testing.T, open func(t *testing.T, journals int) Harness) {
	for _, journals := range []int{1, 4} {
		if journals == 1 && testing.Short() {
			continue
		}
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			for _, c := range requirements {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					r := &rig{reads: reads{t, open(t, journals)}, homes: journals}
					r.start()
					c.test(r)
				})
			}
		})
	}
}

// requirements are the tests of the suite, in the order in which one would implement a
// journal.
var requirements = []struct {
	name string
	test func(*rig)
}{
	{"a sequence that is not next is refused whole", testSequence},
	{"only the newest activation appends", testActivations},
	{"an activation sees all earlier entries", testActivation},
	{"retiring and activating in one batch loses no count", testReactivation},
	{"events and states are read back as appended", testReplay},
	{"a stream begins once", testCreateStream},
	{"a feed keeps order and positions", testFeed},
	{"a feed is read from any place in either direction", testFeedPages},
	{"a view notices what changed in a feed", testFeedChanges},
	{"a record is wherever its readers live", testRecords},
	{"a message is untransferred until its receipt says transferred", testUntransferred},
	{"copies among messages are untransferred until their receipts say transferred", testUntransferredCopies},
	{"what was only announced is untransferred", testAnnounced},
	{"of receipts the earliest instant wins", testReceipts},
	{"a sender is told once of each kind of a receipt", testReceiptNews},
	{"a subscriber gets every entry once", testFollowing},
	{"a subscription begins where it is asked to", testFollowingFrom},
	{"dropped entries of a feed are gone", testDropFeed},
	{"a subscriber gets no dropped entry that it has in memory", testDropFeedLive},
	{"what was appended settles", testSettle},
	{"messages wait in a queue in order", testQueue},
	{"actors with queued messages are woken, also after opening again", testHints},
	{"effects reach other homes once and in order", testOutboxes},
	{"effects under way survive a crash", testOutboxesCrash},
	{"a release comes after the effect", testSettled},
	{"a fan-out reaches each agent once", testFanout},
	{"a stream's fan-outs and feed entries keep their order", testFanoutOrder},
	{"a release waits for the first chunk", testFanoutSettled},
	{"what is said to have arrived has been applied", testArrived},
	{"a fan-out continues after a crash", testFanoutCrash},
	{"a subscriber gets copies as they arrive", testFanoutFollowing},
	{"a subscriber gets the entries of an append in order", testFollowingOrder},
	{"copies have receipts of their own", testCopyReceipts},
	{"hosted streams go on with their host", testHosted},
	{"a hosted append that does not fit is refused with all of its entry", testHostedRefused},
	{"releases come in order and once", testReleases},
	{"a closing journal releases every entry", testClosing},
	{"what was released survives a crash", testDurable},
	{"timers fire in order until they are cancelled", testTimers},
	{"counts add up over homes", testCounts},
	{"Admit refuses beyond its bounds", testAdmit},
	{"rows are scanned within their prefix", testRows},
	{"keys of past days are forgotten", testForgetting},
	{"keys of a table are listed, versions tell states apart", testKeysAndVersions},
	{"observers get each durable change", testObserver},
}

// patience is how many milliseconds a test waits for something that must happen.
const patience = 10000

// reads reads what the journal of one test holds.
type reads struct {
	*testing.T
	Harness
}

// rig is the fixture of one test.
type rig struct {
	reads
	homes int

	mu    sync.Mutex
	ids   uint64
	last  parley.MessageID // the last broadcast
	hints []journal.Stream
	fired []firing
}

type firing struct {
	stream journal.Stream
	due    time.Time
}

func (r *rig) start() {
	r.Helper()
	err := r.Journal.Start(func(s journal.Stream) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hints = append(r.hints, s)
	}, func(s journal.Stream, due time.Time) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fired = append(r.fired, firing{s, due})
	})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) reopen() {
	r.Helper()
	r.Journal = r.Reopen()
	r.start()
}

func (r *rig) crash() {
	r.Helper()
	r.Journal = r.Crash()
	r.start()
}

// until waits until come returns true.
func (r *rig) until(what string, come func() bool) {
	r.Helper()
	for range patience {
		if come() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.Fatalf("waited in vain: %s", what)
}

func (r *reads) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// entropy returns random parts for ids that are distinct and sort in the order in
// which they are made.
func (r *rig) entropy() (b [10]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	binary.BigEndian.PutUint64(b[:], r.ids)
	return b
}

// near and near2 share a home whatever the number of journals; far and farther have other
// homes if there are several.
const (
	near    parley.Slot = 0
	near2   parley.Slot = 4
	far     parley.Slot = parley.Slots / 2
	farther parley.Slot = parley.Slots/4 + 1
)

func (r *rig) agent(slot parley.Slot) parley.AgentID {
	return parley.NewID[parley.AgentID](slot, r.Clock(), r.entropy())
}

func (r *rig) message(slot parley.Slot) parley.MessageID {
	return parley.NewID[parley.MessageID](slot, r.Clock(), r.entropy())
}

func (r *rig) stream(slot parley.Slot) journal.Stream {
	return journal.Stream{Kind: journal.ConversationStream, ID: parley.NewID[parley.AnyID](slot, r.Clock(), r.entropy())}
}

// append appends an entry. Its outcome is sent to the channel.
func (r *rig) append(e *journal.Entry) <-chan error {
	released := make(chan error, 2)
	if e.At.IsZero() {
		e.At = r.Clock()
	}
	e.Release = func(err error) { released <- err }
	r.Journal.Append(e)
	return released
}

func (r *rig) await(released <-chan error) error {
	r.Helper()
	select {
	case err := <-released:
		return err
	case <-time.After(patience * time.Millisecond):
		r.Fatal("an entry is not released")
		return nil
	}
}

// view calls look with a view of the journal.
func (r *reads) view(look func(journal.View)) {
	v := r.Journal.View()
	defer v.Close()
	look(v)
}

// appender is one activation of a stream, and the number of its events.
type appender struct {
	*rig
	stream     journal.Stream
	activation uint64
	seq        uint64
}

// appender activates a stream that has seq events.
func (r *rig) appender(s journal.Stream, seq uint64) *appender {
	r.Helper()
	a := &appender{rig: r, stream: s, activation: r.Journal.NextActivation(), seq: seq}
	if err := r.await(r.append(&journal.Entry{Slot: s.Slot(), Stream: s, Activation: a.activation, Activate: true})); err != nil {
		r.Fatalf("activation: %v", err)
	}
	return a
}

// begin appends an entry to the stream.
func (a *appender) begin(e *journal.Entry) <-chan error {
	e.Slot, e.Stream, e.Activation, e.Expect = a.stream.Slot(), a.stream, a.activation, a.seq
	a.seq += uint64(len(e.Events))
	return a.append(e)
}

// mustAppend appends an entry and waits for its release, which must not fail.
func (a *appender) mustAppend(e *journal.Entry) {
	a.Helper()
	if err := a.await(a.begin(e)); err != nil {
		a.Fatalf("refused: %v", err)
	}
}

func storedEvent(text string) journal.StoredEvent {
	return journal.StoredEvent{Tag: 3, Data: []byte(text)}
}

func (r *reads) events(s journal.Stream) []string {
	r.Helper()
	var all []string
	r.view(func(v journal.View) {
		r.must(v.Events(s, 1, false, func(seq uint64, _ int64, f journal.StoredEvent) bool {
			if seq != uint64(len(all)+1) {
				r.Errorf("event %d stands at place %d", seq, len(all)+1)
			}
			all = append(all, string(f.Data))
			return true
		}))
	})
	return all
}

// recordOf copies the record of a message as stored for reader.
func recordOf(v journal.View, reader parley.Slot, id parley.MessageID) (record []byte, position uint64, err error) {
	position, err = v.Message(reader, id, func(b []byte) error {
		record = append([]byte{}, b...)
		return nil
	})
	return record, position, err
}

// receiptsOf reads the receipts of a message to recipient as reader does: by position if
// the message is in a feed there, otherwise by message.
func receiptsOf(v journal.View, reader parley.Slot, recipient parley.AgentID, id parley.MessageID) (journal.Receipts, error) {
	_, position, err := recordOf(v, reader, id)
	if err != nil || position == 0 {
		return v.Receipts(journal.RecordReceipt{Message: id})
	}
	return v.Receipts(journal.RecordReceipt{Recipient: recipient, Position: position})
}

func (r *reads) feed(agent parley.AgentID) []journal.FeedEntry {
	r.Helper()
	var all []journal.FeedEntry
	r.view(func(v journal.View) {
		r.must(v.Feed(agent, 0, ^uint64(0), func(e journal.FeedEntry) bool { all = append(all, e); return true }))
	})
	return all
}

func (r *reads) queue(s journal.Stream) []journal.QueuedMessage { return r.queueBeyond(s, 0) }

func (r *reads) queueBeyond(s journal.Stream, number uint64) []journal.QueuedMessage {
	r.Helper()
	var all []journal.QueuedMessage
	r.view(func(v journal.View) {
		r.must(v.Queue(s, number, func(row journal.QueuedMessage) bool { all = append(all, row); return true }))
	})
	return all
}

func (r *reads) row(slot parley.Slot, table journal.Table, key string) string {
	r.Helper()
	value, found, err := r.Journal.Row(slot, table, []byte(key))
	r.must(err)
	if !found {
		return "-"
	}
	return string(value)
}

func row(slot parley.Slot, table journal.Table, key, value string) journal.Row {
	return journal.Row{Slot: slot, Table: table, Key: []byte(key), Value: []byte(value)}
}

// line formats values on one line, separated by spaces.
func line(parts ...any) string { return strings.TrimSuffix(fmt.Sprintln(parts...), "\n") }

// expect compares values as they are printed: bytes, lists and errors alike.
func (r *reads) expect(what string, got, want any) {
	r.Helper()
	if g, w := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want); g != w {
		r.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func (r *rig) refused(released <-chan error, want error) {
	r.Helper()
	if err := r.await(released); !errors.Is(err, want) {
		r.Errorf("got %v, want %v", err, want)
	}
}
