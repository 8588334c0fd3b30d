package cluster

import (
	"context"
	"sync"

	"parley"
	"parley/journal"
	"parley/persistence"
)

// Journal is the journal of a node: reads are those of its replica, and entries go to the
// node that leads.
type Journal struct {
	*persistence.Store
	node *Node
}

// Journal returns the journal that actors and queries of this node use.
func (n *Node) Journal() *Journal { return &Journal{n.Store, n} }

// Append implements journal.Journal. Entries that cross to the leader may overtake each other.
func (j *Journal) Append(e *journal.Entry) {
	leader, err := j.node.Leader()
	if err != nil {
		released(e, err)
		return
	}
	if leader == nil {
		j.Store.Append(e)
		return
	}
	call, err := callOf(e)
	if err != nil {
		released(e, err)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		_, err := j.node.call(ctx, leader, call)
		if err == nil && e.Applied != nil {
			e.Applied()
		}
		released(e, err)
	}()
}

func released(e *journal.Entry, err error) {
	if e.Release != nil {
		e.Release(err)
	}
}

// Admit implements journal.Journal. An entry for another node takes a place in the window
// of what this node has under way there; that node admits it.
func (j *Journal) Admit(slot parley.Slot, size int) (func(), error) {
	switch leader, err := j.node.Leader(); {
	case err != nil:
		return nil, err
	case leader == nil:
		return j.Store.Admit(slot, size)
	}
	return j.node.window.take(size)
}

// Overloaded implements journal.Journal.
func (j *Journal) Overloaded() *parley.Refusal {
	if trouble := j.Trouble(); trouble != nil {
		return trouble
	}
	switch leader, err := j.node.Leader(); {
	case err != nil:
		return nil // an ask waits for a leader
	case leader != nil:
		return j.node.window.full()
	}
	return j.Store.Overloaded()
}

// Settle implements journal.Journal.
func (j *Journal) Settle(ctx context.Context) error {
	leader, err := j.node.Leader()
	if err != nil {
		return err
	}
	if leader == nil {
		return j.Store.Settle(ctx)
	}
	_, err = j.node.call(ctx, leader, settle{})
	return err
}

const (
	// windowEntries and windowBytes bound what a node has under way at the leader.
	windowEntries, windowBytes = 2048, 16 << 20
)

// window bounds the entries that are under way at the leader.
type window struct {
	mu             sync.Mutex
	entries, bytes int
}

// full is the refusal of what would be too much, nil if there is room.
func (w *window) full() *parley.Refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entries >= windowEntries || w.bytes >= windowBytes {
		return parley.ErrOverloaded
	}
	return nil
}

func (w *window) take(size int) (func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entries >= windowEntries || w.bytes+size > windowBytes {
		return nil, parley.ErrOverloaded
	}
	w.entries, w.bytes = w.entries+1, w.bytes+size
	var once sync.Once
	return func() {
		once.Do(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.entries, w.bytes = w.entries-1, w.bytes-size
		})
	}, nil
}
