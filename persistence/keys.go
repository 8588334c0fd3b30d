package persistence

import (
	"encoding/binary"

	"parley"
	"parley/journal"
)

// Key layout. Every key begins with the slot it belongs to, big endian, and
// the letter of its family; journal metadata has the slot 0xFFFF, which no id
// carries, and names its journal.
//
//	slot E stream seq            event: tag, milliseconds, encoding
//	slot S stream                state: seq, encoding
//	slot B message               record: position, bytes
//	slot C copy                  of a broadcast, with others of its block: position, seats
//	slot F agent position        feed entry
//	slot U agent position        message, not a copy, not carried to its recipient yet
//	slot M agent position        marks, as the recipient's home has them
//	slot M message               marks, where the conversation's is another home
//	slot T stream number         in-tray
//	slot R table key             member of a row-backed set
//	FFFF m                       format of the directory
//	FFFF h 0 number              head of a commit
//	FFFF c journal               counter
//	FFFF o source target number  lane, outgoing
//	FFFF i target source         lane, last number applied
//	FFFF t journal due stream    timer
//	FFFF q journal org day       used quota
const (
	eventFamily         = 'E'
	stateFamily         = 'S'
	recordFamily        = 'B'
	chunkFamily         = 'C'
	feedFamily          = 'F'
	untransferredFamily = 'U'
	receiptFamily       = 'M'
	actorQueueFamily    = 'T'
	rowFamily           = 'R'

	formatFamily         = 'm'
	headFamily           = 'h'
	counterFamily        = 'c'
	outboxFamily         = 'o'
	outboxReceivedFamily = 'i'
	timerFamily          = 't'
	quotaFamily          = 'q'

	metaSlot = 0xFFFF
)

func key(slot parley.Slot, family byte, size int) []byte {
	k := make([]byte, 3, 3+size)
	binary.BigEndian.PutUint16(k, uint16(slot))
	k[2] = family
	return k
}

func metaKey(family byte, journal int, size int) []byte {
	k := make([]byte, 5, 5+size)
	binary.BigEndian.PutUint16(k, metaSlot)
	k[2] = family
	binary.BigEndian.PutUint16(k[3:], uint16(journal))
	return k
}

func streamKey(family byte, s journal.Stream, size int) []byte {
	k := key(s.Slot(), family, 17+size)
	return append(append(k, byte(s.Kind)), s.ID[:]...)
}

func eventKey(s journal.Stream, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(streamKey(eventFamily, s, 8), seq)
}

func stateKey(s journal.Stream) []byte { return streamKey(stateFamily, s, 0) }

func actorQueueKey(s journal.Stream, number uint64) []byte {
	return binary.BigEndian.AppendUint64(streamKey(actorQueueFamily, s, 8), number)
}

// feedKeyBytes is the length of the keys of a place in a feed.
const feedKeyBytes = 27

func feedKey(family byte, agent parley.AgentID, position uint64) []byte {
	k := make([]byte, feedKeyBytes)
	putFeedKey(k, family, agent, position)
	return k
}

func putFeedKey(k []byte, family byte, agent parley.AgentID, position uint64) {
	binary.BigEndian.PutUint16(k, uint16(agent.Slot()))
	k[2] = family
	copy(k[3:], agent[:])
	binary.BigEndian.PutUint64(k[19:], position)
}

// receiptKey is where a mark is kept: beside the recipient's feed, in its order, so
// that a page of the feed finds them all in one place; or by message, where only
// the conversation lives.
func receiptKey(m journal.RecordReceipt) []byte {
	if m.Recipient.Zero() {
		return residentKey(receiptFamily, m.Message.Slot(), m.Message)
	}
	return feedKey(receiptFamily, m.Recipient, m.Position)
}

// residentKey is the key of a message's record or marks as kept for a reader
// who lives at slot: under the message's own slot.
func residentKey(family byte, slot parley.Slot, m parley.MessageID) []byte {
	return append(key(slot, family, 16), m[:]...)
}

func rowKey(slot parley.Slot, table journal.Table, k []byte) []byte {
	return append(append(key(slot, rowFamily, 1+len(k)), byte(table)), k...)
}

func outboxKey(source, target int, number uint64) []byte {
	k := binary.BigEndian.AppendUint16(metaKey(outboxFamily, source, 10), uint16(target))
	return binary.BigEndian.AppendUint64(k, number)
}

func outboxReceivedKey(target, source int) []byte {
	return binary.BigEndian.AppendUint16(metaKey(outboxReceivedFamily, target, 2), uint16(source))
}

func timerKey(journal int, due uint64, s journal.Stream) []byte {
	k := binary.BigEndian.AppendUint64(metaKey(timerFamily, journal, 25), due)
	return append(append(k, byte(s.Kind)), s.ID[:]...)
}

func quotaKey(journal int, org parley.OrgID, day uint32) []byte {
	k := append(metaKey(quotaFamily, journal, 20), org[:]...)
	return binary.BigEndian.AppendUint32(k, day)
}

// after is the first key beyond every key that begins with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

func number(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}
