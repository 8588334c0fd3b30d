package persistence

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/backup"
	"parley/persistence/journaltest"
)

// rowWriter writes rows 1, 2, 3, … under its own name, each after the previous one was
// acknowledged. A snapshot must hold the first n of them, for some n.
type rowWriter struct {
	name  string
	slot  parley.Slot
	acked atomic.Uint64
}

const rowWriterTable = journal.Table(100)

func (c *rowWriter) row(n uint64) journal.Row {
	value := binary.BigEndian.AppendUint64(nil, n)
	for random := rand.New(rand.NewPCG(n, uint64(c.slot)<<8|uint64(c.name[0]))); len(value) < 600; {
		value = binary.BigEndian.AppendUint64(value, random.Uint64())
	}
	return journal.Row{Slot: c.slot, Table: rowWriterTable, Key: binary.BigEndian.AppendUint64([]byte(c.name), n), Value: value}
}

func (c *rowWriter) write(t testing.TB, s *Store) {
	t.Helper()
	n := c.acked.Load() + 1
	released := make(chan error, 1)
	s.Append(&journal.Entry{Slot: c.slot, At: testStart, Rows: []journal.Row{c.row(n)}, Release: func(err error) { released <- err }})
	if err := <-released; err != nil {
		t.Error(err)
		return
	}
	c.acked.Store(n)
}

// found returns how many rows of the writer a store has. Gaps and wrong values are
// errors.
func (c *rowWriter) found(t testing.TB, s *Store) uint64 {
	t.Helper()
	v := s.View()
	defer v.Close()
	n := uint64(0)
	err := v.Rows(c.slot, rowWriterTable, []byte(c.name), nil, false, func(k, value []byte) bool {
		n++
		if want := c.row(n); !bytes.Equal(k, want.Key) || !bytes.Equal(value, want.Value) {
			t.Errorf("row %d of %s is %x", n, c.name, k)
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

// running opens and starts a store. Its memtables are large, so that its tables
// stay the same during a test.
func running(t testing.TB, fs vfs.FS, dir string, journals int) *Store {
	t.Helper()
	opts := testOptions(fs, journals)
	opts.MemTableBytes = 4 << 20
	s := mustOpen(t, dir, opts)
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func mustBackup(t testing.TB, s *Store, o backup.Options) *backup.Snapshot {
	t.Helper()
	snapshot, err := backup.Take(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// restored restores a snapshot and starts a store on it.
func restored(t testing.TB, fs vfs.FS, from, snapshot, to string) *Store {
	t.Helper()
	if _, err := backup.Restore(context.Background(), backup.RestoreOptions{FS: fs, From: from, Snapshot: snapshot, To: to}); err != nil {
		t.Fatal(err)
	}
	return running(t, fs, to+"/journal", 0)
}

// files returns the names in a directory.
func files(t testing.TB, fs vfs.FS, dir string) []string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestStoreBackupUnderLoad takes snapshots while clients write. Each holds everything
// acknowledged before it began and a prefix of later writes, and a store can continue
// from it.
func TestStoreBackupUnderLoad(t *testing.T) {
	for _, journals := range []int{1, 4} {
		if raceDetector && journals == 1 {
			continue
		}
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			fs := vfs.NewMem()
			s := running(t, fs, "data/journal", journals)
			var writers []*rowWriter
			var writing sync.WaitGroup
			done := make(chan struct{})
			for i := range 6 {
				c := &rowWriter{name: string(rune('a' + i)), slot: journaltest.SpreadSlot(i)}
				writers = append(writers, c)
				writing.Go(func() {
					for !closed(done) {
						c.write(t, s)
					}
				})
			}
			promised := map[string][]uint64{}
			for range 3 {
				before := make([]uint64, len(writers))
				for i, c := range writers {
					for target := c.acked.Load() + 40; before[i] < target; before[i] = c.acked.Load() {
						time.Sleep(50 * time.Microsecond)
					}
				}
				snapshot := mustBackup(t, s, backup.Options{To: "backup", MasterKey: []byte("secret")})
				promised[snapshot.ID] = before
			}
			close(done)
			writing.Wait()
			mustClose(t, s)
			if names := files(t, fs, "data/journal"); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, checkpointPrefix) }) {
				t.Errorf("files are still set aside: %q", names)
			}
			if len(promised) != 3 {
				t.Errorf("%d snapshots, want 3", len(promised))
			}
			for id, before := range promised {
				to := "restored-" + id
				again := restored(t, fs, "backup", id, to)
				for i, c := range writers {
					n := c.found(t, again)
					if n < before[i] || n > c.acked.Load() {
						t.Errorf("%s: %d rows of %s, %d were acknowledged before", id, n, c.name, before[i])
					}
					more := &rowWriter{name: c.name, slot: c.slot}
					more.acked.Store(n)
					more.write(t, again)
				}
				mustClose(t, again)
				if key, err := readFile(fs, to+"/master.key"); err != nil || string(key) != "secret" {
					t.Errorf("the key came back as %q (%v)", key, err)
				}
				mustClose(t, mustOpen(t, to+"/journal", testOptions(fs, journals)))
			}
		})
	}
}

func closed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// filled returns a store with some tables, and its writer.
func filled(t testing.TB, fs vfs.FS, rows int) (*Store, *rowWriter) {
	t.Helper()
	s, c := running(t, fs, "data/journal", 1), &rowWriter{name: "a"}
	for range rows {
		c.write(t, s)
	}
	return s, c
}

// TestBackupCopiesWhatIsNew: a table or blob file that the backup directory already
// holds is not copied again; a different one of the same name is.
func TestBackupCopiesWhatIsNew(t *testing.T) {
	fs := vfs.NewMem()
	s, c := filled(t, fs, 1500)
	// Tables of the lowest level stay; those above it would be compacted meanwhile.
	if err := s.db.Compact(context.Background(), []byte{0}, []byte{0xFF, 0xFF, 0xFF}, false); err != nil {
		t.Fatal(err)
	}
	first := mustBackup(t, s, backup.Options{To: "backup"})
	for range 3 {
		c.write(t, s)
	}
	second := mustBackup(t, s, backup.Options{To: "backup"})
	if second.Copied >= first.Copied/2 || second.Copied == 0 || first.Copied != first.Bytes() {
		t.Errorf("the first snapshot copied %d of %d bytes, the second %d of %d", first.Copied, first.Bytes(), second.Copied, second.Bytes())
	}
	mustClose(t, s)
	// Two restored stores continue from the same snapshot: both use the same table
	// numbers for different tables.
	var lives []*rowWriter
	var others []*backup.Snapshot
	for _, name := range []string{"b", "c"} {
		life := &rowWriter{name: name}
		other := restored(t, fs, "backup", first.ID, "other-"+name)
		for range 1500 {
			life.write(t, other)
		}
		others = append(others, mustBackup(t, other, backup.Options{To: "backup"}))
		lives = append(lives, life)
		mustClose(t, other)
	}
	for _, suffix := range []string{".sst", ".blob"} {
		if !sameNameOtherBytes(others[0], others[1], suffix) {
			t.Errorf("no %s file of one store has the name of one of the other: the test checked nothing", suffix)
		}
	}
	for id, want := range map[string][3]uint64{
		first.ID: {1500, 0, 0}, second.ID: {1503, 0, 0}, others[0].ID: {1500, 1500, 0}, others[1].ID: {1500, 0, 1500},
	} {
		again := restored(t, fs, "backup", id, "again-"+id)
		if got := [3]uint64{c.found(t, again), lives[0].found(t, again), lives[1].found(t, again)}; got != want {
			t.Errorf("%s: %v rows, want %v", id, got, want)
		}
		mustClose(t, again)
	}
}

func sameNameOtherBytes(a, b *backup.Snapshot, suffix string) bool {
	sums := map[string]string{}
	for _, f := range a.Files {
		sums[f.Name] = f.Sum
	}
	return slices.ContainsFunc(b.Files, func(f backup.File) bool {
		before, there := sums[f.Name]
		return strings.HasSuffix(f.Name, suffix) && there && before != f.Sum
	})
}

// TestBackupKeeps prunes: the newest snapshots stay complete, and contents that none of
// them needs are deleted.
func TestBackupKeeps(t *testing.T) {
	fs := vfs.NewMem()
	s, c := filled(t, fs, 10)
	var made []*backup.Snapshot
	for range 5 {
		for range 30 {
			c.write(t, s)
		}
		made = append(made, mustBackup(t, s, backup.Options{To: "backup", Keep: 2}))
	}
	mustClose(t, s)
	left, err := backup.List(fs, "backup")
	if err != nil || len(left) != 2 || left[0].ID != made[3].ID || left[1].ID != made[4].ID {
		t.Fatalf("%d snapshots are left (%v)", len(left), err)
	}
	needed := map[string]bool{}
	for _, snapshot := range left {
		for _, f := range snapshot.Files {
			needed[f.Sum] = true
		}
		if _, err := backup.Check(context.Background(), fs, "backup", snapshot.ID, nil); err != nil {
			t.Error(err)
		}
	}
	if names := files(t, fs, "backup/files"); len(names) != len(needed) {
		t.Errorf("%d contents are stored and %d are needed", len(names), len(needed))
	}
}

// rewrite changes the bytes of a file.
func rewrite(t testing.TB, fs vfs.FS, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := readFile(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(change(content)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedBackupIsRefused flips a bit in, truncates and removes every file of a backup
// in turn: restore and check name the file, and restore leaves nothing behind.
func TestDamagedBackupIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	s, _ := filled(t, fs, 300)
	snapshot := mustBackup(t, s, backup.Options{To: "backup", MasterKey: []byte("secret")})
	mustClose(t, s)
	paths := []string{"backup/snapshots/" + snapshot.ID}
	for _, name := range files(t, fs, "backup/files") {
		paths = append(paths, "backup/files/"+name)
	}
	if !slices.ContainsFunc(snapshot.Files, func(f backup.File) bool { return kindOf(f.Name) == "blob" }) || len(paths) < 7 {
		t.Fatalf("only %v, no blob file among them", snapshot.Files)
	}
	tried := 0
	for _, path := range paths {
		whole, err := readFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func([]byte) []byte{
			"flipped": func(b []byte) []byte {
				b = bytes.Clone(b)
				if len(b) > 0 {
					b[len(b)/2] ^= 4
				}
				return b
			},
			"shorter": func(b []byte) []byte { return b[:max(0, len(b)-1)] },
			"longer":  func(b []byte) []byte { return append(bytes.Clone(b), 0) },
			"gone":    nil,
		} {
			if change == nil {
				if err := fs.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				rewrite(t, fs, path, change)
				if now, err := readFile(fs, path); err != nil || bytes.Equal(now, whole) {
					rewrite(t, fs, path, func([]byte) []byte { return whole })
					continue // an empty file cannot be flipped
				}
			}
			tried++
			_, err := backup.Restore(context.Background(), backup.RestoreOptions{FS: fs, From: "backup", Snapshot: snapshot.ID, To: "target/new/"})
			_, checked := backup.Check(context.Background(), fs, "backup", snapshot.ID, nil)
			for _, err := range []error{err, checked} {
				if err == nil || !strings.Contains(err.Error(), fs.PathBase(path)) {
					t.Errorf("%s, %s: %v", path, what, err)
				}
			}
			if names, err := fs.List("target"); err == nil {
				t.Errorf("%s, %s: restore left the directory with %q", path, what, names)
			}
			f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
			if err == nil {
				_, err = f.Write(bytes.Clone(whole))
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d damages of %d files", tried, len(paths))
	mustClose(t, restored(t, fs, "backup", "", "target"))
}

// TestBackupRefusals: a backup or restore that cannot succeed is refused before
// anything is written.
func TestBackupRefusals(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	s, _ := filled(t, fs, 50)
	defer mustClose(t, s)
	said := func(err error, words ...string) {
		t.Helper()
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("got %v, want %q", err, w)
			}
		}
	}
	_, err := backup.Restore(ctx, backup.RestoreOptions{FS: fs, From: "backup", To: "target"})
	said(err, "backup is not a backup directory")
	snapshot := mustBackup(t, s, backup.Options{To: "backup"})
	_, err = backup.Restore(ctx, backup.RestoreOptions{FS: fs, From: "backup", Snapshot: "20200101T000000.000Z", To: "target"})
	said(err, "no snapshot 20200101T000000.000Z")
	_, err = backup.Restore(ctx, backup.RestoreOptions{FS: fs, From: "backup", To: "data"})
	said(err, "data is not empty")
	lock, err := pebble.LockDirectory("backup", fs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = backup.Take(ctx, s, backup.Options{To: "backup"}); !errors.Is(err, backup.ErrBusy) {
		t.Errorf("two at once: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err = backup.Take(cancelled, s, backup.Options{To: "backup"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 100, TotalBytes: 1 << 40})
	_, err = backup.Take(ctx, s, backup.Options{To: "elsewhere"})
	said(err, "bytes are needed and 100 are free")
	_, err = backup.Restore(ctx, backup.RestoreOptions{FS: fs, From: "backup", To: "target"})
	said(err, "target", "and 100 are free")
	fs.TestingSetDiskUsage(vfs.DiskUsage{})
	if left, err := backup.List(fs, "backup"); err != nil || len(left) != 1 || left[0].ID != snapshot.ID {
		t.Errorf("%d snapshots after refusals (%v)", len(left), err)
	}
	rewrite(t, fs, "backup/snapshots/"+snapshot.ID, func(b []byte) []byte { return b[1:] })
	_, err = backup.Take(ctx, s, backup.Options{To: "backup", Keep: 1})
	said(err, "nothing was pruned", snapshot.ID)
	rotten := "000007.sst"
	s.disk.FoundDamage(rotten)
	if _, err = backup.Take(ctx, s, backup.Options{To: "backup"}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged store: %v", err)
	}
	said(err, rotten)
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}
