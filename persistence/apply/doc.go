// Package apply is the evaluator of a journal: it decides what becomes of journal
// entries and builds the batch that stores them. It is the only place that checks
// activations and sequence numbers, assigns positions and writes rows.
//
// Its input is the State of one journal, the items to apply (entries, and messages
// that arrived in outboxes) and, of the stored rows, the lengths of streams (Rows).
// Its output is the batch and, in each Item, the outcome: the refusal, the feed
// entries to publish, the actors to wake, and the messages for other journals. It
// reads no clock, starts nothing and waits for nothing. Time comes with the entries.
//
// The caller commits the batch. If it cannot, it discards the State and loads it
// again, because the State is ahead of the rows then.
package apply
