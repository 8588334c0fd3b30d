// Package keylog holds the rules of the key log: an append-only Merkle tree (RFC 6962)
// whose leaves commit to every event about the keys of every agent. It adds leaves, and
// makes proofs from stored hashes. It does no I/O and reads no clock.
package keylog

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

// emptyRoot is the root hash of a tree without leaves.
var emptyRoot = sha256.Sum256(nil)

// Hash is a hash of the tree.
type Hash = [parley.KeyLogHashBytes]byte

// Exists reports whether the tree has a leaf.
func (s *State) Exists() bool { return s.GetSize() > 0 }

// Command asks for a change of the log.
//
//sumtype:decl
type Command interface{ command() }

// Append appends leaves: commitments of 32 bytes each.
type Append struct{ Leaves []Hash }

func (Append) command() {}

// Event is a fact about the log: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	proto.Message
	event()
}

func (*Appended) event() {}

// Tag returns the number that identifies an event's kind on disk. Numbers are added,
// never changed or reused.
func Tag(e Event) byte {
	switch e.(type) {
	case *Appended:
		return 1
	}
	panic("keylog: unknown event")
}

// New returns an empty event of the kind with this tag, false for an unknown tag.
func New(tag byte) (Event, bool) {
	switch tag {
	case 1:
		return &Appended{}, true
	}
	return nil, false
}

// Decide applies the rules to c in state s and returns the resulting events. It never
// changes s and refuses nothing.
func Decide(_ *State, c Command, now time.Time) ([]Event, error) {
	switch c := c.(type) {
	case Append:
		if len(c.Leaves) == 0 {
			return nil, nil
		}
		appended := &Appended{AtMs: now.UnixMilli()}
		for _, leaf := range c.Leaves {
			appended.Leaves = append(appended.Leaves, leaf[:])
		}
		return []Event{appended}, nil
	}
	panic("keylog: unknown command")
}

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Appended:
		for _, leaf := range e.Leaves {
			s.add(leaf)
		}
	}
}

// add adds a leaf. It returns the hashes of the subtrees that the leaf completes, from the
// smallest to the largest.
func (s *State) add(leaf []byte) (completed []tlog.Hash) {
	h := tlog.RecordHash(leaf)
	completed = append(completed, h)
	for size := s.GetSize(); size&1 == 1 && len(s.Subtrees) > 0; size >>= 1 {
		last := len(s.Subtrees) - 1
		h = tlog.NodeHash(hashOf(s.Subtrees[last]), h)
		s.Subtrees = s.Subtrees[:last]
		completed = append(completed, h)
	}
	s.Subtrees = append(s.Subtrees, append([]byte(nil), h[:]...))
	s.Size++
	return completed
}

func hashOf(b []byte) (h tlog.Hash) {
	copy(h[:], b)
	return h
}

// Root returns the root hash of the tree; that of an empty tree is SHA-256 of nothing.
// // RFC 6962, section 2.1
func (s *State) Root() Hash {
	n := len(s.GetSubtrees())
	if n == 0 {
		return emptyRoot
	}
	root := hashOf(s.Subtrees[n-1])
	for i := n - 2; i >= 0; i-- {
		root = tlog.NodeHash(hashOf(s.Subtrees[i]), root)
	}
	return Hash(root)
}

// Stored returns what is stored for each of some leaves that follow those of s: the hashes
// of the subtrees that the leaf completes, one after the other. It does not change s.
func Stored(s *State, leaves [][]byte) [][]byte {
	grown := &State{Size: s.GetSize(), Subtrees: append([][]byte(nil), s.GetSubtrees()...)}
	rows := make([][]byte, 0, len(leaves))
	for _, leaf := range leaves {
		row := make([]byte, 0, parley.KeyLogHashBytes)
		for _, h := range grown.add(leaf) {
			row = append(row, h[:]...)
		}
		rows = append(rows, row)
	}
	return rows
}

// StoredBytes returns the length of what is stored for a leaf.
func StoredBytes(leaf uint64) int { return parley.KeyLogHashBytes * (1 + bits.TrailingZeros64(leaf+1)) }

// Rows reads what is stored for a leaf.
type Rows func(leaf uint64) ([]byte, error)

// ReadHashes implements tlog.HashReader.
func (read Rows) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, 0, len(indexes))
	for _, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		leaf := uint64(n+1)<<level - 1 // the one that completed the subtree
		row, err := read(leaf)
		if err != nil {
			return nil, err
		}
		if len(row) != StoredBytes(leaf) {
			return nil, fmt.Errorf("keylog: %d bytes are stored for leaf %d", len(row), leaf)
		}
		hashes = append(hashes, hashOf(row[level*parley.KeyLogHashBytes:]))
	}
	return hashes, nil
}

// ProveInclusion proves that the leaf at index is in the tree of the first size leaves. The
// index must be below the size.
func ProveInclusion(size, index uint64, read Rows) ([]Hash, error) {
	proof, err := tlog.ProveRecord(int64(size), int64(index), read)
	return plain(proof), err
}

// ProveConsistency proves that the tree of the first size leaves begins with that of the
// first from leaves. Both must be above zero, and from not above size.
func ProveConsistency(from, size uint64, read Rows) ([]Hash, error) {
	proof, err := tlog.ProveTree(int64(size), int64(from), read)
	return plain(proof), err
}

func plain(hashes []tlog.Hash) []Hash {
	out := make([]Hash, 0, len(hashes))
	for _, h := range hashes {
		out = append(out, Hash(h))
	}
	return out
}
