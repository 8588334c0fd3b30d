package cluster

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.etcd.io/raft/v3/raftpb"

	"parley/client/parley"
	"parley/cluster/identity"
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

const (
	// nameRunesMax and addressBytesMax bound a description: all of them are written with every
	// batch.
	nameRunesMax, addressBytesMax = 64, 270
)

// Check returns why nobody could be described so.
func (d Description) Check() error {
	if !ValidNodeName(d.Name) {
		return fmt.Errorf("%q is no name for a node: it has 1 to %d printable characters", shortened(d.Name), nameRunesMax)
	}
	if len(d.Address) > addressBytesMax || !printable(d.Address) || !parley.IsHostPort(d.Address) {
		return fmt.Errorf("%q is not an address host:port", shortened(d.Address))
	}
	return nil
}

// ValidNodeName reports whether a node may be called so.
func ValidNodeName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= nameRunesMax && printable(name) && strings.TrimSpace(name) == name
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// shortened is the beginning of a text, for an error.
func shortened(text string) string { return text[:min(len(text), addressBytesMax)] }

// keptDescriptions are those of the members, and of former ones the tokens that might still be
// valid: each admits one node. One that expired before the newest was made cannot be used any
// more.
func keptDescriptions(conf *raftpb.ConfState, described map[uint64]string) map[uint64]string {
	members, kept := newRoster(conf, described), map[uint64]string{}
	newest := ""
	for token := range members.tokens { // their numbers are in the order in which they expire
		if identity.MayBeValid(token, token) {
			newest = max(newest, token)
		}
	}
	for id, text := range described {
		var d Description
		if _, member := members.table[id]; member {
			kept[id] = text
		} else if _ = json.Unmarshal([]byte(text), &d); identity.MayBeValid(d.Token, newest) {
			kept[id] = Description{Token: d.Token}.Encode()
		}
	}
	return kept
}

// newRoster decodes what a position says. Descriptions that are missing, or cannot be read, are
// empty.
func newRoster(conf *raftpb.ConfState, described map[uint64]string) *roster {
	r := &roster{conf: conf, table: Table{}, tokens: map[string]uint64{}}
	for _, id := range slices.Concat(conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(), conf.GetLearnersNext()) {
		r.table[id] = Description{}
	}
	for id, text := range described {
		var d Description
		_ = json.Unmarshal([]byte(text), &d)
		if d.Token != "" {
			r.tokens[d.Token] = id
		}
		if _, member := r.table[id]; member {
			r.table[id] = d
		}
	}
	return r
}

// logChanges tells the operator what changed since an earlier roster. After a crash a node may
// apply a change again, and log it again.
func (r *roster) logChanges(since *roster, l *slog.Logger) {
	for _, id := range slices.Sorted(maps.Keys(r.table)) {
		about := l.With("node", nodeName(id), "name", r.table[id].Name, "address", r.table[id].Address)
		if _, known := since.table[id]; !known {
			about.Info("a node was added to the cluster")
		}
		if slices.Contains(r.conf.GetVoters(), id) && !slices.Contains(since.conf.GetVoters(), id) {
			about.Info("a node of the cluster became a voter")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(since.table)) {
		if _, member := r.table[id]; member {
			continue
		}
		what, by := "a node was removed from the cluster", []any{}
		for other, d := range r.table {
			if d.Replaces == id && slices.Contains(r.conf.GetVoters(), other) {
				what, by = "a node of the cluster was replaced", []any{"by", nodeName(other), "by_name", d.Name}
			}
		}
		l.With("node", nodeName(id), "name", since.table[id].Name, "address", since.table[id].Address).Info(what, by...)
	}
}

// admitted is the node that a token admitted, 0 if none.
func (r *roster) admitted(token string) uint64 { return r.tokens[token] }

// alone reports whether a node is the only voter.
func (r *roster) alone(id uint64) bool {
	return slices.Equal(r.conf.GetVoters(), []uint64{id}) && len(r.conf.GetVotersOutgoing()) == 0
}

// former reports whether a node is known to have been a member. Those whose join tokens have long
// expired are forgotten.
func (r *roster) former(id uint64) bool {
	_, member := r.table[id]
	return !member && slices.Contains(slices.Collect(maps.Values(r.tokens)), id)
}

// nodeName is a node's id as people read it.
func nodeName(id uint64) string { return identity.NodeID(id).String() }
