package query

import (
	"slices"

	"github.com/maypok86/otter/v2"

	"parley/client/parley"
	"parley/journal"
)

const (
	// newestBytes bounds the memory of the newest messages of feeds: those of 5,000 agents.
	newestBytes = 16 << 20
	// newestEntries is a page of 20 and the message that shows that there are more, and
	// newestOverhead about how many bytes they take besides entryBytes each.
	newestEntries, newestOverhead, entryBytes = 21, 256, 144
)

// newestCache keeps which messages are the newest of feeds, for readers who ask again
// before there is another one: to seek the end of a feed costs more than the rest of a page.
type newestCache struct {
	feeds *otter.Cache[parley.AgentID, *newestMessages]
}

// newestMessages are the newest messages of a feed after a commit, with their receipts.
type newestMessages struct {
	commit  uint64
	entries []FeedEntry // newest first
	// end is the position of the last entry that was read, and whole that there is none
	// before it.
	end   uint64
	whole bool
}

func newNewestCache() newestCache {
	return newestCache{otter.Must(&otter.Options[parley.AgentID, *newestMessages]{
		MaximumWeight: newestBytes,
		Weigher: func(_ parley.AgentID, n *newestMessages) uint32 {
			return uint32(newestOverhead + entryBytes*cap(n.entries))
		},
	})}
}

// of returns the newest messages of a feed as a view shows it, and how many entries it read
// for that. The messages are shared and must not be changed.
func (c newestCache) of(v journal.View, agent parley.AgentID) (n *newestMessages, seen int, err error) {
	if n, found := c.feeds.GetIfPresent(agent); found && v.FeedUnchanged(agent, n.commit) {
		return n, 0, nil
	}
	n = &newestMessages{commit: v.Commit(), entries: make([]FeedEntry, 0, newestEntries), whole: true}
	err = v.InboxBefore(agent, 0, func(e journal.FeedEntry) bool {
		if len(n.entries) == newestEntries || seen == scanMax {
			n.whole = false
			return false
		}
		seen, n.end = seen+1, e.Position
		e.Note, e.Record = nil, nil
		n.entries = append(n.entries, FeedEntry{FeedEntry: e})
		return true
	})
	if err != nil {
		return nil, seen, err
	}
	slices.Reverse(n.entries)
	err = fillEntryReceipts(v, agent, n.entries)
	slices.Reverse(n.entries)
	if err == nil && n.commit > 0 {
		c.feeds.Set(agent, n)
	}
	return n, seen, err
}
