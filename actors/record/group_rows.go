package record

import (
	"encoding/binary"

	"parley/actors/group"
	"parley/client/parley"
)

// Admins returns the seats of a group's admins.
func Admins(s *group.State) []parley.Seat {
	return seats(s, func(m group.Member) bool { return m.Role == group.Admin })
}

// Everybody returns the seats of all members.
func Everybody(s *group.State) []parley.Seat {
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

// PublicGroupOf returns what the directory shows of a group, nil if the directory does not
// show it.
func PublicGroupOf(s *group.State) *PublicGroup {
	if !s.Public || s.Deleted() || s.LastSeat == 0 {
		return nil
	}
	return &PublicGroup{
		Id: s.ID.Bytes(), Org: s.Org.Bytes(), Name: s.Name, Description: s.Description, Policy: s.Policy.String(),
		VoteHours: int32(s.VoteHours), Members: int32(len(s.Members())), CreatedMs: s.CreatedMs, Mls: s.Epoch > 0,
	}
}

// AppendSeat appends a seat number to the row at PlaceKey.
func AppendSeat(b []byte, seat uint32) []byte { return binary.BigEndian.AppendUint32(b, seat) }

// SeatsOf returns the seat numbers in a row at PlaceKey, oldest first.
func SeatsOf(row []byte) (all []uint32) {
	for i := 16; i+4 <= len(row); i += 4 {
		all = append(all, binary.BigEndian.Uint32(row[i:]))
	}
	return all
}

// FoundingScope returns the scope of idempotency keys of groups. The keys of the
// founder's messages may be stored next to them; none begins with a zero byte.
func FoundingScope(founder parley.AgentID) []byte { return append(founder.Bytes(), 0) }
