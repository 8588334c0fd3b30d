package search

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley"
	"parley/actors/query"
	"parley/actors/record"
)

// TestSearchScore: a query finds the groups that match it, with the best match first.
func TestSearchScore(t *testing.T) {
	groups := []struct{ name, description string }{
		{"research", "Reading papers together"},
		{"research-ops", ""},
		{"ops", "Machines, and the people who keep them running. Also some research."},
		{"cafe", "Déjà vu, Straße and ΣΊΣΥΦΟΣ"},
	}
	for query, want := range map[string]string{
		"research": "research research-ops ops", "RESEARCH": "research research-ops ops", "rese": "research research-ops ops",
		"reserch": "research research-ops ops", "ops": "ops research-ops", "machine": "ops", "papers reading": "research", "papers machines": "",
		"#ops@first.home.example": "ops research-ops", "first": "research ops cafe research-ops", "DÉJÀ": "cafe", "strasse": "cafe", "σίσυφος": "cafe",
		"xyzzy": "", "": "research research-ops ops cafe", " - ": "research research-ops ops cafe", "search": "research research-ops ops", "afe": "cafe",
	} {
		var found shortlist
		found.most = 10
		for i, g := range groups {
			at := place{score: NewQuery(query).score(g.name, "#"+g.name+"@first.home.example", g.description)}
			at.id[15] = byte(i)
			if at.score > 0 {
				found.add(Found{place: at})
			}
		}
		var names []string
		for _, f := range found.best {
			names = append(names, groups[f.id[15]].name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
}

func TestShortlistKeepsTheBest(t *testing.T) {
	l := shortlist{most: 3}
	for i, score := range []float64{1, 5, 3, 5, 2, 4} {
		g := Found{place: place{score: score}}
		g.id[0] = byte(i)
		l.add(g)
	}
	var got []byte
	for _, g := range l.best {
		got = append(got, g.id[0])
	}
	if !slices.Equal(got, []byte{1, 3, 5}) {
		t.Errorf("kept %v", got)
	}
}

// modelGroup is a group in a model of the directory. It matches if its score is above
// 0.
type modelGroup struct {
	id    parley.GroupID
	score float64
	text  int
}

// walkOf takes one step of a walk through the model, with the functions of Step.
func walkOf(w Position, rows []modelGroup, words, limit, work int) (shown []parley.GroupID, next Position, more bool, looked int) {
	l := NewStep(PositionOf(w.Bytes()), &Query{words: make([]queryWord, words)}, limit, work)
	for _, r := range rows {
		if bytes.Compare(r.id[:], w.beyond[:]) <= 0 {
			continue
		}
		if !l.begin(r.id, r.text) {
			break
		}
		looked++
		if at := (place{r.score, r.id}); l.wants(at) {
			l.add(Found{place: at})
		}
	}
	l.settle()
	for _, f := range l.Page() {
		shown = append(shown, f.id)
	}
	next, more = l.Next()
	return shown, next, more, looked
}

// TestWalkFindsEachGroupOnce walks through a model while groups are added and removed,
// their texts grow, and requests have different limits. A group that matches and stays
// is returned exactly once, one that does not match never.
func TestWalkFindsEachGroupOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.IntRange(0, 3).Draw(t, "words")
		var rows []modelGroup
		stays, shown := map[parley.GroupID]bool{}, map[parley.GroupID]int{}
		for i := range rapid.IntRange(0, 40).Draw(t, "groups") {
			r := modelGroup{score: 1, text: rapid.IntRange(0, 2000).Draw(t, "text")}
			r.id[0], r.id[15] = byte(1+i), 7
			if words > 0 {
				r.score = float64(rapid.IntRange(0, 3).Draw(t, "score"))
			}
			rows = append(rows, r)
			stays[r.id] = r.score > 0
		}
		work := rapid.IntRange(0, 20_000)
		for w, more, steps := (Position{}), true, 0; more; steps++ {
			if steps > 500 {
				t.Fatal("the walk does not end")
			}
			var page []parley.GroupID
			var looked int
			limit, work := rapid.IntRange(1, 6).Draw(t, "limit"), work.Draw(t, "work")
			page, w, more, looked = walkOf(w, rows, words, limit, work)
			if len(page) > limit || looked > max(1, work/groupWork) {
				t.Fatalf("a request for %d groups with work for %d returns %d of %d", limit, work/groupWork, len(page), looked)
			}
			for _, id := range page {
				if shown[id]++; shown[id] > 1 {
					t.Fatalf("%x is returned twice", id)
				}
			}
			if len(rows) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(rows)-1).Draw(t, "which")
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0: // remove a group
				delete(stays, rows[i].id)
				rows = slices.Delete(rows, i, i+1)
			case 1: // add a group
				r := modelGroup{id: rows[i].id, score: float64(rapid.IntRange(1, 3).Draw(t, "new")), text: 10}
				if r.id[1]++; i+1 == len(rows) || bytes.Compare(r.id[:], rows[i+1].id[:]) < 0 {
					rows = slices.Insert(rows, i+1, r)
				}
			case 2: // extend a group's text
				rows[i].text = 2000
			}
		}
		for id, fits := range stays {
			if (shown[id] == 1) != fits {
				t.Errorf("%x is returned %d times, matches: %v", id, shown[id], fits)
			}
		}
	})
}

// TestWalkWhileTextsGrow: within a stretch whose texts have grown, the work may end
// before a group that matches better than those on the page.
func TestWalkWhileTextsGrow(t *testing.T) {
	var rows []modelGroup
	for i, score := range []float64{2, 1, 1, 2} {
		r := modelGroup{score: score}
		r.id[15] = byte(1 + i)
		rows = append(rows, r)
	}
	var order []byte
	w, more := Position{}, true
	for _, work := range []int{4, 3, 3, 3, 3, 3} { // how many groups a request may read
		var page []parley.GroupID
		page, w, more, _ = walkOf(w, rows, 1, 1, work*groupWork)
		for _, id := range page {
			order = append(order, id[15])
		}
		if !more {
			break
		}
	}
	if !slices.Equal(order, []byte{1, 2, 4, 3}) || more {
		t.Errorf("the walk returns %v, continues: %v", order, more)
	}
}

// TestWalkIsRanked: within what one request can read, the best match comes first,
// however short the pages are.
func TestWalkIsRanked(t *testing.T) {
	var rows []modelGroup
	for i, score := range []float64{1, 3, 0, 2, 3, 9, 1} {
		r := modelGroup{score: score}
		r.id[15] = byte(1 + i)
		rows = append(rows, r)
	}
	for limit := range 7 {
		var order []byte
		for w, more := (Position{}), true; more; {
			var page []parley.GroupID
			page, w, more, _ = walkOf(w, rows, 1, limit+1, 5*groupWork)
			for _, id := range page {
				order = append(order, id[15])
			}
		}
		if !slices.Equal(order, []byte{2, 5, 4, 1, 6, 7}) {
			t.Errorf("in pages of %d the walk returns %v", limit+1, order)
		}
	}
}

// TestCostlyTextsCountAsMoreWork: words that resemble those of the query cost more to
// compare, and non-ASCII text and the state of an owner cost more to read. A request
// reads fewer groups that have them.
func TestCostlyTextsCountAsMoreWork(t *testing.T) {
	looked := func(words, text string, owner query.GroupOwner) (n int) {
		l := NewStep(Position{}, NewQuery(words), 20, Work)
		l.Scan(func(yield func(*record.PublicGroup, query.GroupOwner) bool) {
			for n = 0; ; n++ {
				id := binary.BigEndian.AppendUint64(make([]byte, 8), uint64(1+n))
				if !yield(&record.PublicGroup{Id: id, Org: id, Name: "team", Description: text}, owner) {
					return
				}
			}
		}, "home.example")
		return n
	}
	first := query.GroupOwner{Slug: "first"}
	for what, c := range map[string]struct{ query, plain, costly string }{
		"misspelt":  {"abcdefgz", strings.Repeat("stuvwxyz ", 200), strings.Repeat("abcdefgh ", 200)},
		"not ASCII": {"abcdefgz", strings.Repeat("stuvwxyz ", 200), strings.Repeat("αβγδ ", 200)},
	} {
		plain, costly := looked(c.query, c.plain, first), looked(c.query, c.costly, first)
		if plain < 2*costly || costly < 10 {
			t.Errorf("%s: a request reads %d groups, or %d that cost less", what, costly, plain)
		}
	}
	for _, slug := range []string{"first", ""} { // "": an owner that no longer exists
		plain, costly := looked("abc", "", query.GroupOwner{Slug: slug}), looked("abc", "", query.GroupOwner{Slug: slug, Read: true})
		if plain < 2*costly || costly < 10 {
			t.Errorf("a request reads %d groups whose owners must be read, or %d whose owners are known", costly, plain)
		}
	}
}
