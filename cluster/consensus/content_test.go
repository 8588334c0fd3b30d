package consensus_test

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/simtest"
)

// TestContentIsAnnounced: a snapshot whose message announces another position than its content
// has is dropped. It does not end the node.
func TestContentIsAnnounced(t *testing.T) {
	for name, c := range map[string]struct {
		index, term uint64
		taken       bool
	}{"the same": {9, 5, true}, "another index": {10, 5, false}, "another term": {9, 6, false}} {
		m := three(t)
		content, err := simtest.NewState(at(9, 5, 1, 2, 3)).Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		message := consensus.Message{Raft: &raftpb.Message{
			Type: raftpb.MsgSnap.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(7)),
		}}
		consensus.Attach(&message, content)
		message.Raft.Snapshot.Metadata.Index, message.Raft.Snapshot.Metadata.Term = new(c.index), new(c.term)
		if err := m.core.Step(message); errors.Is(err, consensus.ErrMalformed) == c.taken {
			t.Errorf("%s: %v", name, err)
		}
		turn, err := m.core.Ready()
		if err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
		if (turn.Restore != nil) != c.taken || (len(turn.Closed) > 0) == c.taken {
			t.Errorf("%s: restored %v, %d closed", name, turn.Restore != nil, len(turn.Closed))
		}
		if !c.taken {
			continue
		}
		m.core.Restored(at(9, 5, 1, 2, 3))
		if s := m.core.Status(); s.Durable != 9 || s.Applied.Index != 9 {
			t.Errorf("%s: %d is applied, %d durable", name, s.Applied.Index, s.Durable)
		}
	}
}
