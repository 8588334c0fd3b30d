package cards

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCardsAreTheSameForASeed(t *testing.T) {
	a, b, other := Make(1, 300), Make(1, 200), Make(2, 200)
	if !reflect.DeepEqual(a[:200], b) {
		t.Error("the same seed gives other cards")
	}
	if reflect.DeepEqual(b, other) {
		t.Error("another seed gives the same cards")
	}
}

// TestCardsAreLikeThoseOfPeople: names differ, sizes are within the bounds of a card, the
// vocabulary is large, and frequencies are uneven.
func TestCardsAreLikeThoseOfPeople(t *testing.T) {
	const n = 10_000
	names, terms, categories := map[string]int{}, map[string]int{}, map[string]int{}
	languages, makers := map[string]int{}, map[string]int{}
	for _, c := range Make(1, n) {
		names[c.Name]++
		makers[c.Maker]++
		text := c.Name + " " + c.Description
		ids := map[string]bool{}
		for _, s := range c.Skills {
			text += " " + s.Name + " " + s.Description + " " + strings.Join(s.Tags, " ")
			if ids[s.ID] || len(s.Tags) == 0 || len(s.Tags) > 32 {
				t.Fatalf("a skill of %+v", c)
			}
			ids[s.ID] = true
		}
		if len(c.Name) > 200 || len(c.Description) > 2000 || len(c.Skills) == 0 || len(c.Categories) == 0 || len(c.Languages) == 0 || !utf8.ValidString(text) {
			t.Fatalf("card %+v", c)
		}
		for _, term := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz", r) }) {
			terms[term]++
		}
		for _, category := range c.Categories {
			categories[category]++
		}
		languages[c.Languages[0]]++
	}
	if len(names) != n {
		t.Errorf("%d names of %d cards", len(names), n)
	}
	if len(terms) < 6000 || len(categories) < 60 || len(makers) < 2000 {
		t.Errorf("%d terms, %d categories, %d first words of names", len(terms), len(categories), len(makers))
	}
	if categories["software"] < 5*categories["robotics"] || languages["en"] < 2*languages["de"] || languages["bg"] == 0 {
		t.Errorf("categories %v, languages %v", categories, languages)
	}
}

func TestMakersDiffer(t *testing.T) {
	seen := map[string]int{}
	for rank := range makers {
		if before, ok := seen[maker(rank)]; ok {
			t.Fatalf("makers %d and %d are both %s", before, rank, maker(rank))
		}
		seen[maker(rank)] = rank
	}
}

func TestQueries(t *testing.T) {
	random, all := rand.New(rand.NewPCG(1, 1)), Make(1, 500)
	sorted := func(text string) []string {
		words := strings.Fields(strings.ToLower(text))
		slices.Sort(words)
		return words
	}
	wrong := 0
	for i := range all {
		c := &all[i]
		if got := Names(random, c, false); !slices.Equal(sorted(got), sorted(c.Name)) {
			t.Fatalf("%q is asked for as %q", c.Name, got)
		}
		if got := Names(random, c, true); !slices.Equal(sorted(got), sorted(c.Name)) {
			wrong++
		}
		if got := strings.Fields(Few(random, c)); len(got) < 1 || len(got) > 4 {
			t.Fatalf("%q are not a few words", got)
		}
		if got := Maker(random, c); !strings.Contains(c.Name, c.Maker) || len(got) < len(c.Maker)-1 || len(got) > len(c.Maker)+1 {
			t.Fatalf("%q, made by %s, is asked for as %q", c.Name, c.Maker, got)
		}
		if text, category := Need(random); len(strings.Fields(text)) < 4 || category == "" {
			t.Fatalf("%q is no need of %q", text, category)
		}
	}
	if wrong < len(all)*8/10 {
		t.Errorf("%d of %d names are misspelled", wrong, len(all))
	}
}

func TestWithS(t *testing.T) {
	for verb, want := range map[string]string{"check": "checks", "match": "matches", "notify": "notifies", "buy": "buys", "fix": "fixes", "echo": "echoes"} {
		if got := withS(verb); got != want {
			t.Errorf("%s: %s, want %s", verb, got, want)
		}
	}
}
