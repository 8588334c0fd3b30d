package keyring

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/persistence/disk"
)

// filled returns a keyring with so many keys in one shard, and its files.
func filled(t testing.TB, shard byte, keys int) (*Keyring, map[string][]byte) {
	t.Helper()
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	k := mustOpen(t, fsys, testDir)
	for i := range keys {
		mustCreate(t, k, orgIn(shard, i))
	}
	return k, readFiles(t, fsys, testDir)
}

// rotting is a keyring whose files are changed.
type rotting struct {
	t     *testing.T
	k     *Keyring
	files map[string][]byte
}

// newRotting returns a keyring with a live and an erased organization in shard 3f, and a
// live one in 40.
func newRotting(t *testing.T) *rotting {
	t.Helper()
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	k := mustOpen(t, fsys, testDir)
	mustCreate(t, k, orgIn(0x3f, 1))
	mustCreate(t, k, orgIn(0x3f, 2))
	mustDestroy(t, k, orgIn(0x3f, 2), testStart)
	mustCreate(t, k, orgIn(0x40, 1))
	return &rotting{t, k, readFiles(t, fsys, testDir)}
}

// with returns the files with some changed; nil removes one.
func (r *rotting) with(changed map[string][]byte) map[string][]byte {
	files := maps.Clone(r.files)
	for name, b := range changed {
		if files[name] = b; b == nil {
			delete(files, name)
		}
	}
	return files
}

// checkRepaired opens changed files: everything is there, and the files are sound again.
func (r *rotting) checkRepaired(what string, changed map[string][]byte) {
	r.t.Helper()
	fsys := fsWith(r.t, r.with(changed))
	report, err := Verify(fsys, testDir, testWrapping)
	if err != nil || len(report.Findings) != len(changed) || report.Findings[0].Fatal {
		r.t.Errorf("%s: verified: %+v, %v", what, report, err)
	}
	k, err := Open(fsys, testDir, testWrapping, Options{Witnessed: r.k.State()})
	if err != nil {
		r.t.Errorf("%s: %v", what, err)
		return
	}
	r.checkSame(what, k)
	for name := range changed {
		if len(k.Repaired()) == 0 || k.Repaired()[0].File != name {
			r.t.Errorf("%s: %s is repaired, and said is %+v", what, name, k.Repaired())
		}
	}
	if report, err := Verify(fsys, testDir, testWrapping); err != nil || len(report.Findings) != 0 {
		r.t.Errorf("%s: after the repair: %+v, %v", what, report, err)
	}
}

// checkSame compares a keyring with the one whose files were changed.
func (r *rotting) checkSame(what string, k *Keyring) {
	r.t.Helper()
	for _, org := range []parley.OrgID{orgIn(0x3f, 1), orgIn(0x3f, 2), orgIn(0x40, 1), orgIn(0x3f, 3)} {
		key, state := k.Key(org)
		if want, wantState := r.k.Key(org); key != want || state != wantState {
			r.t.Errorf("%s: another key, or state %d instead of %d", what, state, wantState)
		}
	}
	if k.ServerKey() != r.k.ServerKey() || k.State() != r.k.State() {
		r.t.Errorf("%s: another server key or state", what)
	}
}

// checkRefused opens changed files: that fails, names the shard and changes nothing.
func (r *rotting) checkRefused(what, named string, changed map[string][]byte) {
	r.t.Helper()
	files := r.with(changed)
	fsys := fsWith(r.t, files)
	_, err := Open(fsys, testDir, testWrapping, Options{})
	if !errors.Is(err, disk.ErrDamaged) || !strings.Contains(err.Error(), named) {
		r.t.Errorf("%s: opened with %v", what, err)
	}
	report, verified := Verify(fsys, testDir, testWrapping)
	if verified == nil && !fatalIn(report) {
		r.t.Errorf("%s: verified: %+v", what, report)
	}
	if !maps.EqualFunc(files, readFiles(r.t, fsys, testDir), bytes.Equal) {
		r.t.Errorf("%s: a refused keyring was changed", what)
	}
}

func fatalIn(r *Report) bool {
	for _, f := range r.Findings {
		if f.Fatal {
			return true
		}
	}
	return false
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1 << (at % 8)
	return b
}

// summed returns a changed file with the checksum that belongs to it.
func summed(b []byte) []byte {
	body := b[:len(b)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

// TestRot flips a bit of every byte of a shard, in one copy and in both.
func TestRot(t *testing.T) {
	unraced(t)
	t.Parallel()
	r := newRotting(t)
	step := 5 // odd, so that each copy is changed
	if *exhaustive {
		step = 1
	}
	for at := 0; at < len(r.files["3f.a"]); at += step {
		name := []string{"3f.a", "3f.b"}[at%2]
		r.checkRepaired("a bit flipped", map[string][]byte{name: flipped(r.files[name], at)})
		r.checkRefused("a bit flipped in both copies", "shard 3f ", map[string][]byte{
			"3f.a": flipped(r.files["3f.a"], at), "3f.b": flipped(r.files["3f.b"], at),
		})
	}
	for _, length := range []int{0, 1, 8, headerBytes - 1, headerBytes, fileBytesMin - 1, fileBytesMin, len(r.files["3f.a"]) - recordBytes, len(r.files["3f.a"]) - 1} {
		short := r.files["3f.a"][:length]
		r.checkRepaired("truncated", map[string][]byte{"3f.b": short})
		r.checkRefused("both truncated", "shard 3f ", map[string][]byte{"3f.a": short, "3f.b": short})
	}
	longer := append(bytes.Clone(r.files["3f.a"]), 0)
	r.checkRepaired("extended", map[string][]byte{"3f.a": longer})
	r.checkRepaired("much larger", map[string][]byte{"3f.a": make([]byte, fileBytesMax+100)})
	r.checkRefused("both extended", "shard 3f ", map[string][]byte{"3f.a": longer, "3f.b": longer})
}

// TestTampering changes bytes and corrects the checksum: only the seal can notice.
func TestTampering(t *testing.T) {
	unraced(t)
	t.Parallel()
	r := newRotting(t)
	for at := range len(r.files["3f.a"]) - sha256.Size {
		if !*exhaustive && at > headerBytes && at%11 != 0 {
			continue
		}
		changed := summed(flipped(r.files["3f.a"], at))
		if at >= keyringAt && at < wrappedAt {
			// A file of another keyring is never replaced: it may be the right one.
			r.checkRefused("one copy is another keyring's", "3f.a: it belongs to another keyring", map[string][]byte{"3f.a": changed})
		} else {
			r.checkRepaired("one copy tampered with", map[string][]byte{"3f.a": changed})
		}
		r.checkRefused("both copies tampered with", "shard 3f ", map[string][]byte{"3f.a": changed, "3f.b": changed})
	}
}

// TestMissingFiles removes files, swaps shards, and puts old generations back.
func TestMissingFiles(t *testing.T) {
	r := newRotting(t)
	a, b := r.files["3f.a"], r.files["40.a"]
	for _, name := range []string{"3f.a", "3f.b", "00.a", "ff.b"} {
		r.checkRepaired("one copy removed", map[string][]byte{name: nil})
	}
	r.checkRefused("both copies removed", "both copies are unusable (3f.a: it is missing; 3f.b: it is missing); the keys of its organizations are lost", map[string][]byte{"3f.a": nil, "3f.b": nil})
	r.checkRefused("an empty shard removed", "shard 00 ", map[string][]byte{"00.a": nil, "00.b": nil})
	r.checkRepaired("a copy of another shard", map[string][]byte{"3f.a": b})
	r.checkRefused("shards swapped", "shard 3f and 1 more", map[string][]byte{"3f.a": b, "3f.b": b, "40.a": a, "40.b": a})
	none := map[string][]byte{}
	for name := range r.files {
		none[name] = nil
	}
	r.checkRefused("all removed", "no file", none)
	firsts := map[string][]byte{}
	for name := range r.files {
		if strings.HasSuffix(name, ".a") {
			firsts[name] = nil
		}
	}
	fsys := fsWith(t, r.with(firsts))
	r.checkSame("all first copies removed", mustOpen(t, fsys, testDir))
	if files := readFiles(t, fsys, testDir); !maps.EqualFunc(r.files, files, bytes.Equal) {
		t.Errorf("of %d files %d are there again", len(r.files), len(files))
	}

	old := newRotting(t)
	fsys = fsWith(t, r.files)
	r.k = mustOpen(t, fsys, testDir)
	mustDestroy(t, r.k, orgIn(0x3f, 1), testStart)
	before := r.files
	r.files = readFiles(t, fsys, testDir)
	r.checkRepaired("an old copy put back", map[string][]byte{"3f.a": before["3f.a"]})
	r.checkRepaired("an old copy put back", map[string][]byte{"3f.b": before["3f.b"]})
	r.checkRefused("a file of another keyring", "shard 3f ", map[string][]byte{"3f.a": old.files["3f.a"]})
	r.checkRefused("a shard of another keyring", "shard 3f ", map[string][]byte{"3f.a": old.files["3f.a"], "3f.b": old.files["3f.b"]})
	half := map[string][]byte{}
	for name := range firsts {
		half[name] = old.files[name]
	}
	r.checkRefused("half of the files are another keyring's", "several keyrings", half)
}

// TestForgedShards: what is sealed under the right key, but is not what a shard can hold,
// is refused.
func TestForgedShards(t *testing.T) {
	r := newRotting(t)
	h, _ := readHeader(r.files["3f.a"])
	one := table(nil).set(orgIn(0x3f, 1), Live, Key{1})
	two := one.set(orgIn(0x3f, 2), Live, Key{2})
	swapped := append(bytes.Clone(two[recordBytes:]), two[:recordBytes]...)
	marked := bytes.Clone(one)
	marked[idBytes] = 3
	for what, content := range map[string]table{
		"another shard's": table(nil).set(orgIn(0x40, 1), Live, Key{1}), "out of order": swapped, "twice": append(bytes.Clone(one), one...),
		"a state": marked, "a zero key": table(nil).set(orgIn(0x3f, 1), Live, Key{}), "a long tombstone": table(nil).set(orgIn(0x3f, 1), Erased, Key{31: 1}),
		"a length": two[:len(two)-1],
	} {
		file, err := r.k.wrapper.seal(h, r.k.server, content)
		if err != nil {
			t.Fatal(err)
		}
		r.checkRefused(what, "shard 3f ", map[string][]byte{"3f.a": file, "3f.b": file})
	}
	file, err := r.k.wrapper.seal(h, Key{1}, two)
	if err != nil {
		t.Fatal(err)
	}
	r.checkRefused("another server key", "3f: its server key", map[string][]byte{"3f.a": file, "3f.b": file})
	r.checkRefused("different content of one generation", "different content", map[string][]byte{"3f.a": file})
	if file, err = r.k.wrapper.seal(h, r.k.server, two); err != nil {
		t.Fatal(err)
	}
	r.checkRefused("different content of one generation", "different content", map[string][]byte{"3f.a": file})
}

// TestVerifyNames: files that are not a keyring's are reported, and left alone.
func TestVerifyNames(t *testing.T) {
	r := newRotting(t)
	fsys := fsWith(t, r.with(map[string][]byte{"3f.a.tmp": {1}, "note": {2}}))
	report, err := Verify(fsys, testDir, testWrapping)
	if err != nil || len(report.Findings) != 2 || report.Findings[0].File != "3f.a.tmp" || report.Findings[1].File != "note" || fatalIn(report) ||
		report.Findings[0].Ignored || !report.Findings[1].Ignored {
		t.Errorf("verified: %+v, %v", report, err)
	}
	mustOpen(t, fsys, testDir)
	if files := readFiles(t, fsys, testDir); files["note"] == nil || files["3f.a.tmp"] != nil {
		t.Error("a file that a crash left is still there, or another one is not")
	}
}

// FuzzFile: no content of a file makes a reader panic, or is taken for another one.
func FuzzFile(f *testing.F) {
	w, err := newWrapper(testWrapping)
	if err != nil {
		f.Fatal(err)
	}
	whole, err := w.seal(header{generation: 5, shard: 3}, Key{1}, table(nil).set(orgIn(3, 1), Live, Key{2}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:headerBytes])
	f.Add(summed(whole[:fileBytesMin]))
	f.Add(summed(flipped(whole, 60)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseFile(b)
		if err != nil {
			return
		}
		server, content, err := w.open(h, b)
		if err == nil && (!bytes.Equal(b, whole) || server != Key{1} || content.records() != 1) {
			t.Errorf("%x opens", b)
		}
	})
}
