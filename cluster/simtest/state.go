package simtest

import (
	"encoding/binary"
	"encoding/gob"
	"errors"
	"hash/fnv"
	"io"
	"maps"
	"sync"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"parley/cluster/consensus"
)

// A Change is a payload. It was made by a leader on top of the change After, so it may
// be applied after that one only, as a batch that a leader has judged.
type Change struct {
	Tag, After uint64
	Op, Key    byte
	Value      uint64
	Filler     int // further bytes
}

// The operations of changes. Adding twice differs from adding once.
const (
	Put byte = iota
	Delete
	Add
	ops
)

// Encode returns the payload.
func (c Change) Encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, c.Tag)
	b = binary.BigEndian.AppendUint64(b, c.After)
	b = append(b, c.Op, c.Key)
	b = binary.BigEndian.AppendUint64(b, c.Value)
	return append(b, make([]byte, c.Filler)...)
}

func decodeChange(b []byte) Change {
	return Change{
		Tag: binary.BigEndian.Uint64(b), After: binary.BigEndian.Uint64(b[8:]),
		Op: b[16], Key: b[17], Value: binary.BigEndian.Uint64(b[18:]),
	}
}

// content is what a State holds at one position.
type content struct {
	At    consensus.Applied
	Rows  map[byte]uint64
	Chain uint64 // a hash of all entries
	Tag   uint64 // the newest change
}

func (c content) clone() content {
	c.Rows = maps.Clone(c.Rows)
	return c
}

// digest hashes the rows.
func (c content) digest() uint64 {
	sum := uint64(0)
	for key, value := range c.Rows {
		sum ^= hash(uint64(key), value)
	}
	return sum
}

func hash(numbers ...uint64) uint64 {
	h := fnv.New64a()
	for _, n := range numbers {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, n)) // a hash never fails
	}
	return h.Sum64()
}

// ErrJudged means that a change was not made on top of the state that it meets.
var ErrJudged = errors.New("simtest: a change was made on top of another state")

// apply applies one entry.
func (c *content) apply(e consensus.Committed) error {
	h := fnv.New64a()
	_, _ = h.Write(e.Payload)
	c.Chain = hash(c.Chain, e.Index, e.Term, h.Sum64())
	if e.Payload == nil {
		return nil
	}
	change := decodeChange(e.Payload)
	if change.After != c.Tag {
		return ErrJudged
	}
	c.Tag = change.Tag
	switch change.Op {
	case Put:
		c.Rows[change.Key] = change.Value
	case Delete:
		delete(c.Rows, change.Key)
	default:
		c.Rows[change.Key] += change.Value
	}
	return nil
}

// State is a consensus.State in memory that can crash: it reopens at its last flush.
type State struct {
	// OnApply, if not nil, is called after each entry, with the hashes of all entries
	// so far and of the rows.
	OnApply func(e consensus.Committed, chain, digest uint64)

	mu      sync.Mutex
	now     content
	flushed content
	flush   *content // the flush in progress

	indexApart bool // defect: the position is not stored with the content
	overlays   bool // defect: a snapshot does not remove what was there
}

// NewState returns an empty state at a position.
func NewState(at consensus.Applied) *State {
	c := content{At: at, Rows: map[byte]uint64{}}
	return &State{now: c, flushed: c.clone()}
}

// Apply implements consensus.State.
func (s *State) Apply(entries []consensus.Committed, after consensus.Applied) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if err := s.now.apply(e); err != nil {
			return err
		}
		if s.OnApply != nil {
			s.OnApply(e, s.now.Chain, s.now.digest())
		}
	}
	s.now.At = after
	return nil
}

// Applied implements consensus.State.
func (s *State) Applied() consensus.Applied {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.At
}

// Durable implements consensus.State.
func (s *State) Durable() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushed.At.Index
}

// Sums returns the position, the newest change, and the hashes of all entries and of
// the rows.
func (s *State) Sums() (index, tag, chain, digest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.At.Index, s.now.Tag, s.now.Chain, s.now.digest()
}

// BeginFlush begins to make durable what is applied now.
func (s *State) BeginFlush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.now.clone()
	s.flush = &c
}

// EndFlush ends the flush in progress.
func (s *State) EndFlush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flush != nil {
		s.flushed, s.flush = *s.flush, nil
	}
}

// Crash reopens the state at the last flush, or at the one in progress if it ended just
// before the crash.
func (s *State) Crash(flushed bool) {
	if flushed {
		s.EndFlush()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush = nil
	if s.indexApart {
		s.now.At = s.flushed.At
		return
	}
	s.now = s.flushed.clone()
}

// copy returns what is durable in the state.
func (s *State) copy() content {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushed.clone()
}

// Snapshot implements consensus.State.
func (s *State) Snapshot() (consensus.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &snapshot{s.now.clone()}, nil
}

// Receive implements consensus.State.
func (s *State) Receive(r io.Reader) (consensus.Snapshot, error) {
	var sent transfer
	if err := gob.NewDecoder(r).Decode(&sent); err != nil {
		return nil, err
	}
	conf := &raftpb.ConfState{}
	if err := proto.Unmarshal(sent.Conf, conf); err != nil {
		return nil, err
	}
	at := consensus.Applied{Index: sent.Index, Term: sent.Term, Ordinal: sent.Ordinal, Conf: conf}
	rows := sent.Rows
	if rows == nil {
		rows = map[byte]uint64{}
	}
	return &snapshot{content{At: at, Rows: rows, Chain: sent.Chain, Tag: sent.Tag}}, nil
}

// Restore implements consensus.State.
func (s *State) Restore(from consensus.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now.Rows
	s.now = from.(*snapshot).content.clone()
	if s.overlays {
		for key, value := range before {
			if _, replaced := s.now.Rows[key]; !replaced {
				s.now.Rows[key] = value
			}
		}
	}
	s.flushed, s.flush = s.now.clone(), nil
	return nil
}

// snapshot is a consensus.Snapshot.
type snapshot struct{ content content }

// transfer is a content on its way to another node.
type transfer struct {
	Index, Term, Ordinal uint64
	Conf                 []byte
	Rows                 map[byte]uint64
	Chain, Tag           uint64
}

// Applied implements consensus.Snapshot.
func (s *snapshot) Applied() consensus.Applied { return s.content.At }

// Close implements consensus.Snapshot.
func (s *snapshot) Close() error { return nil }

// WriteTo implements consensus.Snapshot.
func (s *snapshot) WriteTo(w io.Writer) (int64, error) {
	conf, err := proto.Marshal(s.content.At.Conf)
	if err != nil {
		return 0, err
	}
	at := s.content.At
	return 0, gob.NewEncoder(w).Encode(transfer{at.Index, at.Term, at.Ordinal, conf, s.content.Rows, s.content.Chain, s.content.Tag})
}
