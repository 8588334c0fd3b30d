package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/raft/v3/raftpb"

	"parley/journal"
)

var memberRounds = flag.Int("members.rounds", 30, "rounds of TestMembersChangeOnSlowDisks")

// slowSync is how long a sync takes on a slow disk.
const slowSync = 40 * time.Millisecond

// slowDisk is a disk that takes slowSync to sync.
func slowDisk() vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			time.Sleep(slowSync)
		}
		return nil
	}))
}

// described is how a test describes a member.
func described(id uint64) addMember {
	name := fmt.Sprintf("node%d", id)
	return addMember{ID: id, Described: Description{Name: name, Address: name + ":1", Token: token(1, int64(id))}.Encode(), Token: token(1, int64(id))}
}

// startGroup opens and starts members on disks, and returns their Groups.
func startGroup(t *testing.T, disk func() vfs.FS, count int) (*group, []*Group) {
	t.Helper()
	s := &replicas{t: t, journals: 1, dir: "group", tick: 10 * time.Millisecond}
	for range count {
		s.disks = append(s.disks, disk())
	}
	g := s.openAll()
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := g.Start(ignoreQueue, ignoreTimer); err != nil {
		t.Fatal(err)
	}
	g.leader = nil // it may change
	var groups []*Group
	for _, m := range g.members {
		groups = append(groups, NewGroup(m, 1, time.Now, nil, nil))
	}
	return g, groups
}

// ask has the leader of the moment answer a request about members.
func (g *group) ask(t *testing.T, groups []*Group, request any) error {
	t.Helper()
	for {
		err := error(journal.ErrNotLeader)
		if n := g.leading(); n >= 0 {
			_, err = groups[n].answer(t.Context(), request)
		}
		if !errors.Is(err, journal.ErrNotLeader) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// TestPromotionOfARemovedNode: a leader that is about to make a voter of a learner, and waits for
// the removal of that node, does not bring the node back. Nor does the node's join token.
func TestPromotionOfARemovedNode(t *testing.T) {
	g, groups := startGroup(t, func() vfs.FS { return vfs.NewMem() }, 3)
	for _, request := range []any{described(4), removeMember{4}} {
		if err := g.ask(t, groups, request); err != nil {
			t.Fatalf("%T: %v", request, err)
		}
	}
	n := g.leads(t)
	if err := groups[n].promote(t.Context(), 4); err != nil {
		t.Error(err)
	}
	if err := g.ask(t, groups, described(4)); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("its token is used again: %v", err)
	}
	instead := Description{Name: "e", Address: "e:1", Token: token(1, 5), Replaces: 4}
	if err := g.ask(t, groups, addMember{ID: 5, Described: instead.Encode(), Token: instead.Token}); !errors.Is(err, errReplaced) {
		t.Errorf("a node comes in for one that is gone: %v", err)
	}
	if s, err := groups[n].Status(t.Context()); err != nil || !slices.Equal(s.Applied.Conf.GetVoters(), []uint64{1, 2, 3}) || len(s.Applied.Conf.GetLearners()) > 0 {
		t.Errorf("the members are %v, %v", s.Applied.Conf, err)
	}
}

// join opens and starts a blank member, and returns its number.
func (g *group) join(t *testing.T, disk vfs.FS) int {
	t.Helper()
	n := len(g.members)
	g.of.disks = append(g.of.disks, disk)
	g.members, g.stores, g.logs = append(g.members, nil), append(g.stores, nil), append(g.logs, nil)
	g.openOne(n)
	if err := g.startOne(n, true); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMembersChangeOnSlowDisks adds a node and removes it at some moment of its joining, again and
// again, while a client writes and each sync of the others takes 40 ms. No round leaves a voter behind.
func TestMembersChangeOnSlowDisks(t *testing.T) {
	g, groups := startGroup(t, slowDisk, 3)
	over, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	lead := func(group *Group) {
		work.Go(func() {
			group.Lead(over, func(err error) { t.Logf("the leader has a problem: %v", err) })
		})
	}
	for _, group := range groups {
		lead(group)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	promoted := 0
	for round := range *memberRounds {
		n := g.join(t, vfs.NewMem())
		groups = append(groups, NewGroup(g.members[n], uint64(n+1), time.Now, nil, nil))
		lead(groups[n])
		if err := g.ask(t, groups, described(uint64(n+1))); err != nil {
			t.Fatal(err)
		}
		g.write(t, round, 1)
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		if slices.Contains(g.confOf(t, groups).GetVoters(), uint64(n+1)) {
			promoted++
		}
		if err := g.ask(t, groups, removeMember{uint64(n + 1)}); err != nil {
			t.Fatal(err)
		}
		if err := g.stopOne(n); err != nil {
			t.Fatal(err)
		}
		if conf := g.confOf(t, groups); !slices.Equal(conf.GetVoters(), []uint64{1, 2, 3}) || len(conf.GetLearners())+len(conf.GetVotersOutgoing()) > 0 {
			t.Fatalf("round %d leaves %v", round, conf)
		}
	}
	t.Logf("%d rounds, in %d the node had become a voter", *memberRounds, promoted)
	if promoted == 0 || promoted == *memberRounds {
		t.Error("the test proves nothing")
	}
}

// confOf is the leader's view of the members.
func (g *group) confOf(t *testing.T, groups []*Group) *raftpb.ConfState {
	t.Helper()
	s, err := groups[g.leads(t)].Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Applied.Conf
}
