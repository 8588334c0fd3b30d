// Package persistence keeps what the actors say: events, message records,
// feeds, marks, in-trays, lanes, timers and row-backed sets, all in one Pebble.
//
// A Store holds one or more journals; each is home to a share of the slots. An
// actor hands its journal an entry and goes on. The journal's writer drains its
// queue into one batch (apply), commits it without waiting, and its acker waits
// for the sync, publishes to feeds, hints in-trays, forwards lanes and releases
// what the entries promised, in order.
//
// Invariants:
//   - nothing is released before the batch that holds it is synced;
//   - an entry takes effect whole or not at all, but that a word to many goes on
//     block by block, by lanes, of which each journal has one to itself;
//   - positions of feeds and in-trays grow, given by apply from the journal's
//     own counter;
//   - the target of a lane remembers one number, written in the same batch as
//     what it applied: nothing is applied twice, nothing skipped;
//   - what a View shows is answered only after View.Durable.
package persistence
