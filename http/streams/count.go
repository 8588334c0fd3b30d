package streams

import "sync/atomic"

// streamCount holds the counters of streams.
type streamCount struct {
	opened, events atomic.Uint64
	lagging        atomic.Int64
}

// Stats are the totals of all streams.
type Stats struct {
	// Open is the number of open streams, Opened the number opened since the start.
	Open   int
	Opened uint64
	// Lagging streams wait for their reader, or read from the disk entries that they
	// could not be given live.
	Lagging int
	// Events is the number of events written, without heartbeats.
	Events uint64
}

// Stats returns the current totals.
func (r *Streams) Stats() Stats {
	c := &r.count
	return Stats{Open: r.Open(), Opened: c.opened.Load(), Lagging: int(c.lagging.Load()), Events: c.events.Load()}
}

// Open is the number of open streams.
func (r *Streams) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}
