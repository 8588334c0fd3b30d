package consensus_test

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// TestSplitVote has two candidates meet. The one that is to asks again long before an election
// timeout has passed; one that is not, or that met nobody, waits for that.
func TestSplitVote(t *testing.T) {
	const soon = 3 // ticks; an election timeout has 12 and more
	for name, c := range map[string]struct {
		from, term, logTerm, index uint64
		again                      bool
	}{
		"the same log, a higher id":      {3, 0, 5, 5, true},
		"an older log":                   {3, 0, 5, 4, true},
		"a newer entry":                  {3, 0, 5, 6, false},
		"a newer term":                   {3, 0, 6, 1, false},
		"a candidate of an earlier term": {3, 1, 5, 5, false},
		"nobody":                         {},
	} {
		m := three(t)
		m.ticks(30, 0)
		request := m.take(raftpb.MsgPreVote)[0]
		m.step(2, &raftpb.Message{Type: raftpb.MsgPreVoteResp.Enum(), Term: request.Term})
		if votes := m.take(raftpb.MsgVote); len(votes) != 2 {
			t.Fatalf("%s: no candidate: %v", name, votes)
		}
		if c.from != 0 {
			m.step(c.from, &raftpb.Message{
				Type: raftpb.MsgVote.Enum(), Term: new(request.GetTerm() - c.term), LogTerm: new(c.logTerm), Index: new(c.index),
			})
		}
		m.sent = nil
		m.ticks(soon, 0)
		again := m.take(raftpb.MsgPreVote)
		if (len(again) > 0) != c.again {
			t.Errorf("%s: asked again %v", name, again)
		}
		if m.ticks(30, 0); !c.again && len(m.take(raftpb.MsgPreVote)) == 0 {
			t.Errorf("%s: it never asks again", name)
		}
	}
}

// TestSplitVoteIsOver: a candidate that was elected meanwhile does not ask again.
func TestSplitVoteIsOver(t *testing.T) {
	m := three(t)
	m.ticks(30, 0)
	request := m.take(raftpb.MsgPreVote)[0]
	m.step(2, &raftpb.Message{Type: raftpb.MsgPreVoteResp.Enum(), Term: request.Term})
	m.step(3, &raftpb.Message{Type: raftpb.MsgVote.Enum(), Term: request.Term, LogTerm: new(uint64(5)), Index: new(uint64(5))})
	m.step(2, &raftpb.Message{Type: raftpb.MsgVoteResp.Enum(), Term: request.Term})
	m.acknowledge(2, request.GetTerm())
	m.sent = nil
	m.ticks(5, 0)
	if again := m.take(raftpb.MsgPreVote); len(again) > 0 || m.core.Status().Leads != request.GetTerm() {
		t.Errorf("an elected leader asks for votes: %v", again)
	}
}
