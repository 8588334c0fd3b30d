package rest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"parley/client/parley"
)

// A cursor opens only for the list that it was sealed for, and only in the spelling
// that Seal returned.
func FuzzCursor(f *testing.F) {
	k, err := NewCursors([]byte("a secret of sixteen"))
	if err != nil {
		f.Fatal(err)
	}
	const list = "inbox 0190a6b0-0000-7000-8000-000000000001 a.b.c"
	sealed := k.Seal(list, []byte{0, 0, 0, 0, 0, 0, 0, 7})
	for _, text := range []string{
		sealed, sealed + "=", sealed + "\n", sealed[:len(sealed)-1], "A" + sealed[1:], strings.ToUpper(sealed), sealed + sealed,
		"", "=", "AAAA", strings.Repeat("A", 16), strings.Repeat("A", 38), strings.Repeat("A", 1024), strings.Repeat("A", 1025), "+/+/+/", "\x00\xff",
		k.Seal("inbox", nil), k.Seal("", []byte("position")),
	} {
		f.Add(list, text, []byte{0, 0, 0, 0, 0, 0, 0, 9}, uint16(3))
	}
	f.Add("", "", []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, list, text string, position []byte, at uint16) {
		if got, err := k.Open(list, text); err == nil {
			if again := k.Seal(list, got); again != text {
				t.Fatalf("%q opens for %q as %x, whose cursor is %q", text, list, got, again)
			}
		} else if !errors.Is(err, parley.ErrInvalidCursor) || got != nil {
			t.Fatalf("%q: %x, %v", text, got, err)
		}
		own := k.Seal(list, position)
		if got, err := k.Open(list, own); len(own) <= cursorCharsMax && (err != nil || !bytes.Equal(got, position)) {
			t.Fatalf("%x came back as %x, %v", position, got, err)
		}
		changed := []byte(own)
		changed[int(at)%len(changed)] ^= 1 + byte(at>>8)
		if got, err := k.Open(list, string(changed)); err == nil && string(changed) != own {
			t.Fatalf("%q is %q changed and opens as %x", changed, own, got)
		}
		if got, err := k.Open(list+"x", own); err == nil {
			t.Fatalf("%q opens for another list as %x", own, got)
		}
	})
}
