package persistence

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence/journaltest"
	"parley/persistence/verify"
)

// populated creates a store with a few rows of every kind.
func populated(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s := mustOpen(t, dir, opts)
	if err := s.Start(func(journal.Stream) {}, nil); err != nil {
		t.Fatal(err)
	}
	agent := parley.NewID[parley.AgentID](journaltest.SpreadSlot(3), testStart, testEntropy())
	for n := range 20 {
		id := parley.NewID[parley.MessageID](journaltest.SpreadSlot(n), testStart, testEntropy())
		done := make(chan error, 1)
		s.Append(&journal.Entry{
			Slot: id.Slot(), At: testStart, Release: func(err error) { done <- err },
			Records: []journal.Record{{ID: id, Data: []byte("text")}},
			Effects: []journal.Effect{
				journal.AppendFeed{To: agent, Kind: journal.MessageEntry, Ref: parley.AnyID(id), Note: []byte("note")},
				journal.CreateStream{Stream: newStream(id.Slot()), Events: []journal.StoredEvent{{Tag: 1}, {Tag: 2}}, State: []byte("state")},
				journal.AddToList{Agent: agent, Conversation: parley.ConversationID(id)},
			},
			Counts: []journal.Count{{Org: parley.NewID[parley.OrgID](journaltest.SpreadSlot(5), testStart, testEntropy()), Day: 1, N: 2}},
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	group := newGroup(7)
	activation := activated(t, s, group)
	for range 3 {
		if err := <-appended(s, broadcast(group, activation, newSeats(300), 9)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// expectNoFaults verifies an archive. It expects no fault, and that rows were
// checked.
func expectNoFaults(t *testing.T, a *Archive) {
	t.Helper()
	result := &report.Verification{}
	if err := verify.Rows(a, result); err != nil {
		t.Error(err)
	}
	if err := result.Err(); err != nil {
		t.Error(err)
	}
	for _, c := range result.Checks() {
		if c.Checked < 20 && (c.Name == "events" || c.Name == "record-places" || c.Name == "copies" || c.Name == "untransferred") {
			t.Errorf("%s was checked on %d rows", c.Name, c.Checked)
		}
	}
}

func mustOpenArchive(t testing.TB, dir string, opts Options) *Archive {
	t.Helper()
	a, err := OpenArchive(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestArchiveChangesNothing opens directories after a shutdown, a kill and a backup.
func TestArchiveChangesNothing(t *testing.T) {
	unraced(t)
	for name, fs := range map[string]vfs.FS{"disk": nil, "memory": vfs.NewMem()} {
		for _, journals := range []int{1, 4} {
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "journal")
				opts := testOptions(fs, journals)
				s := populated(t, dir, opts)
				open := s.Archive()
				expectNoFaults(t, open)
				if err := open.Close(); err != nil {
					t.Error(err)
				}
				if _, err := OpenArchive(dir, opts); err == nil || !strings.Contains(err.Error(), "in use by another process: stop the server first") {
					t.Errorf("of an open directory: %v", err)
				}
				mustClose(t, s)
				if fs == nil {
					opts.FS = vfs.Default
				}
				before := hashesOf(t, opts.FS, dir)
				for _, lock := range []bool{true, false} {
					if !lock { // as in a copy
						if err := opts.FS.Remove(opts.FS.PathJoin(dir, "LOCK")); err != nil {
							t.Fatal(err)
						}
						delete(before, "LOCK")
					}
					a := mustOpenArchive(t, dir, opts)
					expectNoFaults(t, a)
					if _, err := a.store.opts.FS.Create(dir+"/x", vfs.WriteCategoryUnspecified); err == nil {
						t.Error("an archive wrote")
					}
					if err := a.Close(); err != nil {
						t.Error(err)
					}
					after := hashesOf(t, opts.FS, dir)
					if len(after) != len(before) {
						t.Errorf("%d files are %d", len(before), len(after))
					}
					for file, sum := range before {
						if after[file] != sum {
							t.Errorf("%s has changed", file)
						}
					}
				}
				mustClose(t, mustOpen(t, dir, opts))
			})
		}
	}
}

// hashesOf returns the hash of every file of a directory.
func hashesOf(t *testing.T, fs vfs.FS, dir string) map[string][sha256.Size]byte {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	picture := map[string][sha256.Size]byte{}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		picture[name] = sha256.Sum256(data)
		_ = f.Close()
	}
	return picture
}

// TestArchiveRefuses: a directory that is not a data directory does not become one.
func TestArchiveRefuses(t *testing.T) {
	empty := t.TempDir()
	for dir, want := range map[string]string{empty: "holds no journal", filepath.Join(empty, "absent"): "no such file"} {
		if _, err := OpenArchive(dir, testOptions(nil, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestArchiveAfterAKill: rows that exist only in the log are verified too.
func TestArchiveAfterAKill(t *testing.T) {
	for _, journals := range []int{1, 4} {
		disk := vfs.NewCrashableMem()
		s := populated(t, "data", testOptions(disk, journals))
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		a := mustOpenArchive(t, "data", testOptions(crashed, 0))
		expectNoFaults(t, a)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := verify.Rows(newArchive(&storeView{}, nil), &report.Verification{}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}
