package consensus_test

import (
	"errors"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/simtest"
)

// place is an entry of an index and a term.
func place(index, term uint64, sum uint32) consensus.Place {
	return consensus.Place{Position: consensus.Position{Index: index, Term: term}, Sum: sum}
}

// TestKnownIsMerged: the newer standing of a member wins, and one that has diverged stays so.
func TestKnownIsMerged(t *testing.T) {
	var k consensus.Known
	for _, step := range []struct {
		add  consensus.Standing
		news bool
		want consensus.Standing
	}{
		{consensus.Standing{ID: 2, Place: place(7, 3, 9)}, true, consensus.Standing{ID: 2, Place: place(7, 3, 9)}},
		{consensus.Standing{ID: 2, Place: place(6, 4, 1)}, false, consensus.Standing{ID: 2, Place: place(7, 3, 9)}},
		{consensus.Standing{ID: 2, Diverged: true}, true, consensus.Standing{ID: 2, Place: place(7, 3, 9), Diverged: true}},
		{consensus.Standing{ID: 2, Place: place(8, 4, 0)}, true, consensus.Standing{ID: 2, Place: place(8, 4, 0), Diverged: true}},
		{consensus.Standing{ID: 1, Place: place(1<<60, 1<<40, 1<<31)}, true, consensus.Standing{ID: 1, Place: place(1<<60, 1<<40, 1<<31)}},
	} {
		before, news := slices.Clone(k), false
		was := k
		if k, news = k.With(step.add); news != step.news || k.Of(step.add.ID) != step.want {
			t.Errorf("with %+v: %+v, new %v", step.add, k, news)
		}
		if !slices.Equal(was, before) {
			t.Error("what was known before has changed")
		}
	}
	encoded := k.Append(nil)
	if again, err := consensus.DecodeKnown(encoded); err != nil || !slices.Equal(again, k) {
		t.Errorf("decoded as %+v, %v", again, err)
	}
	for n := 1; n < len(encoded); n++ {
		if again, err := consensus.DecodeKnown(encoded[:n]); err == nil && len(again) == len(k) {
			t.Errorf("%d of %d bytes are decoded as %+v", n, len(encoded), again)
		}
	}
}

// follower is a member that follows node 2 in term 6, and has applied what that committed.
func follower(t *testing.T, payloads ...[]byte) (*member, []*raftpb.Entry) {
	t.Helper()
	leader := three(t)
	term := leader.elect()
	for i := range payloads {
		if err := leader.core.Propose(term, payloads[i], uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		leader.run()
	}
	last, _ := leader.log.LastIndex()
	entries, err := leader.log.Entries(6, last+1, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	m := three(t)
	m.step(2, &raftpb.Message{
		Type: raftpb.MsgApp.Enum(), Term: new(term), Index: new(uint64(5)), LogTerm: new(uint64(5)), Entries: entries, Commit: new(last),
	})
	if at := m.state.Applied(); at.Index != last || at.Term != 6 {
		t.Fatalf("applied %+v of %d entries: the test proves nothing", at, last)
	}
	return m, entries
}

func change(tag, after uint64) []byte { return simtest.Change{Tag: tag, After: after}.Encode() }

// TestFollowerHasDiverged: a leader that has other entries than a follower in the place of
// committed ones comes from an older copy. The follower stops, and its log stays as it is. One
// that has the same goes on.
func TestFollowerHasDiverged(t *testing.T) {
	_, others := follower(t, change(1, 0), change(3, 1)) // of the same term, as a second leader of it may have
	append7 := func(prev, logTerm uint64, entries ...*raftpb.Entry) consensus.Message {
		return consensus.Message{Raft: &raftpb.Message{
			Type: raftpb.MsgApp.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(uint64(7)), Index: new(prev), LogTerm: new(logTerm), Entries: entries,
		}}
	}
	beat := func(k ...consensus.Standing) consensus.Message {
		return consensus.Message{Known: k, Raft: &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(uint64(7))}}
	}
	empty7 := &raftpb.Entry{Index: new(uint64(7)), Term: new(uint64(7))}
	_, same := follower(t, change(1, 0), change(2, 1))
	for name, c := range map[string]struct {
		message  consensus.Message
		diverged bool
	}{
		"the same entries again":                  {append7(5, 5, same...), false},
		"a later entry":                           {append7(8, 6, &raftpb.Entry{Index: new(uint64(9)), Term: new(uint64(7))}), false},
		"another term before a later entry":       {append7(8, 5, &raftpb.Entry{Index: new(uint64(9)), Term: new(uint64(7))}), true},
		"an entry of another term":                {append7(6, 6, empty7), true},
		"an entry of the same term":               {append7(5, 5, others...), true},
		"a heartbeat of one who has the same":     {beat(consensus.Standing{ID: 3, Place: place(8, 6, 0)}), false},
		"a heartbeat of one who has another term": {beat(consensus.Standing{ID: 3, Place: place(8, 7, 0)}), true},
		"a heartbeat of one who has another sum":  {beat(consensus.Standing{ID: 3, Place: place(8, 6, 1)}), true},
		"a heartbeat that says so":                {beat(consensus.Standing{ID: 1, Diverged: true}), true},
		"a heartbeat that says so of another":     {beat(consensus.Standing{ID: 2, Diverged: true}), false},
	} {
		m, _ := follower(t, change(1, 0), change(2, 1))
		m.core.Step(c.message)
		_, err := m.core.Ready()
		if errors.Is(err, consensus.ErrDiverged) != c.diverged {
			t.Errorf("%s: %v", name, err)
		}
		if last, _ := m.log.LastIndex(); last != 8 {
			t.Errorf("%s: the log ends at %d", name, last)
		}
	}
}

// TestLeaderIsExceeded: a member that says it holds more than its leader has diverged. Raft must
// not count what it says, and the leader tells all others.
func TestLeaderIsExceeded(t *testing.T) {
	m := three(t)
	term := m.elect()
	last, _ := m.log.LastIndex()
	for _, beyond := range []bool{false, true} {
		index := last
		if beyond {
			index += 5
		}
		m.step(3, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: new(term), Index: new(index)})
		if got := m.core.Known().Of(3).Diverged; got != beyond {
			t.Errorf("after an answer with %d, the last entry being %d, it has diverged: %v", index, last, got)
		}
	}
	for _, p := range m.core.Status().Progress {
		if p.Match > last {
			t.Errorf("node %d counts with %d of %d entries", p.ID, p.Match, last)
		}
	}
	m.sent = nil
	m.ticks(3, 0)
	told := slices.ContainsFunc(m.sent, func(s consensus.Message) bool { return s.Raft.GetTo() == 3 && s.Known.Of(3).Diverged })
	if !told {
		t.Error("it is not told")
	}
}

// TestKnownIsStored: what a node knows goes with the records that it writes. When nothing else is
// written, the next tick writes it, once.
func TestKnownIsStored(t *testing.T) {
	m := three(t)
	term := m.elect()
	m.ticks(3, 0)
	if err := m.core.Propose(term, change(1, 0), 1); err != nil {
		t.Fatal(err)
	}
	m.run()
	m.acknowledge(2, term)
	last, _ := m.log.LastIndex()
	records := m.records
	for range 4 {
		m.ticks(2, 0)
		m.acknowledge(2, term) // or else the leader steps down
	}
	known, _ := m.log.Known()
	for id, want := range map[uint64]uint64{1: last, 2: last, 3: 0} {
		if got := known.Of(id); got.Index != want {
			t.Errorf("node %d is known to have %d of %d entries", id, got.Index, want)
		}
	}
	if known.Of(1).Sum == 0 || known.Of(1) != (consensus.Standing{ID: 1, Place: known.Of(2).Place}) {
		t.Errorf("the standings are %+v", known)
	}
	if m.records != records+1 {
		t.Errorf("%d records were written", m.records-records)
	}
	if again := open(t, m.log, m.state, consensus.Limits{}); !slices.Equal(again.core.Known(), known) {
		t.Errorf("after a start it knows %+v", again.core.Known())
	}
}

// TestJudge: what another member says decides whether a node that starts may take part.
func TestJudge(t *testing.T) {
	m, _ := follower(t, change(1, 0), change(2, 1)) // entries 6 to 8 of term 6
	self := m.core.Known().Of(1)
	m.core.Tick(0)
	if self = m.core.Known().Of(1); self.Index != 8 || self.Sum == 0 {
		t.Fatalf("its standing is %+v", self)
	}
	you := func(p consensus.Place) consensus.Claim {
		return consensus.Claim{Member: true, You: consensus.Standing{ID: 1, Place: p}}
	}
	for name, c := range map[string]struct {
		claim consensus.Claim
		want  error
	}{
		"it knows nothing":                     {consensus.Claim{Member: true}, nil},
		"it knows less":                        {you(place(7, 6, 0)), nil},
		"it knows the same":                    {you(self.Place), nil},
		"it knows of more":                     {you(place(9, 6, 1)), consensus.ErrOlderCopy},
		"and does not know the node":           {consensus.Claim{You: consensus.Standing{Place: place(9, 6, 1)}}, consensus.ErrOlderCopy},
		"it knows of another entry":            {you(place(8, 6, self.Sum+1)), consensus.ErrDiverged},
		"it knows that the node has diverged":  {consensus.Claim{You: consensus.Standing{Diverged: true}}, consensus.ErrDiverged},
		"it lags":                              {consensus.Claim{Member: true, Newest: place(7, 6, 0)}, nil},
		"it has gone on":                       {consensus.Claim{Member: true, Newest: place(90, 7, 0), Yours: self.Place}, nil},
		"it has gone on from before":           {consensus.Claim{Member: true, Newest: place(90, 7, 0), Yours: place(8, 7, 0)}, consensus.ErrDiverged},
		"it has less, and another entry there": {consensus.Claim{Member: true, Newest: place(7, 7, 0)}, consensus.ErrDiverged},
		"the same from a cluster of before":    {consensus.Claim{Newest: place(7, 7, 0)}, nil},
	} {
		if err := consensus.Judge(m.log, self, c.claim); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
