package persistence

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/layout"
)

// killedDirectory holds the files that a killed process left, and what it had
// acknowledged.
type killedDirectory struct {
	files map[string][]byte
	acked []uint64 // numbers of operations, which are the contents of their events
	s     journal.Stream
}

// killed runs a journal that acknowledges events one by one, waits for the witness,
// and takes the files while the process runs. More than one opening leaves tables
// and manifests behind.
func killed(t testing.TB, lives, events int) *killedDirectory {
	t.Helper()
	fs, r := vfs.NewMem(), &killedDirectory{s: newStream(1)}
	for life := range lives {
		s := mustOpen(t, "d", testOptions(fs, 1))
		if err := startQuietly(s); err != nil {
			t.Fatal(err)
		}
		activation := activated(t, s, r.s)
		for range events {
			n := uint64(len(r.acked))
			e := &journal.Entry{
				Slot: r.s.Slot(), Stream: r.s, Activation: activation, Expect: n,
				Events: []journal.StoredEvent{{Tag: 1, Data: append(layout.EncodeNumber(n), make([]byte, 900)...)}},
			}
			if err := <-appended(s, e); err != nil {
				t.Fatal(err)
			}
			r.acked = append(r.acked, n)
		}
		if life == lives-1 {
			waitForWitness(t, s)
			r.files = filesOf(t, fs)
		}
		mustClose(t, s)
	}
	return r
}

// waitForWitness returns when the witness on disk has the last acknowledged commit.
func waitForWitness(t testing.TB, s *Store) {
	t.Helper()
	for range 2000 {
		w, err := disk.ReadWitness(s.opts.FS, s.dir)
		if err != nil {
			t.Fatal(err)
		}
		if w.Head.Number == s.durable.Level() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the witness does not catch up")
}

func filesOf(t testing.TB, fs vfs.FS) map[string][]byte {
	t.Helper()
	names, err := fs.List("d")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		f, err := fs.Open("d/" + name)
		if errors.Is(err, os.ErrNotExist) {
			continue // an open store removed it meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[name], err = io.ReadAll(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	return files
}

// kindOf returns the kind of a file, from its name.
func kindOf(name string) string {
	for part, kind := range map[string]string{".log": "log", ".sst": "table", ".blob": "blob", "MANIFEST": "manifest", "OPTIONS": "options", "marker": "marker", disk.WitnessName: "witness", KeyringName: "keyring"} {
		if strings.Contains(name, part) {
			return kind
		}
	}
	return "other"
}

// with copies the files to a new disk, with one of them changed.
func (r *killedDirectory) with(t testing.TB, name string, content []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("d", 0o700); err != nil {
		t.Fatal(err)
	}
	for n, b := range r.files {
		if n == name {
			if b = content; b == nil {
				continue // removed
			}
		}
		f, err := fs.Create("d/"+n, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(slices.Clone(b))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// Outcomes of opening a directory with one file changed.
const (
	rotRefused  = "refused at the start"
	rotMet      = "refused where it was read"
	rotHarmless = "nothing was missing"
	rotSilent   = "SILENT LOSS"
)

// try opens the directory and reads all of it. A panic of the engine counts as a
// rejection: the process ends. The reason for a rejected read names the file that the
// store reports as damaged.
func (r *killedDirectory) try(fs vfs.FS, witnessed bool) (outcome string, reason error) {
	opts := testOptions(fs, 0)
	opts.AcceptLoss = !witnessed
	return r.tryWith(opts)
}

func (r *killedDirectory) tryWith(opts Options) (outcome string, reason error) {
	defer func() {
		if p := recover(); p != nil {
			outcome, reason = rotRefused, fmt.Errorf("panic: %v", p)
		}
	}()
	s, err := Open("d", opts)
	if err != nil {
		return rotRefused, err
	}
	defer func() { _ = s.Close() }()
	v := s.View()
	defer v.Close()
	var found []uint64
	err = v.Events(r.s, 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		found = append(found, layout.Number(f.Data))
		return true
	})
	switch {
	case err != nil:
		return rotMet, fmt.Errorf("%w; reported as damaged: %q", err, s.Damage())
	case !slices.Equal(found, r.acked):
		return rotSilent, fmt.Errorf("%d of %d events", len(found), len(r.acked))
	}
	return rotHarmless, nil
}

// Exhaustive tests try every place. The others try some of each kind.
var exhaustive = flag.Bool("exhaustive", false, "fail more operations, flip more bytes, check 6,000 images of power failures")

// unraced skips a test under the race detector, because it is long, and tests bytes or
// breaks guarantees on purpose.
func unraced(t *testing.T) {
	if raceDetector {
		t.Skip("runs without the race detector only")
	}
}

// rotEvery is the distance between the flipped bytes: larger unless exhaustive.
func rotEvery(name string, size int) int {
	flips := 30
	if *exhaustive {
		flips = 300
	}
	if kindOf(name) == "log" {
		flips *= 6
	}
	return max(1, size/flips)
}

// TestRotIsNeverSilent flips a bit in many bytes of every file of a killed process, and
// truncates every file. Each time the store refuses to open, reading the damaged part
// fails, or nothing is missing.
func TestRotIsNeverSilent(t *testing.T) {
	unraced(t)
	t.Parallel()
	r := killed(t, 3, 60)
	tried := map[string]map[string]int{}
	judge := func(name string, content []byte, what string) {
		fs := r.with(t, name, content)
		outcome, reason := r.try(fs, true)
		kind := kindOf(name)
		if outcome == rotRefused {
			r.unchanged(t, fs, name, content)
		}
		if tried[kind] == nil {
			tried[kind] = map[string]int{}
		}
		tried[kind][outcome]++
		if outcome == rotSilent || outcome == rotMet && !strings.Contains(reason.Error(), `reported as damaged: "d/`+name) {
			t.Errorf("%s: %s: %s: %v", name, what, outcome, reason)
		}
		if outcome == rotRefused && kind == "table" && (!errors.Is(reason, ErrDamaged) || strings.Contains(reason.Error(), "\n") || !strings.Contains(reason.Error(), strings.TrimSuffix(name, ".sst"))) {
			t.Errorf("%s: %s: refused without a plain reason: %v", name, what, reason)
		}
	}
	for name, content := range r.files {
		for at := 0; at < len(content); at += rotEvery(name, len(content)) {
			flipped := slices.Clone(content)
			flipped[at] ^= 1 << (at % 8)
			judge(name, flipped, fmt.Sprintf("bit %d of byte %d of %d flipped", at%8, at, len(content)))
		}
		for _, part := range []int{0, 1, 2, 3} {
			judge(name, content[:len(content)*part/4], fmt.Sprintf("cut to %d quarters", part))
		}
	}
	for kind, outcomes := range tried {
		t.Logf("%-9s %v", kind, outcomes)
	}
	for _, kind := range []string{"log", "table", "blob", "manifest", "options", "marker", "witness"} {
		if len(tried[kind]) == 0 {
			t.Errorf("there was no file of kind %s to damage", kind)
		}
	}
}

// TestRotInBlobsControl trusts blob files as the engine does: it panics at some of
// the flips, reports no damage at others, and takes one file for another.
func TestRotInBlobsControl(t *testing.T) {
	unraced(t)
	t.Parallel()
	r := killed(t, 3, 60)
	tried := map[string]int{}
	for name, content := range r.files {
		if kindOf(name) != "blob" || len(content) == 0 {
			continue
		}
		for _, at := range []int{len(content) / 2, len(content) - 1} {
			flipped := slices.Clone(content)
			flipped[at] ^= 1
			for trust, told := range map[bool]string{false: "checked: ", true: "trusted: "} {
				opts := testOptions(r.with(t, name, flipped), 0)
				opts.trustBlobs = trust
				outcome, reason := r.tryWith(opts)
				told += outcome
				if reason != nil && strings.Contains(reason.Error(), "panic") {
					told += " by a panic"
				}
				if reason != nil && strings.Contains(reason.Error(), `damaged: ""`) {
					told += " without a report"
				}
				tried[told]++
			}
		}
	}
	swapped, missed := 0, 0
	r = killed(t, 4, 20)
	for _, h := range r.damages() {
		if kindOf(h.name) != "blob" {
			continue
		}
		opts := testOptions(r.with(t, h.name, h.content), 0)
		opts.trustBlobs = true
		outcome, reason := r.tryWith(opts)
		swapped += count(outcome == rotSilent && len(h.content) == len(r.files[h.name]))
		missed += count(h.content == nil && reason != nil && strings.Contains(reason.Error(), "panic"))
	}
	t.Logf("%v; %d of one blob file under the name of another are silent, %d missing ones end the process", tried, swapped, missed)
	if swapped == 0 || missed == 0 {
		t.Error("the engine distinguishes two blob files of the same size, or misses one at the start")
	}
	if tried["trusted: "+rotRefused+" by a panic"] == 0 || tried["trusted: "+rotMet+" without a report"] == 0 {
		t.Errorf("the engine handles damaged blob files itself: %v", tried)
	}
	if n := tried["checked: "+rotMet]; n == 0 || n+tried["checked: "+rotHarmless] < tried["trusted: "+rotMet+" without a report"] {
		t.Errorf("with checks: %v", tried)
	}
}

// TestRotIsNeverSilentControl opens the same directories without a witness: the engine
// alone silently loses the end of its log.
func TestRotIsNeverSilentControl(t *testing.T) {
	unraced(t)
	t.Parallel()
	r := killed(t, 3, 60)
	silent, flips := 0, 0
	const fewer = 5 // than TestRotIsNeverSilent: a share is enough
	for name, content := range r.files {
		if kindOf(name) != "log" {
			continue
		}
		for at := 0; at < len(content); at += fewer * rotEvery(name, len(content)) {
			flipped := slices.Clone(content)
			flipped[at] ^= 1
			outcome, _ := r.try(r.with(t, name, flipped), false)
			flips += 1
			silent += count(outcome == rotSilent)
		}
	}
	t.Logf("without a witness %d of %d flips in the log are undetected", silent, flips)
	if silent == 0 {
		t.Error("the engine alone found every flip: the witness is not needed, or the flips do not reach the log")
	}
}
