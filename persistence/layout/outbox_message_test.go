package layout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/client/parley"
	"parley/journal"
)

func drawBytes(t *rapid.T) []byte {
	b := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
	if len(b) == 0 {
		return nil
	}
	return b
}

func drawID(t *rapid.T) [16]byte {
	return [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
}

func drawStream(t *rapid.T) journal.Stream {
	return journal.Stream{Kind: journal.StreamKind(rapid.ByteMax(0x7F).Draw(t, "kind")), ID: drawID(t)}
}

func drawEffect(t *rapid.T) journal.Effect {
	switch rapid.IntRange(0, 6).Draw(t, "word") {
	case 0:
		return journal.AppendFeed{To: drawID(t), Kind: journal.FeedKind(rapid.ByteMax(0x7F).Draw(t, "kind")), Ref: drawID(t), Note: drawBytes(t), Begins: rapid.Bool().Draw(t, "begins")}
	case 1:
		receipts := journal.Receipts{
			TransferredAt: rapid.Int64Range(0, 1<<55).Draw(t, "delivered"), TransferredBy: journal.Channel(rapid.Byte().Draw(t, "by")),
			AnnouncedAt: rapid.Int64Range(0, 1<<40).Draw(t, "announced"), ReadAt: rapid.Int64().Draw(t, "read"),
		}
		return journal.RecordReceipt{Recipient: drawID(t), Message: drawID(t), Position: rapid.Uint64().Draw(t, "position"), Receipts: receipts, Copy: rapid.Bool().Draw(t, "copy")}
	case 2:
		return journal.EnqueueFor{To: drawStream(t), Data: drawBytes(t)}
	case 3:
		return journal.PutRow{Row: journal.Row{
			Slot: parley.Slot(rapid.Uint16().Draw(t, "slot")), Table: journal.Table(rapid.Byte().Draw(t, "table")),
			Key: drawBytes(t), Value: drawBytes(t), Delete: rapid.Bool().Draw(t, "delete"),
		}}
	case 4:
		return journal.AddToList{Agent: drawID(t), Conversation: drawID(t)}
	case 5:
		many := journal.Fanout{Kind: journal.FeedKind(rapid.ByteMax(0x7F).Draw(t, "kind")), Ref: drawID(t), Note: drawBytes(t), Begins: rapid.Bool().Draw(t, "begins")}
		number := rapid.Uint32Range(0, 3).Draw(t, "first")
		for range rapid.IntRange(1, 4).Draw(t, "seats") {
			many.To = append(many.To, parley.Seat{Agent: drawID(t), Number: number})
			number += rapid.Uint32Range(1, 300).Draw(t, "step")
		}
		return many
	default:
		bear := journal.CreateStream{Stream: drawStream(t), State: drawBytes(t)}
		for range rapid.IntRange(0, 3).Draw(t, "facts") {
			bear.Events = append(bear.Events, journal.StoredEvent{Tag: rapid.Byte().Draw(t, "tag"), Data: drawBytes(t)})
		}
		return bear
	}
}

func sameMessage(a, b *OutboxMessage) string {
	return cmp.Diff([]any{a.At, a.Effects, a.Records}, []any{b.At, b.Effects, b.Records})
}

func TestOutboxMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &OutboxMessage{At: rapid.Int64().Draw(t, "at")}
		for range rapid.IntRange(0, 5).Draw(t, "words") {
			p.Effects = append(p.Effects, drawEffect(t))
		}
		for range rapid.IntRange(0, 3).Draw(t, "records") {
			p.Records = append(p.Records, journal.Record{ID: drawID(t), Stored: drawBytes(t)})
		}
		b := EncodeOutboxMessage(p)
		got, err := DecodeOutboxMessage(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := sameMessage(p, got); diff != "" {
			t.Errorf("encoded and decoded (-before +after):\n%s", diff)
		}
		if len(b) > 8 {
			cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
			if _, err := DecodeOutboxMessage(b[:cut]); err == nil {
				t.Errorf("%d bytes of %d were accepted as a message", cut, len(b))
			}
		}
		if _, err := DecodeOutboxMessage(append(b, 0)); err == nil {
			t.Error("a message with an extra byte was accepted")
		}
	})
}

// TestDecodeDamagedOutboxMessage decodes damaged messages, which must not panic.
func TestDecodeDamagedOutboxMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "garbage")
		if rapid.Bool().Draw(t, "flipped") {
			b = EncodeOutboxMessage(&OutboxMessage{Effects: []journal.Effect{drawEffect(t), drawEffect(t)}, Records: []journal.Record{{Data: []byte("body")}}})
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		if p, err := DecodeOutboxMessage(b); err == nil && len(b) < 10 {
			t.Errorf("%d bytes were accepted as message %v", len(b), p)
		}
	})
}
