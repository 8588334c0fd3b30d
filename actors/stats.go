package actors

import "parley/actors/host"

// Stats are the numbers of a Node at one instant.
type Stats struct {
	host.Stats
	// Receipts is how many receipts streams have collected that are not appended yet.
	Receipts int
}

// Stats reads the numbers. It holds no lock for long.
func (n *Node) Stats() Stats { return Stats{n.engine.Stats(), n.Receipts.Waiting()} }
