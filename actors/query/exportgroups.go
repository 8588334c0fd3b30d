package query

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"

	"parley"
	"parley/actors/group"
	"parley/actors/rules"
	"parley/journal"
)

// ExportedGroup is a group that the organization owns, deleted or not. Place is its number
// among them in the order of creation, from 1.
type ExportedGroup struct {
	*group.State
	Place int
}

// ExportedNews is an event of a group in an agent's feed: what record.GroupNews or
// record.MLSNews decodes.
type ExportedNews struct {
	Agent    parley.AgentID
	Position uint64
	Note     []byte
}

// groupPlace is an entry about a group in an agent's feed or, if agent is zero, a group of
// the organization with its place.
type groupPlace struct {
	group    parley.GroupID
	agent    parley.AgentID
	position uint64
	note     [groupNoteMax]byte
	size     uint8
}

const (
	// groupNoteMax is the length of the longest note of a journal.GroupEntry: a kind and an
	// id.
	groupNoteMax = 17
	// groupPlaceBytes is about how many bytes a groupPlace takes.
	groupPlaceBytes = 64
)

func compareGroupPlaces(a, b groupPlace) int {
	return cmp.Or(bytes.Compare(a.group[:], b.group[:]), bytes.Compare(a.agent[:], b.agent[:]), cmp.Compare(a.position, b.position))
}

// GroupVisitor is called with each group: Begin, then Announced with each of its entries in
// the feeds of the organization's agents, by agent and position, then End.
type GroupVisitor struct {
	Begin     func(ExportedGroup) error
	Announced func(ExportedNews) error
	End       func() error
}

// Groups visits the groups that the organization owns, deleted ones too.
func (x *Export) Groups(to GroupVisitor) error {
	var open parley.GroupID
	err := ascend(x.capacity*exportIDBytes/groupPlaceBytes, compareGroupPlaces, x.groupPlaces, func(p groupPlace) error {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if !p.agent.Zero() {
			if p.group != open { // a group of others
				return nil
			}
			return to.Announced(ExportedNews{p.agent, p.position, slices.Clone(p.note[:p.size])})
		}
		if !open.Zero() {
			if err := to.End(); err != nil {
				return err
			}
		}
		state, err := x.group(p.group)
		if err != nil {
			return err
		}
		open = p.group
		return to.Begin(ExportedGroup{State: state, Place: int(p.position)})
	})
	if err != nil || open.Zero() {
		return err
	}
	return to.End()
}

// groupPlaces lists the groups that the organization owns, and the entries about groups in
// the feeds of its agents.
func (x *Export) groupPlaces(add func(groupPlace)) error {
	number := uint64(0)
	err := x.ownedGroups(func(id parley.AnyID) {
		number++
		add(groupPlace{group: parley.GroupID(id), position: number})
	})
	return errors.Join(err, x.eachAgent(func(id parley.AgentID) error {
		return x.view.Feed(id, 0, math.MaxInt64, func(e journal.FeedEntry) bool {
			if e.Kind == journal.GroupEntry {
				p := groupPlace{group: parley.GroupID(e.Ref), agent: id, position: e.Position}
				p.size = uint8(copy(p.note[:], e.Note))
				add(p)
			}
			return true
		})
	}))
}

// GroupHistory visits the events of a group that the organization owns, oldest first.
func (x *Export) GroupHistory(id parley.GroupID, visit func(group.Event) error) error {
	var bad error
	err := x.view.Events(rules.GroupStream(id), 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		var e group.Event
		if e, bad = rules.Group.Decode(f); bad == nil {
			bad = cmp.Or(x.ctx.Err(), visit(e))
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}
