package cluster

import (
	"context"
	"errors"
	"sync"

	"parley/client/parley"
	"parley/journal"
)

// entries are what a node appends: they go to the node that leads.
type entries struct {
	journal.Journal // of the node's replica
	node            *Node
}

// Journal returns the journal that actors and queries of this node use. Reads are those of
// its replica, and entries go to the node that leads.
func (n *Node) Journal() journal.Journal {
	j := n.Store.Journal
	e := &entries{j, n}
	j.Writer, j.Health = e, e
	return j
}

// Append implements journal.Writer. Entries that cross to the leader may overtake each other.
// One that no node has decided goes to the node that leads by then.
func (j *entries) Append(e *journal.Entry) {
	leader, unknown := j.node.Leader()
	here := leader == nil && unknown == nil
	call, ofActor := callOf(e)
	switch {
	case ofActor != nil && here:
		j.Journal.Append(e)
	case ofActor != nil:
		released(e, ofActor)
	case here:
		moving := *e
		moving.Release = func(err error) {
			if errors.Is(err, journal.ErrNotLeader) {
				go j.cross(call, e)
				return
			}
			released(e, err)
		}
		j.Journal.Append(&moving)
	default:
		go j.cross(call, e)
	}
}

// cross has the node that leads append an entry.
func (j *entries) cross(call appendEntry, e *journal.Entry) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := j.node.untilDecided(ctx, call.repetition(), func() (any, error) {
		leader, err := j.node.Leader()
		switch {
		case err != nil:
			return nil, err
		case leader != nil:
			return j.node.forward(ctx, leader, call)
		}
		return nil, j.node.append(ctx, call, 0)
	})
	if err == nil && e.Applied != nil {
		e.Applied()
	}
	released(e, err)
}

func released(e *journal.Entry, err error) {
	if e.Release != nil {
		e.Release(err)
	}
}

// Admit implements journal.Writer. An entry for another node takes a place in the window
// of what this node has under way there; that node admits it.
func (j *entries) Admit(slot parley.Slot, size int) (func(), error) {
	if leader, unknown := j.node.Leader(); leader == nil && unknown == nil {
		return j.Journal.Admit(slot, size)
	}
	return j.node.window.take(size)
}

// Overloaded implements journal.Health.
func (j *entries) Overloaded() *parley.Refusal {
	if trouble := j.Trouble(); trouble != nil {
		return trouble
	}
	switch leader, err := j.node.Leader(); {
	case err != nil:
		return nil // an ask waits for a leader
	case leader != nil:
		return j.node.window.full()
	}
	return j.Journal.Overloaded()
}

// Settle implements journal.Writer.
func (j *entries) Settle(ctx context.Context) error {
	leader, err := j.node.Leader()
	if err != nil {
		return err
	}
	if leader == nil {
		return j.Journal.Settle(ctx)
	}
	_, err = j.node.forward(ctx, leader, settle{})
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
