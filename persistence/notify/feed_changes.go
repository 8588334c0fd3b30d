package notify

import (
	"encoding/binary"
	"sync/atomic"

	"parley/client/parley"
)

// feedPlaces is the number of places that feeds share.
const feedPlaces = 1 << 16

// FeedChanges keeps the number of the last commit that changed a feed or its receipts.
// Feeds share a place by the last bytes of their agents' ids, so that a feed may seem to
// have changed when another one has.
type FeedChanges [feedPlaces]atomic.Uint64

func (c *FeedChanges) of(agent parley.AgentID) *atomic.Uint64 {
	return &c[binary.BigEndian.Uint16(agent[len(agent)-2:])]
}

// Last is the number of the last commit that may have changed an agent's feed.
func (c *FeedChanges) Last(agent parley.AgentID) uint64 { return c.of(agent).Load() }

// Note keeps the number of a commit, which must not be visible yet.
func (c *FeedChanges) Note(agents []parley.AgentID, commit uint64) {
	for i := range agents {
		c.of(agents[i]).Store(commit)
	}
}

// NoteAll keeps the number of a commit that may have changed every feed.
func (c *FeedChanges) NoteAll(commit uint64) {
	for i := range c {
		c[i].Store(commit)
	}
}
