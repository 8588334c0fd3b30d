package cluster

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/wire"
	"parley/client/parley"
	"parley/cluster/raftlog"
	"parley/journal"
	"parley/persistence"
)

// fullKeys have no room.
type fullKeys struct{ Keys }

func (fullKeys) Creation(parley.OrgID) ([]byte, error) { return nil, ErrKeysFull }

func (fullKeys) Destruction(parley.OrgID, time.Time) []byte { return nil }

// TestFullKeys: the leader refuses a key for which there is no room, instead of proposing it,
// and the node that asked learns why.
func TestFullKeys(t *testing.T) {
	m := NewMember()
	m.keys.Keys = fullKeys{}
	m.follows.Store(&following{term: 1, takes: true})
	err := m.changeKey(t.Context(), changeKey{Org: parley.OrgID{1}}) // there is no loop that could propose
	if !errors.Is(err, ErrKeysFull) {
		t.Fatal(err)
	}
	types := wire.NewTypes()
	RegisterTypes(types)
	crossed, err := types.Append(nil, answer{Failure: err})
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := types.Value(crossed)
	if a, ok := decoded.(answer); err != nil || !ok || !errors.Is(a.Failure, ErrKeysFull) {
		t.Errorf("%v, %v", decoded, err)
	}
}

// diskKeys are keys on a disk. A change is the organization and a byte that says whether its key
// is destroyed.
type diskKeys struct {
	mu            sync.Mutex
	seen, durable map[string]bool
	// disk is locked while the disk is busy.
	disk sync.Mutex
}

func (k *diskKeys) Creation(org parley.OrgID) ([]byte, error) { return append(org[:], 0), nil }

func (k *diskKeys) Destruction(org parley.OrgID, _ time.Time) []byte { return append(org[:], 1) }

func (k *diskKeys) Carry(changes [][]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range changes {
		k.seen[string(c)] = true
	}
	return nil
}

func (k *diskKeys) Sync() error {
	k.mu.Lock()
	seen := maps.Clone(k.seen)
	k.mu.Unlock()
	k.disk.Lock()
	defer k.disk.Unlock()
	k.durable = seen
	return nil
}

func (k *diskKeys) WriteTo(io.Writer) (int64, error)  { return 0, errors.ErrUnsupported }
func (k *diskKeys) ReadFrom(io.Reader) (int64, error) { return 0, errors.ErrUnsupported }

// afterPowerLoss returns the keys that are left.
func (k *diskKeys) afterPowerLoss() *diskKeys {
	return &diskKeys{seen: maps.Clone(k.durable), durable: k.durable}
}

// TestKeysAfterAPowerLoss: a new key does not wait for the disk of the keys. A store that flushes
// meanwhile does not count as durable, and a power failure then loses no key: the next start takes
// it from the log.
func TestKeysAfterAPowerLoss(t *testing.T) {
	mem := vfs.NewCrashableMem()
	keys := &diskKeys{seen: map[string]bool{}}
	s := &replicas{t: t, journals: 1, disks: []vfs.FS{mem}, dir: "nodes", tick: time.Millisecond, keys: func(int) Keys { return keys }}
	g := s.openAll()
	if err := g.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}); err != nil {
		t.Fatal(err)
	}
	m, replica := g.members[0], replicaOf(t, g.stores[0])
	create := func(n byte) {
		t.Helper()
		// With ticks of a millisecond, a busy machine may change the leader.
		eventually(t, "a key is made", func() bool {
			return m.changeKey(t.Context(), changeKey{Org: parley.OrgID{n}}) == nil
		})
	}
	flush := func() uint64 {
		t.Helper()
		if err := replica.Flush(); err != nil {
			t.Fatal(err)
		}
		return replica.Applied().Number
	}
	create(1)
	first := flush()
	eventually(t, "what was flushed is durable", func() bool { return m.Durable() >= first })

	keys.disk.Lock()
	create(2)
	create(3)
	last := flush()
	time.Sleep(5 * durableEvery)
	if index, err := replica.Durable(); err != nil || index < last {
		t.Fatalf("the store has flushed %d of %d, %v", index, last, err)
	}
	if m.Durable() >= last {
		t.Error("the member counts as durable what lacks a key")
	}
	left := g.crashDisks([]*vfs.MemFS{mem})[0]
	was := keys
	keys = was.afterPowerLoss()
	was.disk.Unlock()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}

	checkRecoveredKeys(t, left.CrashClone(vfs.CrashCloneCfg{}), keys.afterPowerLoss())
	s.disks[0] = left
	g = s.openAll()
	if number := replicaOf(t, g.stores[0]).Applied().Number; number < last || len(keys.seen) != 1 {
		t.Fatalf("control: the replica is at %d of %d, and there are %d keys", number, last, len(keys.seen))
	}
	checkAppliedKeys(t, g.logs[0], replicaOf(t, g.stores[0]).Applied())
	if err := g.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}); err != nil {
		t.Fatal(err)
	}
	if len(keys.seen) != 3 {
		t.Errorf("%d keys are left of 3", len(keys.seen))
	}
	at := replicaOf(t, g.stores[0]).Applied()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if changes, err := AppliedKeys(raftlog.Options{FS: left, Dir: "nodes/a/log", ID: 1}, at); err != nil || len(changes) != 2 {
		t.Errorf("the log of a stopped member has %d changes of keys, %v; want 2", len(changes), err)
	}
	if len(keys.durable) != 3 {
		t.Errorf("a member that is closed has written %d keys of 3", len(keys.durable))
	}
}

// checkRecoveredKeys: a member that goes on alone has written all keys.
func checkRecoveredKeys(t *testing.T, disk vfs.FS, keys *diskKeys) {
	t.Helper()
	g := (&replicas{t: t, journals: 1, disks: []vfs.FS{disk}, dir: "nodes"}).openAll()
	if err := g.stores[0].Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}); err != nil {
		t.Fatal(err)
	}
	_, _, err := g.members[0].Recover(MemberOptions{
		ID: 1, Voters: []uint64{1}, Described: map[uint64]string{1: ""}, Replica: replicaOf(t, g.stores[0]), Keys: keys, Log: g.logs[0],
		Logger: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Error(err) },
	})
	if err != nil || len(keys.durable) != 3 {
		t.Errorf("a member that goes on alone has written %d keys of 3, %v", len(keys.durable), err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkAppliedKeys: only the changes count that the replica has applied, and none of a log that
// does not lead to where the replica is.
func checkAppliedKeys(t *testing.T, log *raftlog.Log, at persistence.GroupPosition) {
	t.Helper()
	count := func(index, term uint64) int {
		t.Helper()
		at := at
		at.Number, at.Term = index, term
		changes, err := appliedKeys(log.Visit, at)
		if err != nil {
			t.Fatal(err)
		}
		return len(changes)
	}
	if n := count(at.Number, at.Term); n != 2 {
		t.Errorf("%d changes of keys, want 2", n)
	}
	if n := count(at.Number-1, at.Term); n != 1 {
		t.Errorf("%d changes of keys before the last one, want 1", n)
	}
	if n := count(at.Number, at.Term+1); n != 0 {
		t.Errorf("%d changes of a log of another term", n)
	}
	if last, err := log.LastIndex(); err != nil || count(last+1, at.Term) != 0 {
		t.Errorf("changes of a log that ends before the replica, %v", err)
	}
}

func replicaOf(t *testing.T, s *persistence.Store) *persistence.Replica {
	t.Helper()
	r, err := s.Replica()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
