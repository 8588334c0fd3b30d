package layout

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/client/parley"
	"parley/journal"
)

// A message that can be decoded is the same after being encoded and decoded again.
// All damage gives the same error.
func FuzzDecodeOutboxMessage(f *testing.F) {
	f.Add([]byte{})
	whole := EncodeOutboxMessage(&OutboxMessage{At: 1, Effects: []journal.Effect{
		journal.AppendFeed{Kind: journal.StatusEntry, Note: []byte("note")},
		journal.RecordReceipt{Position: 3, Receipts: journal.Receipts{TransferredAt: 4, ReadAt: 5}},
		journal.EnqueueFor{Data: []byte("told")},
		journal.PutRow{Row: journal.Row{Key: []byte("k"), Delete: true}},
		journal.PutRow{Row: journal.Row{Slot: 4095, Table: journal.SlugTable, Key: []byte("k"), Value: []byte("v")}},
		journal.AddToList{},
		journal.CreateStream{Events: []journal.StoredEvent{{Tag: 1, Data: []byte("x")}, {}}, State: []byte("s")},
	}, Records: []journal.Record{{Data: []byte("body")}}})
	f.Add(whole)
	f.Add(append(whole, 0))
	f.Add(whole[:len(whole)-1])
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01b\x04iiiiiiiiiiiiiiii\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01?\x00"))
	many := journal.Fanout{Kind: journal.CopyEntry, Note: []byte("note"), To: []parley.Seat{{Number: 1}, {Number: 7}}}
	for _, seats := range [][]parley.Seat{many.To, many.To[:1], nil, {{Number: 7}, {Number: 1}}, {{Number: 1}, {Number: 1}}} {
		many.To = seats
		f.Add(EncodeOutboxMessage(&OutboxMessage{Effects: []journal.Effect{many, journal.RecordReceipt{Copy: true, Sender: parley.AgentID{2}, News: journal.ReadReceipt}}}))
	}
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01f\x03iiiiiiiiiiiiiiiieeeeeeeeeeeeeeee\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeOutboxMessage(b)
		if err != nil {
			if err != errOutboxMessage || p != nil {
				t.Fatalf("%x: %v, %v", b, p, err)
			}
			return
		}
		again, err := DecodeOutboxMessage(EncodeOutboxMessage(p))
		if err != nil {
			t.Fatalf("%x was decoded, but not a second time: %v", b, err)
		}
		if diff := sameMessage(p, again); diff != "" {
			t.Errorf("%x decodes differently the second time:\n%s", b, diff)
		}
	})
}

// A feed entry that can be decoded, and was not dropped, encodes to the same bytes.
func FuzzDecodeFeed(f *testing.F) {
	whole := encodeFeed(journal.FeedEntry{Kind: journal.MessageEntry, At: 1, Ref: parley.AnyID{6: 0x70, 15: 1}, Note: journal.TypeHash("a.b.c")})
	for _, b := range [][]byte{whole, whole[:25], whole[:24], {}, bytes.Repeat([]byte{0xff}, 64)} {
		f.Add(uint64(7), b)
	}
	f.Fuzz(func(t *testing.T, position uint64, b []byte) {
		e, err := DecodeFeed(position, b)
		if err != nil {
			if diff := cmp.Diff(journal.FeedEntry{}, e); diff != "" || len(b) >= 25 {
				t.Fatalf("%x: %v, %v", b, e, err)
			}
			return
		}
		if e.Position != position || !Dropped(b) && !bytes.Equal(encodeFeed(e), b) {
			t.Fatalf("%x is read as %+v", b, e)
		}
	})
}

// A list of copies that can be decoded consists of whole seats, and every search in it
// terminates.
func FuzzDecodeChunk(f *testing.F) {
	whole := AppendSeats(EncodeNumber(9), []parley.Seat{{Number: 1}, {Number: 3}, {Number: 256}})
	f.Add(whole, uint32(3))
	f.Add(whole[:len(whole)-1], uint32(1))
	f.Add(whole[:8], uint32(0))
	f.Add(bytes.Repeat([]byte{0xff}, 8+3*SeatBytes), ^uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, seat uint32) {
		c, err := DecodeCopies(b)
		if err != nil {
			if c.Len() != 0 || len(b) >= 8+SeatBytes && (len(b)-8)%SeatBytes == 0 {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		if i := c.Find(seat); i >= 0 && (i >= c.Len() || c.Seat(i).Number != seat) {
			t.Fatalf("seat %d is found at place %d of %x", seat, i, b)
		}
		again := EncodeNumber(c.First)
		for i := range c.Len() {
			again = AppendSeats(again, []parley.Seat{c.Seat(i)})
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x is encoded as %x", b, again)
		}
	})
}

// Receipts are 16 bytes, or 24 of which the last 8 are not all zero. They merge
// into the same value whatever the order and grouping, and the engine's merger
// gives that value.
func FuzzReceipts(f *testing.F) {
	f.Add(EncodeReceipts(journal.Receipts{TransferredAt: 5}), EncodeReceipts(journal.Receipts{TransferredAt: 3, ReadAt: 9}), EncodeReceipts(journal.Receipts{}))
	f.Add(EncodeReceipts(journal.Receipts{TransferredAt: -1, ReadAt: -1}), bytes.Repeat([]byte{0xff}, 16), bytes.Repeat([]byte{0x7f}, 16))
	f.Add([]byte{}, make([]byte, 15), make([]byte, 17))
	f.Add(EncodeReceipts(journal.Receipts{AnnouncedAt: 5}), EncodeReceipts(journal.Receipts{TransferredAt: 3, TransferredBy: 2}), EncodeReceipts(journal.Receipts{TransferredAt: 3, TransferredBy: 1, AnnouncedAt: 2}))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		for _, raw := range [][]byte{a, b, c} {
			m, err := DecodeReceipts(raw)
			if (err == nil) != (len(raw) == 16 || len(raw) == 24 && Number(raw[16:]) != 0) || err == nil && !bytes.Equal(EncodeReceipts(m), raw) || err != nil && m != (journal.Receipts{}) {
				t.Fatalf("%x: %+v, %v", raw, m, err)
			}
			if err != nil {
				refusesToMerge(t, raw)
				return
			}
		}
		want := mergeReceipts(t, a, b, c)
		for _, order := range [][3][]byte{{a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}} {
			if got := mergeReceipts(t, order[0], order[1], order[2]); !bytes.Equal(got, want) {
				t.Fatalf("%x in another order: %x, not %x", order, got, want)
			}
		}
		if got := mergeReceipts(t, mergeReceipts(t, a, b), c, c); !bytes.Equal(got, want) {
			t.Fatalf("grouped, and one of them twice: %x, not %x", got, want)
		}
	})
}

func mergeReceipts(t *testing.T, first []byte, rest ...[]byte) []byte {
	t.Helper()
	m, err := Merger.Merge([]byte{0, 0, ReceiptFamily}, first)
	for i, value := range rest {
		if err != nil {
			t.Fatal(err)
		}
		if err = m.MergeNewer(value); i%2 == 1 {
			err = m.MergeOlder(value)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	merged, _, err := m.Finish(true)
	if err != nil {
		t.Fatal(err)
	}
	return merged
}

func refusesToMerge(t *testing.T, value []byte) {
	t.Helper()
	if _, err := Merger.Merge([]byte{0, 0, ReceiptFamily}, value); err == nil {
		t.Fatalf("%x was merged", value)
	}
	m, err := Merger.Merge([]byte{0, 0, ReceiptFamily}, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	if m.MergeNewer(value) == nil || m.MergeOlder(value) == nil {
		t.Fatalf("%x was merged into valid receipts", value)
	}
}
