package consensus_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
)

// TestNewestMembers replaces members one after the other. The state stays at an old flush, whose
// members are all gone: the log knows those of now, also before a change is known to be committed.
func TestNewestMembers(t *testing.T) {
	m := three(t)
	term := m.elect()
	flushed := m.state.Applied()
	change := func(described string, changes ...*raftpb.ConfChangeSingle) {
		t.Helper()
		if err := m.core.ChangeMembers(&raftpb.ConfChangeV2{Context: []byte(described), Changes: changes}); err != nil {
			t.Fatal(err)
		}
		m.run()
	}
	one := func(kind raftpb.ConfChangeType, id uint64) *raftpb.ConfChangeSingle {
		return &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)}
	}
	check := func(voters ...uint64) {
		t.Helper()
		conf, described, err := consensus.NewestMembers(m.log, flushed, nil)
		if err != nil || !slices.Equal(slices.Sorted(slices.Values(conf.GetVoters())), voters) || len(conf.GetLearners()) > 0 {
			t.Errorf("the members are %v, %v; want the voters %v", conf, err, voters)
		}
		if now := m.state.Applied(); !maps.Equal(described, now.Described) {
			t.Errorf("they are described as %v, the state says %v", described, now.Described)
		}
	}
	check(1, 2, 3)
	acknowledge := func() {
		for range 2 { // a joint change is followed by another entry
			for id := range uint64(4) {
				m.acknowledge(id+2, term)
			}
		}
	}
	for _, pair := range [][2]uint64{{4, 2}, {5, 3}} {
		change("a node", one(raftpb.ConfChangeAddLearnerNode, pair[0]))
		acknowledge()
		change("", one(raftpb.ConfChangeAddNode, pair[0]), one(raftpb.ConfChangeRemoveNode, pair[1]))
		acknowledge()
	}
	check(1, 4, 5)
	if before := m.state.Applied().Conf.GetVoters(); !slices.Equal(before, []uint64{1, 4, 5}) {
		t.Fatalf("the state has the voters %v: the test proves nothing", before)
	}
	change("", one(raftpb.ConfChangeRemoveNode, 5)) // not committed
	if now := m.state.Applied().Conf.GetVoters(); len(now) != 3 {
		t.Fatalf("the state has the voters %v: the test proves nothing", now)
	}
	check(1, 4)
	if _, _, err := consensus.NewestMembers(m.log, at(1, 1, 1, 2, 3), nil); err == nil {
		t.Error("a log that begins later says who the members are")
	}
	if _, _, err := consensus.NewestMembers(m.log, consensus.Applied{}, nil); err != nil || errors.Is(err, consensus.ErrEntry) {
		t.Errorf("of a blank state: %v", err)
	}
}
