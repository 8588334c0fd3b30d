package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// noTablesFS is a disk on which, once switched on, tables find no space, so that data
// stays in logs.
type noTablesFS struct {
	vfs.FS
	on atomic.Bool
}

func (d *noTablesFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.on.Load() && disk.IsTable(path) {
		return nil, syscall.ENOSPC
	}
	return d.FS.Create(path, category)
}

func (d *noTablesFS) Unwrap() vfs.FS { return d.FS }

// killedWithLogs is the directory of a process that was killed, or stopped if
// orderly, while it had several logs, after more commits than heads are stored for.
func killedWithLogs(t testing.TB, orderly bool) *killedDirectory {
	t.Helper()
	device, r := &noTablesFS{FS: vfs.NewMem()}, &killedDirectory{s: newStream(1)}
	opts := testOptions(device, 1)
	opts.MemTableBytes = 1 << 20
	s := mustOpen(t, "d", opts)
	if err := startQuietly(s); err != nil {
		t.Fatal(err)
	}
	device.on.Store(true)
	activation := activated(t, s, r.s)
	logs := func() (n int) {
		names, err := device.List("d") // the engine may remove files: do not open them
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			n += count(kindOf(name) == "log")
		}
		return n
	}
	for logs() < 3 && len(r.acked) < 400 {
		n := uint64(len(r.acked))
		e := &journal.Entry{
			Slot: r.s.Slot(), Stream: r.s, Activation: activation, Expect: n,
			Events: []journal.StoredEvent{{Tag: 1, Data: append(layout.EncodeNumber(n), make([]byte, 20_000)...)}},
		}
		if err := <-appended(s, e); err != nil {
			t.Fatal(err)
		}
		r.acked = append(r.acked, n)
	}
	for range layout.HeadsKept {
		if err := <-appended(s, &journal.Entry{Rows: []journal.Row{{Table: 1, Key: []byte("k")}}}); err != nil {
			t.Fatal(err)
		}
	}
	waitForWitness(t, s)
	if !orderly {
		r.files = filesOf(t, device)
	}
	device.on.Store(false)
	mustClose(t, s)
	if orderly {
		r.files = filesOf(t, device)
	}
	return r
}

// unchanged checks that a refused directory is as it was.
func (r *killedDirectory) unchanged(t *testing.T, fs vfs.FS, name string, content []byte) {
	t.Helper()
	want := maps.Clone(r.files)
	if want[name] = content; content == nil {
		delete(want, name)
	}
	got := filesOf(t, fs)
	delete(got, "LOCK")
	delete(want, "LOCK")
	if !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%s was changed; the directory was rejected, but changed from %v to %v", name, sizes(want), sizes(got))
	}
}

func sizes(files map[string][]byte) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, fmt.Sprintf("%s:%d", name, len(files[name])))
	}
	return strings.Join(all, " ")
}

// fileDamage is one possible damage to a file.
type fileDamage struct {
	what, name string
	content    []byte // nil: removed
}

// damages returns the possible damages to the engine's files as a whole.
func (r *killedDirectory) damages() (all []fileDamage) {
	names := slices.Sorted(maps.Keys(r.files))
	for i, name := range names {
		content, kind := r.files[name], kindOf(name)
		if kind != "log" && kind != "marker" && kind != "manifest" && kind != "table" && kind != "blob" {
			continue
		}
		all = append(all, fileDamage{"gone", name, nil}, fileDamage{"emptied", name, []byte{}}, fileDamage{"cut in half", name, content[:len(content)/2]})
		for _, other := range slices.Concat(names[:i], names[i+1:]) {
			if kindOf(other) == kind && !bytes.Equal(r.files[other], content) {
				all = append(all, fileDamage{"overwritten with " + other, name, r.files[other]})
			}
		}
		for at := 0; kind == "manifest" && at < len(content); at++ {
			flipped := slices.Clone(content)
			flipped[at] ^= 1 << (at % 8)
			all = append(all, fileDamage{fmt.Sprintf("flipped at byte %d of %d", at, len(content)), name, flipped})
		}
	}
	return all
}

// killedDirectories are directories of several kinds.
func killedDirectories(t testing.TB) map[string]*killedDirectory {
	return map[string]*killedDirectory{
		"killed in its first life":  killed(t, 1, 20),
		"killed in its second life": killed(t, 2, 20),
		"killed in its fourth life": killed(t, 4, 20),
		"killed with many logs":     killedWithLogs(t, false),
		"stopped with many logs":    killedWithLogs(t, true),
	}
}

// TestMissingFilesAreNeverSilent removes, empties, truncates and swaps the engine's
// logs, manifests, markers, tables and blob files, and flips each byte of each
// manifest. No loss goes undetected, and a refused directory stays as it was. A table
// or blob file that is missing or cut refuses the start by name.
func TestMissingFilesAreNeverSilent(t *testing.T) {
	unraced(t)
	t.Parallel()
	for name, r := range killedDirectories(t) {
		t.Run(name, func(t *testing.T) {
			tried := map[string]int{}
			for _, h := range r.damages() {
				fs := r.with(t, h.name, h.content)
				verdict, reason := r.try(fs, true)
				tried[kindOf(h.name)+" "+verdict]++
				switch verdict {
				case rotSilent:
					t.Errorf("%s is %s: %v", h.name, h.what, reason)
				case rotRefused:
					r.unchanged(t, fs, h.name, h.content)
					if number, _, _ := strings.Cut(h.name, "."); disk.IsTable(h.name) && !strings.Contains(reason.Error(), number) {
						t.Errorf("%s is %s, and the start is refused with %v", h.name, h.what, reason)
					}
				case rotMet:
					if !disk.IsTable(h.name) || len(h.content) != len(r.files[h.name]) {
						t.Errorf("%s is %s, and the start is not refused: %v", h.name, h.what, reason)
					}
				}
			}
			t.Log(tried)
			if name != "killed in its first life" && name != "killed with many logs" && (tried["table "+rotRefused] == 0 || tried["blob "+rotRefused] == 0) {
				t.Errorf("no table or no blob file was tried: %v", tried)
			}
			if tried["log "+rotRefused] == 0 || tried["manifest "+rotRefused] == 0 || tried["marker "+rotRefused] == 0 {
				t.Errorf("not every damage was tried: %v", tried)
			}
		})
	}
}

// TestMissingFilesAreNeverSilentControl: a witness that records only commits misses
// some losses.
func TestMissingFilesAreNeverSilentControl(t *testing.T) {
	unraced(t)
	t.Parallel()
	silent := map[string]int{}
	for _, r := range []*killedDirectory{killedWithLogs(t, false), killedWithLogs(t, true)} {
		fs := r.with(t, "", nil)
		said, err := disk.ReadWitness(fs, "d")
		if err != nil {
			t.Fatal(err)
		}
		w, err := disk.MakeWitness(fs, "d", said.Head)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file, err := fs.Open("d/" + disk.WitnessName)
		if err != nil {
			t.Fatal(err)
		}
		if r.files[disk.WitnessName], err = io.ReadAll(file); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		for _, h := range r.damages() {
			if kindOf(h.name) != "log" {
				continue
			}
			verdict, _ := r.try(r.with(t, h.name, h.content), true)
			silent[kindOf(h.name)] += count(verdict == rotSilent)
		}
	}
	t.Logf("without file checksums undetected: %v", silent)
	if silent["log"] == 0 {
		t.Error("the file checksums find nothing that the engine misses")
	}
}

// TestLossIsAcceptedOnce: after a loss was accepted once, the directory opens like
// any other, and verification finds no fault.
func TestLossIsAcceptedOnce(t *testing.T) {
	unraced(t)
	t.Parallel()
	for name, r := range map[string]*killedDirectory{"killed": killedWithLogs(t, false), "stopped": killedWithLogs(t, true)} {
		t.Run(name, func(t *testing.T) {
			logs := []string{}
			for file := range r.files {
				if kindOf(file) == "log" {
					logs = append(logs, file)
				}
			}
			slices.Sort(logs)
			fs := r.with(t, logs[1], nil)
			if _, err := Open("d", testOptions(fs, 0)); !errors.Is(err, ErrDamaged) {
				t.Fatalf("without a log: %v", err)
			}
			opts := testOptions(fs, 0)
			opts.AcceptLoss = true
			mustClose(t, mustOpen(t, "d", opts))
			for range 3 {
				s := mustOpen(t, "d", testOptions(fs, 0))
				if err := startQuietly(s); err != nil {
					t.Fatal(err)
				}
				for i := range 10 {
					if err := <-appended(s, &journal.Entry{Rows: []journal.Row{{Table: 1, Key: []byte{byte(i)}}}}); err != nil {
						t.Fatal(err)
					}
				}
				mustClose(t, s)
			}
		})
	}
}
