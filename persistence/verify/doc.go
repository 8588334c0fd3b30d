// Package verify checks the rows of a store against the rules of the journal: keys
// and values have the shape that their family demands, positions are within the
// journal's counter, events are numbered without a gap, every feed entry has its
// record and every copy is listed, outboxes continue where their targets stopped,
// and the newest commits are all there.
//
// It reads rows and changes nothing. Package actors/verify checks what the rows
// mean; both fill one report.Verification. This package reads the store through the
// interface Source and does not import it, so that the store's own tests can check
// with it.
package verify
