package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/journal"
	"parley/persistence"
)

const patience = 30 * time.Second

// eventually waits for a condition.
func eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	for begun := time.Now(); !met(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func ignoreQueue(journal.Stream) {}

func ignoreTimer(journal.Stream, time.Time) {}

// write appends n rows of 2 KB through the leader of the moment, and returns when all are applied there.
// What a term left open is written again: the rows are the same.
func (g *group) write(t testing.TB, from, n int) {
	t.Helper()
	value := make([]byte, 2048)
	for i := from; i < from+n; i++ {
		for done := false; !done; {
			released := make(chan error, 1)
			g.stores[g.leads(t)].Append(&journal.Entry{
				Slot:    parley.Slot(i) % parley.Slots,
				Rows:    []journal.Row{{Slot: parley.Slot(i) % parley.Slots, Table: journal.OnceTable, Key: fmt.Appendf(nil, "%08d", i), Value: value}},
				Counts:  []journal.Count{{Org: parley.OrgID{1}, Day: 1, N: 1}},
				At:      g.of.now(),
				Release: func(err error) { released <- err },
			})
			done = <-released == nil
		}
	}
}

func (g *group) position(t testing.TB, n int) persistence.GroupPosition {
	t.Helper()
	r, err := g.stores[n].Replica()
	if err != nil {
		t.Fatal(err)
	}
	return r.Applied()
}

// alike waits until members have applied the same.
func (g *group) alike(t testing.TB, members ...int) {
	t.Helper()
	eventually(t, "the same position on all members", func() bool {
		first := g.position(t, members[0])
		for _, n := range members[1:] {
			if g.position(t, n).Head != first.Head {
				return false
			}
		}
		return true
	})
}

func (g *group) firstIndex(t testing.TB, n int) uint64 {
	t.Helper()
	first, err := g.logs[n].FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// leads waits for a member that leads, and returns its number.
func (g *group) leads(t testing.TB) (n int) {
	t.Helper()
	eventually(t, "a leader", func() bool { n = g.leading(); return n >= 0 })
	return n
}

// change asks the leader of the moment for a change of members until it has taken effect.
func (g *group) change(t testing.TB, kind raftpb.ConfChangeType, id uint64, met func(*raftpb.ConfState) bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v of member %d", kind, id), func() bool {
		var conf *raftpb.ConfState
		_ = g.members[g.leads(t)].Runner().Do(t.Context(), func(c *consensus.Core) error {
			conf = c.Status().Applied.Conf
			return c.ChangeMembers(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: kind.Enum(), NodeId: new(id)}}})
		})
		time.Sleep(10 * time.Millisecond)
		return met(conf)
	})
}

// TestCatchUpBySnapshot: a member that was away while the others cut their logs takes the
// content of one of them. So does a blank one that joins, which then counts.
func TestCatchUpBySnapshot(t *testing.T) {
	s := &replicas{t: t, journals: 2, dir: "group", catchUp: 64 << 10}
	for range 3 {
		s.disks = append(s.disks, vfs.NewMem())
	}
	g := s.openAll()
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := g.Start(ignoreQueue, ignoreTimer); err != nil {
		t.Fatal(err)
	}
	g.leader = nil // it may change
	g.write(t, 0, 50)
	g.alike(t, 0, 1, 2)

	away := (g.leads(t) + 1) % 3
	had := g.position(t, away).Number
	if err := g.stopOne(away); err != nil {
		t.Fatal(err)
	}
	next := 50
	for cut := false; !cut; {
		g.write(t, next, 50)
		next += 50
		time.Sleep(10 * time.Millisecond)
		cut = g.firstIndex(t, (away+1)%3) > had+1 && g.firstIndex(t, (away+2)%3) > had+1 // either may lead
	}
	g.openOne(away)
	if err := g.startOne(away, false); err != nil {
		t.Fatal(err)
	}
	g.alike(t, 0, 1, 2)
	eventually(t, "a log that begins after a snapshot", func() bool { return g.firstIndex(t, away) > had+1 })
	g.write(t, next, 50)
	g.alike(t, 0, 1, 2)

	s.disks = append(s.disks, vfs.NewMem())
	g.members, g.stores, g.logs = append(g.members, nil), append(g.stores, nil), append(g.logs, nil)
	g.openOne(3)
	if err := g.startOne(3, true); err != nil {
		t.Fatal(err)
	}
	g.change(t, raftpb.ConfChangeAddLearnerNode, 4, func(c *raftpb.ConfState) bool { return len(c.GetLearners()) > 0 })
	g.alike(t, 0, 1, 2, 3)
	g.change(t, raftpb.ConfChangeAddNode, 4, func(c *raftpb.ConfState) bool { return len(c.GetVoters()) == 4 })
	lost := g.leads(t)
	if lost == 3 {
		lost = 0
	}
	g.change(t, raftpb.ConfChangeRemoveNode, uint64(lost+1), func(c *raftpb.ConfState) bool { return len(c.GetVoters()) == 3 })
	next += 50
	g.write(t, next, 50)
	g.alike(t, 3, (lost+1)%3, (lost+2)%3)
}
