package http

import "sync/atomic"

// streamCount counts what streams do.
type streamCount struct {
	opened, events atomic.Uint64
	lagging        atomic.Int64
}

// StreamStats are the numbers of all streams.
type StreamStats struct {
	// Open streams, and how many were opened since the start.
	Open   int
	Opened uint64
	// Lagging streams wait for their reader, or read from the disk what they
	// cannot be given live.
	Lagging int
	// Events that were written, heartbeats apart.
	Events uint64
}

// StreamStats counts.
func (s *Service) StreamStats() StreamStats {
	c := &s.streams.count
	return StreamStats{Open: s.OpenStreams(), Opened: c.opened.Load(), Lagging: int(c.lagging.Load()), Events: c.events.Load()}
}
