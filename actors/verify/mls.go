package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"parley"
	"parley/actors/group"
	"parley/actors/record"
	"parley/journal"
	"parley/journal/report"
)

// mlsMultisets are the checks of the rows of MLS groups.
type mlsMultisets struct {
	commits, infos, removals, awaited, welcomes *report.Multiset
}

func openMLS(open opener) mlsMultisets {
	return mlsMultisets{
		commits:  open("mls-commit-rows", "each commit of an MLS group can be read, as it was accepted", "members that were away cannot take the commit, or take another one", "a commit that the group did not accept", epochMember),
		infos:    open("mls-group-info-rows", "the GroupInfo of each MLS group is that of its epoch", "nobody can join the MLS group by it", "a GroupInfo that the group did not accept", idAt("group")),
		removals: open("mls-removal-rows", "the row of an agent names the commit that last removed it", "the agent does not see the commit that removed it", "no commit removed the agent then", idsAt("group", "agent")),
		awaited:  open("mls-welcome-counts", "as many agents await a Welcome as are counted", "a Welcome is kept for an agent that does not await it", "the Welcome is dropped before the agent has it", epochMember),
		welcomes: open("mls-welcome-rows", "each Welcome that agents await can be read, and no other is there", "an agent awaits a Welcome that cannot be read", "nobody awaits the Welcome", epochMember),
	}
}

func epochMember(m []byte) string {
	return fmt.Sprintf("group %s, epoch %d", idText(m), binary.BigEndian.Uint64(m[16:24]))
}

// mlsReplay is what the replay of a group knows of its MLS group.
type mlsReplay struct {
	commits []acceptedCommit
	info    []byte
	// removed has the commit that last removed each agent.
	removed map[parley.AgentID]*group.Committed
}

// acceptedCommit is what a commit's rows must have.
type acceptedCommit struct {
	epoch           uint64
	by              parley.AgentID
	digest, welcome []byte
	atMs            int64
}

// committed records a commit, after it was folded. Members that it removes are still there.
func (g *groupReplay) committed(e *group.Committed, abandoned []*group.Leaf) {
	s := g.state
	by := parley.AgentID{}
	if m := g.sitting(e.GetBy()); m != nil {
		by = m.Agent
	}
	g.mls.commits = append(g.mls.commits, acceptedCommit{e.GetEpoch(), by, e.GetCommit(), e.GetWelcome(), e.GetAtMs()})
	g.mls.info = e.GetGroupInfo()
	if g.mls.removed == nil {
		g.mls.removed = map[parley.AgentID]*group.Committed{}
	}
	last := map[uint32]parley.AgentID{}
	for _, l := range abandoned {
		last[l.GetSeat()] = parley.IDFromBytes[parley.AgentID](l.GetAgent())
	}
	leaving := 0
	for _, seat := range e.GetRemoved() {
		if m := g.sitting(seat); m != nil {
			last[seat] = m.Agent
			leaving++
		}
		g.mls.removed[last[seat]] = e
	}
	g.mlsNews(record.MLSCommitted, record.Everybody(s))
	if len(e.GetWelcome()) > 0 {
		for _, seat := range e.GetAdded() {
			if m := g.sitting(seat); m != nil {
				g.mlsNews(record.MLSWelcomed, []parley.Seat{{Agent: m.Agent}})
			}
		}
	}
	if e.GetEpoch() == 0 && s.AwaitingLeaf() > leaving {
		g.mlsNews(record.MLSAdmission, record.WithLeaf(s))
	}
}

// mlsNews expects an event of the MLS group in the feeds of some members.
func (g *groupReplay) mlsNews(kind byte, to []parley.Seat) {
	for _, seat := range to {
		g.x.notices.Expect(seat.Agent.Slot(), 1, seat.Agent[:], g.id[:], record.MLSNote(kind, g.state.Epoch))
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

// endMLS expects the rows of the MLS group. They are deleted with the group.
func (g *groupReplay) endMLS() error {
	x, slot := g.x, g.stream.Slot()
	if g.state.Deleted() || len(g.mls.commits) == 0 {
		return nil
	}
	for _, c := range g.mls.commits {
		key := record.MLSEpochKey(g.id, c.epoch)
		x.commits.Expect(slot, 1, key, c.by[:], c.digest, record.MLSEpochKey(g.id, uint64(c.atMs)))
		if err := g.welcome(key, c); err != nil {
			return err
		}
	}
	x.infos.Expect(slot, 1, g.id[:], record.MLSEpochKey(g.id, g.state.Epoch), g.mls.info)
	for agent, e := range g.mls.removed {
		x.removals.Expect(slot, 1, g.id[:], agent[:], record.MLSEpochKey(g.id, e.GetEpoch()), record.MLSEpochKey(g.id, uint64(e.GetAtMs())))
	}
	return nil
}

// welcome compares the Welcome of a commit with the commit, if it is still there.
func (g *groupReplay) welcome(key []byte, c acceptedCommit) error {
	row, found, err := g.x.Row(g.stream.Slot(), journal.MLSWelcomeTable, key)
	if err != nil || !found {
		return err
	}
	w := &record.MLSWelcome{}
	if err := w.UnmarshalVT(row); err != nil {
		return err
	}
	g.x.groupLaw.Checked++
	if digest := sha256.Sum256(w.GetWelcome()); !bytes.Equal(digest[:], c.welcome) {
		g.x.groupLaw.Fault(record.StreamName(g.stream), "the Welcome of epoch %d is another than came with the commit", c.epoch)
	}
	return nil
}

// unlawfulCommit returns why a commit cannot follow the events before it, "" if it can.
func (g *groupReplay) unlawfulCommit(e *group.Committed) string {
	s := g.state
	by := g.sitting(e.GetBy())
	switch {
	case e.GetEpoch() != s.Epoch:
		return fmt.Sprintf("a commit of epoch %d in epoch %d", e.GetEpoch(), s.Epoch)
	case by == nil || s.Epoch == 0 && by.Role != group.Admin:
		return fmt.Sprintf("a commit from seat %d, which may not commit", e.GetBy())
	case s.Epoch > 0 && e.GetCipherSuite() != uint32(s.Suite):
		return "its cipher suite changes"
	}
	for _, seat := range e.GetAdded() {
		if m := g.sitting(seat); m == nil || m.Leaf {
			return fmt.Sprintf("it adds seat %d, which does not await a leaf", seat)
		}
	}
	left := map[uint32]bool{}
	for _, l := range s.Abandoned() {
		left[l.GetSeat()] = true
	}
	for _, seat := range e.GetRemoved() {
		if !left[seat] && g.sitting(seat) == nil {
			return fmt.Sprintf("it removes seat %d, which has no leaf", seat)
		}
	}
	return ""
}

// mlsRow checks a row of an MLS group.
func (x *verifier) mlsRow(slot parley.Slot, table journal.Table, key, value []byte) error {
	switch {
	case table == journal.MLSCommitTable && len(key) == 24:
		c := &record.MLSCommit{}
		if err := c.UnmarshalVT(value); err != nil {
			return err
		}
		digest, id := sha256.Sum256(c.GetCommit()), parley.IDFromBytes[parley.GroupID](key[:16])
		x.commits.Find(slot, 1, key, c.GetCommittedBy(), digest[:], record.MLSEpochKey(id, uint64(c.GetCreatedMs())))
	case table == journal.MLSGroupInfoTable && len(key) == 16:
		i := &record.MLSGroupInfo{}
		if err := i.UnmarshalVT(value); err != nil {
			return err
		}
		digest, id := sha256.Sum256(i.GetGroupInfo()), parley.IDFromBytes[parley.GroupID](key)
		x.infos.Find(slot, 1, key, record.MLSEpochKey(id, i.GetEpoch()), digest[:])
	case table == journal.MLSWelcomeTable && len(key) == 24:
		x.welcomes.Find(slot, 1, key)
	case table == journal.MLSMemberTable && len(key) == 24 && len(value) == 4:
		x.awaited.Expect(slot, uint64(record.MLSCountOf(value)), key)
		x.welcomes.Expect(slot, 1, key)
	case table == journal.MLSMemberTable && len(key) == 32:
		return x.mlsMemberRow(slot, key, value)
	default:
		x.tables.Fault(fmt.Sprintf("table %d, key %x", table, key), "nobody reads such rows")
	}
	return nil
}

func (x *verifier) mlsMemberRow(slot parley.Slot, key, value []byte) error {
	m, id := &record.MLSMember{}, parley.IDFromBytes[parley.GroupID](key[:16])
	if err := m.UnmarshalVT(value); err != nil {
		return err
	}
	for _, epoch := range m.GetWelcomes() {
		x.awaited.Find(slot, 1, record.MLSEpochKey(id, epoch))
	}
	if m.GetRemovedMs() != 0 {
		x.removals.Find(slot, 1, key, record.MLSEpochKey(id, m.GetRemovedIn()), record.MLSEpochKey(id, uint64(m.GetRemovedMs())))
	}
	return nil
}
