package persistence

import (
	"sync"
	"sync/atomic"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/disk"
	"parley/persistence/notify"
)

// leadership is the writing side of a store: its journals, with what they keep in memory
// while this process decides what is appended. A store without a Sequencer has one as long
// as it is open, a replica has one for each term in which it leads.
type leadership struct {
	store *Store
	// term of a replica; 0 without a Sequencer.
	term uint64
	// first is the number of the last activation before the term.
	first    uint64
	journals []*journalState
	// over is closed when the leadership ends: nothing waits any longer.
	over  chan struct{}
	loops sync.WaitGroup

	// slots bounds the batches of a replica that are proposed and not applied.
	slots chan struct{}
	// proposing serializes proposals. Under it, proposed holds the flights that were not
	// applied yet, in the order in which they were proposed.
	proposing sync.Mutex
	proposed  []*flight
	ended     bool
}

// proposedMax bounds the batches that a replica has proposed and not applied. It is more than
// a store on its own has in flight: records of the log that wait for a slow disk then share
// syncs.
const proposedMax = 8

// newLeadership reads the state of every journal. The leadership begins with start.
func (s *Store) newLeadership(term uint64) (*leadership, error) {
	l := &leadership{store: s, term: term, over: make(chan struct{}), slots: make(chan struct{}, proposedMax)}
	for n := range int(s.homes) {
		j, err := openJournal(l, n)
		if err != nil {
			return nil, err
		}
		l.journals = append(l.journals, j)
	}
	return l, nil
}

// feedPositions are the positions of the feeds of one journal.
type feedPositions struct {
	// durable is the last durable position. It is raised before entries are published.
	durable notify.Watermark
	// assigned is the last position assigned. It is set before the row is visible.
	assigned atomic.Uint64
}

// openPositions reads the last position of every journal.
func (s opening) openPositions() error {
	for n := range int(s.homes) {
		applied, err := s.homes.ReadApplied(s.db, n)
		if err != nil {
			return err
		}
		p := &feedPositions{}
		p.durable.Raise(applied.Position)
		p.assigned.Store(applied.Position)
		s.positions = append(s.positions, p)
	}
	return nil
}

// start sends what was under way in outboxes again, and begins to take entries.
func (l *leadership) start() error {
	for _, j := range l.journals {
		if err := j.resumeOutboxes(); err != nil {
			return err
		}
	}
	for _, j := range l.journals {
		l.loops.Go(j.write)
		if l.term == 0 {
			l.loops.Go(j.acknowledge)
		}
		l.loops.Go(j.housekeeping)
	}
	return nil
}

// closed is why an entry that comes too late is refused: nothing was done.
func (l *leadership) closed() error {
	if l.term != 0 {
		return journal.ErrNotLeader
	}
	return journal.ErrClosed
}

// finish stores and releases everything that was appended.
func (l *leadership) finish() {
	close(l.over)
	l.drainOutboxes()
	for _, j := range l.journals {
		j.queue.close()
	}
	l.loops.Wait()
}

// home is the journal in which a slot lives.
func (l *leadership) home(slot parley.Slot) *journalState {
	return l.journals[l.store.homes.Of(slot)]
}

// busySince is the age since when the oldest commit or sync is under way, 0 if none is.
func (l *leadership) busySince() (busy int64) {
	if l == nil {
		return 0
	}
	for _, j := range l.journals {
		busy = disk.Earliest(busy, disk.Earliest(j.committing.Load(), j.syncing.Load()))
	}
	return busy
}
