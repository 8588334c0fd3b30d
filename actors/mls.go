package actors

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// MLSCommit is a commit of a group's MLS group, with its bytes. CommitMLS computes the
// digests of group.Commit.
type MLSCommit struct {
	group.Commit
	// Message is the MLSMessage with the commit, GroupInfo that with the GroupInfo of the
	// next epoch, Welcome that with the Welcome, empty for none.
	Message, GroupInfo, Welcome []byte
}

// MLSCommitted is an accepted commit.
type MLSCommitted struct {
	// Epoch is the epoch that the commit began.
	Epoch uint64
	// Repeated: the commit was accepted before.
	Repeated bool
}

// committedKept bounds the commits that a group's actor keeps in memory.
const committedKept = 1024

// acceptedCommit is what a repeat of a commit is compared with.
type acceptedCommit struct {
	by     parley.AgentID
	digest [sha256.Size]byte
}

// CommitMLS begins the next epoch of a group's MLS group. It returns when the records of
// the agents that it removed agree, or when the wait times out.
func (gs *Groups) CommitMLS(ctx context.Context, id parley.GroupID, c MLSCommit) (MLSCommitted, error) {
	digest, info := sha256.Sum256(c.Message), sha256.Sum256(c.GroupInfo)
	c.Commit.Commit, c.Commit.GroupInfo, c.Commit.Welcome = digest[:], info[:], nil
	if len(c.Welcome) > 0 {
		welcome := sha256.Sum256(c.Welcome)
		c.Commit.Welcome = welcome[:]
	}
	return askGroup[MLSCommitted](ctx, gs, id, len(c.Message)+len(c.GroupInfo)+len(c.Welcome), c)
}

// commitMLS decides a commit. Commit, GroupInfo and Welcome are stored in the same entry
// as the event.
func (gs *Groups) commitMLS(t *groupTurn, c MLSCommit) (any, error) {
	t.State.setSeatLimit(c.SeatLimit)
	if t.Idle() {
		t.State.committed = nil // they can be read
	}
	if c.Epoch < t.State.Epoch {
		accepted, found, err := acceptedIn(t, c.Epoch)
		if err != nil {
			return nil, err
		}
		c.Repeated = found && accepted == acceptedCommit{c.By, [sha256.Size]byte(c.Commit.Commit)}
	}
	err := gs.decideWith(t, c.Commit, &c)
	switch {
	case errors.Is(err, group.ErrCommitRepeated):
		return MLSCommitted{Epoch: c.Epoch + 1, Repeated: true}, nil
	case err != nil:
		return nil, err
	}
	if t.State.committed == nil {
		t.State.committed = map[uint64]acceptedCommit{}
	}
	t.State.committed[c.Epoch] = acceptedCommit{c.By, [sha256.Size]byte(c.Commit.Commit)}
	delete(t.State.committed, c.Epoch-committedKept)
	var gone []parley.AgentID
	for _, agent := range c.Removed {
		if _, member := t.State.Member(agent); !member {
			gone = append(gone, agent)
		}
	}
	return gs.settled(t.State.ID, offeredIn(t.Events), gone, MLSCommitted{Epoch: t.State.Epoch}), nil
}

// acceptedIn returns the commit that was accepted in an epoch.
func acceptedIn(t *groupTurn, epoch uint64) (c acceptedCommit, found bool, err error) {
	if c, found = t.State.committed[epoch]; found {
		return c, true, nil
	}
	row, found, err := t.Row(journal.MLSCommitTable, record.MLSEpochKey(t.State.ID, epoch))
	if err != nil || !found {
		return c, false, err
	}
	stored := &record.MLSCommit{}
	if err := stored.UnmarshalVT(row); err != nil {
		return c, false, err
	}
	return acceptedCommit{stored.By(), sha256.Sum256(stored.GetCommit())}, true, nil
}

// offeredIn returns the seats that events offer to agents.
func offeredIn(events []group.Event) (seats []parley.Seat) {
	for _, e := range events {
		if o, ok := e.(*group.Offered); ok {
			seats = append(seats, parley.Seat{Agent: parley.IDFromBytes[parley.AgentID](o.GetOffer().GetAgent()), Number: o.GetOffer().GetNumber()})
		}
	}
	return seats
}

// announceMLS adds an entry about the MLS group to the feeds of some members.
func announceMLS(t *groupTurn, kind byte, to []parley.Seat) {
	if len(to) > 0 {
		t.AddEffects(journal.Fanout{Kind: journal.GroupEntry, Ref: t.Entry.Stream.ID, Note: record.MLSNote(kind, t.State.Epoch), To: to})
	}
}

// announceCommit tells all members of a commit, those whom it removes too, those whom it
// adds of their Welcome and, if it is the first, those with a leaf of the members that
// have none.
func announceCommit(t *groupTurn, e *group.Committed, leavers []group.Member) {
	all := record.Everybody(t.State.State)
	for _, m := range leavers {
		if _, stays := t.State.Member(m.Agent); !stays {
			all = append(all, parley.Seat{Agent: m.Agent, Number: m.Seat})
		}
	}
	announceMLS(t, record.MLSCommitted, bySeat(all))
	if len(e.GetWelcome()) > 0 {
		var added []parley.Seat
		for _, seat := range e.GetAdded() {
			m := t.State.MembersFrom(seat - 1)[0]
			added = append(added, parley.Seat{Agent: m.Agent, Number: seat})
		}
		announceMLS(t, record.MLSWelcomed, bySeat(added))
	}
	if e.GetEpoch() == 0 && t.State.AwaitingLeaf() > 0 {
		announceMLS(t, record.MLSAdmission, record.WithLeaf(t.State.State))
	}
}

func bySeat(seats []parley.Seat) []parley.Seat {
	slices.SortFunc(seats, func(a, b parley.Seat) int { return cmp.Compare(a.Number, b.Number) })
	return seats
}

// AwaitsMLS reports whether target is a member without a leaf of a group in whose MLS group
// claimer has one.
func (gs *Groups) AwaitsMLS(ctx context.Context, claimer, target parley.AgentID) (bool, error) {
	of, err := gs.agents.Get(ctx, target)
	if err != nil {
		return false, err
	}
	by, err := gs.agents.Get(ctx, claimer)
	if err != nil {
		return false, err
	}
	for _, m := range of.GetGroups() {
		if !by.In(m.GroupID()) {
			continue
		}
		v, err := gs.View(ctx, m.GroupID(), group.GetView{Agents: []parley.AgentID{target, claimer}})
		if err != nil && !parley.IsRefusal(err) || errors.Is(err, parley.ErrOverloaded) {
			return false, err
		}
		if err == nil && v.Agents[0].Seated() && !v.Agents[0].Leaf && v.Agents[1].Leaf && !v.Deleted() {
			return true, nil
		}
	}
	return false, nil
}
