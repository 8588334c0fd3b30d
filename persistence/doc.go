// Package persistence stores what the actors append: events, message records,
// feeds, receipts, durable queues, outboxes, timers and row-backed sets, all in one
// Pebble database.
//
// A Store holds one or more journals; each is the home of a share of the slots. An
// actor appends a journal entry ("entry" in this package) and continues. The
// journal's writer drains its queue into one batch (package apply) and commits it
// without waiting; entries that no one waits for gather for 2 ms. Its acknowledger waits for the sync, publishes feed entries,
// wakes actors with queued messages, sends outbox messages and releases the
// entries, in order.
//
// Invariants:
//   - nothing is released before the batch that holds it is synced;
//   - an entry takes effect completely or not at all, except that a fan-out is
//     applied chunk by chunk, through outboxes, of which each journal has one to
//     itself;
//   - positions of feeds and queues increase, assigned from the journal's own
//     counter;
//   - the target of an outbox stores the last number that it applied in the same
//     batch as the effects: nothing is applied twice, nothing skipped;
//   - what a View shows is answered only after View.Durable.
//
// The packages below it: apply (decides what becomes of entries), disk (the file
// system under the engine and its health), layout (keys and values of rows), verify
// (checks rows), backup (copies and restores), keyring (the keys of organizations, in
// files beside the store), seal (encrypts content under those keys; not used yet).
package persistence
