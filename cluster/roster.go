package cluster

import (
	"encoding/json"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/identity"
	"parley/persistence"
)

// Description says what a member is called and how to reach it.
type Description struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Token is the number of the join token that admitted it, empty for the first member.
	Token string `json:"token,omitempty"`
	// Replaces is the member whose place it takes when it has caught up, 0 if none.
	Replaces uint64 `json:"replaces,omitempty"`
}

// Encode is the description as the group keeps it.
func (d Description) Encode() string {
	b, _ := json.Marshal(d) // no field of it can fail
	return string(b)
}

// Table has the descriptions of the members by their ids. It is never changed.
type Table map[uint64]Description

// roster is what a position says about members, present and former ones.
type roster struct {
	conf  *raftpb.ConfState
	table Table
	// tokens are those that admitted a node, with its id.
	tokens map[string]uint64
}

// newRoster decodes what a position says. Descriptions that cannot be read, of another
// version, are empty.
func newRoster(conf *raftpb.ConfState, described map[uint64]string) *roster {
	r := &roster{conf: conf, table: Table{}, tokens: map[string]uint64{}}
	for id, text := range described {
		var d Description
		_ = json.Unmarshal([]byte(text), &d)
		if d.Token != "" {
			r.tokens[d.Token] = id
		}
		for _, list := range [][]uint64{conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(), conf.GetLearnersNext()} {
			if slices.Contains(list, id) {
				r.table[id] = d
			}
		}
	}
	return r
}

// admitted is the node that a token admitted, 0 if none.
func (r *roster) admitted(token string) uint64 { return r.tokens[token] }

// MembersAt returns the voters of a replica's group and all members, as of its position.
func MembersAt(r *persistence.Replica) (voters []uint64, members Table, err error) {
	at, err := appliedAt(r.Applied())
	if err != nil {
		return nil, nil, err
	}
	known := newRoster(at.Conf, at.Described)
	return at.Conf.GetVoters(), known.table, nil
}

// nodeName is a node's id as people read it.
func nodeName(id uint64) string { return identity.NodeID(id).String() }
