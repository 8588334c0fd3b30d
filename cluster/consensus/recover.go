package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
)

// recoverBytes bounds the entries that Recover applies in one step.
const recoverBytes = 8 << 20

// Recover applies all that a log holds to the state, and makes one member the only one of the
// group, which then goes on alone. It is for a group that lost its majority for good. Whatever
// was acknowledged and is in this log stays, so entries count that nobody knows to be
// committed; changes of members do not. It returns the position that it has reached. Nothing
// else may use the log and the state.
func Recover(log Log, state State, only uint64, described string) (at Applied, err error) {
	at = state.Applied()
	if err := Prepare(log, at); err != nil {
		return at, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return at, err
	}
	at.Conf, at.Described = &raftpb.ConfState{Voters: []uint64{only}}, map[uint64]string{only: described}
	for at.Index < last {
		entries, err := log.Entries(at.Index+1, last+1, recoverBytes)
		if err != nil {
			return at, err
		}
		places := make([]Committed, len(entries))
		for i, e := range entries {
			if e.GetIndex() != at.Index+1 {
				return at, fmt.Errorf("consensus: the log has entry %d after %d", e.GetIndex(), at.Index)
			}
			if places[i], at, err = place(e, at); err != nil {
				return at, err
			}
		}
		if err := state.Apply(places, at); err != nil {
			return at, err
		}
	}
	return at, state.Apply(nil, at)
}
