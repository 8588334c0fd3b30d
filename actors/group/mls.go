package group

import (
	"errors"
	"iter"
	"slices"
	"time"

	"parley/client/parley"
)

// The server delivers for an MLS group (RFC 9420): it orders commits, one for each epoch,
// and knows which members have a leaf. The members, not the server, check that a commit
// does what it is said to do.

// RemovalAnswered is how long after a commit removed an agent the removal of the agent is
// answered as done.
const RemovalAnswered = 24 * time.Hour

// Commit begins the next epoch of the MLS group. The first commit, of an admin, begins the
// MLS group itself.
type Commit struct {
	By parley.AgentID
	// Repeated is a lookup: the commit of that epoch is this very one, by the same agent.
	Repeated bool
	// Epoch is the epoch that the commit was made in.
	Epoch uint64
	// External: the committer adds itself, from outside the MLS group.
	External bool
	// Added are members that get a leaf. Removed are agents whose leaves are removed:
	// former members, or members, whose membership ends with their leaf.
	Added, Removed []parley.AgentID
	// Suite is the cipher suite of the MLS group.
	Suite uint16
	// Commit, GroupInfo and Welcome are SHA-256 digests; Welcome is nil if there is none.
	Commit, GroupInfo, Welcome []byte
	SeatLimit                  *int
}

// MLSHeader is what the server reads of an application message of the MLS group.
type MLSHeader struct{ Epoch uint64 }

// ErrCommitRepeated is not a refusal: the commit was accepted before, and its first answer
// is the answer.
var ErrCommitRepeated = errors.New("group: the commit was accepted before")

// Refusals that concern the MLS group.
var (
	// ErrEpochConflict carries current_epoch.
	ErrEpochConflict = parley.Refuse(parley.Conflict, "epoch_conflict", "The MLS group is in another epoch: fetch the commits since yours, and try again.")
	ErrMLSPending    = parley.Refuse(parley.Conflict, "mls_pending", "The acting agent has no leaf in the MLS group yet: it has to be added first.")
	// ErrRemovalPending carries removed.
	ErrRemovalPending = parley.Refuse(parley.Conflict, "mls_removal_pending", "Leaves of former members are still in the MLS group: commit their removal first.")
	ErrCommitRequired = parley.Refuse(parley.Conflict, "mls_commit_required", "The group has an MLS group: commit the member's removal.")
	// ErrKickerRequired carries candidates.
	ErrKickerRequired = parley.Refuse(parley.Conflict, "agent_required", "Name the acting agent: a group with an MLS group removes no member for an organization.")
	ErrMLSMessage     = unprocessable("encrypted_payload", "A broadcast in this group is an MLS private message with the group's id and content type application.")
	ErrNotBegun       = unprocessable("commit", "The group has no MLS group that an external commit could join.")
	ErrCipherSuite    = unprocessable("group_info", "The cipher suite of an MLS group never changes.")
	ErrHasLeaf        = unprocessable("commit", "An external commit is for a member without a leaf.")
	ErrExternal       = unprocessable("added", "An external commit adds its committer alone, without a Welcome, and removes its former leaf if there is one.")
	ErrNoLeaf         = unprocessable("removed", "An agent in removed is no member and has no leaf.")
	ErrCommitterStays = unprocessable("removed", "A commit does not remove its committer: a member leaves, and another removes its leaf.")
	ErrNotAwaiting    = unprocessable("added", "An agent in added is no member that awaits its leaf.")
	ErrFormerLeaf     = unprocessable("added", "An agent in added has a former leaf, which the same commit must remove.")
	ErrWelcome        = unprocessable("welcome", "A commit has a Welcome if it adds members, and only then.")
)

// unprocessable returns the refusal of a member of the body.
func unprocessable(member, text string) *parley.Refusal {
	return parley.Refuse(parley.Unprocessable, "validation_error", "Value error, "+text).With("loc", member)
}

func isAdmin(m Member) bool { return m.Role == Admin }

// commit decides a commit that is not a repeat. What it says of members is judged by the
// epoch that it was made in, so the epoch is judged first.
func (d *decision) commit(c Commit) error {
	by, member := d.s.Member(c.By)
	switch {
	case !member:
		return ErrNotMember
	case c.Epoch != d.s.Epoch:
		return ErrEpochConflict.With("current_epoch", d.s.Epoch)
	case d.s.Epoch == 0 && by.Role != Admin:
		return ErrNotAdmin
	case d.s.Epoch == 0 && c.External:
		return ErrNotBegun
	case d.s.Epoch != 0 && c.Suite != d.s.Suite:
		return ErrCipherSuite
	case c.External:
		return d.enter(c, by)
	case d.s.Epoch != 0 && !by.Leaf:
		return ErrMLSPending
	}
	gone, members, err := d.removed(c, by)
	if err != nil {
		return err
	}
	added, err := d.added(c, by, gone)
	if err != nil {
		return err
	}
	d.next(c, by, added, gone)
	for _, m := range members {
		d.say(&Left{Seat: m.Seat, How: Departure_kicked, By: by.Agent.Bytes(), AtMs: d.at()})
	}
	d.recount(c.SeatLimit, members...)
	return nil
}

func (d *decision) next(c Commit, by Member, added, gone []uint32) {
	d.say(&Committed{
		Epoch: c.Epoch, By: by.Seat, Added: added, Removed: gone, CipherSuite: uint32(c.Suite), Commit: c.Commit,
		GroupInfo: c.GroupInfo, Welcome: c.Welcome, AtMs: d.at(),
	})
}

// enter decides an external commit: a member without a leaf adds itself, and removes the
// leaf that it may have left behind.
func (d *decision) enter(c Commit, by Member) error {
	var gone []uint32
	if old, left := d.s.leftLeaves()[by.Agent]; left {
		gone = []uint32{old}
	}
	alone := len(c.Added) == 1 && c.Added[0] == by.Agent
	itself := !slices.ContainsFunc(c.Removed, func(a parley.AgentID) bool { return a != by.Agent })
	switch {
	case by.Leaf:
		return ErrHasLeaf
	case !alone || len(c.Welcome) > 0 || !itself || (len(c.Removed) > 0) != (len(gone) > 0):
		return ErrExternal
	}
	d.next(c, by, []uint32{by.Seat}, gone)
	return nil
}

// removed returns the seats whose leaves a commit removes, and the members among them.
func (d *decision) removed(c Commit, by Member) (seats []uint32, members []Member, err error) {
	left := d.s.leftLeaves()
	for agent := range each(c.Removed) {
		if seat, ok := left[agent]; ok {
			seats = append(seats, seat)
			continue
		}
		m, member := d.s.Member(agent)
		switch {
		case !member:
			return nil, nil, ErrNoLeaf
		case Frozen(d.s):
			return nil, nil, ErrFrozen
		case by.Role != Admin:
			return nil, nil, ErrNotAdmin
		case m.Seat == by.Seat && d.s.admins == 1:
			return nil, nil, ErrLastAdmin
		case m.Seat == by.Seat:
			return nil, nil, ErrCommitterStays
		}
		seats, members = append(seats, m.Seat), append(members, m)
	}
	return seats, members, nil
}

// each yields the agents of a list in its order, each once.
func each(list []parley.AgentID) iter.Seq[parley.AgentID] {
	return func(yield func(parley.AgentID) bool) {
		seen := make(map[parley.AgentID]bool, len(list))
		for _, agent := range list {
			if !seen[agent] && !yield(agent) {
				return
			}
			seen[agent] = true
		}
	}
}

// added returns the seats of the members that a commit adds. A member that left a leaf
// behind gets a new one only with the commit that removes the old one.
func (d *decision) added(c Commit, by Member, gone []uint32) (seats []uint32, err error) {
	if (len(c.Added) > 0) != (len(c.Welcome) > 0) {
		return nil, ErrWelcome
	}
	removed := make(map[uint32]bool, len(gone))
	for _, seat := range gone {
		removed[seat] = true
	}
	left := d.s.leftLeaves()
	for agent := range each(c.Added) {
		m, member := d.s.Member(agent)
		old, leftLeaf := left[agent]
		switch {
		case !member || m.Leaf || m.Seat == by.Seat || removed[m.Seat]:
			return nil, ErrNotAwaiting
		case leftLeaf && !removed[old]:
			return nil, ErrFormerLeaf
		}
		seats = append(seats, m.Seat)
	}
	return seats, nil
}

// sealed refuses a broadcast that the MLS group's members could not read, or that a former
// member could.
func (d *decision) sealed(c Send, from Member) error {
	switch {
	case d.s.Epoch == 0:
		return nil
	case !from.Leaf:
		return ErrMLSPending
	case c.MLS == nil:
		return ErrMLSMessage
	case len(d.s.abandoned) > 0:
		return ErrRemovalPending.With("removed", d.s.awaitingRemoval())
	case c.MLS.Epoch != d.s.Epoch:
		return ErrEpochConflict.With("current_epoch", d.s.Epoch)
	}
	return nil
}

// commit folds a commit. Members that it removes lose their leaf before they leave.
func (s *State) commit(e *Committed) {
	s.Epoch, s.Suite = e.GetEpoch()+1, uint16(e.GetCipherSuite())
	removed := make(map[uint32]bool, len(e.GetRemoved()))
	for _, seat := range e.GetRemoved() {
		removed[seat] = true
		s.setLeaf(seat, false)
	}
	if len(removed) > 0 {
		s.abandoned = slices.DeleteFunc(slices.Clone(s.abandoned), func(l *Leaf) bool { return removed[l.GetSeat()] })
	}
	s.setLeaf(e.GetBy(), true)
	for _, seat := range e.GetAdded() {
		s.setLeaf(seat, true)
	}
}

func (s *State) setLeaf(seat uint32, leaf bool) {
	m := s.seated(seat)
	if m == nil || m.Leaf == leaf {
		return
	}
	m.Leaf = leaf
	if leaf {
		s.leaves++
	} else {
		s.leaves--
	}
}

// readers returns how many members get broadcasts.
func (s *State) readers() int {
	if s.Epoch == 0 {
		return len(s.members)
	}
	return s.leaves
}

// Leaves returns the number of members that have a leaf in the MLS group.
func (s *State) Leaves() int { return s.leaves }

// AwaitingLeaf returns the number of members that await their leaf in the MLS group.
func (s *State) AwaitingLeaf() int {
	if s.Epoch == 0 {
		return 0
	}
	return len(s.members) - s.leaves
}

// Abandoned returns the leaves of former members that await their removal, in the order in
// which the members left. The slice is the state's own: do not change it.
func (s *State) Abandoned() []*Leaf { return s.abandoned }

// LeftLeaf reports whether an agent left a leaf behind that awaits its removal.
func (s *State) LeftLeaf(agent parley.AgentID) bool {
	_, left := s.leftLeaves()[agent]
	return left
}

// leftLeaves returns the last seats of the agents that left a leaf behind.
func (s *State) leftLeaves() map[parley.AgentID]uint32 {
	left := make(map[parley.AgentID]uint32, len(s.abandoned))
	for _, l := range s.abandoned {
		left[l.owner()] = l.GetSeat()
	}
	return left
}

func (l *Leaf) owner() parley.AgentID { return parley.IDFromBytes[parley.AgentID](l.GetAgent()) }

func (s *State) awaitingRemoval() (ids []string) {
	for _, l := range s.abandoned {
		ids = append(ids, l.owner().String())
	}
	return ids
}
