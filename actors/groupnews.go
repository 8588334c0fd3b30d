package actors

import (
	"encoding/binary"
	"time"

	"parley"
	"parley/actors/group"
	"parley/actors/record"
	"parley/journal"
)

// What a feed says of a group: a kind, and the request that it is about, if any.
const (
	invited byte = iota + 1
	requestCreated
	requestResolved
	memberJoined
	memberLeft
)

// news are the words for it, by kind. // docs: webhooks.md
var news = [...]string{
	invited: "invited", requestCreated: "request.created", requestResolved: "request.resolved",
	memberJoined: "member.joined", memberLeft: "member.left",
}

// GroupNews reads the note of a GroupEntry: what happened, and the request that
// it happened to, zero for none. Of a kind that is not known it is "".
func GroupNews(note []byte) (kind string, request parley.JoinRequestID) {
	if len(note) == 0 || int(note[0]) >= len(news) {
		return "", request
	}
	return news[note[0]], parley.IDFromBytes[parley.JoinRequestID](note[1:])
}

// announce tells the feed of an agent, and those of others, once each.
func (t *turn[S, C, E]) announce(kind byte, request parley.JoinRequestID, about parley.AgentID, others ...parley.Seat) {
	note := []byte{kind}
	if !request.Zero() {
		note = append(note, request[:]...)
	}
	ref := t.entry.Stream.ID
	t.say(journal.AppendFeed{To: about, Kind: journal.GroupEntry, Ref: ref, Note: note})
	to := others[:0:0]
	for _, o := range others {
		if o.Agent != about {
			to = append(to, o)
		}
	}
	if len(to) > 0 {
		t.say(journal.Fanout{Kind: journal.GroupEntry, Ref: ref, Note: note, To: to})
	}
}

// wake has the actor woken at an instant in Unix milliseconds.
func (t *turn[S, C, E]) wake(atMs int64) {
	t.entry.Timers = append(t.entry.Timers, journal.Timer{Due: time.UnixMilli(atMs), Stream: t.entry.Stream})
}

// admins are the seats of the group's admins. A large group is looked through
// only when they have changed.
func (h *hall) admins() []parley.Seat {
	if h.chairs == nil {
		h.chairs = admins(h.State)
	}
	return h.chairs
}

// admins are the seats of a group's admins.
func admins(s *group.State) []parley.Seat {
	return seats(s, func(m group.Member) bool { return m.Role == group.Admin })
}

// noteAdmins forgets who the admins are where an event has changed that.
func (h *hall) noteAdmins(e group.Event, leaver group.Member) {
	switch e := e.(type) {
	case *group.RoleChanged:
		h.chairs = nil
	case *group.Seated:
		if m := h.MembersFrom(e.GetSeat() - 1); len(m) > 0 && m[0].Role == group.Admin {
			h.chairs = nil
		}
	case *group.Left:
		if leaver.Role == group.Admin {
			h.chairs = nil
		}
	case *group.Carried, *group.Changed, *group.Consented, *group.Convened, *group.Deleted, *group.Filed, *group.Founded, *group.Offered, *group.Resolved, *group.Voted, *group.Withdrawn: // they change no admin
	}
}

// everybody are the seats of all members.
func everybody(s *group.State) []parley.Seat {
	return seats(s, func(group.Member) bool { return true })
}

func seats(s *group.State, suits func(group.Member) bool) (all []parley.Seat) {
	for _, m := range s.Members() {
		if suits(m) {
			all = append(all, parley.Seat{Agent: m.Agent, Number: m.Seat})
		}
	}
	return all
}

func appendSeat(b []byte, seat uint32) []byte { return binary.BigEndian.AppendUint32(b, seat) }

// seatsOf are the seat numbers of a place's row, oldest first.
func seatsOf(row []byte) (all []uint32) {
	for i := 16; i+4 <= len(row); i += 4 {
		all = append(all, binary.BigEndian.Uint32(row[i:]))
	}
	return all
}

// shown is what the directory shows of a group; the zero value is nothing.
type shownGroup struct {
	description string
	policy      group.Policy
	hours       int
	members     int
	shown       bool
}

func shownAs(s *group.State) shownGroup {
	if !s.Public || s.Deleted() || s.LastSeat == 0 {
		return shownGroup{}
	}
	return shownGroup{s.Description, s.Policy, s.VoteHours, len(s.Members()), true}
}

// showDirectory keeps the directory's row of a public group as the group is.
func showDirectory(t *groupTurn, was shownGroup) {
	s := t.state
	now := shownAs(s.State)
	if now == was {
		return
	}
	row := journal.Row{Slot: journal.DirectorySlot, Table: journal.PublicTable, Key: s.ID.Bytes(), Delete: !now.shown}
	if now.shown {
		profile := record.PublicGroup{
			Id: s.ID.Bytes(), Org: s.Org.Bytes(), Name: s.Name, Description: s.Description, Policy: s.Policy.String(),
			VoteHours: int32(s.VoteHours), Members: int32(now.members), CreatedMs: s.CreatedMs,
		}
		row.Value, _ = profile.MarshalVT() // no field of it can fail
	}
	t.say(journal.PutRow{Row: row})
}
