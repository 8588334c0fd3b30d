package actors

// Stats are the numbers of a Node at one instant, for whoever watches it.
type Stats struct {
	// Live actors are in memory, Begun counts their lives since the start.
	Live  int
	Begun uint64
	// Refused counts requests that a full mailbox did not take, Overdue those
	// whose asker was told that the outcome is not known.
	Refused, Overdue uint64
	// Quarantined counts words that could not be decoded and were put into quarantine
	// since the start.
	Quarantined uint64
	// Marks of streams that are gathered and not yet said to the journal.
	Marks int
}

// Stats counts. It stops nobody for longer than a lock is held.
func (n *Node) Stats() Stats {
	e := n.engine
	return Stats{
		Live: int(e.live.Load()), Begun: e.begun.Load(),
		Refused: e.asks.turned.Load(), Overdue: e.asks.overdue.Load(), Quarantined: e.quarantined.Load(), Marks: n.marker.length(),
	}
}

// length is how many marks wait to be said.
func (k *marker) length() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, marks := range k.waiting {
		n += len(marks)
	}
	return n
}
