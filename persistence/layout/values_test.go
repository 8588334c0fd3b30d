package layout

import (
	"slices"
	"testing"

	"parley/journal"

	"pgregory.net/rapid"

	"parley/client/parley"
)

// TestChunkIsSearched: a search finds every seat of a list, and no other.
func TestChunkIsSearched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.Uint32Range(1, 256), 1, 40, rapid.ID).Draw(t, "seats")
		slices.Sort(numbers)
		var to []parley.Seat
		for _, n := range numbers {
			to = append(to, parley.Seat{Number: n, Agent: drawID(t)})
		}
		first := rapid.Uint64Range(0, 3).Draw(t, "first")
		c, err := DecodeCopies(AppendSeats(EncodeNumber(first), to))
		if err != nil || c.Len() != len(to) {
			t.Fatal(c, err)
		}
		for n := range uint32(258) {
			i := slices.Index(numbers, n)
			if got := c.Find(n); got != i {
				t.Fatalf("seat %d is found at %d, want %d", n, got, i)
			}
			if i >= 0 && (c.Seat(i) != to[i] || first > 0 && c.Position(i) != first+uint64(i) || first == 0 && c.Position(i) != 0) {
				t.Fatalf("place %d: %v at %d", i, c.Seat(i), c.Position(i))
			}
		}
	})
}

// encodeFeed encodes a feed entry without its position, which is in the key.
func encodeFeed(e journal.FeedEntry) []byte {
	b := make([]byte, FeedBytes+len(e.Note))
	PutFeed(b, &e)
	return b
}
