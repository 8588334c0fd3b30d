package actors

import "parley/client/parley"

// leaderMemory is what the node remembers beside the journal while it leads. Another node that
// leads changes what it is about, so each term begins with an empty one: StopLeading puts it in
// the place of the former one. It begins there, and not with Lead, because the journal may take
// entries before Lead is called. Webhooks and erasures keep theirs in the same way.
type leaderMemory struct {
	// after is a number of an activation. Actors that were activated before it are of a former
	// term: one in the middle of a turn must not read into this memory what the next leaders
	// will change.
	after    uint64
	quota    usages
	pairs    pairs
	activity activity[parley.AgentID]
	tokens   activity[parley.ClientID]
}
