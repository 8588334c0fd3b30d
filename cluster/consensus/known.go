package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Place identifies an entry with its content. Index and term alone do not: after an older copy of
// a disk has voted, two leaders may have had one term.
type Place struct {
	Position
	// Sum is a checksum of the entry, 0 if it is empty or its content is not known.
	Sum uint32
}

// differs reports whether two entries of one index are known to be different.
func (p Place) differs(other Place) bool {
	return p.Term != other.Term || p.Sum != other.Sum && p.Sum != 0 && other.Sum != 0
}

// sumOf returns the checksum of an entry. A proposal ends with one.
func sumOf(e *raftpb.Entry) uint32 {
	data := e.GetData()
	switch {
	case len(data) == 0:
		return 0
	case e.GetType() == raftpb.EntryNormal && len(data) >= trailerBytes:
		return binary.BigEndian.Uint32(data[len(data)-4:])
	}
	return crc32.Checksum(data, castagnoli)
}

// placeOf returns the place of an entry in a log, false if the log does not hold it. Of the last
// entry that was cut, the content is not known.
func placeOf(log raft.Storage, index uint64) (Place, bool) {
	term, err := log.Term(index)
	if err != nil {
		return Place{}, false
	}
	p := Place{Position: Position{index, term}}
	if entries, err := log.Entries(index, index+1, 0); err == nil && len(entries) > 0 {
		p.Sum = sumOf(entries[0])
	}
	return p, true
}

// Same reports whether a log has an entry at a place that is not known to be another one.
func Same(log raft.Storage, there Place) bool {
	here, found := placeOf(log, there.Index)
	return found && !here.differs(there)
}

// Standing is how far a member is known to hold the log: up to the newest committed entry that
// is durable there. What is acknowledged to clients is durable at the leader and at a majority,
// so a member that has less than its standing has lost something, such as by an older copy of
// its disk.
type Standing struct {
	ID uint64
	Place
	// Diverged says that the member holds other committed entries than the group.
	Diverged bool
}

// Known is what a node knows of the members of its group, itself included, in the order of their
// ids. Members send it with their appends and heartbeats, and store it with their records. It is
// never changed, but replaced.
type Known []Standing

// The reasons why a node must not take part in its group.
var (
	// ErrOlderCopy means that a node has less than it had acknowledged: its disk is an older
	// copy. Others count on what is missing.
	ErrOlderCopy = errors.New("the data directory lacks entries that this node had acknowledged: it is an older copy, or was damaged")
	// ErrDiverged means that a node holds committed entries that the other members do not have,
	// because they went on from an older copy.
	ErrDiverged = errors.New("this node holds entries that the others do not have: they went on from an older copy of a data directory")
)

// Of returns the standing of a member.
func (k Known) Of(id uint64) Standing {
	if i, found := k.find(id); found {
		return k[i]
	}
	return Standing{ID: id}
}

func (k Known) find(id uint64) (int, bool) {
	return slices.BinarySearchFunc(k, id, func(s Standing, id uint64) int {
		switch {
		case s.ID < id:
			return -1
		case s.ID > id:
			return 1
		}
		return 0
	})
}

// With returns what is known together with another standing, and whether that is new.
func (k Known) With(s Standing) (Known, bool) {
	now := k.Of(s.ID)
	if s.Index <= now.Index && (now.Diverged || !s.Diverged) {
		return k, false
	}
	if s.Index > now.Index {
		now.Place = s.Place
	}
	now.Diverged = now.Diverged || s.Diverged
	if i, found := k.find(s.ID); found {
		k = slices.Clone(k)
		k[i] = now
	} else {
		k = slices.Insert(slices.Clip(k), i, now)
	}
	return k, true
}

func isMember(conf *raftpb.ConfState, id uint64) bool {
	return slices.Contains(conf.GetVoters(), id) || slices.Contains(conf.GetVotersOutgoing(), id) ||
		slices.Contains(conf.GetLearners(), id) || slices.Contains(conf.GetLearnersNext(), id)
}

// Append appends the standings to b: each is its id, index, term and sum, and 1 if it has
// diverged, all of them as varints.
func (k Known) Append(b []byte) []byte {
	for _, s := range k {
		diverged := byte(0)
		if s.Diverged {
			diverged = 1
		}
		for _, number := range []uint64{s.ID, s.Index, s.Term, uint64(s.Sum)} {
			b = binary.AppendUvarint(b, number)
		}
		b = append(b, diverged)
	}
	return b
}

// knownMax bounds the members that a peer may name.
const knownMax = 1024

var errKnown = errors.New("consensus: the standings of members cannot be read")

// DecodeKnown reads what Append wrote.
func DecodeKnown(b []byte) (Known, error) {
	var k Known
	for len(b) > 0 {
		var numbers [5]uint64
		for i := range numbers {
			number, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, errKnown
			}
			numbers[i], b = number, b[n:]
		}
		s := Standing{numbers[0], Place{Position{numbers[1], numbers[2]}, uint32(numbers[3])}, numbers[4] == 1}
		if len(k) > 0 && s.ID <= k[len(k)-1].ID || len(k) == knownMax || numbers[3] > math.MaxUint32 || numbers[4] > 1 {
			return nil, errKnown
		}
		k = append(k, s)
	}
	return k, nil
}

// A Claim is what another member says about both nodes, about the one that judges it and about
// itself.
type Claim struct {
	// You is what it knows of the node that judges.
	You Standing
	// Newest is the newest committed entry that it holds durably.
	Newest Place
	// Yours is its entry at the newest place of the node that judges; zero if it has none there
	// that is known to be committed.
	Yours Place
	// Member says that the node that judges is a member, as far as the other one knows. If it
	// is not, the other one may be an older copy from before it joined.
	Member bool
}

// Judge returns why a node must not take part, according to another member: ErrOlderCopy,
// ErrDiverged, or nil. Self is the standing of the node.
func Judge(log raft.Storage, self Standing, c Claim) error {
	for _, there := range []Place{c.Newest, c.You.Place, c.Yours} {
		if there.Term == 0 || there.Index > self.Index || !c.Member {
			continue
		}
		if here, found := placeOf(log, there.Index); found && here.differs(there) {
			return fmt.Errorf("%w; entry %d, of term %d, is not that of term %d there", ErrDiverged, here.Index, here.Term, there.Term)
		}
	}
	if c.You.Diverged {
		return ErrDiverged
	}
	if err := Lacks(log, c.You); err != nil {
		return err
	}
	if here, found := placeOf(log, c.You.Index); c.You.Term != 0 && found && here.differs(c.You.Place) {
		return fmt.Errorf("%w; its entry %d, of term %d, is not that of term %d which it had", ErrOlderCopy, here.Index, here.Term, c.You.Term)
	}
	return nil
}

// Lacks returns ErrOlderCopy if a log has fewer entries than another member knows that its node had.
func Lacks(log raft.Storage, had Standing) error {
	last, err := log.LastIndex()
	if err == nil && had.Index > last {
		err = fmt.Errorf("%w; it has entries up to %d, and another node knows that it had %d", ErrOlderCopy, last, had.Index)
	}
	return err
}

// ClaimOf is what a node says about another one, whose newest entry has an index.
func (k Known) ClaimOf(log raft.Storage, conf *raftpb.ConfState, self, other, newest uint64) Claim {
	c := Claim{You: k.Of(other), Newest: k.Of(self).Place, Member: isMember(conf, other)}
	if newest <= c.Newest.Index {
		c.Yours, _ = placeOf(log, newest)
	}
	return c
}

// Known is what this node knows of the members of the group.
func (c *Core) Known() Known { return c.known }

// Note takes over what another member said of one, if that is a member too.
func (c *Core) Note(s Standing) {
	if s.ID == c.id || !isMember(c.handed.Conf, s.ID) {
		return
	}
	c.knows(s)
}

func (c *Core) knows(s Standing) {
	if known, news := c.known.With(s); news {
		c.known, c.unwritten = known, true
	}
}

// forget drops what is known of the members that a change took out. Their ids are never used
// again.
func (c *Core) forget(before, after *raftpb.ConfState) {
	gone := func(s Standing) bool { return isMember(before, s.ID) && !isMember(after, s.ID) }
	if slices.ContainsFunc(c.known, gone) {
		c.known, c.unwritten = slices.DeleteFunc(slices.Clone(c.known), gone), true
	}
}

// storeKnown has what is new about members written, unless a record takes it along. So after a
// crash at most the last tick is missing.
func (c *Core) storeKnown() {
	if c.unwritten && !c.wrote && len(c.pending)+len(c.flying) == 0 {
		w := &write{}
		if c.hardNew {
			w.record.HardState, c.hardNew = c.hard, false
		}
		c.pending = append(c.pending, w)
	}
	c.wrote = false
}

// learn notes how far this node holds the log and, if it leads, the others. What was handed out to
// be applied is committed, and durable in the log of this node.
func (c *Core) learn() {
	if c.handed.Index > c.known.Of(c.id).Index {
		if p, found := placeOf(c.log, c.handed.Index); found {
			c.knows(Standing{ID: c.id, Place: p})
		}
	}
	if c.lead.term == 0 {
		return
	}
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		index := min(p.Match, c.handed.Index)
		if id == c.id || index <= c.known.Of(id).Index {
			return
		}
		if p, found := placeOf(c.log, index); found {
			c.knows(Standing{ID: id, Place: p})
		}
	})
}

// compare looks for proof that this node and the leader hold different committed entries. What
// was handed out to be applied is committed, and in the log.
func (c *Core) compare(m Message) {
	if m.Raft.GetTerm() < c.node.BasicStatus().GetTerm() {
		return // of a former leader
	}
	switch m.Raft.GetType() {
	case raftpb.MsgApp:
		c.compareWith(m.Raft.GetFrom(), Place{Position: Position{m.Raft.GetIndex(), m.Raft.GetLogTerm()}})
		for _, e := range m.Raft.GetEntries() {
			if e.GetIndex() > c.handed.Index {
				break
			}
			c.compareWith(m.Raft.GetFrom(), Place{Position{e.GetIndex(), e.GetTerm()}, sumOf(e)})
		}
	case raftpb.MsgSnap:
		at := m.Raft.GetSnapshot().GetMetadata()
		c.compareWith(m.Raft.GetFrom(), Place{Position: Position{at.GetIndex(), at.GetTerm()}})
	case raftpb.MsgHeartbeat:
		if m.Known.Of(c.id).Diverged {
			c.fail(fmt.Errorf("%w, as the leader, node %016x, has found", ErrDiverged, m.Raft.GetFrom()))
		}
	default:
		return
	}
	newest := m.Known.Of(m.Raft.GetFrom())
	c.compareWith(newest.ID, newest.Place)
	c.leaderHas = newest
}

// compareWith fails if this node has another entry than the leader, which is committed here.
func (c *Core) compareWith(leader uint64, there Place) {
	if there.Index > c.handed.Index || there.Term == 0 {
		return
	}
	if here, found := placeOf(c.log, there.Index); found && here.differs(there) {
		c.fail(fmt.Errorf("%w; entry %d, of term %d, is not that of term %d at the leader, node %016x", ErrDiverged, here.Index, here.Term, there.Term, leader))
	}
}

// exceeds reports that a member says that it holds entries which the leader does not have. Each
// of them is committed there, so the member and the leader hold different ones. Raft would count
// them.
func (c *Core) exceeds(m *raftpb.Message) bool {
	if c.lead.term == 0 || m.GetTerm() != c.lead.term || m.GetReject() || m.GetIndex() <= c.last {
		return false
	}
	c.Note(Standing{ID: m.GetFrom(), Diverged: true})
	return true
}
