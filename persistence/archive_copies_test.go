package persistence

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence/apply"
	"parley/persistence/disk"
	"parley/persistence/layout"
	"parley/persistence/verify"
)

// broadcastDirectory makes a directory in which a group has sent one broadcast.
func broadcastDirectory(t testing.TB, journals, members int) (fs *vfs.MemFS, id parley.MessageID) {
	t.Helper()
	fs = vfs.NewMem()
	s := mustOpen(t, "d", testOptions(fs, journals))
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	group := newGroup(0)
	activation := activated(t, s, group)
	e := broadcast(group, activation, newSeats(members), 9)
	if err := <-appended(s, e); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	return fs, e.Records[0].ID
}

// verifyDirectory verifies a directory that no server has open, and returns the
// names of the checks that found faults, and the faults.
func verifyDirectory(t testing.TB, fs vfs.FS) (names []string, said string, checked uint64) {
	t.Helper()
	return verifyArchive(t, mustOpenArchive(t, "d", testOptions(fs, 0)))
}

func verifyArchive(t testing.TB, a *Archive) (names []string, said string, checked uint64) {
	t.Helper()
	result := &report.Verification{}
	if err := verify.Rows(a, result); err != nil {
		t.Error(err)
	}
	for _, c := range result.Checks() {
		if c.Faults > 0 {
			names = append(names, c.Name)
		}
		if c.Name == "copies" {
			checked = c.Checked
		}
	}
	for _, f := range result.First(100) {
		said += f.String() + "\n"
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	return names, said, checked
}

// tamperer changes rows in the engine.
type tamperer struct {
	t  testing.TB
	db *pebble.DB
	id parley.MessageID
}

// rows returns the rows of a family that fit.
func (x *tamperer) rows(family byte, fits func(k, v []byte) bool) (keys, values [][]byte) {
	x.t.Helper()
	iter, err := x.db.NewIter(nil)
	if err != nil {
		x.t.Fatal(err)
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		if k := iter.Key(); k[2] == family && (fits == nil || fits(k, iter.Value())) {
			keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(iter.Value()))
		}
	}
	if err := iter.Close(); err != nil || len(keys) == 0 {
		x.t.Fatal("no such row", err)
	}
	return keys, values
}

func (x *tamperer) set(k, v []byte) {
	x.t.Helper()
	if err := x.db.Set(k, v, pebble.Sync); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tamperer) remove(k []byte) {
	x.t.Helper()
	if err := x.db.Delete(k, pebble.Sync); err != nil {
		x.t.Fatal(err)
	}
}

// tampered returns a copy of the directory with a planted fault.
func tampered(t testing.TB, fs *vfs.MemFS, id parley.MessageID, plant func(*tamperer)) vfs.FS {
	t.Helper()
	to := vfs.NewMem()
	if ok, err := vfs.Clone(fs, to, "d", "d"); err != nil || !ok {
		t.Fatalf("copied: %v, %v", ok, err)
	}
	db, err := pebble.Open("d", &pebble.Options{FS: to, Merger: layout.Merger, FormatMajorVersion: disk.EngineFormat, Logger: engineLogger{&Store{opts: testOptions(nil, 1)}}})
	if err != nil {
		t.Fatal(err)
	}
	plant(&tamperer{t: t, db: db, id: id})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return to
}

func here(_, v []byte) bool      { return layout.Number(v) != 0 }
func elsewhere(_, v []byte) bool { return layout.Number(v) == 0 }

// tamperings are the faults, the checks that must find each, and their messages.
var tamperings = []struct {
	name  string
	plant func(*tamperer)
	found []string
	says  string
}{
	{"a list is lost", func(x *tamperer) {
		k, _ := x.rows(layout.CopiesFamily, here)
		x.remove(k[1])
	}, []string{"copies"}, "cannot be found by its id"},
	{"the sender's list of those elsewhere is lost", func(x *tamperer) {
		k, _ := x.rows(layout.CopiesFamily, elsewhere)
		x.remove(k[1])
	}, []string{"copies"}, "its sender cannot find it"},
	{"the sender's list has one more", func(x *tamperer) {
		k, v := x.rows(layout.CopiesFamily, elsewhere)
		at := slices.IndexFunc(k, func(k []byte) bool { return layout.Number(k[11:])&0xFFFFFFFF < 256 })
		last := layout.SeatIn(v[at][len(v[at])-layout.SeatBytes:])
		x.set(k[at], append(v[at], layout.AppendSeats(nil, []parley.Seat{{Number: last.Number + 1, Agent: last.Agent}})...))
	}, []string{"copies"}, "neither there nor under way"},
	{"a copy is lost", func(x *tamperer) {
		k, _ := x.rows(layout.FeedFamily, nil)
		x.remove(k[7])
	}, []string{"copies"}, "it was never delivered"},
	{"a copy is another's", func(x *tamperer) {
		k, v := x.rows(layout.FeedFamily, nil)
		v[7][24]++
		x.set(k[7], v[7])
	}, []string{"copies"}, "but the list of copies does not"},
	{"positions are one too many", func(x *tamperer) {
		k, v := x.rows(layout.CopiesFamily, here)
		binary.BigEndian.PutUint64(v[0], layout.Number(v[0])+1)
		x.set(k[0], v[0])
	}, []string{"copies"}, "the feed does not have it there"},
	{"positions are beyond all", func(x *tamperer) {
		k, v := x.rows(layout.CopiesFamily, here)
		binary.BigEndian.PutUint64(v[0], 1<<40)
		x.set(k[0], v[0])
	}, []string{"positions", "copies"}, "the number will be given again"},
	{"seats are out of order", func(x *tamperer) {
		k, v := x.rows(layout.CopiesFamily, elsewhere)
		swapped := slices.Concat(v[0][:8], v[0][28:48], v[0][8:28], v[0][48:])
		x.set(k[0], swapped)
	}, []string{"copies"}, "is at place 1"},
	{"a list begins with another seat", func(x *tamperer) {
		k, v := x.rows(layout.CopiesFamily, elsewhere)
		x.remove(k[0])
		k[0][18]--
		x.set(k[0], v[0])
	}, []string{"copies"}, "is at place 0"},
	{"a list lies elsewhere", func(x *tamperer) {
		k, v := x.rows(layout.CopiesFamily, elsewhere)
		x.remove(k[0])
		k[0][1] += 4
		x.set(k[0], v[0])
	}, []string{"keys", "copies"}, "where it is looked for"},
	{"a list is cut", func(x *tamperer) {
		k, v := x.rows(layout.CopiesFamily, here)
		x.set(k[0], v[0][:len(v[0])-1])
	}, []string{"values", "copies"}, "cannot be read"},
	{"a record is lost in another home", func(x *tamperer) {
		k, _ := x.rows(layout.RecordFamily, nil)
		x.remove(k[2])
	}, []string{"copies"}, "cannot read their copies"},
	{"a copy without receipts counts as transferred", func(x *tamperer) {
		k, _ := x.rows(layout.FeedFamily, nil)
		agent := parley.AgentID(k[7][3:19])
		x.set(layout.RowKey(agent.Slot(), journal.TransferredTable, agent[:]), layout.EncodeNumber(layout.Number(k[7][19:])))
	}, []string{"untransferred"}, "skips it"},
	{"an entry that is not a message begins a conversation", func(x *tamperer) {
		k, v := x.rows(layout.FeedFamily, nil)
		v[7][0] = byte(journal.StatusEntry) | 0x80
		x.set(k[7], v[7])
	}, []string{"copies", "values"}, "begins a conversation"},
}

func TestVerifyCopies(t *testing.T) {
	unraced(t)
	fs, id := broadcastDirectory(t, 4, 600)
	if names, said, checked := verifyDirectory(t, fs); names != nil || checked != 600+450 {
		t.Fatalf("%d copies checked, faults:\n%s", checked, said)
	}
	for _, c := range tamperings {
		t.Run(c.name, func(t *testing.T) {
			names, said, _ := verifyDirectory(t, tampered(t, fs, id, c.plant))
			slices.Sort(names)
			slices.Sort(c.found)
			if !slices.Equal(names, c.found) || !strings.Contains(said, c.says) {
				t.Errorf("%q found something, want %q and %q:\n%s", names, c.found, c.says, said)
			}
		})
	}
}

// TestVerifyCopiesUnderWay: copies in outboxes are neither missing nor duplicates. A
// message that is lost, or is in the wrong outbox, is a fault.
func TestVerifyCopiesUnderWay(t *testing.T) {
	unraced(t)
	for _, journals := range []int{1, 4} {
		fs := vfs.NewMem()
		s := mustOpen(t, "d", testOptions(fs, journals)) // not started: outbox messages are not sent
		j, group := s.lead.Load().journals[0], newGroup(0)
		activate(t, j, group)
		e := broadcast(group, 1, newSeats(600), 9)
		f, _, err := j.evaluate([]*item{{Item: apply.Item{Entry: e}}})
		if err == nil {
			err = j.commit(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.batch.SyncWait(); err != nil {
			t.Fatal(err)
		}
		_, said, under := verifyArchive(t, s.Archive())
		closeAtRest(t, s)
		s = mustOpen(t, "d", testOptions(fs, journals))
		if err := startQuietly(s); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		_, later, checked := verifyDirectory(t, fs)
		if said+later != "" || under >= checked || checked < 600 {
			t.Errorf("%d journals: %d copies checked, later %d:\n%s%s", journals, under, checked, said, later)
		}
	}
	fs, id := broadcastDirectory(t, 4, 600)
	astray := func(target int) func(x *tamperer) {
		return func(x *tamperer) {
			k, _ := x.rows(layout.FeedFamily, nil)
			many := journal.Fanout{Kind: journal.CopyEntry, Ref: parley.AnyID(x.id), To: []parley.Seat{
				{Number: 700, Agent: parley.IDFromBytes[parley.AgentID](k[0][3:19])}, // of journal 0
			}}
			value, _, err := layout.Get(x.db, layout.Homes(4).OutboxReceivedKey(target, 0))
			if err != nil {
				x.t.Fatal(err)
			}
			x.set(layout.Homes(4).OutboxKey(0, target, layout.Number(value)+1), layout.EncodeOutboxMessage(&layout.OutboxMessage{Effects: []journal.Effect{many}}))
		}
	}
	if _, said, _ := verifyDirectory(t, tampered(t, fs, id, astray(0))); said != "" {
		t.Errorf("a message of a journal to itself:\n%s", said)
	}
	if names, said, _ := verifyDirectory(t, tampered(t, fs, id, astray(1))); !slices.Contains(names, "outboxes") || !strings.Contains(said, "an effect for journal 0") {
		t.Errorf("a message in the wrong outbox: %q\n%s", names, said)
	}
}

// TestArchiveListsCopies: every copy is listed once at the broadcast's home, and
// once more at its recipient's home if that is another.
func TestArchiveListsCopies(t *testing.T) {
	fs, id := broadcastDirectory(t, 4, 600)
	a := mustOpenArchive(t, "d", testOptions(fs, 0))
	defer func() { _ = a.Close() }()
	sent, there := map[uint32]bool{}, map[uint32]bool{}
	err := a.Families.Copies(func(under parley.Slot, copied parley.MessageID, to parley.AgentID, position uint64) error {
		if copied.Broadcast() != id || (position == 0) == (a.Home(under) == a.Home(to.Slot())) {
			t.Errorf("copy %v for %v under slot %d at %d", copied, to, under, position)
		}
		if under == id.Slot() {
			sent[copied.Seat()] = true
		}
		if position != 0 {
			there[copied.Seat()] = true
		}
		return nil
	})
	if err != nil || len(sent) != 600 || len(there) != 600 {
		t.Errorf("%d sent, %d stored (%v)", len(sent), len(there), err)
	}
}
