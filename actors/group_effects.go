package actors

import (
	"slices"
	"time"

	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// announce adds an entry about a request to the feed of its agent, unless that must not see it,
// and to those of others, once each.
func announce(t *groupTurn, kind byte, r *group.Request, others ...parley.Seat) {
	note := append([]byte{kind}, r.GetId()...)
	if !r.GetSilent() {
		announceTo(t, note, r.AgentID())
	}
	announceToAll(t, note, r.AgentID(), others)
}

// announceMember adds an entry about a member to its feed, and to those of the admins.
func announceMember(t *groupTurn, kind byte, member parley.AgentID) {
	note := append([]byte{kind}, member[:]...)
	announceTo(t, note, member)
	announceToAll(t, note, member, t.State.admins())
}

func announceTo(t *groupTurn, note []byte, to parley.AgentID) {
	t.AddEffects(journal.AppendFeed{To: to, Kind: journal.GroupEntry, Ref: t.Entry.Stream.ID, Note: note})
}

// announceToAll adds an entry to the feeds of all but one agent.
func announceToAll(t *groupTurn, note []byte, but parley.AgentID, all []parley.Seat) {
	to := slices.DeleteFunc(slices.Clone(all), func(s parley.Seat) bool { return s.Agent == but })
	if len(to) > 0 {
		t.AddEffects(journal.Fanout{Kind: journal.GroupEntry, Ref: t.Entry.Stream.ID, Note: note, To: to})
	}
}

// wakeAt sets a timer of the actor, in Unix milliseconds.
func wakeAt(t *groupTurn, atMs int64) {
	t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: time.UnixMilli(atMs), Stream: t.Entry.Stream})
}

// admins returns the seats of the group's admins. The members are searched only after
// the admins have changed.
func (h *groupState) admins() []parley.Seat {
	if h.adminSeats == nil {
		h.adminSeats = record.Admins(h.State)
	}
	return h.adminSeats
}

// adminsAnd returns the seats of the admins and that of an agent, if it is a member.
func (h *groupState) adminsAnd(also parley.AgentID) []parley.Seat {
	m, member := h.Member(also)
	if !member || m.Role == group.Admin {
		return h.admins()
	}
	return append(slices.Clone(h.admins()), parley.Seat{Agent: m.Agent, Number: m.Seat})
}

// noteAdmins clears the cached admins if an event has changed them.
func (h *groupState) noteAdmins(e group.Event, leavers []group.Member) {
	switch e := e.(type) {
	case *group.RoleChanged:
		h.adminSeats = nil
	case *group.Seated:
		if m := h.MembersFrom(e.GetSeat() - 1); len(m) > 0 && m[0].Role == group.Admin {
			h.adminSeats = nil
		}
	case *group.Left:
		if leaverOf(leavers, e.GetSeat()).Role == group.Admin {
			h.adminSeats = nil
		}
	case *group.Carried, *group.Changed, *group.Committed, *group.Consented, *group.Convened, *group.Deleted, *group.Filed, *group.Founded, *group.Offered, *group.Resolved, *group.Voted, *group.Withdrawn: // no change of admins
	}
}

// directoryEntry is what the directory shows of a group; the zero value is no entry.
type directoryEntry struct {
	description string
	policy      group.Policy
	hours       int
	members     int
	mls         bool
	listed      bool
}

func directoryEntryOf(s *group.State) directoryEntry {
	if !s.Public || s.Deleted() || s.LastSeat == 0 {
		return directoryEntry{}
	}
	return directoryEntry{s.Description, s.Policy, s.VoteHours, len(s.Members()), s.Epoch > 0, true}
}

// updateDirectory updates the directory's row of a public group if the group has
// changed.
func updateDirectory(t *groupTurn, was directoryEntry) {
	s := t.State
	now := directoryEntryOf(s.State)
	if now == was {
		return
	}
	row := journal.Row{Slot: journal.DirectorySlot, Table: journal.PublicTable, Key: s.ID.Bytes(), Delete: !now.listed, Owners: t.Owners()}
	if now.listed {
		row.Value, _ = record.PublicGroupOf(s.State).MarshalVT() // no field of it can fail
	}
	t.AddEffects(journal.PutRow{Row: row})
}
