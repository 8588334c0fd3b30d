package layout

import (
	"encoding/binary"
	"errors"
	"fmt"

	"parley/client/parley"
	"parley/journal"
)

// FeedBytes is the length of a feed entry without its note.
const FeedBytes = 25

// begins is set in the byte of the kind if the entry begins a conversation, dropped if it
// was dropped.
const begins, dropped = 0x80, 0x40

// PutFeed encodes a feed entry into b, which has FeedBytes and the length of the
// note: kind, Unix milliseconds, reference, note.
func PutFeed(b []byte, e *journal.FeedEntry) {
	b[0] = feedByte(e.Kind, e.Begins)
	binary.BigEndian.PutUint64(b[1:], uint64(e.At))
	copy(b[9:], e.Ref[:])
	copy(b[FeedBytes:], e.Note)
}

// PutDropped encodes an entry that was dropped at an instant, in Unix milliseconds, into
// b, which has FeedBytes.
func PutDropped(b []byte, m journal.DroppedMessage, at int64) {
	PutFeed(b, &journal.FeedEntry{Kind: m.Kind, At: at, Ref: m.Ref})
	b[0] |= dropped
}

// Dropped reports whether an encoded feed entry, which is not empty, was dropped. Only a
// verification reads such entries.
func Dropped(b []byte) bool { return b[0]&dropped != 0 }

func feedByte(kind journal.FeedKind, beginning bool) byte {
	if beginning {
		return byte(kind) | begins
	}
	return byte(kind)
}

// FeedKindOf is the kind of an encoded feed entry, which is not empty.
func FeedKindOf(b []byte) journal.FeedKind { return journal.FeedKind(b[0] &^ (begins | dropped)) }

// DecodeFeed decodes the entry at a position.
func DecodeFeed(position uint64, b []byte) (journal.FeedEntry, error) {
	if len(b) < FeedBytes {
		return journal.FeedEntry{}, fmt.Errorf("feed entry of %d bytes", len(b))
	}
	return journal.FeedEntry{
		Position: position,
		Kind:     FeedKindOf(b),
		Begins:   b[0]&begins != 0,
		At:       int64(binary.BigEndian.Uint64(b[1:])),
		Ref:      parley.IDFromBytes[parley.AnyID](b[9:25]),
		Note:     append([]byte(nil), b[FeedBytes:]...),
	}, nil
}

// ReceiptBytes is the size of receipts that no webhook announced,
// AnnouncedReceiptBytes of others.
const (
	ReceiptBytes          = 16
	AnnouncedReceiptBytes = 24
	// The instant of transfer takes instantBits; the byte above it is the channel.
	instantBits = 56
)

// EncodeReceipts encodes receipts.
func EncodeReceipts(m journal.Receipts) []byte {
	b := make([]byte, ReceiptBytes, AnnouncedReceiptBytes)
	binary.BigEndian.PutUint64(b, uint64(m.TransferredAt)|uint64(m.TransferredBy)<<instantBits)
	binary.BigEndian.PutUint64(b[8:], uint64(m.ReadAt))
	if m.AnnouncedAt != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(m.AnnouncedAt))
	}
	return b
}

// DecodeReceipts reads what EncodeReceipts wrote.
func DecodeReceipts(b []byte) (journal.Receipts, error) {
	if len(b) != ReceiptBytes && len(b) != AnnouncedReceiptBytes {
		return journal.Receipts{}, fmt.Errorf("receipts of %d bytes", len(b))
	}
	delivered := Number(b)
	m := journal.Receipts{
		TransferredAt: int64(delivered & (1<<instantBits - 1)), TransferredBy: journal.Channel(delivered >> instantBits), ReadAt: int64(Number(b[8:16])),
	}
	if len(b) == AnnouncedReceiptBytes {
		if m.AnnouncedAt = int64(Number(b[16:])); m.AnnouncedAt == 0 {
			return journal.Receipts{}, errors.New("receipts whose announcement has no instant")
		}
	}
	return m, nil
}

// AppendSeats adds seats to b, SeatBytes each.
func AppendSeats(b []byte, to []parley.Seat) []byte {
	for i := range to {
		b = binary.BigEndian.AppendUint32(b, to[i].Number)
		b = append(b, to[i].Agent[:]...)
	}
	return b
}

// SeatIn reads a seat.
func SeatIn(b []byte) parley.Seat {
	return parley.Seat{Number: binary.BigEndian.Uint32(b), Agent: parley.AgentID(b[4:SeatBytes])}
}

// Copies is a row that lists the recipients of copies of one chunk of a broadcast,
// in the order of their seats.
type Copies struct {
	// First is the position of the first copy in its recipient's feed; the others
	// have the positions after it. 0 if the recipients live in another journal.
	First uint64
	seats []byte
}

// DecodeCopies decodes a row: position, seats. The result refers to value.
func DecodeCopies(value []byte) (Copies, error) {
	if len(value) < 8+SeatBytes || (len(value)-8)%SeatBytes != 0 {
		return Copies{}, fmt.Errorf("copies in %d bytes", len(value))
	}
	return Copies{First: Number(value), seats: value[8:]}, nil
}

// Len is the number of copies.
func (c Copies) Len() int { return len(c.seats) / SeatBytes }

// Seat is the i-th recipient.
func (c Copies) Seat(i int) parley.Seat { return SeatIn(c.seats[i*SeatBytes:]) }

// Position is the feed position of the i-th copy, 0 if its recipient lives in
// another journal.
func (c Copies) Position(i int) uint64 {
	if c.First == 0 {
		return 0
	}
	return c.First + uint64(i)
}

// Find is the index of a seat, -1 if it is not in the row.
func (c Copies) Find(seat uint32) int {
	low, high := 0, c.Len()
	for low < high {
		mid := (low + high) / 2
		switch n := c.Seat(mid).Number; {
		case n == seat:
			return mid
		case n < seat:
			low = mid + 1
		default:
			high = mid
		}
	}
	return -1
}

// Chunk is the number of the chunk that a seat belongs to, from 0. A seat is in the
// same chunk of every fan-out, so that what is sent to it always takes the same
// path, in order.
func Chunk(seat uint32) uint32 { return (seat - 1) / journal.FanoutChunk }

// SeatBytes is the size of a seat in a row or a message: its number, its agent.
const SeatBytes = 20

// Transferred reports whether encoded receipts say that a message was transferred.
func Transferred(value []byte) bool {
	m, err := DecodeReceipts(value)
	return err == nil && m.Transferred()
}
