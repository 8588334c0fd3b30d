// Package parley is the base that every other package imports: typed ids that
// contain the slot of their owner, handles, refusals, limits and cursors.
//
// It does no I/O, starts no goroutine and reads no clock.
package parley
