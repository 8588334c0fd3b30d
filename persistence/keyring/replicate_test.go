package keyring

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/client/parley"
)

// nodes returns the keyrings of two nodes of a cluster.
func nodes(t *testing.T) (a, b *Keyring) {
	t.Helper()
	wrapping := bytes.Repeat([]byte{7}, WrappingKeyBytes)
	open := func(fsys vfs.FS) *Keyring {
		k, err := Open(fsys, "keys", wrapping, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	one, other := vfs.NewMem(), vfs.NewMem()
	if err := Make(one, "keys", wrapping, nil); err != nil {
		t.Fatal(err)
	}
	a = open(one)
	if err := MakeAlike(other, "keys", wrapping, a.ServerKey(), nil); err != nil {
		t.Fatal(err)
	}
	return a, open(other)
}

func orgNumber(n int) parley.OrgID {
	return parley.OrgID{0: 1, 1: byte(n >> 8), 2: byte(n), 15: byte(n)}
}

// TestCarriedChanges: two nodes that carry out the same changes have the same keys, also
// when they carry them out twice, as after a crash.
func TestCarriedChanges(t *testing.T) {
	a, b := nodes(t)
	if a.ServerKey() != b.ServerKey() {
		t.Fatal("the server keys differ")
	}
	var changes [][]byte
	for n := range 20 {
		c, err := a.Creation(orgNumber(n))
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	at := time.UnixMilli(1_700_000_000_123).UTC()
	changes = append(changes, Destruction(orgNumber(3), at))
	for range 2 {
		for _, k := range []*Keyring{a, b} {
			for _, c := range changes {
				if err := k.Carry(c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for n := range 20 {
		here, state := a.Key(orgNumber(n))
		there, other := b.Key(orgNumber(n))
		if here != there || state != other || (state == Live) == (n == 3) {
			t.Errorf("organization %d: %v and %v, equal keys: %v", n, state, other, here == there)
		}
	}
	if when, ok := b.ErasedAt(orgNumber(3)); !ok || !when.Equal(at) {
		t.Errorf("erased at %v, %v", when, ok)
	}
}

// TestUnsyncedKeys: readers see unsynced keys at once, which are those of changes that are carried
// out one after the other, also where two are for one organization. They are lost by a crash until
// Sync, or another change of the shard. A destruction is refused.
func TestUnsyncedKeys(t *testing.T) {
	a, b := nodes(t)
	var changes [][]byte
	for n := range 300 {
		c, err := a.Creation(orgNumber(n % 290))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Carry(c); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	alike := func(b *Keyring, orgs int) {
		t.Helper()
		for n := range 290 {
			here, state := a.Key(orgNumber(n))
			if there, other := b.Key(orgNumber(n)); n < orgs && (here != there || state != Live || other != Live) || n >= orgs && other != Unknown {
				t.Errorf("organization %d: %v and %v, equal keys: %v", n, state, other, here == there)
			}
		}
	}
	reopened := func() *Keyring {
		t.Helper()
		k, err := Open(b.fs, "keys", bytes.Repeat([]byte{7}, WrappingKeyBytes), Options{Witnessed: b.State()})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for range 2 {
		if err := b.CarryUnsynced(changes); err != nil {
			t.Fatal(err)
		}
	}
	alike(b, 290)
	alike(reopened(), 0)
	report, err := Verify(b.fs, "keys", bytes.Repeat([]byte{7}, WrappingKeyBytes))
	if err == nil && report.Live == 0 {
		err = report.Carry(append(changes, Destruction(orgNumber(0), testStart)))
	}
	if err != nil || report.Live != 290 || report.KeyState(orgNumber(0)) != Live {
		t.Errorf("a report has %d keys, want 290: %v", report.Live, err)
	}
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	alike(reopened(), 290)
	before := b.State()
	if err := b.Sync(); err != nil || b.State() != before {
		t.Errorf("nothing is unsynced, and files were written: %v", err)
	}
	if err := b.CarryUnsynced([][]byte{Destruction(orgNumber(0), testStart)}); err == nil {
		t.Error("a destruction is unsynced")
	}
}

// failingFS refuses to create files while it is set.
type failingFS struct {
	vfs.FS
	fails atomic.Bool
}

func (f *failingFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.fails.Load() {
		return nil, errorfs.ErrInjected
	}
	return f.FS.Create(path, c)
}

// TestUnsyncedKeysAfterAFault: what a failed rewrite may have stored is not shown with the keys
// that come after it, and is not forgotten.
func TestUnsyncedKeysAfterAFault(t *testing.T) {
	mem := vfs.NewMem()
	mustMake(t, mem, testDir)
	fsys := &failingFS{FS: mem}
	k := mustOpen(t, fsys, testDir)
	old, org := orgIn(5, 0), orgIn(5, 1)
	key := mustCreate(t, k, old)
	change, err := k.Creation(org)
	if err != nil {
		t.Fatal(err)
	}
	fsys.fails.Store(true)
	if err := k.Destroy(old, testStart); err == nil {
		t.Fatal("a key is destroyed without a disk")
	}
	if err := k.CarryUnsynced([][]byte{change}); err != nil {
		t.Fatal(err)
	}
	if is, state := k.Key(old); is != key || state != Live {
		t.Errorf("what is not durable is shown: %v", state)
	}
	if _, state := k.Key(org); state != Live {
		t.Errorf("an unsynced key is not shown: %v", state)
	}
	if err := k.Sync(); err == nil {
		t.Error("synced without a disk")
	}
	if err := k.CopyTo(mem, backupDir); err == nil {
		t.Error("a backup lacks an unsynced key")
	}
	fsys.fails.Store(false)
	if err := k.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Keyring{k, mustOpen(t, mem, testDir)} {
		_, gone := k.Key(old)
		if _, state := k.Key(org); gone != Erased || state != Live {
			t.Errorf("%v and %v", gone, state)
		}
	}
}

// TestUnsyncedKeyOfAFailedRewrite: a key that a failed rewrite began already is shown when it is
// carried, and Sync makes it durable.
func TestUnsyncedKeyOfAFailedRewrite(t *testing.T) {
	mem := vfs.NewMem()
	mustMake(t, mem, testDir)
	fsys := &failingFS{FS: mem}
	k, org := mustOpen(t, fsys, testDir), orgIn(5, 1)
	change, err := k.Creation(org)
	if err != nil {
		t.Fatal(err)
	}
	fsys.fails.Store(true)
	if err := k.Carry(change); err == nil {
		t.Fatal("a key is durable without a disk")
	}
	if err := k.CarryUnsynced([][]byte{change}); err != nil {
		t.Fatal(err)
	}
	if _, state := k.Key(org); state != Live {
		t.Errorf("a carried key is not shown: %v", state)
	}
	if err := k.Sync(); err == nil {
		t.Error("synced without a disk")
	}
	fsys.fails.Store(false)
	if err := k.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, state := mustOpen(t, mem, testDir).Key(org); state != Live {
		t.Errorf("a synced key is not in the files: %v", state)
	}
}

// TestCarryingWhileSyncing makes keys while others are written, and finds all in the files.
func TestCarryingWhileSyncing(t *testing.T) {
	mem := vfs.NewMem()
	mustMake(t, mem, testDir)
	k := mustOpen(t, mem, testDir)
	over := make(chan struct{})
	var syncing sync.WaitGroup
	syncing.Go(func() {
		for ended := false; !ended; {
			select {
			case <-over:
				ended = true
			default:
			}
			if err := k.Sync(); err != nil {
				t.Error(err)
			}
		}
	})
	const keys = 500
	for n := range keys {
		change, err := k.Creation(orgIn(6, n))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.CarryUnsynced([][]byte{change}); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	syncing.Wait()
	again := mustOpen(t, mem, testDir)
	for n := range keys {
		here, _ := k.Key(orgIn(6, n))
		if there, state := again.Key(orgIn(6, n)); here != there || state != Live {
			t.Fatalf("key %d is not in the files", n)
		}
	}
}

// TestContentOfAnotherNode: what a node lacks it gets with the content of another one, and
// an erasure that it missed destroys its key.
func TestContentOfAnotherNode(t *testing.T) {
	a, b := nodes(t)
	for n := range 600 {
		c, err := a.Creation(orgNumber(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Carry(c); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			if err := b.Carry(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Destroy(orgNumber(4), time.UnixMilli(5)); err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if _, err := a.WriteTo(&content); err != nil {
		t.Fatal(err)
	}
	sent := content.Len()
	content.WriteString("what follows")
	if n, err := b.Receive(&content, func([]Tombstone) error { return nil }); err != nil || n != int64(sent) || content.String() != "what follows" {
		t.Fatal(n, err, content.Len())
	}
	for n := range 600 {
		here, state := a.Key(orgNumber(n))
		there, other := b.Key(orgNumber(n))
		if here != there || state != other {
			t.Fatalf("organization %d: %v and %v, equal keys: %v", n, state, other, here == there)
		}
	}
}

// TestChangesOfFullShard: a key that finds no room is not made on any node, and no change is an
// error then, which would end all nodes. Who asks for a key is refused before that.
func TestChangesOfFullShard(t *testing.T) {
	a, b := nodes(t)
	fillShard(a, 9)
	fillShard(b, 9)
	var changes [][]byte
	for n := range 2 { // at the same time, so both find room
		c, err := a.Creation(orgIn(9, n))
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	changes = append(changes, Destruction(orgIn(9, 2), testStart))
	for _, k := range []*Keyring{a, b} {
		for _, c := range changes {
			if err := k.Carry(c); err != nil {
				t.Error(err)
			}
		}
		for n, want := range []State{Live, Unknown, Unknown} {
			if _, state := k.Key(orgIn(9, n)); state != want {
				t.Errorf("organization %d: %v, want %v", n, state, want)
			}
		}
		if _, err := k.Creation(orgIn(9, 3)); !errors.Is(err, ErrFull) {
			t.Errorf("one more: %v", err)
		}
		if _, err := k.Creation(orgIn(9, 0)); err != nil {
			t.Errorf("one that has its key: %v", err)
		}
		if err := k.Carry(Destruction(orgIn(9, 0), testStart)); err != nil {
			t.Error(err)
		}
	}
}

// TestForeignChanges: a change that is damaged, or of another cluster, is refused.
func TestForeignChanges(t *testing.T) {
	a, _ := nodes(t)
	c, err := a.Creation(orgNumber(1))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c {
		bad := bytes.Clone(c)
		bad[i] ^= 1
		if err := a.Carry(bad); err == nil {
			t.Errorf("a change with byte %d flipped is carried out", i)
		}
	}
	for n := range len(c) {
		if err := a.Carry(c[:n]); err == nil {
			t.Errorf("the first %d bytes of a change are carried out", n)
		}
	}
	if _, state := a.Key(orgNumber(1)); state != Unknown {
		t.Error("a key was made")
	}
}
