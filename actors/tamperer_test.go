package actors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
	actorsverify "parley/actors/verify"
	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence"
	"parley/persistence/disk"
	"parley/persistence/layout"
	rowverify "parley/persistence/verify"
)

// tamperer changes stored rows of a closed store.
type tamperer struct {
	*fullStore
	t  testing.TB
	fs *vfs.MemFS
	db *pebble.DB
}

// tampered copies the files of a store, plants a fault and verifies the result.
func (w *fullStore) tampered(t testing.TB, plant func(*tamperer)) *report.Verification {
	t.Helper()
	fs := vfs.NewMem()
	w.tamperedInto(t, fs, plant)
	return w.verifyFiles(t, fs)
}

func (w *fullStore) tamperedInto(t testing.TB, fs *vfs.MemFS, plant func(*tamperer)) {
	t.Helper()
	x := &tamperer{fullStore: w, t: t, fs: fs}
	if ok, err := vfs.Clone(w.fs, fs, "data", "data"); err != nil || !ok {
		t.Fatalf("copied: %v, %v", ok, err)
	}
	db, err := pebble.Open("data", &pebble.Options{FS: fs, Merger: tamperMerger, Logger: quietLogger{}, FormatMajorVersion: disk.EngineFormat})
	if err != nil {
		t.Fatal(err)
	}
	x.db = db
	plant(x)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// frozen returns a store that consists only of a copy of the files.
func (w *fullStore) frozen() *fullStore {
	w.t.Helper()
	x := &fullStore{testNode: &testNode{t: w.t, journals: w.journals, fs: vfs.NewMem(), clear: w.clear}, owner: w.owner, agents: w.agents, messages: w.messages, first: w.first}
	if ok, err := vfs.Clone(w.fs, x.fs, "data", "data"); err != nil || !ok {
		w.t.Fatalf("copied: %v, %v", ok, err)
	}
	return x
}

// verifyFiles verifies a closed directory.
func (r *testNode) verifyFiles(t testing.TB, fs vfs.FS) *report.Verification {
	t.Helper()
	stored, err := persistence.OpenArchive("data", persistence.Options{FS: fs, Clock: newManualClock(noon).now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	archive := r.openArchive(stored)
	defer func() {
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
	}()
	audit := &report.Verification{}
	if err := rowverify.Rows(archive, audit); err != nil {
		t.Error(err)
	}
	if err := actorsverify.Run(actorsverify.ArchiveOf(archive), audit); err != nil && audit.Faults() == 0 {
		t.Error(err)
	}
	return audit
}

// failedChecks returns the names of the checks that reported something.
func failedChecks(audit *report.Verification) (names []string) {
	for _, c := range audit.Checks() {
		if c.Faults > 0 {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

type quietLogger struct{}

func (quietLogger) Infof(string, ...any)         {}
func (quietLogger) Errorf(string, ...any)        {}
func (quietLogger) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// tamperMerger merges as the store's merger does: the earliest receipts, sums of
// counts.
var tamperMerger = &pebble.Merger{Name: "parley.v1", Merge: func(k, value []byte) (pebble.ValueMerger, error) {
	m := &rowMerger{receipts: k[2] == 'M'}
	return m, m.MergeNewer(value)
}}

// instant masks the time of a receipt, without the number of its channel.
const instant = 1<<56 - 1

type rowMerger struct {
	receipts bool
	have     []uint64
}

func (m *rowMerger) MergeNewer(value []byte) error {
	for n := 0; n*8 < len(value); n++ {
		if n == len(m.have) {
			m.have = append(m.have, 0)
		}
		next := binary.BigEndian.Uint64(value[n*8:])
		switch {
		case !m.receipts:
			m.have[n] += next
		case m.have[n] == 0 || next != 0 && next&instant < m.have[n]&instant:
			m.have[n] = next
		}
	}
	return nil
}

func (m *rowMerger) MergeOlder(value []byte) error { return m.MergeNewer(value) }

func (m *rowMerger) Finish(bool) ([]byte, io.Closer, error) {
	var b []byte
	for _, n := range m.have {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b, nil, nil
}

// find returns the first row of a family that matches.
func (x *tamperer) find(family byte, fits func(k, v []byte) bool) (k, v []byte) {
	x.t.Helper()
	if k, v = x.seek(family, fits); k == nil {
		x.t.Fatalf("no row of family %q fits", family)
	}
	return k, v
}

// seek is like find, but the row may be missing.
func (x *tamperer) seek(family byte, fits func(k, v []byte) bool) (k, v []byte) {
	x.t.Helper()
	iter, err := x.db.NewIter(nil)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = iter.Close() }()
	for ok := iter.First(); ok; ok = iter.Next() {
		if iter.Key()[2] == family && (fits == nil || fits(iter.Key(), iter.Value())) {
			return bytes.Clone(iter.Key()), bytes.Clone(iter.Value())
		}
	}
	return nil, nil
}

// get returns a row's value, or nil.
func (x *tamperer) get(k []byte) []byte {
	v, closer, err := x.db.Get(k)
	if err != nil {
		return nil
	}
	defer func() { _ = closer.Close() }()
	return append([]byte{}, v...)
}

func (x *tamperer) set(k, v []byte) {
	if err := x.db.Set(k, v, pebble.Sync); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tamperer) drop(k []byte) {
	if err := x.db.Delete(k, pebble.Sync); err != nil {
		x.t.Fatal(err)
	}
}

// alter changes the first row that matches.
func (x *tamperer) alter(family byte, fits func(k, v []byte) bool, change func(v []byte) []byte) {
	k, v := x.find(family, fits)
	x.set(k, change(v))
}

// move gives the first row that matches another key.
func (x *tamperer) move(family byte, fits func(k, v []byte) bool, change func(k []byte) []byte) {
	k, v := x.find(family, fits)
	x.drop(k)
	x.set(change(bytes.Clone(k)), v)
}

// dropRecord deletes the first record that matches.
func (x *tamperer) dropRecord(fits func(*record.Message) bool) {
	x.dropFirst('B', func(_, v []byte) bool {
		r := &record.Message{}
		return encoding.Unmarshal(v[8:], r) == nil && fits(r)
	})
}

// dropFirst deletes the first row that matches.
func (x *tamperer) dropFirst(family byte, fits func(k, v []byte) bool) {
	k, _ := x.find(family, fits)
	x.drop(k)
}

// Conditions on rows.

func ofKind(kind journal.StreamKind) func(k, v []byte) bool {
	return func(k, _ []byte) bool { return k[3] == byte(kind) }
}

func ofTable(table journal.Table) func(k, v []byte) bool {
	return func(k, _ []byte) bool { return k[3] == byte(table) }
}

// isMessageEntry matches feed entries of messages, isStatusEntry those of status
// changes.
func isMessageEntry(_, v []byte) bool { return layout.FeedKindOf(v) == journal.MessageEntry }
func isStatusEntry(_, v []byte) bool  { return layout.FeedKindOf(v) == journal.StatusEntry }

// listsEntry matches rows of agents' lists that repeat a feed entry.
func (x *tamperer) listsEntry(k, _ []byte) bool {
	return len(k) == 28 && k[3] == byte(journal.ConversationTable) &&
		x.get(layout.FeedKey(layout.FeedFamily, parley.AgentID(k[4:20]), binary.BigEndian.Uint64(k[20:]))) != nil
}

// rewriteEvent changes the first stored event that matches.
func rewriteEvent[S rules.State, C any, E rules.Event](x *tamperer, kind journal.StreamKind, r rules.Aggregate[S, C, E], fits func(E) bool, change func(E)) {
	x.t.Helper()
	decode := func(v []byte) E {
		e, err := r.Decode(journal.StoredEvent{Tag: v[0], Data: v[9:]})
		if err != nil {
			x.t.Fatal(err)
		}
		return e
	}
	k, v := x.find('E', func(k, v []byte) bool { return k[3] == byte(kind) && fits(decode(v)) })
	e := decode(v)
	change(e)
	data, err := encoding.Marshal(e)
	if err != nil {
		x.t.Fatal(err)
	}
	x.set(k, append(v[:9:9], data...))
}

// rewriteRecord changes the first stored record that matches.
func rewriteRecord(x *tamperer, fits func(k []byte, r *record.Message) bool, change func(*record.Message)) {
	x.t.Helper()
	decode := func(v []byte) *record.Message {
		r := &record.Message{}
		if err := encoding.Unmarshal(v[8:], r); err != nil {
			x.t.Fatal(err)
		}
		return r
	}
	k, v := x.find('B', func(k, v []byte) bool { return fits(k, decode(v)) })
	r := decode(v)
	change(r)
	data, err := encoding.Marshal(r)
	if err != nil {
		x.t.Fatal(err)
	}
	x.set(k, append(v[:8:8], data...))
}

func bigEndian(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func dropNewestCommit(x *tamperer) {
	newest := uint64(0)
	x.seek(layout.HeadFamily, func(_, v []byte) bool { newest = max(newest, binary.BigEndian.Uint64(v)); return false })
	x.dropFirst(layout.HeadFamily, func(_, v []byte) bool { return binary.BigEndian.Uint64(v) == newest })
}

func removeWitness(x *tamperer) {
	if err := x.fs.Remove("data/witness"); err != nil {
		x.t.Fatal(err)
	}
}
