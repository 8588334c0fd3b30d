package keyring

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
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

// TestNewKeysAtOnce: many new keys that are carried out at once are those of one after the other,
// also where two are for one organization. A destruction is refused.
func TestNewKeysAtOnce(t *testing.T) {
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
	for range 2 {
		if err := b.CarryNew(changes); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 290 {
		here, state := a.Key(orgNumber(n))
		if there, other := b.Key(orgNumber(n)); here != there || state != Live || other != Live {
			t.Errorf("organization %d: %v and %v, equal keys: %v", n, state, other, here == there)
		}
	}
	if err := b.CarryNew([][]byte{Destruction(orgNumber(0), testStart)}); err == nil {
		t.Error("a destruction is taken for a new key")
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
