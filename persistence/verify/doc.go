// Package verify checks the rows of a store against the rules of the journal: keys
// and values have the shape that their family demands, positions are within the
// journal's counter, events are numbered without a gap, every feed entry has its
// record and every copy is listed, outboxes continue where their targets stopped,
// and the newest commits are all there.
//
// It reads rows and changes nothing. What the rows mean is checked by the actors;
// both fill one report (journal/verify). The store is seen through a small
// interface, Source, so that the store's own tests can use this package as their
// oracle.
package verify
