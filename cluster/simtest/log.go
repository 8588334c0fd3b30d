package simtest

import (
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
)

// Log is a consensus.Log in memory that can crash. What is not synced when it crashes
// may be lost, from any record on.
type Log struct {
	// BeforeSync, if not nil, is called by Sync before anything is durable.
	BeforeSync func()

	mu    sync.Mutex
	view  image // with all records
	disk  image // with the durable records
	loose []consensus.Record
	count uint64
	// cutsAll is the defect that the log is cut further than the record says.
	cutsAll bool
}

// image is what records add up to.
type image struct {
	hard    *raftpb.HardState
	base    consensus.Position
	entries []*raftpb.Entry
	known   consensus.Known
}

func (i *image) last() uint64 { return i.base.Index + uint64(len(i.entries)) }

func (i *image) add(r consensus.Record) {
	if r.HardState != nil {
		i.hard = r.HardState
	}
	if r.Known != nil {
		i.known = r.Known
	}
	if r.Cut.Index > i.base.Index {
		if term, err := i.term(r.Cut.Index); err == nil && term == r.Cut.Term {
			i.entries = slices.Clone(i.entries[r.Cut.Index-i.base.Index:])
		} else {
			i.entries = nil
		}
		i.base = r.Cut
	}
	if len(r.Entries) > 0 {
		keep := r.Entries[0].GetIndex() - i.base.Index - 1
		i.entries = append(i.entries[:keep:keep], r.Entries...)
	}
}

// Append implements consensus.Log.
func (l *Log) Append(r consensus.Record) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutsAll && r.Cut.Index > 0 && r.Cut.Index+1 < l.view.last() {
		newest := l.view.entries[len(l.view.entries)-2]
		r.Cut = consensus.Position{Index: newest.GetIndex(), Term: newest.GetTerm()}
	}
	l.view.add(r)
	if n := len(r.Entries); n > 0 && l.view.hard.GetTerm() < r.Entries[n-1].GetTerm() {
		// A member that came back so could vote again in a term in which it has voted.
		return 0, fmt.Errorf("the log stores an entry of term %d while its hard state is of term %d", r.Entries[n-1].GetTerm(), l.view.hard.GetTerm())
	}
	l.loose = append(l.loose, r)
	l.count++
	return l.count, nil
}

// Sync implements consensus.Log.
func (l *Log) Sync(number uint64) error {
	if l.BeforeSync != nil {
		l.BeforeSync()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.count-uint64(len(l.loose)) < number {
		l.disk.add(l.loose[0])
		l.loose = l.loose[1:]
	}
	return nil
}

// Crash loses the records that are not durable, except the first keep of them. What a
// record left incomplete fails its checksum, so it is lost as a whole.
func (l *Log) Crash(keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.loose[:min(keep, len(l.loose))] {
		l.disk.add(r)
	}
	l.loose = nil
	l.view = l.disk
}

// copy returns what is durable in the log.
func (l *Log) copy() image {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.disk
	i.entries = slices.Clone(i.entries)
	return i
}

// Known implements consensus.Log.
func (l *Log) Known() (consensus.Known, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.known, nil
}

// InitialState implements raft.Storage.
func (l *Log) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.hard, &raftpb.ConfState{}, nil
}

// Entries implements raft.Storage.
func (l *Log) Entries(lo, hi, size uint64) ([]*raftpb.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	base := l.view.base.Index
	if lo <= base {
		return nil, raft.ErrCompacted
	}
	if hi > l.view.last()+1 {
		return nil, raft.ErrUnavailable
	}
	found := slices.Clone(l.view.entries[lo-base-1 : hi-base-1])
	total := uint64(0)
	for i, e := range found {
		if total += uint64(len(e.GetData())) + 16; i > 0 && total > size {
			return found[:i], nil
		}
	}
	return found, nil
}

// Term implements raft.Storage.
func (l *Log) Term(index uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.term(index)
}

func (i *image) term(index uint64) (uint64, error) {
	switch {
	case index < i.base.Index:
		return 0, raft.ErrCompacted
	case index == i.base.Index:
		return i.base.Term, nil
	case index > i.last():
		return 0, raft.ErrUnavailable
	}
	return i.entries[index-i.base.Index-1].GetTerm(), nil
}

// FirstIndex implements raft.Storage.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.base.Index + 1, nil
}

// LastIndex implements raft.Storage.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.last(), nil
}

// Snapshot implements raft.Storage. Snapshots are the state's concern.
func (l *Log) Snapshot() (*raftpb.Snapshot, error) {
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}
