package scenario

import "parley/bench/result"

// cast is one broadcast. Its id is zero if it got no answer.
type cast struct {
	id    uuid
	key   Key
	group *assembly
	// from is the sender's mailbox, which gets no copy.
	from uint32
}

// copies compares the copies that are read back with the broadcasts.
type copies struct {
	byKey map[Key]*castState
	byID  map[uuid]*castState
	all   []castState
}

// castState is the result of reading back one broadcast.
type castState struct {
	cast
	// copies holds the state of each member's copy, at the member's index.
	copies []state
}

func (c *copies) begin(l *acknowledgedLog) {
	c.all = make([]castState, 0, len(l.casts)+len(l.lostCasts))
	for _, casts := range [][]cast{l.casts, l.lostCasts} {
		for _, one := range casts {
			c.all = append(c.all, castState{one, make([]state, len(one.group.members))})
		}
	}
	c.byKey, c.byID = make(map[Key]*castState, len(c.all)), make(map[uuid]*castState, len(c.all))
	for i := range c.all {
		s := &c.all[i]
		if c.byKey[s.key] = s; s.id != (uuid{}) {
			c.byID[s.id] = s
		}
	}
}

// read checks one message found in a mailbox and reports whether it is the mailbox
// owner's copy of a broadcast.
func (c *copies) read(id uuid, key Key, sound bool, box uint32) bool {
	s, byID := c.byID[broadcastOf(id)]
	if !byID && sound {
		s = c.byKey[key]
	}
	if s == nil {
		return false
	}
	place, member := s.group.place[box]
	if !member || box == s.from {
		return false
	}
	switch one := &s.copies[place]; {
	case byID, s.id == uuid{}:
		one.note(sound && s.key == key)
	default:
		one.copied = true
	}
	return true
}

// verdict adds the copies to the counts of messages. For a broadcast without an answer,
// either all members or none must have a copy.
func (c *copies) verdict(v *result.Verification) {
	for i := range c.all {
		s := &c.all[i]
		if s.id == (uuid{}) {
			v.Unknown++
			s.whole(v)
			continue
		}
		v.Broadcasts++
		for place, m := range s.group.members {
			if m.box != s.from {
				v.Acknowledged++
				v.Copies++
				s.copies[place].count(v)
			}
		}
	}
}

func (s *castState) whole(v *result.Verification) {
	have, twice := 0, false
	for _, one := range s.copies {
		if one.seen > 0 {
			have++
		}
		twice = twice || one.seen > 1
	}
	if have > 0 && have < s.group.recipients() {
		v.Partial++
	}
	if twice {
		v.Twice++
	}
}
