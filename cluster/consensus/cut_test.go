package consensus_test

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/simtest"
)

// TestLogOfManyTerms: a member that is down does not have the log grow beyond what is kept for
// it, however often another one begins to lead meanwhile.
func TestLogOfManyTerms(t *testing.T) {
	limits := consensus.DefaultLimits
	limits.CatchUpBytes = 100 << 10
	m := open(t, &simtest.Log{}, simtest.NewState(at(5, 5, 1, 2, 3)), limits)
	tag := uint64(0)
	for range 6 {
		term := m.elect()
		for range 60 { // 60 KiB, less than is kept
			tag++
			if err := m.core.Propose(term, make([]byte, 1<<10), tag); err != nil {
				t.Fatal(err)
			}
			m.run()
			m.acknowledge(2, term)
			m.core.Durable(m.state.Applied().Index)
		}
		for range 500 {
			m.ticks(1, 0)
			m.acknowledge(2, term)
		}
		m.step(2, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: new(term + 1)}) // of another leader
		m.sent = nil
	}
	first, err := m.log.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	last, err := m.log.LastIndex()
	if kept := last - first + 1; err != nil || kept > 2*100 {
		t.Errorf("the log has %d entries of 1 KiB, %v; 100 KiB are kept for a member", kept, err)
	}
}
