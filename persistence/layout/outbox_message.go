package layout

import (
	"encoding/binary"
	"errors"
	"fmt"

	"parley/client/parley"
	"parley/journal"
)

// An outbox message on disk: milliseconds, number of effects, effects; number of
// records, records. Byte strings carry their length as a uvarint. Letters of
// effects may be added, never changed.
const (
	appendFeedLetter   = 'a'
	receiptLetter      = 'm'
	enqueueLetter      = 't'
	putRowLetter       = 'p'
	createStreamLetter = 'b'
	addToListLetter    = 'l'
	fanoutLetter       = 'f'
	copyReceiptLetter  = 'k'
	// Receipts that a webhook announced.
	announcedReceiptLetter     = 'n'
	announcedCopyReceiptLetter = 'o'
	dropFeedLetter             = 'd'
	newsLetter                 = 'w' // kinds, the sender, the receipt
)

var errOutboxMessage = errors.New("damaged outbox message")

func appendBytes(b, x []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(x))), x...)
}

// OutboxMessage carries effects of one entry to another journal, or later parts of
// a fan-out to its own, with the records that they need.
type OutboxMessage struct {
	// At is when the entry was applied, in Unix milliseconds.
	At      int64
	Effects []journal.Effect
	Records []journal.Record
}

// EncodeOutboxMessage encodes a message.
func EncodeOutboxMessage(p *OutboxMessage) []byte {
	size := 256
	for _, w := range p.Effects {
		if many, ok := w.(journal.Fanout); ok {
			size += SeatBytes*len(many.To) + 64
		}
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, size), uint64(p.At))
	b = binary.AppendUvarint(b, uint64(len(p.Effects)))
	for _, w := range p.Effects {
		b = appendEffect(b, w)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Records)))
	for i := range p.Records {
		r := &p.Records[i]
		b = appendBytes(append(b, r.ID[:]...), r.Bytes())
	}
	return b
}

func appendEffect(b []byte, w journal.Effect) []byte {
	switch w := w.(type) {
	case journal.AppendFeed:
		b = append(append(append(b, appendFeedLetter), w.To[:]...), feedByte(w.Kind, w.Begins))
		return appendBytes(append(b, w.Ref[:]...), w.Note)
	case journal.RecordReceipt:
		if w.News != 0 {
			b = append(append(b, newsLetter, byte(w.News)), w.Sender[:]...)
		}
		letter := byte(receiptLetter)
		switch announced := w.Receipts.AnnouncedAt != 0; {
		case announced && w.Copy:
			letter = announcedCopyReceiptLetter
		case announced:
			letter = announcedReceiptLetter
		case w.Copy:
			letter = copyReceiptLetter
		}
		b = append(append(append(b, letter), w.Recipient[:]...), w.Message[:]...)
		b = binary.BigEndian.AppendUint64(b, w.Position)
		return append(b, EncodeReceipts(w.Receipts)...)
	case journal.EnqueueFor:
		return appendBytes(appendStream(append(b, enqueueLetter), w.To), w.Data)
	case journal.PutRow:
		b = binary.BigEndian.AppendUint16(append(b, putRowLetter), uint16(w.Slot))
		gone := byte(0)
		if w.Delete {
			gone = 1
		}
		b = append(b, byte(w.Table), gone)
		return appendBytes(appendBytes(b, w.Key), w.Value)
	case journal.AddToList:
		return append(append(append(b, addToListLetter), w.Agent[:]...), w.Conversation[:]...)
	case journal.DropFeed:
		b = binary.AppendUvarint(append(append(b, dropFeedLetter), w.Of[:]...), uint64(len(w.Messages)))
		for _, m := range w.Messages {
			b = append(append(binary.BigEndian.AppendUint64(b, m.Position), byte(m.Kind)), m.Ref[:]...)
		}
		return b
	case journal.Fanout:
		b = append(append(b, fanoutLetter, feedByte(w.Kind, w.Begins)), w.Ref[:]...)
		b = binary.AppendUvarint(appendBytes(b, w.Note), uint64(len(w.To)))
		return AppendSeats(b, w.To)
	case journal.CreateStream:
		b = appendStream(append(b, createStreamLetter), w.Stream)
		b = binary.AppendUvarint(b, uint64(len(w.Events)))
		for _, f := range w.Events {
			b = appendBytes(append(b, f.Tag), f.Data)
		}
		return appendBytes(b, w.State)
	}
	panic(fmt.Sprintf("layout: unknown effect %T", w))
}

func appendStream(b []byte, s journal.Stream) []byte {
	return append(append(b, byte(s.Kind)), s.ID[:]...)
}

// reader reads a message. After the first error everything that it returns is
// empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return make([]byte, min(max(n, 0), 64))
	}
	x := r.b[:n]
	r.b = r.b[n:]
	return x
}

func (r *reader) count() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

func (r *reader) bytes() []byte  { return append([]byte(nil), r.take(r.count())...) }
func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) id() [16]byte   { return [16]byte(r.take(16)) }
func (r *reader) number() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *reader) feedKind() (kind journal.FeedKind, beginning bool) {
	b := r.byte()
	return journal.FeedKind(b &^ begins), b&begins != 0
}

func (r *reader) stream() journal.Stream {
	kind := journal.StreamKind(r.byte())
	return journal.Stream{Kind: kind, ID: parley.AnyID(r.id())}
}

// seats are at least one, in ascending order of their numbers.
func (r *reader) seats() []parley.Seat {
	n := r.count()
	raw := r.take(n * SeatBytes)
	if r.bad || n == 0 {
		r.bad = true
		return nil
	}
	to := make([]parley.Seat, n)
	for i := range to {
		if to[i] = SeatIn(raw[i*SeatBytes:]); i > 0 && to[i].Number <= to[i-1].Number {
			r.bad = true
		}
	}
	return to
}

// DecodeOutboxMessage reads what EncodeOutboxMessage wrote. Its records have only what is
// stored of them.
func DecodeOutboxMessage(b []byte) (*OutboxMessage, error) {
	r := &reader{b: b}
	p := &OutboxMessage{At: int64(r.number())}
	for range r.count() {
		w := r.effect()
		if r.bad {
			return nil, errOutboxMessage
		}
		p.Effects = append(p.Effects, w)
	}
	for range r.count() {
		id := parley.MessageID(r.id())
		p.Records = append(p.Records, journal.Record{ID: id, Stored: r.bytes()})
	}
	if r.bad || len(r.b) != 0 {
		return nil, errOutboxMessage
	}
	return p, nil
}

func (r *reader) effect() journal.Effect {
	switch letter := r.byte(); letter {
	case appendFeedLetter:
		w := journal.AppendFeed{To: r.id()}
		w.Kind, w.Begins = r.feedKind()
		w.Ref, w.Note = r.id(), r.bytes()
		return w
	case newsLetter:
		news, sender := journal.ReceiptKinds(r.byte()), parley.AgentID(r.id())
		w, ok := r.effect().(journal.RecordReceipt)
		w.News, w.Sender = news, sender
		r.bad = r.bad || !ok || news == 0
		return w
	case receiptLetter, copyReceiptLetter:
		return r.receipt(letter == copyReceiptLetter, ReceiptBytes)
	case announcedReceiptLetter, announcedCopyReceiptLetter:
		return r.receipt(letter == announcedCopyReceiptLetter, AnnouncedReceiptBytes)
	case enqueueLetter:
		return journal.EnqueueFor{To: r.stream(), Data: r.bytes()}
	case putRowLetter:
		slot := parley.Slot(binary.BigEndian.Uint16(r.take(2)))
		row := journal.Row{Slot: slot, Table: journal.Table(r.byte()), Delete: r.byte() == 1}
		row.Key, row.Value = r.bytes(), r.bytes()
		return journal.PutRow{Row: row}
	case addToListLetter:
		return journal.AddToList{Agent: r.id(), Conversation: r.id()}
	case dropFeedLetter:
		w := journal.DropFeed{Of: r.id()}
		for range r.count() {
			m := journal.DroppedMessage{Position: r.number(), Kind: journal.FeedKind(r.byte()), Ref: r.id()}
			if w.Messages = append(w.Messages, m); r.bad {
				break
			}
		}
		return w
	case fanoutLetter:
		w := journal.Fanout{}
		w.Kind, w.Begins = r.feedKind()
		w.Ref, w.Note, w.To = r.id(), r.bytes(), r.seats()
		return w
	case createStreamLetter:
		w := journal.CreateStream{Stream: r.stream()}
		for range r.count() {
			w.Events = append(w.Events, journal.StoredEvent{Tag: r.byte(), Data: r.bytes()})
		}
		if w.State = r.bytes(); len(w.State) == 0 {
			w.State = nil
		}
		return w
	}
	r.bad = true
	return nil
}

func (r *reader) receipt(copied bool, size int) journal.RecordReceipt {
	m := journal.RecordReceipt{Recipient: r.id(), Message: r.id(), Position: r.number(), Copy: copied}
	receipts, err := DecodeReceipts(r.take(size))
	m.Receipts, r.bad = receipts, r.bad || err != nil
	return m
}
