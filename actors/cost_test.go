package actors

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/sealed"
)

// walMeter is a file system that counts writes and syncs of the write-ahead log.
type walMeter struct {
	vfs.FS
	bytes, syncs atomic.Int64
}

func (m *walMeter) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.Create(name, category)
	return m.watch(name, f), err
}

func (m *walMeter) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.ReuseForWrite(before, name, category)
	return m.watch(name, f), err
}

func (m *walMeter) watch(name string, f vfs.File) vfs.File {
	if f == nil || !strings.HasSuffix(name, ".log") {
		return f
	}
	return walFile{f, m}
}

type walFile struct {
	vfs.File
	meter *walMeter
}

func (f walFile) Write(p []byte) (int, error) {
	f.meter.bytes.Add(int64(len(p)))
	return f.File.Write(p)
}

func (f walFile) Sync() error     { f.meter.syncs.Add(1); return f.File.Sync() }
func (f walFile) SyncData() error { f.meter.syncs.Add(1); return f.File.SyncData() }

// duplicateRecords is a journal that stores each record in a row as well.
type duplicateRecords struct{ journal.Journal }

func (j duplicateRecords) Append(e *journal.Entry) {
	if len(e.Records) > 0 {
		e.Rows = append(e.Rows, journal.Row{Slot: e.Slot, Table: 99, Key: e.Records[0].ID.Bytes(), Value: e.Records[0].Data})
	}
	j.Journal.Append(e)
}

// newMeteredNode returns a test node on a file system with a walMeter.
func newMeteredNode(t *testing.T, journals int, wrap func(journal.Journal) journal.Journal) (*testNode, *walMeter) {
	t.Helper()
	r, disk := &testNode{t: t, clock: time.Now, entropy: parley.CountingEntropy()}, &walMeter{FS: vfs.NewMem()}
	logger := slog.New(slog.DiscardHandler)
	store, err := persistence.Open("data", persistence.Options{
		FS: disk, Journals: journals, Clock: time.Now, Logger: logger, CacheBytes: 8 << 20, MemTableBytes: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.store, r.node = store, New(Options{Journal: wrap(sealed.New(store.Journal, testSealer)), Clock: r.clock, Entropy: r.entropy, Logger: logger})
	if err := r.node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r, disk
}

// messageCost is what one message costs: bytes and syncs of the write-ahead log.
type messageCost struct{ bytes, syncs float64 }

// within reports whether no cost exceeds its bound. Occasional syncs of the storage
// engine itself are tolerated.
func (w messageCost) within(bound messageCost) bool {
	return w.bytes <= bound.bytes && w.syncs < bound.syncs+0.5
}

// costOf writes messages one at a time and returns the average cost.
func (m *walMeter) costOf(t *testing.T, write func() (Posted, error)) messageCost {
	t.Helper()
	const messages = 40
	time.Sleep(20 * time.Millisecond) // until all earlier entries are written
	bytes, syncs := m.bytes.Load(), m.syncs.Load()
	for range messages {
		must(write())(t)
	}
	time.Sleep(20 * time.Millisecond)
	return messageCost{float64(m.bytes.Load()-bytes) / messages, float64(m.syncs.Load()-syncs) / messages}
}

// messageCosts returns the costs of a direct message and of a reply, each with 1 KiB
// of rendered content.
func messageCosts(t *testing.T, journals int, wrap func(journal.Journal) journal.Journal) (sent, replied messageCost) {
	r, disk := newMeteredNode(t, journals, wrap)
	owner, ids := r.agents("acme", 16)
	awaitKeyLog(t, r.node, ids...)
	from, to := ids[0], ids[1]
	for _, id := range ids[1:] { // another home costs more
		if !r.store.SameHome(from.Slot(), id.Slot()) {
			to = id
		}
	}
	text := strings.Repeat("Q", 1<<10)
	send := func() (Posted, error) { return r.send(direct(owner, from, to, text, "")) }
	first := must(send())(t)
	back := must(r.reply(answerTo(owner, first.Message, text, "")))(t)
	reply := func() (Posted, error) { return r.reply(answerTo(owner, back.Message, text, "")) }
	must(reply())(t)
	sent = disk.costOf(t, send)
	return sent, disk.costOf(t, reply)
}

// messageBounds are about 15 % above the measured cost, including the content's 1,024
// bytes. With one journal a message took 1,465 bytes and a reply 1,561. With four
// journals, and the recipient in another home, the content is written at the
// conversation's home, in the outbox and at the recipient's home: 4,111 and 4,243
// bytes.
var messageBounds = []struct {
	journals    int
	sent, reply messageCost
}{
	{1, messageCost{1690, 1}, messageCost{1790, 1}},
	{4, messageCost{4730, 2}, messageCost{4880, 2}},
}

func TestBytesOfAMessage(t *testing.T) {
	for _, b := range messageBounds {
		t.Run(fmt.Sprint(b.journals, " journals"), func(t *testing.T) {
			sent, replied := messageCosts(t, b.journals, func(j journal.Journal) journal.Journal { return j })
			t.Logf("send %+v, reply %+v", sent, replied)
			if !sent.within(b.sent) || !replied.within(b.reply) {
				t.Errorf("a message costs %+v, limit %+v; a reply %+v, limit %+v", sent, b.sent, replied, b.reply)
			}
		})
	}
}

// TestBytesOfAMessageControl writes each record twice.
func TestBytesOfAMessageControl(t *testing.T) {
	for _, b := range messageBounds {
		t.Run(fmt.Sprint(b.journals, " journals"), func(t *testing.T) {
			sent, replied := messageCosts(t, b.journals, func(j journal.Journal) journal.Journal { return journal.Of(duplicateRecords{j}) })
			if sent.within(b.sent) || replied.within(b.reply) {
				t.Errorf("written twice, a message costs %+v and a reply %+v: within %+v and %+v", sent, replied, b.sent, b.reply)
			}
		})
	}
}

// rowsOf returns how many rows a write has added to the store, without those that a
// batch writes once.
func rowsOf(t *testing.T, r *testNode, write func() (Posted, error)) int {
	t.Helper()
	count := func() (n int) {
		archive := r.archive()
		defer func() { _ = archive.Close() }()
		if err := archive.Pairs(func(key, _ []byte) error {
			if key[2] < 'a' {
				n++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	must(write())(t)
	return count() - before
}

// TestRowsOfAMessage counts the rows of a direct message: its record, its feed entry, a
// place in the sender's list for a new conversation, an event for a reply, and the
// idempotency key if there is one. The first message that an agent sends in an hour has
// another row, with the hour, which replaces that of an earlier hour.
func TestRowsOfAMessage(t *testing.T) {
	at := newManualClock(noon)
	r := newTestNode(t, withClock(at.now))
	owner, ids := r.agents("acme", 2)
	awaitKeyLog(t, r.node, ids...) // it adds rows of its own
	if rows := rowsOf(t, r, func() (Posted, error) { return r.send(direct(owner, ids[0], ids[1], "begins the hour", "")) }); rows != 4 {
		t.Errorf("the first message of an hour adds %d rows, want 4", rows)
	}
	first := must(r.send(direct(owner, ids[0], ids[1], "first", "")))(t)
	var answer Posted
	for _, c := range []struct {
		what  string
		write func() (Posted, error)
		most  int
	}{
		{"a first message", func() (Posted, error) { return r.send(direct(owner, ids[0], ids[1], "more", "")) }, 3},
		{"a first message with a key", func() (Posted, error) { return r.send(direct(owner, ids[0], ids[1], "more", "k1")) }, 4},
		// It opens the conversation: an event, and a feed entry for both agents. It is the
		// first message of its sender, which has no hour yet.
		{"the first reply", func() (p Posted, err error) {
			answer, err = r.reply(answerTo(owner, first.Message, "opens the conversation", ""))
			return answer, err
		}, 7},
		{"a reply", func() (Posted, error) { return r.reply(answerTo(owner, answer.Message, "more", "")) }, 3},
		{"a reply with a key", func() (Posted, error) { return r.reply(answerTo(owner, answer.Message, "more", "k2")) }, 4},
	} {
		if rows := rowsOf(t, r, c.write); rows != c.most {
			t.Errorf("%s adds %d rows, want %d", c.what, rows, c.most)
		}
	}
}
