package words

import (
	"slices"
	"strings"
	"testing"
)

func TestAppend(t *testing.T) {
	for text, want := range map[string][]string{
		"Bob's Invoices, DUE 2026-11-22!": {"bob", "invoices", "due", "2026", "11", "22"},
		"Crème brûlée für Łódź":           {"creme", "brulee", "fur", "lodz"},
		"node.js user_name a:b":           {"node.js", "node", "js", "user_name", "user", "name", "a:b", "a", "b"},
		"日本 ok":                           {"日", "本", "ok"},
		"\xff\xfe broken":                 {"broken"},
		"":                                nil,
	} {
		if got := Append(nil, text, 20); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := Append([]string{"first"}, "a b c d", 2); !slices.Equal(got, []string{"first", "a", "b"}) {
		t.Errorf("at most 2 more: %q", got)
	}
	if got := Append(nil, strings.Repeat("ж", 100), 2); len(got) != 1 || len(got[0]) != BytesMax {
		t.Errorf("a long word: %q", got)
	}
}

func TestStem(t *testing.T) {
	for word, want := range map[string]string{"invoices": "invoic", "translating": "translat", "as": "as", "überall": "überall", "日": "日", "x1s": "x1s"} {
		if got := Stem(word); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestIsStop(t *testing.T) {
	if !IsStop("the") || !IsStop("please") || IsStop("invoice") {
		t.Error("wrong stop words")
	}
}
