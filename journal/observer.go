package journal

import "parley/client/parley"

// Observer is called for changes of some tables and kinds of streams.
type Observer struct {
	Tables  []Table
	Streams []StreamKind
	// Changed is called from several goroutines at once and must not block. A call that
	// has begun when the observer is stopped may end later.
	Changed func(Change)
	// Dropped, if set, is called in the same way with an agent whose feed lost entries.
	Dropped func(parley.AgentID)
	// Replaced is called, in the same way, when anything may have changed: a replica took
	// the content of another one.
	Replaced func()
}

// Change says that a row was written or deleted, or that a stream got events or a state.
// Readers get the new value from a view.
type Change struct {
	// Table is the row's table, Slot and Key its place; Table is 0 for a stream. Names in
	// Key may be hashed, see Table.NameIn. Key must not be changed.
	Table Table
	Slot  parley.Slot
	Key   []byte
	// Stream is the stream that has changed.
	Stream Stream
}
