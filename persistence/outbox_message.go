package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"

	"parley"
	"parley/journal"
)

// A parcel on disk: milliseconds, number of words, words; number of records,
// records. Byte strings carry their length as a uvarint. The letters of words
// are only ever added to.
const (
	announceWord = 'a'
	markWord     = 'm'
	tellWord     = 't'
	putWord      = 'p'
	bearWord     = 'b'
	enlistWord   = 'l'
	fanoutWord   = 'f'
	copyMarkWord = 'k'
	// Of marks with a webhook's.
	announcedWord     = 'n'
	announcedCopyWord = 'o'
)

var errOutboxMessage = errors.New("damaged parcel")

func encodeNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func appendBytes(b, x []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(x))), x...)
}

func encodeOutboxMessage(p *outboxMessage) []byte {
	size := 256
	for _, w := range p.words {
		if many, ok := w.(journal.Fanout); ok {
			size += seatBytes*len(many.To) + 64
		}
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, size), uint64(p.at))
	b = binary.AppendUvarint(b, uint64(len(p.words)))
	for _, w := range p.words {
		b = appendEffect(b, w)
	}
	b = binary.AppendUvarint(b, uint64(len(p.records)))
	for _, r := range p.records {
		b = appendBytes(append(b, r.ID[:]...), r.Data)
	}
	return b
}

func appendEffect(b []byte, w journal.Effect) []byte {
	switch w := w.(type) {
	case journal.AppendFeed:
		b = append(append(append(b, announceWord), w.To[:]...), byte(w.Kind))
		return appendBytes(append(b, w.Ref[:]...), w.Note)
	case journal.RecordReceipt:
		letter := byte(markWord)
		switch announced := w.Receipts.AnnouncedAt != 0; {
		case announced && w.Copy:
			letter = announcedCopyWord
		case announced:
			letter = announcedWord
		case w.Copy:
			letter = copyMarkWord
		}
		b = append(append(append(b, letter), w.Recipient[:]...), w.Message[:]...)
		b = binary.BigEndian.AppendUint64(b, w.Position)
		return append(b, encodeReceipts(w.Receipts)...)
	case journal.EnqueueFor:
		return appendBytes(appendStream(append(b, tellWord), w.To), w.Data)
	case journal.PutRow:
		b = binary.BigEndian.AppendUint16(append(b, putWord), uint16(w.Slot))
		gone := byte(0)
		if w.Delete {
			gone = 1
		}
		b = append(b, byte(w.Table), gone)
		return appendBytes(appendBytes(b, w.Key), w.Value)
	case journal.AddToList:
		return append(append(append(b, enlistWord), w.Agent[:]...), w.Conversation[:]...)
	case journal.Fanout:
		b = append(append(append(b, fanoutWord, byte(w.Kind)), w.Ref[:]...), w.AddToList[:]...)
		b = binary.AppendUvarint(appendBytes(b, w.Note), uint64(len(w.To)))
		return appendSeats(b, w.To)
	case journal.CreateStream:
		b = appendStream(append(b, bearWord), w.Stream)
		b = binary.AppendUvarint(b, uint64(len(w.Events)))
		for _, f := range w.Events {
			b = appendBytes(append(b, f.Tag), f.Data)
		}
		return appendBytes(b, w.State)
	}
	panic(fmt.Sprintf("persistence: unknown word %T", w))
}

func appendStream(b []byte, s journal.Stream) []byte {
	return append(append(b, byte(s.Kind)), s.ID[:]...)
}

// reader reads a parcel; after the first fault everything it gives is empty.
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

func (r *reader) stream() journal.Stream {
	kind := journal.StreamKind(r.byte())
	return journal.Stream{Kind: kind, ID: parley.AnyID(r.id())}
}

// seats are at least one, in ascending order of their numbers.
func (r *reader) seats() []parley.Seat {
	n := r.count()
	raw := r.take(n * seatBytes)
	if r.bad || n == 0 {
		r.bad = true
		return nil
	}
	to := make([]parley.Seat, n)
	for i := range to {
		if to[i] = seatIn(raw[i*seatBytes:]); i > 0 && to[i].Number <= to[i-1].Number {
			r.bad = true
		}
	}
	return to
}

func decodeOutboxMessage(b []byte) (*outboxMessage, error) {
	r := &reader{b: b}
	p := &outboxMessage{at: int64(r.number())}
	for range r.count() {
		w := r.effect()
		if r.bad {
			return nil, errOutboxMessage
		}
		p.words = append(p.words, w)
	}
	for range r.count() {
		id := parley.MessageID(r.id())
		p.records = append(p.records, journal.Record{ID: id, Data: r.bytes()})
	}
	if r.bad || len(r.b) != 0 {
		return nil, errOutboxMessage
	}
	return p, nil
}

func (r *reader) effect() journal.Effect {
	switch letter := r.byte(); letter {
	case announceWord:
		return journal.AppendFeed{To: r.id(), Kind: journal.FeedKind(r.byte()), Ref: r.id(), Note: r.bytes()}
	case markWord, copyMarkWord:
		return r.mark(letter == copyMarkWord, marksBytes)
	case announcedWord, announcedCopyWord:
		return r.mark(letter == announcedCopyWord, announcedBytes)
	case tellWord:
		return journal.EnqueueFor{To: r.stream(), Data: r.bytes()}
	case putWord:
		slot := parley.Slot(binary.BigEndian.Uint16(r.take(2)))
		row := journal.Row{Slot: slot, Table: journal.Table(r.byte()), Delete: r.byte() == 1}
		row.Key, row.Value = r.bytes(), r.bytes()
		return journal.PutRow{Row: row}
	case enlistWord:
		return journal.AddToList{Agent: r.id(), Conversation: r.id()}
	case fanoutWord:
		w := journal.Fanout{Kind: journal.FeedKind(r.byte()), Ref: r.id(), AddToList: r.id(), Note: r.bytes()}
		w.To = r.seats()
		return w
	case bearWord:
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

func (r *reader) mark(copied bool, size int) journal.RecordReceipt {
	m := journal.RecordReceipt{Recipient: r.id(), Message: r.id(), Position: r.number(), Copy: copied}
	marks, err := decodeReceipts(r.take(size))
	m.Receipts, r.bad = marks, r.bad || err != nil
	return m
}
