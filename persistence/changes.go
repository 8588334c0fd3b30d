package persistence

import (
	"encoding/binary"
	"sync/atomic"

	"parley"
)

// feedPlaces is the number of places that feeds share.
const feedPlaces = 1 << 16

// feedChanges keeps the number of the last commit that changed a feed or its receipts.
// Feeds share a place by the last bytes of their agents' ids, so that a feed may seem to
// have changed when another one has.
type feedChanges [feedPlaces]atomic.Uint64

func (c *feedChanges) of(agent parley.AgentID) *atomic.Uint64 {
	return &c[binary.BigEndian.Uint16(agent[len(agent)-2:])]
}

// note keeps the number of a commit, which must not be visible yet.
func (c *feedChanges) note(agents []parley.AgentID, commit uint64) {
	for i := range agents {
		c.of(agents[i]).Store(commit)
	}
}

// noteAll keeps the number of a commit that may have changed every feed.
func (c *feedChanges) noteAll(commit uint64) {
	for i := range c {
		c[i].Store(commit)
	}
}

// Commit is the number of a commit that a snapshot shows, and all before it.
func (v feedsAt) Commit() uint64 { return v.atLeast }

// FeedUnchanged implements journal.FeedReader. All commits that the snapshot shows have been
// noted: a feed without a later one than commit is as it was then.
func (v feedsAt) FeedUnchanged(agent parley.AgentID, commit uint64) bool {
	return commit > 0 && commit <= v.atLeast && v.store.feeds.of(agent).Load() <= commit
}
