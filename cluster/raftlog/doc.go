// Package raftlog stores the log of one raft group: entries, the hard state and what
// was cut off. It is the only part of a node that waits for a disk before the node
// answers. Log implements raft.Storage.
//
// # Files
//
// A log is a directory of segments, which are only ever appended to, and a durability
// witness (see package disk). A segment is a sequence of records. Space beyond the last
// record is written with zeros before it is needed, so that a sync overwrites and does not
// change the metadata of the file. The first record of a segment, its base, repeats the
// hard state, the position of the cut and the last index. So the segments before it can be
// deleted once all of their entries are cut. Each opening begins a new segment: bytes that
// a crash left behind the end of the last one are never overwritten, and never read again.
//
// A record is, in big-endian numbers:
//
//	length    4  of the payload, not 0
//	checksum  4  CRC-32C of everything else, beginning with the log's id and the segment's number
//	number    8  of the record before it, counted from 1 over all segments
//	chain     8  a hash of all headers up to the record before it
//	synced    8  the number of a record that was durable when this one was written
//	payload
//
// # Damage
//
// A power failure may cut off or damage any record that was not synced yet, in any order.
// Those are dropped: nobody was given a promise about them. A record is known to have been
// synced if a later record says so in its field synced, if the witness says so, or if there
// is a later segment, which is only begun after the former one is synced. If a record that
// was synced is missing or unreadable, the log is damaged and is not opened. Damage to the
// records of the last 50 ms and one sync before a crash goes undetected if no record was
// written after them: that is how far the witness lags. An orderly close leaves no window.
package raftlog
