// Package parley is the ground every other package stands on: typed ids that
// say where their owner lives, handles, refusals, limits, cursors, and the
// vocabulary in which actors speak to the journal that keeps their words.
//
// It does no I/O, starts no goroutine and reads no clock. Everything above it
// is laid out in docs/architecture.md.
package parley
