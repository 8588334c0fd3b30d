package consensus_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/simtest"
)

// TestRecordsInFlight: four records wait for the disk at most, and the next one is handed out when
// the oldest is durable.
func TestRecordsInFlight(t *testing.T) {
	m := three(t)
	next := uint64(5)
	handedOut := func() bool {
		t.Helper()
		term, e := uint64(5), &raftpb.Entry{Index: new(next + 1), Term: new(uint64(6))}
		if next > 5 {
			term = 6
		}
		m.must(m.core.Step(consensus.Message{Raft: &raftpb.Message{
			Type: raftpb.MsgApp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(6)), Index: new(next), LogTerm: new(term), Entries: []*raftpb.Entry{e},
		}}))
		next++
		_, err := m.core.Ready()
		m.must(err)
		record, ok := m.core.NextRecord()
		if ok {
			_, err = m.log.Append(record)
			m.must(err)
		}
		return ok
	}
	for i := range 5 {
		if handedOut() != (i < 4) {
			t.Errorf("record %d", i+1)
		}
	}
	m.core.Synced()
	if _, ok := m.core.NextRecord(); !ok {
		t.Error("none is handed out when one is durable")
	}
}

// TestMembersAreForgotten: what was known of a member that was removed is not kept.
func TestMembersAreForgotten(t *testing.T) {
	m := three(t)
	term := m.elect()
	m.acknowledge(3, term)
	m.ticks(1, 0)
	if m.core.Known().Of(3).Index == 0 {
		t.Fatal("it does not know of the member: the test proves nothing")
	}
	m.must(m.core.ChangeMembers(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(3))}}}))
	m.run()
	m.acknowledge(2, term)
	m.ticks(1, 0)
	if m.core.Known().Of(3).Index != 0 || m.core.Known().Of(2).Index == 0 {
		t.Errorf("it knows %+v", m.core.Known())
	}
}

// TestSickFollower does not take the leadership that it is handed.
func TestSickFollower(t *testing.T) {
	for delay, votes := range map[time.Duration]int{0: 2, 300 * time.Millisecond: 0} {
		m := three(t)
		m.step(2, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(uint64(6)), Commit: new(uint64(5))})
		m.ticks(1, delay)
		m.sent = nil
		m.step(2, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), Term: new(uint64(6))})
		if asked := len(m.take(raftpb.MsgVote)); asked != votes {
			t.Errorf("with a delay of %v it asks for %d votes", delay, asked)
		}
	}
}

// TestStalledLeader is silent: a proposal waits, so that others elect one. Here there is nobody to
// hand over to, or else raft would take none.
func TestStalledLeader(t *testing.T) {
	m := open(t, &simtest.Log{}, simtest.NewState(consensus.Applied{Index: 5, Term: 5, Conf: &raftpb.ConfState{Voters: []uint64{1}, Learners: []uint64{4}}}), consensus.Limits{})
	term := m.core.Status().Leads
	m.acknowledge(4, term)
	m.ticks(1, 600*time.Millisecond)
	m.sent = nil
	m.must(m.core.Propose(term, change(1, 0), 1))
	m.run()
	if sent := m.take(raftpb.MsgApp); len(sent) > 0 {
		t.Errorf("a stalled leader sent %d appends", len(sent))
	}
	m.ticks(1, 0)
	if sent := m.take(raftpb.MsgApp); len(sent) == 0 {
		t.Error("it sends none when it is well again")
	}
}

// TestDivergedBeforeApplied: a node that starts may meet a leader before it has handed out what is
// committed in its log. It compares as soon as it has.
func TestDivergedBeforeApplied(t *testing.T) {
	for term, diverged := range map[uint64]bool{6: false, 7: true} {
		before, _ := follower(t, change(1, 0), change(2, 1))
		last, _ := before.log.LastIndex()
		if _, err := before.log.Append(consensus.Record{HardState: &raftpb.HardState{Term: new(uint64(6)), Commit: new(last)}}); err != nil {
			t.Fatal(err)
		}
		core, err := consensus.New(consensus.Options{ID: 1, Log: before.log, Applied: at(5, 5, 1, 2, 3), Nonce: 8, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := core.Step(consensus.Message{
			Known: consensus.Known{{ID: 3, Place: place(last, term, 0)}},
			Raft:  &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(uint64(7)), Commit: new(uint64(5))},
		}); err != nil {
			t.Fatal(err)
		}
		turn, err := core.Ready()
		if errors.Is(err, consensus.ErrDiverged) != diverged || !diverged && (turn.Batch == nil || turn.Batch.After.Index != last) {
			t.Errorf("the leader's entry is of term %d: %v", term, err)
		}
	}
}

// TestDivergedFromContent: the content of a leader that has another entry in the place of one that
// is committed here is not taken.
func TestDivergedFromContent(t *testing.T) {
	for term, diverged := range map[uint64]bool{6: false, 7: true} {
		m, _ := follower(t, change(1, 0), change(2, 1))
		content, err := simtest.NewState(at(8, term, 1, 2, 3)).Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		message := consensus.Message{Raft: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(uint64(7))}}
		consensus.Attach(&message, content)
		m.must(m.core.Step(message))
		turn, err := m.core.Ready()
		if errors.Is(err, consensus.ErrDiverged) != diverged || turn.Restore != nil {
			t.Errorf("the content ends with term %d: %v", term, err)
		}
	}
}

// TestHandedOutIsBounded: what is committed is handed out as what was handed out before is applied.
func TestHandedOutIsBounded(t *testing.T) {
	payloads := make([][]byte, 20)
	for i := range payloads {
		payloads[i] = change(uint64(i+1), uint64(i))
	}
	from, entries := follower(t, payloads...)
	last, _ := from.log.LastIndex()
	limits := consensus.DefaultLimits
	limits.ApplyBytes = 3 * uint64(len(entries[1].GetData()))
	m := open(t, &simtest.Log{}, simtest.NewState(at(5, 5, 1, 2, 3)), limits)
	m.must(m.core.Step(consensus.Message{Raft: &raftpb.Message{
		Type: raftpb.MsgApp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(6)), Index: new(uint64(5)), LogTerm: new(uint64(5)),
		Entries: entries, Commit: new(last),
	}}))
	handedOut := 0
	for range 20 {
		turn, err := m.core.Ready()
		m.must(err)
		if turn.Batch != nil {
			handedOut += len(turn.Batch.Entries)
		}
		if r, ok := m.core.NextRecord(); ok {
			number, err := m.log.Append(r)
			m.must(err)
			m.must(m.log.Sync(number))
			m.core.Synced()
		}
	}
	if handedOut == 0 || handedOut > 6 {
		t.Errorf("%d of %d entries are handed out, and none is applied", handedOut, len(entries))
	}
}

// TestHeartbeatAfterContent: a content may end before the log that it replaces. A heartbeat that
// commits what was there is not taken.
func TestHeartbeatAfterContent(t *testing.T) {
	m := three(t)
	var tail []*raftpb.Entry
	for i := uint64(6); i <= 12; i++ {
		tail = append(tail, &raftpb.Entry{Index: new(i), Term: new(uint64(6))})
	}
	m.step(2, &raftpb.Message{Type: raftpb.MsgApp.Enum(), Term: new(uint64(6)), Index: new(uint64(5)), LogTerm: new(uint64(5)), Entries: tail})
	content, err := simtest.NewState(at(9, 7, 1, 2, 3)).Snapshot()
	m.must(err)
	message := consensus.Message{Raft: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(uint64(7))}}
	consensus.Attach(&message, content)
	m.must(m.core.Step(message))
	if turn, err := m.core.Ready(); err != nil || turn.Restore == nil {
		t.Fatalf("nothing is restored: %v", err)
	}
	m.core.Restored(at(9, 7, 1, 2, 3))
	m.run()
	if last, _ := m.log.LastIndex(); last != 9 {
		t.Fatalf("the log ends at %d", last)
	}
	m.step(3, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(uint64(7)), Commit: new(uint64(11))})
	if commit := m.core.Status().Commit; commit != 9 {
		t.Errorf("%d is committed", commit)
	}
}

// TestTransferee: the leadership is handed to a voter that answers, even if another member holds
// more of the log.
func TestTransferee(t *testing.T) {
	for name, other := range map[string]uint64{"a learner": 4, "a voter that is silent": 3} {
		conf := consensus.Applied{Index: 5, Term: 5, Conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}}
		m := open(t, &simtest.Log{}, simtest.NewState(conf), consensus.Limits{})
		term := m.elect()
		m.must(m.core.Propose(term, change(1, 0), 1))
		m.run()
		m.acknowledge(other, term)
		for range 60 {
			m.ticks(1, 0)
			m.step(2, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Term: new(term)})
			if other == 4 {
				m.step(other, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Term: new(term)})
			}
		}
		m.must(m.core.Transfer(0))
		m.run()
		m.acknowledge(2, term)
		if asked := m.take(raftpb.MsgTimeoutNow); len(asked) != 1 || asked[0].GetTo() != 2 {
			t.Errorf("%s has more: handed over by %v", name, asked)
		}
	}
}

// TestEntriesOnceATurn: a member that answers many heartbeats at once gets the entries that it
// lacks once in a turn.
func TestEntriesOnceATurn(t *testing.T) {
	m := three(t)
	term := m.elect()
	m.must(m.core.Propose(term, change(1, 0), 1))
	m.run()
	m.take(raftpb.MsgApp)
	for range 50 {
		m.must(m.core.Step(consensus.Message{Raft: &raftpb.Message{
			Type: raftpb.MsgHeartbeatResp.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(term),
		}}))
	}
	m.run()
	counts := map[uint64]int{}
	for _, sent := range m.take(raftpb.MsgApp) {
		if len(sent.Entries) > 0 {
			counts[sent.GetTo()]++
		}
	}
	if counts[3] != 1 {
		t.Errorf("the entries are sent %d times", counts[3])
	}
}
