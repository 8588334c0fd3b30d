package consensus_test

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/simtest"
)

// TestRecover goes on alone with a log that holds, beyond what is known to be committed,
// changes and a change of members. The changes count, and the change of members does not.
func TestRecover(t *testing.T) {
	m := three(t)
	term := m.elect()
	for tag := uint64(1); tag <= 5; tag++ {
		if err := m.core.Propose(term, simtest.Change{Tag: tag, After: tag - 1}.Encode(), tag); err != nil {
			t.Fatal(err)
		}
		m.run()
		if tag == 2 {
			m.acknowledge(2, term)
			if err := m.core.ChangeMembers(&raftpb.ConfChangeV2{Context: []byte("four"), Changes: []*raftpb.ConfChangeSingle{
				{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(4))},
			}}); err != nil {
				t.Fatal(err)
			}
			m.run()
		}
	}
	last, _ := m.log.LastIndex()
	if applied := m.state.Applied().Index; applied+4 != last {
		t.Fatalf("%d of %d entries are applied: the test proves nothing", applied, last)
	}
	for range 2 { // also after a crash in the middle of it
		reached, err := consensus.Recover(m.log, m.state, 1, "one")
		if err != nil || reached.Index != last || reached.Term != term {
			t.Fatalf("reached %+v, %v; the log ends at %d", reached, err, last)
		}
	}
	if _, tag, _, _ := m.state.Sums(); tag != 5 {
		t.Errorf("change %d is the newest", tag)
	}

	alone := open(t, m.log, m.state, consensus.Limits{})
	alone.ticks(30, 0)
	s := alone.core.Status()
	if s.Leads <= term || len(s.Applied.Conf.GetVoters()) != 1 || s.Applied.Described[1] != "one" {
		t.Errorf("it goes on as %+v", s)
	}
	if err := alone.core.Propose(s.Leads, simtest.Change{Tag: 6, After: 5}.Encode(), 6); err != nil {
		t.Fatal(err)
	}
	alone.run()
	if _, tag, _, _ := m.state.Sums(); tag != 6 {
		t.Error("nothing can be changed")
	}
}
