package agent

import (
	"bytes"
	"slices"
	"time"

	"parley/client/parley"
)

// Enter takes the seat that a group keeps for the agent. Groups number their offers, so
// the agent takes a seat once, however often the offer arrives: an offer that is no later
// than the one it entered by changes nothing.
type Enter struct {
	Group parley.GroupID
	Offer uint32
	// Isolated: the group is isolated.
	Isolated bool
}

// Depart ends the membership in a group, if the agent entered it by this offer or an
// earlier one.
type Depart struct {
	Group parley.GroupID
	Offer uint32
}

// GroupID returns the group of the membership.
func (m *Membership) GroupID() (id parley.GroupID) {
	copy(id[:], m.GetGroup())
	return id
}

// In reports whether the agent is in the group.
func (s *State) In(group parley.GroupID) bool { return s.membership(group[:]) != nil }

// Confined reports whether the agent is in an isolated group, which is then its only
// group.
func (s *State) Confined() bool {
	return slices.ContainsFunc(s.GetGroups(), func(m *Membership) bool { return m.Isolated })
}

func (s *State) membership(group []byte) *Membership { return among(s.GetGroups(), group) }

func among(memberships []*Membership, group []byte) *Membership {
	for _, m := range memberships {
		if bytes.Equal(m.Group, group) {
			return m
		}
	}
	return nil
}

// Apart reports whether isolation keeps two agents from talking: one of them is
// in an isolated group that the other is not in. // spec: Join request and membership
func Apart(a, b []*Membership) bool { return beyond(a, b) || beyond(b, a) }

// beyond reports whether one of the isolated groups in a is not in b.
func beyond(a, b []*Membership) bool {
	return slices.ContainsFunc(a, func(m *Membership) bool { return m.Isolated && among(b, m.Group) == nil })
}

// acquainted reports whether two agents share a group.
func acquainted(a, b []*Membership) bool {
	groups := make(map[parley.GroupID]bool, len(a))
	for _, m := range a {
		groups[m.GroupID()] = true
	}
	return slices.ContainsFunc(b, func(m *Membership) bool { return groups[m.GroupID()] })
}

func decideEnter(s *State, c Enter, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	if has := s.membership(c.Group[:]); has != nil && has.Offer >= c.Offer {
		return nil, nil
	}
	for _, m := range s.GetGroups() {
		if m.GroupID() != c.Group && (c.Isolated || m.Isolated) {
			return nil, ErrIsolationConflict
		}
	}
	return []Event{&Entered{Group: c.Group.Bytes(), Offer: c.Offer, Isolated: c.Isolated, AtMs: now.UnixMilli()}}, nil
}

func decideDepart(s *State, c Depart, now time.Time) ([]Event, error) {
	has := s.membership(c.Group[:])
	if has == nil || has.Offer > c.Offer {
		return nil, nil
	}
	return []Event{&Departed{Group: c.Group.Bytes(), Offer: has.Offer, AtMs: now.UnixMilli()}}, nil
}

// without returns the memberships other than that in the group, in a new slice: a slice
// that was returned before does not change.
func (s *State) without(group []byte) []*Membership {
	if s.membership(group) == nil {
		return s.Groups
	}
	kept := make([]*Membership, 0, len(s.Groups))
	for _, m := range s.Groups {
		if !bytes.Equal(m.Group, group) {
			kept = append(kept, m)
		}
	}
	return kept
}
