package verify

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// mlsReplay is what the replay of a group knows of its MLS group.
type mlsReplay struct {
	commits []acceptedCommit
	// removed has the commit that last removed each agent.
	removed map[parley.AgentID]*group.Committed
}

// acceptedCommit is a commit and the agent that committed.
type acceptedCommit struct {
	*group.Committed
	by parley.AgentID
}

// committed records a commit, after it was folded. Members that it removes are still there;
// abandoned are the leaves that awaited their removal before it.
func (g *groupReplay) committed(e *group.Committed, abandoned []*group.Leaf) {
	s := g.state
	c := acceptedCommit{Committed: e}
	if m := sitting(g.state, e.GetBy()); m != nil {
		c.by = m.Agent
	}
	g.mls.commits = append(g.mls.commits, c)
	if g.mls.removed == nil {
		g.mls.removed = map[parley.AgentID]*group.Committed{}
	}
	last := map[uint32]parley.AgentID{}
	for _, l := range abandoned {
		last[l.GetSeat()] = parley.IDFromBytes[parley.AgentID](l.GetAgent())
	}
	leaving := 0
	for _, seat := range e.GetRemoved() {
		if m := sitting(g.state, seat); m != nil {
			last[seat] = m.Agent
			leaving++
		}
		g.mls.removed[last[seat]] = e
	}
	g.mlsNews(record.MLSCommitted, record.Everybody(s))
	for _, seat := range e.GetAdded() {
		if m := sitting(g.state, seat); m != nil && len(e.GetWelcome()) > 0 {
			g.mlsNews(record.MLSWelcomed, []parley.Seat{{Agent: m.Agent}})
		}
	}
	if e.GetEpoch() == 0 && s.AwaitingLeaf() > leaving {
		g.mlsNews(record.MLSAdmission, record.WithLeaf(s))
	}
}

// mlsNews expects an event of the MLS group in the feeds of some members.
func (g *groupReplay) mlsNews(kind byte, to []parley.Seat) {
	for _, seat := range to {
		g.expect(groupNews, seat.Agent[:], g.id[:], record.MLSNote(kind, g.state.Epoch))
	}
}

// abandons expects the news of a leaf that is left behind, before its member leaves.
func (g *groupReplay) abandons(m *group.Member) {
	if !m.Leaf {
		return
	}
	for _, seat := range record.WithLeaf(g.state) {
		if seat.Agent != m.Agent {
			g.mlsNews(record.MLSRemoval, []parley.Seat{seat})
		}
	}
}

// finishMLS expects the rows of the MLS group. They are deleted with the group.
func (g *groupReplay) finishMLS() {
	if g.state.Deleted() || len(g.mls.commits) == 0 {
		return
	}
	for _, c := range g.mls.commits {
		key := record.MLSEpochKey(g.id, c.GetEpoch())
		g.expect(mlsCommitRows, key, c.by[:], c.GetCommit(), big(uint64(c.GetAtMs())))
		g.welcome(key, c)
	}
	newest := g.mls.commits[len(g.mls.commits)-1]
	g.expect(mlsGroupInfoRows, g.id[:], big(g.state.Epoch), newest.GetGroupInfo())
	for agent, e := range g.mls.removed {
		g.expect(mlsRemovalRows, g.id[:], agent[:], big(e.GetEpoch()), big(uint64(e.GetAtMs())))
	}
}

// welcome compares the Welcome of a commit with the commit, if it is still there.
func (g *groupReplay) welcome(key []byte, c acceptedCommit) {
	value, found := g.row(g.stream.Slot(), journal.MLSWelcomeTable, key)
	if w := (&record.MLSWelcome{}); found && (row{g.verifier, g.stream.Slot(), journal.MLSWelcomeTable, key, value}).decode(w) {
		digest := sha256.Sum256(w.GetWelcome())
		g.must(groupHistory, bytes.Equal(digest[:], c.GetWelcome()), "the Welcome of epoch %d is another than came with the commit", c.GetEpoch())
	}
}

// unlawfulCommit returns why a commit cannot follow the events before it, "" if it can.
func (g *groupReplay) unlawfulCommit(e *group.Committed) string {
	s, by := g.state, sitting(g.state, e.GetBy())
	switch {
	case e.GetEpoch() != s.Epoch:
		return fmt.Sprintf("a commit of epoch %d in epoch %d", e.GetEpoch(), s.Epoch)
	case by == nil || s.Epoch == 0 && by.Role != group.Admin:
		return fmt.Sprintf("a commit from seat %d, which may not commit", e.GetBy())
	case s.Epoch > 0 && e.GetCipherSuite() != uint32(s.Suite):
		return "its cipher suite changes"
	}
	for _, seat := range e.GetAdded() {
		if m := sitting(s, seat); m == nil || m.Leaf {
			return fmt.Sprintf("it adds seat %d, which does not await a leaf", seat)
		}
	}
	for _, seat := range e.GetRemoved() {
		left := slices.ContainsFunc(s.Abandoned(), func(l *group.Leaf) bool { return l.GetSeat() == seat })
		if !left && sitting(s, seat) == nil {
			return fmt.Sprintf("it removes seat %d, which has no leaf", seat)
		}
	}
	return ""
}

func (r row) mlsCommit() {
	if c := (&record.MLSCommit{}); r.decode(c) {
		digest := sha256.Sum256(c.GetCommit())
		r.find(mlsCommitRows, r.key, c.GetCommittedBy(), digest[:], big(uint64(c.GetCreatedMs())))
	}
}

func (r row) mlsGroupInfo() {
	if i := (&record.MLSGroupInfo{}); r.decode(i) {
		digest := sha256.Sum256(i.GetGroupInfo())
		r.find(mlsGroupInfoRows, r.key, big(i.GetEpoch()), digest[:])
	}
}

// mlsMember checks the row that counts who awaits the Welcome of an epoch, or the row of an
// agent.
func (r row) mlsMember() {
	m := &record.MLSMember{}
	switch {
	case len(r.key) == 24 && len(r.value) == 4:
		set := r.multisets[mlsWelcomeCounts]
		set.Expect(spread([][]byte{r.key}), uint64(record.MLSCountOf(r.value)), r.key)
		r.expect(mlsWelcomeRows, r.key)
	case len(r.key) != 32:
		r.unknown()
	case r.decode(m):
		for _, epoch := range m.GetWelcomes() {
			r.find(mlsWelcomeCounts, r.key[:16], big(epoch))
		}
		if m.GetRemovedMs() != 0 {
			r.find(mlsRemovalRows, r.key, big(m.GetRemovedIn()), big(uint64(m.GetRemovedMs())))
		}
	}
}
