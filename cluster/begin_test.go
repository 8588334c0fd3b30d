package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/raftlog"
	"parley/cluster/simtest"
	"parley/journal"
	"parley/persistence"
)

// TestBeginOnFormerContent: a group that begins on the content of a former one has its own
// members also after it lost power before its first flush.
func TestBeginOnFormerContent(t *testing.T) {
	disk := vfs.NewCrashableMem()
	begin := func(crashed bool) (stop func()) {
		t.Helper()
		m := NewMember()
		store, err := persistence.Open("store", persistence.Options{
			FS: disk, Journals: 1, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20, Sequencer: m,
			Fatal: func(err error) { t.Errorf("fatal: %v", err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		replica, err := store.Replica()
		if err != nil {
			t.Fatal(err)
		}
		if replica.Applied().Number == 0 { // the former group
			if err := replica.Begin(noteOf(consensus.Applied{Conf: &raftpb.ConfState{Voters: []uint64{7, 8, 9}}})); err != nil {
				t.Fatal(err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			return nil
		}
		log, err := raftlog.Open(raftlog.Options{FS: disk, Dir: "log", ID: 1, New: !crashed})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Start(ignoreQueue, ignoreTimer); err != nil {
			t.Fatal(err)
		}
		network := &simtest.LocalNetwork{}
		if err := m.Start(MemberOptions{
			ID: 1, Voters: []uint64{1}, Nonce: 1, Replica: replica, Log: log, Links: network.Links(1), Clock: time.Now,
			Logger: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Errorf("fatal: %v", err) }, Tick: time.Millisecond,
		}); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); !m.Leads(); time.Sleep(time.Millisecond) {
			if time.Since(began) > 5*time.Second {
				t.Fatalf("crashed: %v: the member does not lead; members are %v", crashed, m.Applied().Conf)
			}
		}
		released := make(chan error, 1)
		store.Append(&journal.Entry{
			Rows: []journal.Row{{Table: journal.OnceTable, Key: []byte("a"), Value: []byte("b")}}, At: time.Now(),
			Release: func(err error) { released <- err },
		})
		if err := <-released; err != nil {
			t.Fatal(err)
		}
		if err := store.Fence(context.Background()); err != nil {
			t.Fatal(err)
		}
		return func() { m.Close(); _ = log.Close(); _ = store.Close() }
	}
	begin(false)
	stop := begin(false)
	image := disk.CrashClone(vfs.CrashCloneCfg{})
	stop()
	disk = image
	begin(true)()
}
