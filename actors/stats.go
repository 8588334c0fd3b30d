package actors

import "parley/actors/host"

// Stats are the numbers of a Node at one instant.
type Stats struct {
	host.Stats
	// Receipts that streams have gathered and that were not appended yet.
	Receipts int
}

// Stats reads the numbers. No lock is held for long.
func (n *Node) Stats() Stats { return Stats{n.engine.Stats(), n.Receipts.Waiting()} }
