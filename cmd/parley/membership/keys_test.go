package membership

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/cluster"
	"parley/cmd/parley/datadir"
	"parley/journal"
	"parley/persistence/keyring"
)

// forgotten are organizations that a node forgot.
type forgotten []parley.OrgID

func (f *forgotten) Forget(org parley.OrgID) error {
	*f = append(*f, org)
	return nil
}

// keysOfNodes returns the keys of some nodes of one cluster, and what their servers forgot.
func keysOfNodes(t *testing.T, count int) (all []*Keys, nodes []*forgotten) {
	t.Helper()
	return keysOn(t, nil, count)
}

func keysOn(t *testing.T, fsys vfs.FS, count int) (all []*Keys, nodes []*forgotten) {
	t.Helper()
	wrapping := bytes.Repeat([]byte{7}, keyring.WrappingKeyBytes)
	for range count {
		data, server := t.TempDir(), keyring.Key{1}
		dir := filepath.Join(data, "keyring")
		if err := keyring.MakeAlike(nil, dir, wrapping, server, nil); err != nil {
			t.Fatal(err)
		}
		ring, err := keyring.Open(fsys, dir, wrapping, keyring.Options{})
		if err != nil {
			t.Fatal(err)
		}
		k, f := NewKeys(ring, datadir.Sealer(ring), datadir.NewErasureList("", data)), &forgotten{}
		k.node = f
		all, nodes = append(all, k), append(nodes, f)
	}
	return all, nodes
}

// TestKeyDestroyedByContent: whether a node learns of an erasure by the log or with the
// content of another node, the key is destroyed, in the list of erasures, and forgotten. A
// second content changes nothing.
func TestKeyDestroyedByContent(t *testing.T) {
	keys, nodes := keysOfNodes(t, 4)
	byLog, lagging, blank := keys[1], keys[2], keys[3]
	kept, gone := parley.OrgID{0: 1, 15: 1}, parley.OrgID{0: 2, 15: 2}
	carry := func(change []byte, to ...*Keys) {
		t.Helper()
		for _, k := range to {
			if err := k.Carry([][]byte{change}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, org := range []parley.OrgID{kept, gone} {
		change, err := keys[0].Creation(org)
		if err != nil {
			t.Fatal(err)
		}
		carry(change, keys[0], byLog, lagging)
	}
	at := time.UnixMilli(1_700_000_000_123).UTC()
	carry(keys[0].Destruction(gone, at), keys[0], byLog)
	var content bytes.Buffer
	if _, err := keys[0].WriteTo(&content); err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Keys{lagging, blank, lagging, blank} {
		if _, err := k.ReadFrom(bytes.NewReader(content.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	for n, k := range keys {
		if _, state := k.keyring.Key(gone); state != keyring.Erased {
			t.Errorf("node %d: the key is %v", n, state)
		}
		if _, state := k.keyring.Key(kept); state != keyring.Live {
			t.Errorf("node %d: another key is %v", n, state)
		}
		listed, err := k.list.Read()
		if want := []datadir.Erased{{OrgID: gone, ErasedAt: at}}; err != nil || !slices.Equal(listed, want) {
			t.Errorf("node %d: the list has %v, %v; want %v", n, listed, err, want)
		}
		if want := (forgotten{gone}); !slices.Equal(*nodes[n], want) {
			t.Errorf("node %d forgot %v, want %v", n, *nodes[n], want)
		}
	}
}

// fullDisk has no room for files while it is set.
type fullDisk struct {
	vfs.FS
	full atomic.Bool
}

func (f *fullDisk) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.full.Load() {
		return nil, syscall.ENOSPC
	}
	return f.FS.Create(path, c)
}

// reluctant cannot forget at first.
type reluctant struct {
	forgotten *forgotten
	tried     bool
}

func (r *reluctant) Forget(org parley.OrgID) error {
	if !r.tried {
		r.tried = true
		return journal.ErrBehind
	}
	return r.forgotten.Forget(org)
}

// TestKeyDestroyedAfterAFault: a key that a content destroys, and that could be destroyed only
// later, together with another change, is forgotten then, or by the next Sync.
func TestKeyDestroyedAfterAFault(t *testing.T) {
	disk := &fullDisk{FS: vfs.Default}
	keys, nodes := keysOn(t, disk, 2)
	gone, later := parley.OrgID{0: 1, 15: 1}, parley.OrgID{0: 2, 15: 1} // of one shard
	create := func(org parley.OrgID, of ...*Keys) {
		t.Helper()
		change, err := keys[0].Creation(org)
		for _, k := range of {
			if err == nil {
				err = k.Carry([][]byte{change})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	create(gone, keys...)
	if err := keys[0].Carry([][]byte{keys[0].Destruction(gone, time.UnixMilli(5))}); err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if _, err := keys[0].WriteTo(&content); err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	if _, err := keys[1].ReadFrom(&content); err == nil {
		t.Fatal("a key is destroyed without a disk")
	}
	if _, state := keys[1].keyring.Key(gone); state != keyring.Live || len(*nodes[1]) > 0 {
		t.Fatalf("the key is %v, and forgotten are %v", state, *nodes[1])
	}
	disk.full.Store(false)
	create(later, keys[1])
	keys[1].node = &reluctant{forgotten: nodes[1]}
	for tries := range 3 {
		if len(*nodes[1]) > 0 && tries < 2 {
			t.Fatal("control: it was forgotten at once")
		}
		if err := keys[1].Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if _, state := keys[1].keyring.Key(gone); state != keyring.Erased || !slices.Equal(*nodes[1], forgotten{gone}) {
		t.Errorf("the key is %v, and forgotten are %v", state, *nodes[1])
	}
}

// TestListedErasuresEndWithTheNode: a node that is closed while it erases again what is in the
// list does not go on to try.
func TestListedErasuresEndWithTheNode(t *testing.T) {
	all, _ := keysOfNodes(t, 1)
	keys := all[0]
	for n := range byte(2) {
		org := parley.OrgID{0: 1, 15: n}
		change, err := keys.Creation(org)
		if err == nil {
			err = keys.Carry([][]byte{change})
		}
		if err == nil {
			err = keys.record(keyring.Tombstone{Org: org, At: time.Now()})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	node := &cluster.Node{Options: cluster.Options{Clock: time.Now, Leader: func() (cluster.Peer, error) {
		tries++
		cancel()
		return nil, journal.ErrNotLeader
	}}}
	if err := keys.destroyListed(ctx, node); err == nil || tries != 2 {
		t.Errorf("%v, after %d tries", err, tries)
	}
}
