package parley_test

import (
	"errors"
	"strings"
	"testing"

	"parley/client/parley"
)

// A handle that parses is written back in lower case and consists of valid names.
// Every other text is ErrBadHandle.
func FuzzHandle(f *testing.F) {
	for _, seed := range []string{
		"alice@acme.localhost", "#team@acme.example.org", "Alice@ACME.Example.ORG", "bot@acme.localhost:8080", "@", "a@b.c", "a@ab.c",
		"\x00@ab.c", "##x@ab.c", "a@ab.c@d", "a-@ab.c", "a@-ab.c", "a@ab.", "a@ab..", "a@ab.c..d", "a@ab.c:80", "a@ab.c:", "a@ab.-c", "a b@ab.c", "a@ab.c/d", "a@ab.c\r\nX: y",
		"\u212aate@acme.localhost", "kate@\u212acme.localhost", "kate@acme.\u212b", "\u0130@acme.localhost", "\xff@ab.c", "а@ab.c",
		strings.Repeat("a", 200) + "@" + strings.Repeat("b", 32) + "." + strings.Repeat("c", 253), strings.Repeat("a", 201) + "@ab.c",
		"#" + strings.Repeat("a", 64) + "@ab.c", "a@" + strings.Repeat("b", 33) + ".c", "a@ab." + strings.Repeat("c", 254),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := parley.ParseHandle(text)
		if err != nil {
			if !errors.Is(err, parley.ErrBadHandle) || h != (parley.Handle{}) {
				t.Fatalf("%q: %+v, %v", text, h, err)
			}
			return
		}
		if h.String() != asciiLower(text) {
			t.Fatalf("%q is written back as %q", text, h)
		}
		if !parley.ValidAgentName(h.Name) || !parley.ValidSlug(h.Slug) || !parley.ValidDomain(h.Domain) || h.Group && len(h.Name) > 63 {
			t.Fatalf("%q was read as %+v", text, h)
		}
		if again, err := parley.ParseHandle(h.String()); err != nil || again != h {
			t.Fatalf("%q was read as %+v and then as %+v, %v", text, h, again, err)
		}
	})
}

// asciiLower returns text with its ASCII letters in lower case.
func asciiLower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// An id that parses is written back in lower case.
func FuzzID(f *testing.F) {
	for _, seed := range []string{
		"0190a6b0-0000-7000-8000-000000000001", "0190A6B0-0000-7000-8000-00000000000F", "00000000-0000-0000-0000-000000000000",
		"0190a6b0000070008000000000000001", "{0190a6b0-0000-7000-8000-000000000001}", "urn:uuid:0190a6b0-0000-7000-8000-000000000001",
		"0190a6b0-0000-7000-8000-00000000000g", "0190a6b0_0000_7000_8000_000000000001", "0190a6b-00000-7000-8000-000000000001",
		"0190a6b0-0000-7000-8000-000000000001 ", "", "\x00", strings.Repeat("-", 36), strings.Repeat("é", 18),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parley.ParseID[parley.AgentID](text)
		if err != nil {
			if !errors.Is(err, parley.ErrNotID) || !id.Zero() {
				t.Fatalf("%q: %v, %v", text, id, err)
			}
			return
		}
		if id.String() != asciiLower(text) {
			t.Fatalf("%q is written back as %s", text, id)
		}
		if id.Slot() >= parley.Slots || parley.IDFromBytes[parley.AgentID](id.Bytes()) != id {
			t.Fatalf("%q: slot %d, bytes %x", text, id.Slot(), id.Bytes())
		}
	})
}
