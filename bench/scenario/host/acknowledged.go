package host

import (
	"bytes"
	"hash"
	"hash/fnv"
	"slices"
	"sync"

	"parley/bench/result"
)

// Entry is one acknowledged message.
type Entry struct {
	ID  UUID
	Key Key
	// Mailbox is the number of the mailbox that the message is in.
	Mailbox uint32
}

// ClientLog holds the answers that one client received in one run. Only its worker writes it.
type ClientLog struct {
	Entries []Entry
	unknown []Key
	// Broadcasts are the acknowledged broadcasts, lostCasts those without an answer.
	Broadcasts, LostBroadcasts []Broadcast
}

// Acknowledged records a message that the server promised to keep.
func (b *ClientLog) Acknowledged(id UUID, key Key, box uint32) {
	b.Entries = append(b.Entries, Entry{id, key, box})
}

// Lost records an operation that got no answer, or an answer that the outcome is unknown:
// the message may or may not be stored.
func (b *ClientLog) Lost(key Key) { b.unknown = append(b.unknown, key) }

// Log records every message that one target acknowledged.
type Log struct {
	mu      sync.Mutex
	open    []*ClientLog
	Entries []Entry
	Unknown []Key
	// Broadcasts are the acknowledged broadcasts, lostCasts those without an answer.
	Broadcasts, LostBroadcasts []Broadcast
	// Count is the number of acknowledged messages, whether recorded or not.
	Count int64
}

// Begin returns a new log for one client.
func (l *Log) Begin() *ClientLog {
	b := &ClientLog{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, b)
	return b
}

// Settle collects the logs of a finished run and returns how many ids were given to
// more than one message. It keeps every keep-th entry, and the unknown ones if keep
// is 1; 0 keeps none.
func (l *Log) Settle(keep int) (twice int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []UUID
	for _, b := range l.open {
		for _, e := range b.Entries {
			ids = append(ids, e.ID)
			if l.Count++; keep > 0 && l.Count%int64(keep) == 0 {
				l.Entries = append(l.Entries, e)
			}
		}
		for _, c := range b.Broadcasts {
			ids = append(ids, c.ID)
		}
		if keep == 1 {
			l.Unknown = append(l.Unknown, b.unknown...)
			l.Broadcasts, l.LostBroadcasts = append(l.Broadcasts, b.Broadcasts...), append(l.LostBroadcasts, b.LostBroadcasts...)
		}
	}
	l.open = nil
	slices.SortFunc(ids, func(a, b UUID) int { return bytes.Compare(a[:], b[:]) })
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			twice++
		}
	}
	return twice
}

// comparison compares the messages read back with the acknowledged ones.
type comparison struct {
	mu           sync.Mutex
	acknowledged *Log
	byKey        map[Key]uint32
	byID         map[UUID]uint32
	unknown      map[Key]bool
	// states holds the state of each entry, at the same index.
	states []state
	copies copies
	stray  int64
	// mailboxes holds what was read of each mailbox, by its number.
	mailboxes []mailboxReading
	reordered int64
}

// mailboxReading is what was read of one mailbox, newest first.
type mailboxReading struct {
	// oldest holds, for each client of a run, its oldest acknowledged message so far.
	oldest map[author]Key
	// digest is of all ids in their order.
	digest hash.Hash64
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

func (l *Log) compare(boxes int) *comparison {
	a := &comparison{
		mailboxes: make([]mailboxReading, boxes), acknowledged: l, byKey: make(map[Key]uint32, len(l.Entries)), byID: make(map[UUID]uint32, len(l.Entries)),
		unknown: make(map[Key]bool, len(l.Unknown)), states: make([]state, len(l.Entries)),
	}
	for i := range a.mailboxes {
		a.mailboxes[i].digest = fnv.New64a()
	}
	for i, e := range l.Entries {
		a.byKey[e.Key], a.byID[e.ID] = uint32(i), uint32(i)
	}
	for _, key := range l.Unknown {
		a.unknown[key] = true
	}
	a.copies.Begin(l)
	return a
}

// Read checks the next older message of a mailbox. sound reports whether its payload is one
// that was sent; then key is the key of that payload.
func (a *comparison) Read(id UUID, key Key, sound bool, box uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.mailboxes[box].digest.Write(id[:])
	if at, known := a.byID[id]; known {
		e, s := a.acknowledged.Entries[at], &a.states[at]
		right := sound && e.Key == key && e.Mailbox == box
		s.Note(right)
		if right && a.mailboxes[box].newer(key) {
			a.reordered++
		}
		return
	}
	at, known := a.byKey[key]
	switch {
	case sound && known:
		a.states[at].copied = true
	case sound && a.unknown[key]: // the outcome is unknown, so it may be stored or not
	case a.copies.Read(id, key, sound, box):
	default:
		a.stray++
	}
}

// newer reports whether a client sent a message after the one that was read before it. The
// client had the answer to each before it sent the next, so they must be in this order.
func (b *mailboxReading) newer(key Key) bool {
	who := author{key.Run, key.Worker}
	last, seen := b.oldest[who]
	if seen && (key.N > last.N || key.N == last.N && key.Kind > last.Kind) {
		return true
	}
	if b.oldest == nil {
		b.oldest = map[author]Key{}
	}
	b.oldest[who] = key
	return false
}

// differing counts the mailboxes that do not hold the same messages in the same order.
func (a *comparison) differing(other *comparison) (n int64) {
	for i := range a.mailboxes {
		if a.mailboxes[i].digest.Sum64() != other.mailboxes[i].digest.Sum64() {
			n++
		}
	}
	return n
}

// verdict counts the results. Each acknowledged message is found, missing or altered; a
// message that is found may also be there twice.
func (a *comparison) verdict() *result.Verification {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := &result.Verification{
		Acknowledged: int64(len(a.acknowledged.Entries)), Unknown: int64(len(a.acknowledged.Unknown)), Stray: a.stray, Reordered: a.reordered,
	}
	for _, s := range a.states {
		s.count(v)
	}
	a.copies.verdict(v)
	return v
}

// Note records that the message was found; right reports whether it is as acknowledged.
func (s *state) Note(right bool) {
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

// Broadcast is one broadcast. Its id is zero if it got no answer.
type Broadcast struct {
	ID    UUID
	Key   Key
	Group *Group
	// From is the sender's mailbox, which gets no copy.
	From uint32
}

// copies compares the copies that are read back with the broadcasts.
type copies struct {
	byKey map[Key]*broadcastState
	byID  map[UUID]*broadcastState
	all   []broadcastState
}

// broadcastState is the result of reading back one broadcast.
type broadcastState struct {
	Broadcast
	// copies holds the state of each member's copy, at the member's index.
	copies []state
}

func (c *copies) Begin(l *Log) {
	c.all = make([]broadcastState, 0, len(l.Broadcasts)+len(l.LostBroadcasts))
	for _, casts := range [][]Broadcast{l.Broadcasts, l.LostBroadcasts} {
		for _, one := range casts {
			c.all = append(c.all, broadcastState{one, make([]state, len(one.Group.Members))})
		}
	}
	c.byKey, c.byID = make(map[Key]*broadcastState, len(c.all)), make(map[UUID]*broadcastState, len(c.all))
	for i := range c.all {
		s := &c.all[i]
		if c.byKey[s.Key] = s; s.ID != (UUID{}) {
			c.byID[s.ID] = s
		}
	}
}

// Read checks one message found in a mailbox and reports whether it is the mailbox
// owner's copy of a broadcast.
func (c *copies) Read(id UUID, key Key, sound bool, box uint32) bool {
	s, byID := c.byID[BroadcastOf(id)]
	if !byID && sound {
		s = c.byKey[key]
	}
	if s == nil {
		return false
	}
	place, member := s.Group.place[box]
	if !member || box == s.From {
		return false
	}
	switch one := &s.copies[place]; {
	case byID, s.ID == UUID{}:
		one.Note(sound && s.Key == key)
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
		if s.ID == (UUID{}) {
			v.Unknown++
			s.whole(v)
			continue
		}
		v.Broadcasts++
		for place, m := range s.Group.Members {
			if m.Mailbox != s.From {
				v.Acknowledged++
				v.Copies++
				s.copies[place].count(v)
			}
		}
	}
}

func (s *broadcastState) whole(v *result.Verification) {
	have, twice := 0, false
	for _, one := range s.copies {
		if one.seen > 0 {
			have++
		}
		twice = twice || one.seen > 1
	}
	if have > 0 && have < s.Group.Recipients() {
		v.Partial++
	}
	if twice {
		v.Twice++
	}
}

// OpenLostBroadcasts returns the broadcasts without an answer of the run that is not settled
// yet.
func (l *Log) OpenLostBroadcasts() (all []Broadcast) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.open {
		all = append(all, b.LostBroadcasts...)
	}
	return all
}
