package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/raft/v3/raftpb"
)

// trailerBytes follow the payload of a proposal in its entry:
// version(1) | term(8) | ordinal in the term(8) | CRC-32C of all before it(4).
const (
	trailerBytes   = 21
	trailerVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrEntry means that a committed entry breaks the rules of its trailer: it is damaged,
// or was proposed past the checks of a term. Nodes must not apply it.
var ErrEntry = errors.New("consensus: invalid entry")

// encode appends the trailer to a payload, in its memory if there is room.
func encode(term, ordinal uint64, payload []byte) []byte {
	b := append(payload, trailerVersion)
	b = binary.BigEndian.AppendUint64(b, term)
	b = binary.BigEndian.AppendUint64(b, ordinal)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decode checks an entry against the position before it. It returns the entry's payload
// and ordinal.
func decode(e *raftpb.Entry, before Applied) ([]byte, uint64, error) {
	payload, trailer, err := cutTrailer(e)
	if err != nil {
		return nil, 0, err
	}
	want := uint64(1)
	if before.Term == e.GetTerm() {
		want = before.Ordinal + 1
	}
	term, ordinal := binary.BigEndian.Uint64(trailer[1:]), binary.BigEndian.Uint64(trailer[9:])
	if term != e.GetTerm() || ordinal != want {
		return nil, 0, complain(e, fmt.Sprintf("it was made as proposal %d of term %d, but stands as proposal %d of term %d", ordinal, term, want, e.GetTerm()))
	}
	return payload, ordinal, nil
}

func complain(e *raftpb.Entry, what string) error {
	return fmt.Errorf("%w at index %d: %s", ErrEntry, e.GetIndex(), what)
}

// cutTrailer returns the payload of an entry and its trailer.
func cutTrailer(e *raftpb.Entry) (payload, trailer []byte, err error) {
	data := e.GetData()
	size := len(data) - trailerBytes
	if size < 0 || data[size] != trailerVersion {
		return nil, nil, complain(e, "it has no trailer of a known version")
	}
	summed := len(data) - 4
	if crc32.Checksum(data[:summed], castagnoli) != binary.BigEndian.Uint32(data[summed:]) {
		return nil, nil, complain(e, "the checksum does not match")
	}
	return data[:size:size], data[size:], nil
}

// Payload returns the payload of an entry, committed or not; nil if it concerns raft alone.
func Payload(e *raftpb.Entry) ([]byte, error) {
	if e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
		return nil, nil
	}
	payload, _, err := cutTrailer(e)
	return payload, err
}

// place checks an entry against the position before it, and returns what the state gets and
// the position after it. Changes of members are not in effect there.
func place(e *raftpb.Entry, before Applied) (one Committed, after Applied, err error) {
	one, after = Committed{Index: e.GetIndex(), Term: e.GetTerm()}, before
	if after.Index, after.Term = one.Index, one.Term; after.Term != before.Term {
		after.Ordinal = 0
	}
	if e.GetType() == raftpb.EntryNormal && len(e.GetData()) > 0 {
		one.Payload, after.Ordinal, err = decode(e, before)
	}
	return one, after, err
}

// apply hands out committed entries.
func (c *Core) apply(m *raftpb.Message) {
	b := c.turn.Batch
	if b == nil {
		b = &Batch{}
		c.turn.Batch = b
		c.applying = append(c.applying, b)
	}
	for _, e := range m.Entries {
		one, after, err := place(e, c.handed)
		if err == nil && e.GetType() != raftpb.EntryNormal {
			err = c.changed(e, &after)
		}
		if err != nil {
			c.fail(err)
			return
		}
		c.handed = after
		b.Entries = append(b.Entries, one)
	}
	if c.leaderHas.Index > b.After.Index {
		c.compareWith(c.leaderHas.ID, c.leaderHas.Place)
	}
	b.After = c.handed
	b.responses = append(b.responses, m.Responses...)
}

// changed puts a change of members into effect. The entry is committed, so it is safe
// to do so before the state has it; the state stores the result with the entry.
func (c *Core) changed(e *raftpb.Entry, after *Applied) error {
	change, err := changeOf(e)
	if err != nil {
		return err
	}
	before := after.Conf
	after.Conf, after.Described = c.node.ApplyConfChange(change), describe(after.Described, change.AsV2())
	c.forget(before, after.Conf)
	if c.opts.Kept != nil {
		after.Described = c.opts.Kept(after.Conf, after.Described)
	}
	c.turn.Events = append(c.turn.Events, Event{Kind: Members, Conf: after.Conf, Described: after.Described})
	return nil
}

// changeOf decodes the change of members that an entry is.
func changeOf(e *raftpb.Entry) (change raftpb.ConfChangeI, err error) {
	if e.GetType() == raftpb.EntryConfChange {
		v1 := &raftpb.ConfChange{}
		change, err = v1, proto.Unmarshal(e.GetData(), v1)
	} else {
		v2 := &raftpb.ConfChangeV2{}
		change, err = v2, proto.Unmarshal(e.GetData(), v2)
	}
	if err != nil {
		return nil, fmt.Errorf("%w at index %d: %w", ErrEntry, e.GetIndex(), err)
	}
	return change, nil
}

// describe returns the descriptions of members after a change. Its context describes the node
// that comes in. One without a context, as of a learner that becomes a voter, leaves them as
// they are.
func describe(members map[uint64]string, change *raftpb.ConfChangeV2) map[uint64]string {
	if len(change.GetContext()) == 0 {
		return members
	}
	after := maps.Clone(members)
	if after == nil {
		after = map[uint64]string{}
	}
	for _, one := range change.GetChanges() {
		if one.GetType() != raftpb.ConfChangeRemoveNode {
			after[one.GetNodeId()] = string(change.GetContext())
		}
	}
	return after
}

// Applied reports that the oldest batch handed out is applied.
func (c *Core) Applied() {
	b := c.applying[0]
	c.applying, c.health.applying = c.applying[1:], 0
	c.applied = b.After
	c.respond(b.responses)
	c.observe()
	c.lead.applied(c, b)
	c.fences.release(c)
	c.lead.propose(c) // raft has room for more
}
