package persistence

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/disk"
)

func mustOpen(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func refusedWith(t *testing.T, dir string, opts Options, words ...string) {
	t.Helper()
	s, err := Open(dir, opts)
	if err == nil {
		mustClose(t, s)
		t.Errorf("opened, want an error with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("rejected with %q, which does not contain %q", err, w)
		}
	}
}

func TestOpenLocks(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"disk": nil, "memory": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			s := mustOpen(t, dir, testOptions(fs, 1))
			refusedWith(t, dir, testOptions(fs, 1), dir, "in use by another process")
			mustClose(t, s)
			mustClose(t, mustOpen(t, dir, testOptions(fs, 1)))
		})
	}
}

func TestOpenRefusesOtherLayouts(t *testing.T) {
	fs := vfs.NewMem()
	mustClose(t, mustOpen(t, "d", testOptions(fs, 4)))
	refusedWith(t, "d", testOptions(fs, 1), "made with 4 journals", "cannot be opened with 1")
	s := mustOpen(t, "d", testOptions(fs, 0))
	if got := s.Journals(); got != 4 {
		t.Errorf("created with 4 journals, opened with %d", got)
	}
	mustClose(t, s)
}

func TestOpenRefusesOptions(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Options)
		want  string
	}{
		"no clock":          {func(o *Options) { o.Clock = nil }, "clock"},
		"no logger":         {func(o *Options) { o.Logger = nil }, "logger"},
		"too many journals": {func(o *Options) { o.Journals = JournalsMax + 1 }, "65 is not within 1 to 64"},
		"fewer than none":   {func(o *Options) { o.Journals = -1 }, "-1 is not within"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions(vfs.NewMem(), 1)
			c.spoil(&opts)
			refusedWith(t, "d", opts, c.want)
		})
	}
}

// TestActivationsGrowOverOpenings: activations of an earlier process have smaller
// numbers.
func TestActivationsGrowOverOpenings(t *testing.T) {
	fs := vfs.NewMem()
	last := uint64(0)
	for range 4 {
		s := mustOpen(t, "d", testOptions(fs, 1))
		for range 3 {
			activation := s.NextActivation()
			if activation <= last {
				t.Errorf("activation %d follows %d", activation, last)
			}
			last = activation
		}
		mustClose(t, s)
	}
}

// TestEngineSeesRot flips single bits in the write-ahead log of a new store, without a
// witness. In all blocks except the last, each flip must prevent the engine from opening.
func TestEngineSeesRot(t *testing.T) {
	flips, seen := rot(t, func(fs vfs.FS) *Store { return mustOpen(t, "d", rotOptions(fs)) })
	if seen != flips {
		t.Errorf("%d of %d flipped bits were noticed", seen, flips)
	}
}

// TestEngineSeesRotControl opens a new engine only once: its log hides damage.
func TestEngineSeesRotControl(t *testing.T) {
	flips, seen := rot(t, func(fs vfs.FS) *Store {
		s := newStore("d", rotOptions(fs))
		o := opening{s}
		err := s.opts.ensureDefaults()
		if err == nil {
			err = fs.MkdirAll("d", 0o700)
		}
		if err == nil {
			s.lock, err = pebble.LockDirectory("d", fs)
		}
		s.disk = o.newMonitor()
		if err == nil {
			s.witness, err = disk.MakeWitness(fs, "d", disk.Head{})
			o.record(s.witness)
		}
		if err == nil {
			s.db, err = pebble.Open("d", o.engineOptions())
		}
		if err == nil {
			err = o.openJournals()
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	if seen == flips {
		t.Errorf("all of %d flipped bits were noticed: opening twice is not needed", flips)
	}
}

func rotOptions(fs vfs.FS) Options {
	opts := testOptions(fs, 1)
	opts.MemTableBytes = 8 << 20
	return opts
}

// rot writes a log of several blocks, kills the process, and opens the remaining files
// with one bit flipped, for some bits of the first two blocks.
func rot(t *testing.T, open func(vfs.FS) *Store) (flips, seen int) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	s := open(disk)
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		released := make(chan error, 1)
		s.Append(&journal.Entry{Rows: []journal.Row{{Table: 1, Key: fmt.Append(nil, i), Value: bytes.Repeat([]byte{byte(i)}, 2000)}}, Release: func(err error) { released <- err }})
		if err := <-released; err != nil {
			t.Fatal(err)
		}
	}
	for at := int64(300); at < 65000; at += 4973 {
		image := disk.CrashClone(vfs.CrashCloneCfg{})
		flip(t, image, at)
		flips++
		opts := rotOptions(image)
		opts.AcceptLoss = true
		if damaged, err := Open("d", opts); err != nil {
			seen++
		} else {
			mustClose(t, damaged)
		}
	}
	mustClose(t, s)
	return flips, seen
}

// flip changes a bit of the largest log, the one in use.
func flip(t *testing.T, fs vfs.FS, at int64) {
	t.Helper()
	names, err := fs.List("d")
	if err != nil {
		t.Fatal(err)
	}
	log, content := "", []byte(nil)
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := fs.Open(fs.PathJoin("d", name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > len(content) {
			log, content = name, b
		}
	}
	if len(content) < 100000 {
		t.Fatalf("the log has %d bytes", len(content))
	}
	content[at] ^= 4
	f, err := fs.Create(fs.PathJoin("d", log), vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
