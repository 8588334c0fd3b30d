package record

import (
	"encoding/binary"

	"parley/actors/group"
	"parley/client/parley"
)

// MLSEpochKey returns the key of a row about an epoch of a group's MLS group.
func MLSEpochKey(id parley.GroupID, epoch uint64) []byte {
	return binary.BigEndian.AppendUint64(id.Bytes(), epoch)
}

// MLSMemberKey returns the key of an agent's row in journal.MLSMemberTable.
func MLSMemberKey(id parley.GroupID, agent parley.AgentID) []byte {
	return append(id.Bytes(), agent[:]...)
}

// MLSEpochIn returns the epoch in a key that MLSEpochKey made. It reports false if the key
// has another form.
func MLSEpochIn(key []byte) (epoch uint64, ok bool) {
	if len(key) != 24 {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[16:]), true
}

// MLSCount encodes a number of agents in journal.MLSMemberTable.
func MLSCount(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// MLSCountOf decodes what MLSCount made; it is zero if row has another form.
func MLSCountOf(row []byte) uint32 {
	if len(row) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(row)
}

// By returns the agent that committed.
func (c *MLSCommit) By() parley.AgentID {
	return parley.IDFromBytes[parley.AgentID](c.GetCommittedBy())
}

// WelcomeID returns the id of the Welcome that came with the commit of an epoch: the
// group's id with the epoch in it.
func WelcomeID(id parley.GroupID, epoch uint64) parley.AnyID {
	w := parley.AnyID(id)
	for i := range 8 {
		w[15-i] ^= byte(epoch >> (8 * i))
	}
	return w
}

// WelcomeEpoch returns the epoch in an id that WelcomeID made for the same group. For any
// other id the result is of no use.
func WelcomeEpoch(id parley.GroupID, welcome parley.AnyID) (epoch uint64) {
	for i := range 8 {
		epoch |= uint64(welcome[15-i]^id[15-i]) << (8 * i)
	}
	return epoch
}

// WithLeaf returns the seats of the members that have a leaf in the MLS group.
func WithLeaf(s *group.State) []parley.Seat {
	return seats(s, func(m group.Member) bool { return m.Leaf })
}

// WithoutBroadcasts returns the seats of the members that await a leaf in the MLS group, and
// get no broadcasts until then.
func WithoutBroadcasts(s *group.State) []parley.Seat {
	if s.AwaitingLeaf() == 0 {
		return nil
	}
	return seats(s, func(m group.Member) bool { return !m.Leaf })
}
