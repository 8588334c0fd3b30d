package consensus_test

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"parley/cluster/consensus"
)

// malformation is a message that a member of three gets in term 6, and whether it is malformed.
type malformation struct {
	kind      raftpb.MessageType
	change    func(m *consensus.Message)
	malformed bool
}

func index(of uint64) func(*consensus.Message) {
	return func(m *consensus.Message) { m.Raft.Index = new(of) }
}

func data(b ...byte) *raftpb.Entry { return &raftpb.Entry{Data: b} }

func entries(all ...*raftpb.Entry) func(*consensus.Message) {
	return func(m *consensus.Message) { m.Raft.Entries = all }
}

// toAnyone are messages that are malformed for leaders and followers.
var toAnyone = map[string]malformation{
	"for another node":           {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft.To = new(uint64(3)) }, true},
	"from the node itself":       {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft.From = new(uint64(1)) }, true},
	"from the disk":              {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft.From = new(^uint64(0)) }, true},
	"no message of raft":         {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft = nil }, true},
	"a negative type":            {-1, nil, true},
	"an unknown type":            {99, nil, true},
	"a proposal":                 {raftpb.MsgProp, entries(data(1)), true},
	"a change of leadership":     {raftpb.MsgTransferLeader, nil, true},
	"a report of the disk":       {raftpb.MsgStorageAppendResp, nil, true},
	"a term that overflows":      {raftpb.MsgVote, func(m *consensus.Message) { m.Raft.Term = new(uint64(1 << 40)) }, true},
	"a term far ahead":           {raftpb.MsgVote, func(m *consensus.Message) { m.Raft.Term = new(uint64(6 + 1<<16 + 1)) }, true},
	"a term of the future":       {raftpb.MsgPreVote, func(m *consensus.Message) { m.Raft.Term = new(uint64(1000)) }, false},
	"a former term":              {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft.Term, m.Raft.Commit = new(uint64(5)), new(uint64(99)) }, false},
	"no term":                    {raftpb.MsgAppResp, func(m *consensus.Message) { m.Raft.Term = nil }, true},
	"an index that overflows":    {raftpb.MsgVote, index(^uint64(0)), true},
	"a floor in an append":       {raftpb.MsgApp, func(m *consensus.Message) { m.Floor = 1 }, true},
	"a floor that overflows":     {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Floor = 1 << 63 }, true},
	"standings in an answer":     {raftpb.MsgAppResp, func(m *consensus.Message) { m.Known = consensus.Known{{ID: 2}} }, true},
	"a standing that overflows":  {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Known = consensus.Known{{ID: 2, Place: place(1<<63, 1, 0)}} }, true},
	"entries in a vote":          {raftpb.MsgVote, entries(data(1)), true},
	"a content that is missing":  {raftpb.MsgSnap, nil, true},
	"a round of three bytes":     {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft.Context = []byte("abc") }, true},
	"an answer with three bytes": {raftpb.MsgHeartbeatResp, func(m *consensus.Message) { m.Raft.Context = []byte("abc") }, true},
	"a fence without a context":  {raftpb.MsgReadIndex, func(m *consensus.Message) { m.Raft.Term = nil }, true},
	"a fence of a term":          {raftpb.MsgReadIndex, entries(data(1)), true},
	"a fence with two contexts":  {raftpb.MsgReadIndex, func(m *consensus.Message) { m.Raft.Term, m.Raft.Entries = nil, []*raftpb.Entry{data(1), data(2)} }, true},
	"a fence":                    {raftpb.MsgReadIndex, func(m *consensus.Message) { m.Raft.Term, m.Raft.Entries = nil, []*raftpb.Entry{data(1)} }, false},
	"an answer to no fence":      {raftpb.MsgReadIndexResp, nil, true},
	"an answer to a fence":       {raftpb.MsgReadIndexResp, entries(data(1)), false},
	"a hint beyond all logs":     {raftpb.MsgAppResp, func(m *consensus.Message) { m.Raft.Reject, m.Raft.RejectHint = new(true), new(^uint64(0)) }, true},
	"a rejection": {raftpb.MsgAppResp, func(m *consensus.Message) {
		m.Raft.Reject, m.Raft.Index, m.Raft.RejectHint = new(true), new(uint64(90)), new(uint64(3))
	}, false},
	"a vote that nobody asked for": {raftpb.MsgVoteResp, nil, false},
}

// message completes a message to node 1.
func (c malformation) message(from uint64) consensus.Message {
	m := consensus.Message{Raft: &raftpb.Message{Type: c.kind.Enum(), From: new(from), To: new(uint64(1)), Term: new(uint64(6))}}
	if c.change != nil {
		c.change(&m)
	}
	return m
}

func (m *member) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (c malformation) check(t *testing.T, name string, m *member, from uint64) {
	t.Helper()
	if err := m.core.Step(c.message(from)); errors.Is(err, consensus.ErrMalformed) != c.malformed {
		t.Errorf("%s: %v", name, err)
	}
	m.run()
	m.ticks(2, 0)
}

// TestMalformedToLeader: a leader takes nothing that is malformed, and goes on.
func TestMalformedToLeader(t *testing.T) {
	cases := map[string]malformation{
		"a round that was never begun": {raftpb.MsgHeartbeatResp, func(m *consensus.Message) { m.Raft.Context = []byte{9, 0, 0, 0, 0, 0, 0, 0} }, true},
		"an answer beyond the log":     {raftpb.MsgAppResp, index(99), false}, // it contradicts
	}
	for name, c := range toAnyone {
		cases[name] = c
	}
	for name, c := range cases {
		m := three(t)
		if term := m.elect(); term != 6 {
			t.Fatalf("it leads in term %d", term)
		}
		c.check(t, name, m, 3)
	}
}

// TestMalformedToFollower: a follower takes nothing that is malformed, and goes on.
func TestMalformedToFollower(t *testing.T) {
	empty := func(index, term uint64) *raftpb.Entry { return &raftpb.Entry{Index: &index, Term: &term} }
	normal := func(change func(e *raftpb.Entry)) func(*consensus.Message) {
		return func(m *consensus.Message) {
			_, all := follower(t, change1(), change2(), change3())
			e := proto.CloneOf(all[len(all)-1]) // at index 9
			if m.Raft.Index, m.Raft.LogTerm = new(uint64(8)), new(uint64(6)); change != nil {
				change(e)
			}
			m.Raft.Entries = []*raftpb.Entry{e}
		}
	}
	after := func(prev, term uint64, all ...*raftpb.Entry) func(*consensus.Message) {
		return func(m *consensus.Message) {
			m.Raft.Index, m.Raft.LogTerm, m.Raft.Entries, m.Raft.Commit = &prev, &term, all, new(uint64(99))
		}
	}
	members := raftpb.EntryConfChangeV2
	remove, _ := proto.Marshal(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(3))}}})
	cases := map[string]malformation{
		"a commit beyond the log":    {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft.Commit = new(uint64(9)) }, false}, // it contradicts
		"a commit of the last entry": {raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft.Commit = new(uint64(8)) }, false},
		"the next proposal":          {raftpb.MsgApp, normal(nil), false},
		"a flipped bit":              {raftpb.MsgApp, normal(func(e *raftpb.Entry) { e.Data[0] ^= 1 }), true},
		"a proposal that is cut off": {raftpb.MsgApp, normal(func(e *raftpb.Entry) { e.Data = e.Data[1:20] }), true},
		"a proposal of another term": {raftpb.MsgApp, func(m *consensus.Message) {
			normal(func(e *raftpb.Entry) { e.Term = new(uint64(7)) })(m)
			m.Raft.Term = new(uint64(7))
		}, true},
		"a proposal that is no change":   {raftpb.MsgApp, normal(func(e *raftpb.Entry) { e.Type = &members }), true},
		"a proposal of an unknown type":  {raftpb.MsgApp, normal(func(e *raftpb.Entry) { e.Type = raftpb.EntryType(7).Enum() }), true},
		"an empty entry":                 {raftpb.MsgApp, after(8, 6, empty(9, 6)), false},
		"a gap":                          {raftpb.MsgApp, after(8, 6, empty(10, 6)), true},
		"a gap between entries":          {raftpb.MsgApp, after(8, 6, empty(9, 6), empty(11, 6)), true},
		"an entry of a later term":       {raftpb.MsgApp, after(8, 6, empty(9, 7)), true},
		"terms that decrease":            {raftpb.MsgApp, after(8, 6, empty(9, 5)), true},
		"a place of a later term":        {raftpb.MsgApp, after(8, 7), true},
		"entries beyond the log":         {raftpb.MsgApp, after(90, 6, empty(91, 6)), false},
		"a change of members":            {raftpb.MsgApp, after(8, 6, &raftpb.Entry{Index: new(uint64(9)), Term: new(uint64(6)), Type: &members, Data: remove}), false},
		"one that leaves no joint one":   {raftpb.MsgApp, after(8, 6, &raftpb.Entry{Index: new(uint64(9)), Term: new(uint64(6)), Type: &members}), true},
		"one that cannot be read":        {raftpb.MsgApp, after(8, 6, &raftpb.Entry{Index: new(uint64(9)), Term: new(uint64(6)), Type: &members, Data: []byte{0xff}}), true},
		"an order to stand for election": {raftpb.MsgTimeoutNow, nil, false},
	}
	for name, c := range toAnyone {
		cases[name] = c
	}
	for name, c := range cases {
		m, _ := follower(t, change1(), change2())
		c.check(t, name, m, 2)
	}
}

func change1() []byte { return change(1, 0) }
func change2() []byte { return change(2, 1) }
func change3() []byte { return change(3, 2) }

// TestChangeBehindUnwritten: a change of members that cannot be made is refused also if the entry
// before it is not in the log yet, or not even taken over from raft.
func TestChangeBehindUnwritten(t *testing.T) {
	for _, run := range []bool{true, false} {
		m, _ := follower(t, change1(), change2())
		step := func(prev uint64, e *raftpb.Entry) error {
			return m.core.Step(malformation{kind: raftpb.MsgApp, change: func(m *consensus.Message) {
				m.Raft.Index, m.Raft.LogTerm, m.Raft.Commit, m.Raft.Entries = new(prev), new(uint64(6)), new(uint64(8)), []*raftpb.Entry{e}
			}}.message(2))
		}
		m.must(step(8, &raftpb.Entry{Index: new(uint64(9)), Term: new(uint64(6))}))
		if run {
			_, err := m.core.Ready() // nothing is written
			m.must(err)
		}
		e := &raftpb.Entry{Index: new(uint64(10)), Term: new(uint64(6)), Type: raftpb.EntryConfChangeV2.Enum()}
		if err := step(9, e); !errors.Is(err, consensus.ErrMalformed) {
			t.Errorf("it is taken: %v", err)
		}
		if e.Data, _ = proto.Marshal(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(3))}}}); step(9, e) != nil {
			t.Error("one that can be made is refused")
		}
	}
}

// TestCommitInOneTurn: a heartbeat may commit what came just before it.
func TestCommitInOneTurn(t *testing.T) {
	m, _ := follower(t, change1(), change2())
	next := func(kind raftpb.MessageType, change func(*consensus.Message)) {
		t.Helper()
		if err := m.core.Step(malformation{kind: kind, change: change}.message(2)); err != nil {
			t.Fatal(err)
		}
	}
	next(raftpb.MsgApp, func(m *consensus.Message) {
		m.Raft.Index, m.Raft.LogTerm = new(uint64(8)), new(uint64(6))
		m.Raft.Entries = []*raftpb.Entry{{Index: new(uint64(9)), Term: new(uint64(6))}}
	})
	next(raftpb.MsgHeartbeat, func(m *consensus.Message) { m.Raft.Commit = new(uint64(9)) })
	if m.run(); m.state.Applied().Index != 9 {
		t.Errorf("applied up to %d", m.state.Applied().Index)
	}
}
