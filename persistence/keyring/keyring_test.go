package keyring

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/persistence/disk"
)

const testDir = "d/keyring"

var (
	testWrapping = bytes.Repeat([]byte{7}, WrappingKeyBytes)
	testStart    = time.UnixMilli(1_790_000_000_123).UTC()
)

// Exhaustive tests try every place. The others try some of each kind.
var exhaustive = flag.Bool("exhaustive", false, "fail every operation, flip every byte, check 2,000 images of power failures")

// orgIn returns the nth organization of a shard.
func orgIn(shard byte, n int) parley.OrgID {
	return parley.NewID[parley.OrgID](parley.Slot(n), testStart, [10]byte{0, 0, byte(n >> 8), byte(n), 1, 2, 3, shard})
}

func randomOf(seed uint64) io.Reader {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	return rand.NewChaCha8(key)
}

func mustMake(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	if err := Make(fsys, dir, testWrapping, nil); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, fsys vfs.FS, dir string) *Keyring {
	t.Helper()
	k, err := Open(fsys, dir, testWrapping, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustCreate(t testing.TB, k *Keyring, org parley.OrgID) Key {
	t.Helper()
	key, err := k.Create(org)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func mustDestroy(t testing.TB, k *Keyring, org parley.OrgID, at time.Time) {
	t.Helper()
	if err := k.Destroy(org, at); err != nil {
		t.Fatal(err)
	}
}

// readFiles returns the files of a directory by name.
func readFiles(t testing.TB, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		f, err := fsys.Open(fsys.PathJoin(dir, name))
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

// fsWith returns a disk with these files in testDir, all of them durable.
func fsWith(t testing.TB, files map[string][]byte) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewCrashableMem()
	if err := disk.MakeDirectory(fsys, testDir); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := writeFile(fsys, testDir+"/"+name, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := disk.SyncDirectory(fsys, testDir); err != nil {
		t.Fatal(err)
	}
	return fsys
}

func TestKeyring(t *testing.T) {
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	if n := len(readFiles(t, fsys, testDir)); n != 2*Shards {
		t.Fatalf("a new keyring has %d files", n)
	}
	if err := Make(fsys, testDir, testWrapping, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	k := mustOpen(t, fsys, testDir)
	a, b, c := orgIn(0, 1), orgIn(0, 2), orgIn(255, 1)
	key := mustCreate(t, k, a)
	if key == (Key{}) || key == mustCreate(t, k, b) || key != mustCreate(t, k, a) {
		t.Error("keys are zero, shared, or change")
	}
	mustDestroy(t, k, a, testStart)
	mustDestroy(t, k, a, testStart.Add(time.Hour))
	mustDestroy(t, k, c, testStart.Add(time.Microsecond)) // it never had a key
	if _, err := k.Create(a); !errors.Is(err, ErrErased) {
		t.Errorf("a key after the erasure: %v", err)
	}
	kept, _ := k.Key(b)
	server, state := k.ServerKey(), k.State()
	for range 2 {
		if key, state := k.Key(a); key != (Key{}) || state != Erased {
			t.Error("an erased organization has a key, or is not erased")
		}
		if key, state := k.Key(b); key != kept || state != Live {
			t.Error("a key is gone")
		}
		if key, state := k.Key(orgIn(7, 7)); key != (Key{}) || state != Unknown {
			t.Error("an unknown organization is known")
		}
		for _, org := range []parley.OrgID{a, c} {
			if at, erased := k.ErasedAt(org); !erased || !at.Equal(testStart) {
				t.Errorf("erased at %v, %v", at, erased)
			}
		}
		if _, erased := k.ErasedAt(b); erased {
			t.Error("a live organization has a tombstone")
		}
		if k.ServerKey() != server || server == (Key{}) || k.State() != state || len(k.Repaired()) != 0 {
			t.Errorf("the keyring changed: %+v", k.Repaired())
		}
		k = mustOpen(t, fsys, testDir)
	}
	r, err := Verify(fsys, testDir, testWrapping)
	if err != nil || r.Files != 2*Shards || r.Live != 1 || r.Erased != 2 || len(r.Findings) != 0 || r.State != state {
		t.Errorf("verified: %+v, %v", r, err)
	}
}

// TestWrongKey: another wrapping key is not damage, and a keyring that is not there is.
func TestWrongKey(t *testing.T) {
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	before := readFiles(t, fsys, testDir)
	other := bytes.Repeat([]byte{8}, WrappingKeyBytes)
	_, opened := Open(fsys, testDir, other, Options{})
	_, verified := Verify(fsys, testDir, other)
	for _, err := range []error{opened, verified} {
		if !errors.Is(err, ErrWrappingKey) || errors.Is(err, disk.ErrDamaged) {
			t.Errorf("opened with another key: %v", err)
		}
	}
	if _, err := Open(fsys, testDir, other[1:], Options{}); err == nil {
		t.Error("opened with a short key")
	}
	if !maps.EqualFunc(before, readFiles(t, fsys, testDir), bytes.Equal) {
		t.Error("a refused keyring was changed")
	}
	if _, err := Open(fsys, "d/none", testWrapping, Options{}); !errors.Is(err, disk.ErrDamaged) {
		t.Errorf("opened without a directory: %v", err)
	}
}

// TestKeysAreNeverShown: keys appear in no text, whatever the format.
func TestKeysAreNeverShown(t *testing.T) {
	key := Key(bytes.Repeat([]byte{0xab}, KeyBytes))
	encoded, err := json.Marshal(map[string]any{"key": key})
	if err != nil {
		t.Fatal(err)
	}
	text := string(encoded)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%d", "%q"} {
		text += fmt.Sprintf(format, key) + fmt.Sprintf(format, struct{ K Key }{key}) + fmt.Sprintf(format, &key)
	}
	for _, part := range []string{"abab", "ABAB", "171", "\xab"} {
		if strings.Contains(text, part) {
			t.Errorf("a key is shown: %s", text)
		}
	}
}

// blockedFS lets renames wait, and counts them. It says when the first one begins to wait.
type blockedFS struct {
	vfs.FS
	once    sync.Once
	begun   chan struct{}
	wait    chan struct{}
	mu      sync.Mutex
	renames int
}

func (f *blockedFS) Rename(from, to string) error {
	f.once.Do(func() { close(f.begun) })
	<-f.wait
	f.mu.Lock()
	f.renames++
	f.mu.Unlock()
	return f.FS.Rename(from, to)
}

// TestCreatorsShareRewrites: those who arrive during a rewrite share the next one.
func TestCreatorsShareRewrites(t *testing.T) {
	mem := vfs.NewMem()
	mustMake(t, mem, testDir)
	fsys := &blockedFS{FS: mem, begun: make(chan struct{}), wait: make(chan struct{})}
	k := mustOpen(t, fsys, testDir)
	var creators sync.WaitGroup
	const orgs, each = 50, 3
	keys := make([]Key, orgs*each)
	create := func(i int) {
		creators.Go(func() { keys[i] = mustCreate(t, k, orgIn(3, i%orgs)) })
	}
	create(0)
	<-fsys.begun
	for i := range keys[1:] {
		create(1 + i)
	}
	s := &k.shards[3]
	for waiting := 0; waiting < len(keys)-1; time.Sleep(time.Millisecond) {
		s.joining.Lock()
		if waiting = 0; s.next != nil {
			waiting = len(s.next.changes)
		}
		s.joining.Unlock()
	}
	close(fsys.wait)
	creators.Wait()
	if fsys.renames > 3*2 {
		t.Errorf("%d renames for %d creators at once", fsys.renames, len(keys))
	}
	k = mustOpen(t, mem, testDir)
	for i, key := range keys {
		if stored, state := k.Key(orgIn(3, i%orgs)); stored != key || state != Live {
			t.Errorf("creator %d got another key than was stored (%d)", i, state)
		}
	}
}

// fillShard leaves room for one record in a shard.
func fillShard(k *Keyring, shard byte) {
	s := &k.shards[shard]
	for i := range recordsMax - 1 {
		s.wanted = append(append(append(s.wanted, make([]byte, idBytes-3)...), byte(i>>8), byte(i), shard), append([]byte{byte(Live)}, bytes.Repeat([]byte{1}, KeyBytes)...)...)
	}
	s.seen = bytes.Clone(s.wanted)
}

// TestFull: a full shard takes no more, and what it has stays.
func TestFull(t *testing.T) {
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	k := mustOpen(t, fsys, testDir)
	fillShard(k, 9)
	mustCreate(t, k, orgIn(9, 1))
	if _, err := k.Create(orgIn(9, 2)); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if err := k.Destroy(orgIn(9, 2), testStart); !errors.Is(err, ErrFull) {
		t.Errorf("one more tombstone: %v", err)
	}
	mustDestroy(t, k, orgIn(9, 1), testStart)
	if _, state := mustOpen(t, fsys, testDir).Key(orgIn(9, 1)); state != Erased {
		t.Error("the last one is not there")
	}
}

// TestWitnessed: the witness records what was acknowledged, and a keyring that lacks a
// part of it is not opened.
func TestWitnessed(t *testing.T) {
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	w, err := disk.MakeWitness(fsys, "d", disk.Head{})
	if err != nil {
		t.Fatal(err)
	}
	k := mustOpen(t, fsys, testDir)
	a, b := orgIn(0x3f, 1), orgIn(0x40, 1)
	mustCreate(t, k, a)
	old := readFiles(t, fsys, testDir)
	mustCreate(t, k, orgIn(0x3f, 2))
	k.Follow(w)
	mustDestroy(t, k, a, testStart)
	mustCreate(t, k, b)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	record, err := disk.ReadWitness(fsys, "d")
	if err != nil || record.Keyring != k.State() {
		t.Fatalf("witnessed: %+v, %v", record, err)
	}
	mustCreate(t, k, orgIn(0x41, 1)) // the witness lags
	reopen := func(files map[string][]byte, witnessed disk.KeyringState) error {
		_, err := Open(fsWith(t, files), testDir, testWrapping, Options{Witnessed: witnessed})
		return err
	}
	now := readFiles(t, fsys, testDir)
	if err := reopen(now, record.Keyring); err != nil {
		t.Errorf("newer than the witness: %v", err)
	}
	back := maps.Clone(now)
	back["3f.a"] = old["3f.a"]
	if err := reopen(back, record.Keyring); err != nil {
		t.Errorf("one old copy: %v", err)
	}
	back["3f.b"] = old["3f.b"]
	if err := reopen(back, record.Keyring); !errors.Is(err, disk.ErrDamaged) || !strings.Contains(err.Error(), "shard 3f ") {
		t.Errorf("an old shard was put back: %v", err)
	}
	if err := reopen(back, disk.KeyringState{}); err != nil {
		t.Errorf("control: without the witness, an old shard is refused with %v", err)
	}
	if err := reopen(old, record.Keyring); !errors.Is(err, disk.ErrDamaged) || !strings.Contains(err.Error(), "1 more") {
		t.Errorf("an old keyring was put back: %v", err)
	}
	mustMake(t, fsys, "d/other")
	if err := reopen(readFiles(t, fsys, "d/other"), record.Keyring); !errors.Is(err, disk.ErrDamaged) || !strings.Contains(err.Error(), "not the one") {
		t.Errorf("another keyring: %v", err)
	}
	record.ForgetKeyring()
	if err := reopen(back, record.Keyring); err != nil {
		t.Errorf("the record is forgotten: %v", err)
	}
}

// TestKeysAreWiped: the memory that held a destroyed key is overwritten.
func TestKeysAreWiped(t *testing.T) {
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	k := mustOpen(t, fsys, testDir)
	key := mustCreate(t, k, orgIn(4, 1))
	former := k.shards[4].seen
	if !bytes.Contains(former, key[:]) {
		t.Fatal("control: the key is not in memory")
	}
	mustDestroy(t, k, orgIn(4, 1), testStart)
	if !zero(former) {
		t.Error("the key is still in memory")
	}
}
