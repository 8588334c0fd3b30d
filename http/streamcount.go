package http

import "sync/atomic"

// streamCount holds the counters of streams.
type streamCount struct {
	opened, events atomic.Uint64
	lagging        atomic.Int64
}

// StreamStats are the totals of all streams.
type StreamStats struct {
	// Open is the number of open streams, Opened the number opened since the start.
	Open   int
	Opened uint64
	// Lagging streams wait for their reader, or read from the disk entries that they
	// could not be given live.
	Lagging int
	// Events is the number of events written, without heartbeats.
	Events uint64
}

// StreamStats returns the current totals.
func (s *Service) StreamStats() StreamStats {
	c := &s.streams.count
	return StreamStats{Open: s.OpenStreams(), Opened: c.opened.Load(), Lagging: int(c.lagging.Load()), Events: c.events.Load()}
}
