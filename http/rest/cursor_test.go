package rest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"parley/client/parley"
)

func TestCursors(t *testing.T) {
	k, err := NewCursors([]byte("a secret of sixteen"))
	if err != nil {
		t.Fatal(err)
	}
	const aad = "GET /agents/{id}/messages|type=a.b.c"
	cursor := k.Seal(aad, []byte("position 7"))
	got, err := k.Open(aad, cursor)
	if err != nil || string(got) != "position 7" {
		t.Errorf("opened %q %v", got, err)
	}
	if again := k.Seal(aad, []byte("position 7")); again != cursor {
		t.Error("the same position gave another cursor")
	}
	if other := k.Seal(aad+"x", []byte("position 7")); other[:16] == cursor[:16] {
		t.Error("another list shares the nonce")
	}
	stranger, err := NewCursors([]byte("another secret, as long"))
	if err != nil {
		t.Fatal(err)
	}
	forged := []string{"", "x", "=", cursor[:len(cursor)-1], cursor + "A", cursor + "\n", cursor + "=", strings.Repeat("A", 10<<10), stranger.Seal(aad, []byte("position 7"))}
	for i := range cursor {
		flipped := []byte(cursor)
		flipped[i] = map[bool]byte{true: 'B', false: 'A'}[flipped[i] == 'A']
		forged = append(forged, string(flipped))
	}
	for _, text := range forged {
		if got, err := k.Open(aad, text); !errors.Is(err, parley.ErrInvalidCursor) {
			t.Errorf("%.20q opened: %q %v", text, got, err)
		}
	}
	if _, err := k.Open("GET /agents/{id}/messages|type=", cursor); !errors.Is(err, parley.ErrInvalidCursor) {
		t.Error("a cursor was good under other filters")
	}
	if _, err := NewCursors(make([]byte, 15)); err == nil {
		t.Error("a short secret was taken")
	}
	if empty, err := k.Open(aad, k.Seal(aad, nil)); err != nil || !bytes.Equal(empty, nil) {
		t.Errorf("an empty position: %q %v", empty, err)
	}
}

func TestCursorsBeginWithoutADash(t *testing.T) {
	k, err := NewCursors([]byte("a secret of sixteen"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if cursor := k.Seal("list", []byte{byte(i), byte(i >> 8)}); strings.HasPrefix(cursor, "-") {
			t.Fatalf("cursor %d is %s", i, cursor)
		}
	}
}
