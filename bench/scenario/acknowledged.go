package scenario

import (
	"bytes"
	"slices"
	"sync"

	"parley/bench/result"
)

// entry is one acknowledged message.
type entry struct {
	id  uuid
	key Key
	// box is the number of the mailbox that the message is in.
	box uint32
}

// book holds the answers that one client received in one run. Only its worker writes it.
type book struct {
	entries []entry
	unknown []Key
	// casts are the acknowledged broadcasts, lostCasts those without an answer.
	casts, lostCasts []cast
}

// acknowledged records a message that the server promised to keep.
func (b *book) acknowledged(id uuid, key Key, box uint32) {
	b.entries = append(b.entries, entry{id, key, box})
}

// lost records an operation that got no answer, or an answer that the outcome is unknown:
// the message may or may not be stored.
func (b *book) lost(key Key) { b.unknown = append(b.unknown, key) }

// acknowledgedLog records every message that one target acknowledged.
type acknowledgedLog struct {
	mu      sync.Mutex
	open    []*book
	entries []entry
	unknown []Key
	// casts are the acknowledged broadcasts, lostCasts those without an answer.
	casts, lostCasts []cast
	// count is the number of acknowledged messages, whether recorded or not.
	count int64
}

// begin returns a new book for one client.
func (l *acknowledgedLog) begin() *book {
	b := &book{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, b)
	return b
}

// settle collects the books of a finished run and returns how many ids were given to
// more than one message. It keeps every keep-th entry, and the unknown ones if keep
// is 1; 0 keeps none.
func (l *acknowledgedLog) settle(keep int) (twice int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []uuid
	for _, b := range l.open {
		for _, e := range b.entries {
			ids = append(ids, e.id)
			if l.count++; keep > 0 && l.count%int64(keep) == 0 {
				l.entries = append(l.entries, e)
			}
		}
		for _, c := range b.casts {
			ids = append(ids, c.id)
		}
		if keep == 1 {
			l.unknown = append(l.unknown, b.unknown...)
			l.casts, l.lostCasts = append(l.casts, b.casts...), append(l.lostCasts, b.lostCasts...)
		}
	}
	l.open = nil
	slices.SortFunc(ids, func(a, b uuid) int { return bytes.Compare(a[:], b[:]) })
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			twice++
		}
	}
	return twice
}

// audit compares the messages read back with the acknowledged ones.
type audit struct {
	mu           sync.Mutex
	acknowledged *acknowledgedLog
	byKey        map[Key]uint32
	byID         map[uuid]uint32
	unknown      map[Key]bool
	// states holds the state of each entry, at the same index.
	states []state
	copies copies
	stray  int64
	// boxes holds what was read of each mailbox, by its number.
	boxes     []boxReading
	reordered int64
}

// boxReading is what was read of one mailbox, newest first.
type boxReading struct {
	// oldest holds, for each client of a run, its oldest acknowledged message so far.
	oldest map[author]Key
	// digest is of all ids in their order.
	digest uint64
}

// author is a client of a run, which sends one message after the other.
type author struct {
	run    uint16
	worker uint32
}

// state is the result of reading back one entry.
type state struct {
	seen uint8 // found as acknowledged; counted up to two
	// changed means that a message with this id was found with another payload or in
	// another mailbox; copied means that the payload was found under another id.
	changed, copied bool
}

func (l *acknowledgedLog) audit(boxes int) *audit {
	a := &audit{
		boxes: make([]boxReading, boxes), acknowledged: l, byKey: make(map[Key]uint32, len(l.entries)), byID: make(map[uuid]uint32, len(l.entries)),
		unknown: make(map[Key]bool, len(l.unknown)), states: make([]state, len(l.entries)),
	}
	for i, e := range l.entries {
		a.byKey[e.key], a.byID[e.id] = uint32(i), uint32(i)
	}
	for _, key := range l.unknown {
		a.unknown[key] = true
	}
	a.copies.begin(l)
	return a
}

// read checks the next older message of a mailbox. sound reports whether its payload is one
// that was sent; then key is the key of that payload.
func (a *audit) read(id uuid, key Key, sound bool, box uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.boxes[box].add(id)
	if at, known := a.byID[id]; known {
		e, s := a.acknowledged.entries[at], &a.states[at]
		right := sound && e.key == key && e.box == box
		s.note(right)
		if right && a.boxes[box].newer(key) {
			a.reordered++
		}
		return
	}
	at, known := a.byKey[key]
	switch {
	case sound && known:
		a.states[at].copied = true
	case sound && a.unknown[key]: // the outcome is unknown, so it may be stored or not
	case a.copies.read(id, key, sound, box):
	default:
		a.stray++
	}
}

// add adds the id of the next message to the digest, which is FNV-1a.
func (b *boxReading) add(id uuid) {
	if b.digest == 0 {
		b.digest = 14695981039346656037
	}
	for _, one := range id {
		b.digest = (b.digest ^ uint64(one)) * 1099511628211
	}
}

// newer reports whether a client sent a message after the one that was read before it. The
// client had the answer to each before it sent the next, so they must be in this order.
func (b *boxReading) newer(key Key) bool {
	who := author{key.Run, key.Worker}
	last, seen := b.oldest[who]
	if seen && (key.N > last.N || key.N == last.N && key.Part > last.Part) {
		return true
	}
	if b.oldest == nil {
		b.oldest = map[author]Key{}
	}
	b.oldest[who] = key
	return false
}

// differing counts the mailboxes that do not hold the same messages in the same order.
func (a *audit) differing(other *audit) (n int64) {
	for i := range a.boxes {
		if a.boxes[i].digest != other.boxes[i].digest {
			n++
		}
	}
	return n
}

// verdict counts the results. Each acknowledged message is found, missing or altered; a
// message that is found may also be there twice.
func (a *audit) verdict() *result.Verification {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := &result.Verification{
		Acknowledged: int64(len(a.acknowledged.entries)), Unknown: int64(len(a.acknowledged.unknown)), Stray: a.stray, Reordered: a.reordered,
	}
	for _, s := range a.states {
		s.count(v)
	}
	a.copies.verdict(v)
	return v
}

// note records that the message was found; right reports whether it is as acknowledged.
func (s *state) note(right bool) {
	if !right {
		s.changed = true
		return
	}
	s.seen = min(s.seen+1, 2)
}

func (s *state) count(v *result.Verification) {
	switch {
	case s.changed, s.seen == 0 && s.copied:
		v.Altered++
	case s.seen == 0:
		v.Missing++
	default:
		v.Found++
		if s.seen > 1 || s.copied {
			v.Twice++
		}
	}
}

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

// openLostCasts returns the broadcasts without an answer of the run that is not settled
// yet.
func (l *acknowledgedLog) openLostCasts() (all []cast) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.open {
		all = append(all, b.lostCasts...)
	}
	return all
}
