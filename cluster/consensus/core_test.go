package consensus_test

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/simtest"
)

// member drives a Core by hand. Its disk and its state are as fast as the test wants.
type member struct {
	t      *testing.T
	core   *consensus.Core
	log    *simtest.Log
	state  *simtest.State
	sent   []consensus.Message
	events []consensus.Event
	// records counts what was written.
	records int
	// stuck says that batches are not applied any more.
	stuck bool
}

func open(t *testing.T, log *simtest.Log, state *simtest.State, limits consensus.Limits) *member {
	t.Helper()
	if err := consensus.Prepare(log, state.Applied()); err != nil {
		t.Fatal(err)
	}
	known, _ := log.Known()
	core, err := consensus.New(consensus.Options{
		ID: 1, Log: log, Known: known, Applied: state.Applied(), Nonce: 7, Limits: limits, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &member{t: t, core: core, log: log, state: state}
	m.run()
	return m
}

func at(index, term uint64, voters ...uint64) consensus.Applied {
	return consensus.Applied{Index: index, Term: term, Conf: &raftpb.ConfState{Voters: voters}}
}

// run carries out turns until nothing is left to do.
func (m *member) run() {
	m.t.Helper()
	for range 100 {
		turn, err := m.core.Ready()
		if err != nil {
			m.t.Fatal(err)
		}
		m.sent = append(m.sent, turn.Messages...)
		m.events = append(m.events, turn.Events...)
		record, write := m.core.NextRecord()
		if write {
			m.records++
			number, err := m.log.Append(record)
			if err != nil || m.log.Sync(number) != nil {
				m.t.Fatal(err)
			}
			m.core.Synced()
		}
		if b := turn.Batch; b != nil && !m.stuck {
			if err := m.state.Apply(b.Entries, b.After); err != nil {
				m.t.Fatal(err)
			}
			m.core.Applied()
		}
		if !write && turn.Batch == nil && len(turn.Events)+len(turn.Messages) == 0 {
			return
		}
	}
	m.t.Fatal("the turns do not end")
}

// ticks lets time pass.
func (m *member) ticks(n int, delay time.Duration) {
	for range n {
		m.core.Tick(delay)
		m.run()
	}
}

func (m *member) step(from uint64, r *raftpb.Message) {
	r.From, r.To = new(from), new(uint64(1))
	m.must(m.core.Step(consensus.Message{Raft: r}))
	m.run()
}

// take returns the messages of a kind that were sent, and forgets all.
func (m *member) take(kind raftpb.MessageType) []*raftpb.Message {
	var found []*raftpb.Message
	for _, one := range m.sent {
		if one.Raft.GetType() == kind {
			found = append(found, one.Raft)
		}
	}
	m.sent = nil
	return found
}

// elect makes the member the leader of three, with its first entry committed.
func (m *member) elect() uint64 {
	m.t.Helper()
	m.ticks(30, 0)
	request := m.take(raftpb.MsgPreVote)[0]
	m.step(2, &raftpb.Message{Type: raftpb.MsgPreVoteResp.Enum(), Term: request.Term})
	m.step(2, &raftpb.Message{Type: raftpb.MsgVoteResp.Enum(), Term: request.Term})
	term := request.GetTerm()
	m.acknowledge(2, term)
	if m.core.Status().Leads != term {
		m.t.Fatalf("not elected: %+v", m.core.Status())
	}
	m.sent = nil
	return term
}

// acknowledge lets a follower answer that it has the whole log.
func (m *member) acknowledge(from, term uint64) {
	last, _ := m.log.LastIndex()
	m.step(from, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: new(term), Index: new(last)})
}

func three(t *testing.T) *member {
	return open(t, &simtest.Log{}, simtest.NewState(at(5, 5, 1, 2, 3)), consensus.Limits{})
}

func TestSickNodeDoesNotCampaign(t *testing.T) {
	m := three(t)
	m.ticks(50, 300*time.Millisecond)
	if asked := m.take(raftpb.MsgPreVote); len(asked) > 0 {
		t.Errorf("a sick node asked for %d votes", len(asked))
	}
	m.step(2, &raftpb.Message{Type: raftpb.MsgVote.Enum(), Term: new(uint64(9)), LogTerm: new(uint64(5)), Index: new(uint64(5))})
	if votes := m.take(raftpb.MsgVoteResp); len(votes) != 1 || votes[0].GetReject() {
		t.Errorf("a sick node did not vote for another one: %v", votes)
	}
	m.ticks(50, 0)
	if asked := m.take(raftpb.MsgPreVote); len(asked) == 0 {
		t.Error("a node that is well again does not campaign")
	}
}

// TestStuckLeader: a leader that is told to hand over waits until its batches are applied, unless
// they are not.
func TestStuckLeader(t *testing.T) {
	m := three(t)
	term := m.elect()
	m.acknowledge(2, term)
	m.acknowledge(3, term)
	m.stuck = true
	if err := m.core.Propose(term, []byte("b"), 1); err != nil {
		t.Fatal(err)
	}
	m.run()
	m.acknowledge(2, term)
	m.acknowledge(3, term)
	if err := m.core.Transfer(2); err != nil {
		t.Fatal(err)
	}
	m.ticks(10, 0)
	if len(m.take(raftpb.MsgTimeoutNow)) != 0 {
		t.Error("it does not wait for the outcome")
	}
	m.acknowledge(2, term)
	m.ticks(20, 0)
	if len(m.take(raftpb.MsgTimeoutNow)) != 1 {
		t.Error("it does not hand over")
	}
}

func TestSickLeader(t *testing.T) {
	m := three(t)
	term := m.elect()
	m.acknowledge(2, term)
	m.acknowledge(3, term)
	m.ticks(4, 0)
	if len(m.take(raftpb.MsgHeartbeat)) == 0 {
		t.Error("a leader that is well sends no heartbeats")
	}
	m.ticks(1, 300*time.Millisecond)
	if len(m.take(raftpb.MsgTimeoutNow)) != 1 {
		t.Error("a sick leader does not hand over")
	}
	m.core.Fence(1)
	m.ticks(20, 600*time.Millisecond)
	m.step(2, &raftpb.Message{Type: raftpb.MsgReadIndex.Enum(), Entries: []*raftpb.Entry{{Data: []byte("context")}}})
	if beats := m.take(raftpb.MsgHeartbeat); len(beats) > 0 {
		t.Errorf("a stalled leader sent %d heartbeats", len(beats))
	}
}

// TestTransferWaits hands over while a proposal is in flight: only after its outcome is known.
// What is proposed meanwhile is not made.
func TestTransferWaits(t *testing.T) {
	m := three(t)
	term := m.elect()
	m.acknowledge(3, term)
	propose := func(tag uint64) {
		if err := m.core.Propose(term, simtest.Change{Tag: tag, After: tag - 1}.Encode(), tag); err != nil {
			t.Fatal(err)
		}
	}
	propose(1)
	m.run()
	if err := m.core.Transfer(2); err != nil {
		t.Fatal(err)
	}
	propose(2)
	m.run()
	last, _ := m.log.LastIndex()
	m.core.Step(consensus.Message{Raft: &raftpb.Message{
		Type: raftpb.MsgAppResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(term), Index: new(last),
	}})
	turn, err := m.core.Ready() // the transferee has all, and nothing is applied here yet
	if err != nil || turn.Batch == nil {
		t.Fatalf("nothing is committed: %v", err)
	}
	m.sent = append(m.sent, turn.Messages...)
	if len(m.take(raftpb.MsgTimeoutNow)) > 0 {
		t.Error("the leader hands over while a proposal is in flight")
	}
	if err := m.state.Apply(turn.Batch.Entries, turn.Batch.After); err != nil {
		t.Fatal(err)
	}
	m.core.Applied()
	m.run()
	if len(m.take(raftpb.MsgTimeoutNow)) != 1 {
		t.Error("the leader does not hand over")
	}
	m.step(2, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(term + 1), Commit: new(uint64(5))})
	for _, e := range m.events {
		if e.Kind == consensus.Resolved && (e.Tag == 1 && e.Err != nil || e.Tag == 2 && !errors.Is(e.Err, consensus.ErrNeverProposed)) {
			t.Errorf("proposal %d ends with %v", e.Tag, e.Err)
		}
	}
}

// TestWaitingProposals fills the log up to the limit of what may be uncommitted.
func TestWaitingProposals(t *testing.T) {
	limits := consensus.DefaultLimits
	limits.UncommittedBytes, limits.WaitingProposals = 200, 5
	m := open(t, &simtest.Log{}, simtest.NewState(at(5, 5, 1, 2, 3)), limits)
	term := m.elect()
	var want []uint64
	for tag := uint64(1); tag < 30; tag++ {
		err := m.core.Propose(term, simtest.Change{Tag: tag, After: tag - 1}.Encode(), tag)
		if errors.Is(err, consensus.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, tag)
	}
	if len(want) < 6 || len(want) > 20 {
		t.Fatalf("%d proposals were taken", len(want))
	}
	m.events = nil
	for range want {
		m.run()
		m.acknowledge(2, term)
	}
	var got []uint64
	for _, e := range m.events {
		if e.Kind == consensus.Resolved && e.Err == nil {
			got = append(got, e.Tag)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("applied %v, want %v", got, want)
	}
	if err := m.core.Propose(term+1, nil, 99); !errors.Is(err, consensus.ErrNotLeader) {
		t.Errorf("a proposal of another term: %v", err)
	}
	if err := m.core.Propose(term, make([]byte, limits.PayloadBytes+1), 99); err == nil {
		t.Error("a proposal that is too large was taken")
	}
}

// TestCommitIndexIsNotWritten checks that a record is not written for the commit index
// alone, and that a start gets along with one that lags.
func TestCommitIndexIsNotWritten(t *testing.T) {
	m := three(t)
	app := func(commit uint64, entries ...*raftpb.Entry) {
		m.step(2, &raftpb.Message{
			Type: raftpb.MsgApp.Enum(), Term: new(uint64(6)), LogTerm: new(uint64(5)), Index: new(uint64(5)),
			Commit: new(commit), Entries: entries,
		})
	}
	entries := []*raftpb.Entry{{Index: new(uint64(6)), Term: new(uint64(6))}}
	app(5, entries...)
	before := m.records
	app(6, entries...)
	if m.records != before {
		t.Error("a record was written for the commit index")
	}
	if len(m.take(raftpb.MsgAppResp)) != 2 {
		t.Error("the leader has no answer")
	}
	m.state.BeginFlush()
	m.state.EndFlush()
	if hard, _, _ := m.log.InitialState(); hard.GetCommit() >= 6 {
		t.Fatalf("the log knows that %d is committed: the test proves nothing", hard.GetCommit())
	}
	if s := open(t, m.log, m.state, consensus.Limits{}).core.Status(); s.Commit != 6 || s.Term != 6 {
		t.Errorf("opened with %+v", s)
	}
}

// TestFenceOfAnotherMember: what another member asks for is answered by a round of the leader that
// begins after it asked, and not at all by one that has lost its term.
func TestFenceOfAnotherMember(t *testing.T) {
	m := three(t)
	term := m.elect()
	asked := func() {
		m.step(2, &raftpb.Message{Type: raftpb.MsgReadIndex.Enum(), Entries: []*raftpb.Entry{{Data: []byte("asked")}}})
	}
	beat := func() *raftpb.Message {
		t.Helper()
		beats := m.take(raftpb.MsgHeartbeat)
		if len(beats) != 2 {
			t.Fatalf("a round of %d heartbeats", len(beats))
		}
		return &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Term: new(term), Context: beats[0].Context}
	}
	m.core.Fence(1)
	m.run()
	first := beat()
	asked()
	if len(m.take(raftpb.MsgHeartbeat)) > 0 {
		t.Error("the other member has a round of its own")
	}
	m.step(3, first)
	if !slices.ContainsFunc(m.events, func(e consensus.Event) bool { return e.Kind == consensus.Fenced && e.Tag == 1 && e.Err == nil }) {
		t.Fatalf("the first round served nobody: %v", m.events)
	}
	sent := slices.Clone(m.sent)
	second := beat()
	if slices.ContainsFunc(sent, func(one consensus.Message) bool { return one.Raft.GetType() == raftpb.MsgReadIndexResp }) {
		t.Error("the other member was answered by a round that began before it asked")
	}
	m.step(3, second)
	answers := m.take(raftpb.MsgReadIndexResp)
	if len(answers) != 1 || answers[0].GetTo() != 2 || answers[0].GetTerm() != term || answers[0].GetIndex() != m.core.Status().Commit || string(answers[0].GetEntries()[0].GetData()) != "asked" {
		t.Fatalf("answered %v", answers)
	}
	asked()
	m.step(3, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(term + 1)})
	m.ticks(5, 0)
	passedOn := m.take(raftpb.MsgReadIndex)
	if len(passedOn) != 1 {
		t.Fatalf("the round goes on with %v", passedOn)
	}
	m.step(3, &raftpb.Message{Type: raftpb.MsgReadIndexResp.Enum(), Term: new(term + 1), Index: new(uint64(1)), Entries: passedOn[0].Entries})
	if answers := m.take(raftpb.MsgReadIndexResp); len(answers) > 0 {
		t.Errorf("a node that has lost its term answered %v", answers)
	}
	asked()
	if passedOn := m.take(raftpb.MsgReadIndex); len(passedOn) > 0 {
		t.Errorf("a node that does not lead passes on what another one asked for: %v", passedOn)
	}
}

// TestFenceOfAFormerStart answers a fence with what another start had asked for.
func TestFenceOfAFormerStart(t *testing.T) {
	m := three(t)
	m.step(2, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(uint64(6)), Commit: new(uint64(5))})
	m.core.Fence(42)
	m.run()
	asked := m.take(raftpb.MsgReadIndex)
	if len(asked) != 1 {
		t.Fatalf("asked %d times", len(asked))
	}
	answer := func(context []byte) bool {
		m.events = nil
		m.step(2, &raftpb.Message{
			Type: raftpb.MsgReadIndexResp.Enum(), Term: new(uint64(6)), Index: new(uint64(5)), Entries: []*raftpb.Entry{{Data: context}},
		})
		return slices.ContainsFunc(m.events, func(e consensus.Event) bool { return e.Kind == consensus.Fenced && e.Tag == 42 && e.Err == nil })
	}
	context := asked[0].GetEntries()[0].GetData()
	former := slices.Clone(context)
	binary.BigEndian.PutUint64(former, 6)
	if answer(former) {
		t.Error("an answer to a former start was taken")
	}
	m.ticks(5, 0)
	again := m.take(raftpb.MsgReadIndex)
	if len(again) != 1 || slices.Equal(again[0].GetEntries()[0].GetData(), context) {
		t.Errorf("the repetition has no context of its own: %v", again)
	}
	if !answer(context) {
		t.Error("the answer was not taken")
	}
	m.core.Fence(43)
	m.events = nil
	m.ticks(100, 0)
	if !slices.ContainsFunc(m.events, func(e consensus.Event) bool { return e.Tag == 43 && errors.Is(e.Err, consensus.ErrNoQuorum) }) {
		t.Error("a fence without a leader does not end")
	}
}

func TestPrepare(t *testing.T) {
	filled := func(base consensus.Position, terms ...uint64) *simtest.Log {
		log := &simtest.Log{}
		r := consensus.Record{Cut: base}
		for i, term := range terms {
			r.Entries = append(r.Entries, &raftpb.Entry{Index: new(base.Index + uint64(i) + 1), Term: new(term)})
			r.HardState = &raftpb.HardState{Term: new(term)}
		}
		if _, err := log.Append(r); err != nil {
			t.Fatal(err)
		}
		return log
	}
	for _, c := range []struct {
		name        string
		state       consensus.Applied
		first, last uint64
		err         error
	}{
		{"in line", at(11, 6), 11, 12, nil},
		{"at the log's base", at(10, 5), 11, 12, nil},
		{"behind the log", at(9, 5), 11, 12, consensus.ErrStateBehind},
		{"ahead of the log", at(20, 7), 21, 20, nil},
		{"another history", at(12, 8), 13, 12, nil},
	} {
		log := filled(consensus.Position{Index: 10, Term: 5}, 6, 7)
		err := consensus.Prepare(log, c.state)
		first, _ := log.FirstIndex()
		last, _ := log.LastIndex()
		if !errors.Is(err, c.err) || first != c.first || last != c.last {
			t.Errorf("%s: got %d to %d, %v; want %d to %d, %v", c.name, first, last, err, c.first, c.last, c.err)
		}
	}
	if _, err := consensus.New(consensus.Options{ID: 1, Log: &simtest.Log{}, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("an empty disk was opened as if it were new")
	}
}

// TestActiveMembers: a member that answers every heartbeat is active at all times, although raft
// forgets that whenever it checks the quorum. One that answers no more is not, soon.
func TestActiveMembers(t *testing.T) {
	m := three(t)
	term := m.elect()
	active := func(id uint64) bool {
		return slices.ContainsFunc(m.core.Status().Progress, func(p consensus.Progress) bool { return p.ID == id && p.Active })
	}
	for n := range 60 {
		m.ticks(1, 0)
		if n > 20 && (!active(2) || active(3)) {
			t.Fatalf("after %d ticks: member 2, which answers, is active: %v; member 3, which does not: %v", n, active(2), active(3))
		}
		for _, heartbeat := range m.take(raftpb.MsgHeartbeat) {
			if heartbeat.GetTo() == 2 {
				m.step(2, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Term: new(term)})
			}
		}
	}
}

// TestVoterIsALearnerFirst: a node that was removed is not made a voter by a leader that still takes
// it for a learner. It would count for the majority, and nobody could reach it.
func TestVoterIsALearnerFirst(t *testing.T) {
	m := three(t)
	term := m.elect()
	change := func(kind raftpb.ConfChangeType) error {
		err := m.core.ChangeMembers(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: kind.Enum(), NodeId: new(uint64(4))}}})
		m.run()
		m.acknowledge(2, term)
		return err
	}
	for _, step := range []struct {
		kind raftpb.ConfChangeType
		want error
	}{
		{raftpb.ConfChangeAddNode, consensus.ErrNoLearner},
		{raftpb.ConfChangeAddLearnerNode, nil},
		{raftpb.ConfChangeRemoveNode, nil},
		{raftpb.ConfChangeAddNode, consensus.ErrNoLearner},
		{raftpb.ConfChangeAddLearnerNode, nil},
		{raftpb.ConfChangeAddNode, nil},
	} {
		if err := change(step.kind); !errors.Is(err, step.want) {
			t.Errorf("%v: %v, want %v", step.kind, err, step.want)
		}
	}
	if voters := m.core.Status().Applied.Conf.GetVoters(); !slices.Equal(voters, []uint64{1, 2, 3, 4}) {
		t.Errorf("the voters are %v", voters)
	}
}
