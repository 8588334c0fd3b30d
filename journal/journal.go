// Package journal is the contract between actors and storage: what a turn of an
// actor appends (Entry), what it changes elsewhere (Effect), and what can be read
// back (View, Subscription). Package persistence implements it; package
// persistence/journaltest is the suite that every implementation passes.
package journal

import (
	"context"
	"time"

	"parley/client/parley"
)

// Journal stores entries and reads them back. Callers take the part that they need; a layer
// in front of a journal replaces the parts that it changes.
type Journal struct {
	Writer
	Reader
	Feeds
	Health
}

// Of returns a journal whose parts are all one.
func Of(all interface {
	Writer
	Reader
	Feeds
	Health
},
) Journal {
	return Journal{all, all, all, all}
}

// Writer stores entries, and wakes the actors that have something to do.
type Writer interface {
	// Append takes an entry. It never blocks and never fails at once: the outcome is
	// passed to the entry's Release.
	Append(*Entry)
	// Admit reserves room for one entry of about size bytes in the journal of slot,
	// or fails with parley.ErrOverloaded before anything has happened.
	Admit(slot parley.Slot, size int) (release func(), err error)
	// NextActivation returns the number of a new activation.
	NextActivation() uint64
	// Confirm calls release once it is certain that this node decided at some instant
	// after the call, or with ErrNotLeader. An answer that depends on the memory of an
	// actor, and on no entry, waits for it: another node may have decided since. An
	// activation that began before this node decided is refused too.
	Confirm(activation uint64, release func(error))
	// Settle returns once everything that was appended before the call is on stable
	// storage and has been applied in every journal.
	Settle(context.Context) error
	// Arrived returns once all that the journal of one slot had for the journal of
	// another when the call began, as far as views showed it, is applied there and on
	// stable storage. It writes nothing.
	Arrived(ctx context.Context, from, to parley.Slot) error
	// Start begins to call onQueue for actors with queued messages and onTimer for
	// those with due timers. Neither must block; onTimer is called again until the
	// timer is cancelled.
	Start(onQueue func(Stream), onTimer func(Stream, time.Time)) error
}

// Reader reads what is stored, and reports changes.
type Reader interface {
	// Fence returns once views that are opened afterwards show everything that any node
	// had acknowledged when the call began. On one node all views do.
	Fence(context.Context) error
	// Row reads one row as it was last applied, durable or not.
	Row(slot parley.Slot, table Table, key []byte) ([]byte, bool, error)
	// View returns a consistent view of everything that is applied.
	View() View
	// Latest returns a view in which each read sees what is applied by then. It is
	// cheaper, for a caller that reads one row or scans once.
	Latest() View
	// Observe calls the observer for each change that is applied and durable, until stop
	// is called. A change may be reported twice, also before it is applied in another
	// journal; the last report follows the last change.
	Observe(Observer) (stop func())
}

// Feeds follows the feeds of agents.
type Feeds interface {
	// Follow subscribes to an agent's feed beyond the position after. notify is
	// called when Next may have more; it must not block.
	Follow(agent parley.AgentID, after uint64, notify func()) Subscription
	// Watch calls notify when there is something new in an agent's feed, until stop
	// is called. notify must not block.
	Watch(agent parley.AgentID, notify func()) (stop func())
	// DurablePosition is the position up to which an agent's feed is durable.
	DurablePosition(agent parley.AgentID) uint64
	// AssignedPosition is a position beyond which no view opened so far has an entry
	// of an agent's feed.
	AssignedPosition(agent parley.AgentID) uint64
}

// Health says what a journal can do now.
type Health interface {
	// Trouble is the reason why the journal takes no writes, nil if it does.
	Trouble() *parley.Refusal
	// Overloaded is the error that Admit would return now, nil if it would admit.
	Overloaded() *parley.Refusal
	// Damage names the file in which a read found corruption, empty if none did.
	Damage() string
}

// Subscription follows a feed: it returns every entry once, in order.
type Subscription interface {
	// Next returns the entries that follow, at most limit; none if there are none yet.
	Next(limit int) ([]FeedEntry, error)
	// Live returns what Next would as far as it is in memory; behind says that Next
	// has to read from the disk.
	Live(limit int) (entries []FeedEntry, behind bool)
	// Behind is the range that has to be read from rows: beyond from, up to upTo. The
	// two are equal if there is none.
	Behind() (from, upTo uint64)
	// Pass skips entries up to a position within that range, which were read
	// elsewhere.
	Pass(position uint64)
	Position() uint64
	Close()
}
