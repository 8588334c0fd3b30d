package http

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley"
	"parley/actors/query"
	"parley/actors/record"
	"parley/journal"
)

// TestSearchScore has queries find what they should, the better before the worse.
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
			at := foundAt{score: newSearch(query).score(g.name, "#"+g.name+"@first.home.example", g.description)}
			at.id[15] = byte(i)
			if at.score > 0 {
				found.add(foundGroup{foundAt: at})
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
		g := foundGroup{foundAt: foundAt{score: score}}
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

func TestGroupDirectory(t *testing.T) {
	g := newGroupHarness(t)
	for i := range 5 {
		g.group(fmt.Sprintf("team%d", i), `,"enrollment_policy":"open","description":"A team of research"`)
	}
	g.group("team9", "")
	list := func(query string) (names []string) {
		for at := "/directory/groups?limit=2" + query; at != ""; {
			page := g.public().ask("GET", at, "").want(200)
			for _, item := range page.at("items").([]any) {
				names = append(names, item.(map[string]any)["name"].(string))
			}
			if at = ""; page.at("has_more") == true {
				at = "/directory/groups?limit=2" + query + "&cursor=" + page.text("next_cursor")
			}
		}
		return names
	}
	for query, want := range map[string]string{"": "team0 team1 team2 team3 team4", "&q=reserch": "team0 team1 team2 team3 team4", "&q=team3": "team3 team0 team1 team2 team4"} {
		if got := strings.Join(list(query), " "); got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	page := g.public().ask("GET", "/directory/groups?q=team3&limit=1", "").want(200)
	page.is(map[string]any{
		"items.0.name": "team3", "items.0.handle": "#team3@first.home.example", "items.0.org_id": g.first.owner.String(),
		"items.0.enrollment_policy": "open", "items.0.member_count": 1, "items.0.vote_duration_hours": 72, "items.0.mls_enabled": false,
	})
	profile := page.at("items.0").(map[string]any)
	if _, told := profile["visibility"]; told || len(profile) != 10 {
		t.Errorf("a public profile: %v", profile)
	}
	cursor := page.text("next_cursor")
	g.public().ask("GET", "/directory/groups?q=team2&cursor="+cursor, "").want(400, "invalid_cursor")
	g.public().ask("GET", "/directory/groups?limit=51", "").want(422)
	id := profile["id"].(string)
	g.second.ask("POST", "/groups/"+id+"/join", "").want(200)
	g.public().ask("GET", "/directory/groups/"+id, "").want(200).is(map[string]any{"member_count": 2})
	g.public().ask("GET", "/directory/groups?q=team3", "").is(map[string]any{"items.0.member_count": 2})
	g.first.ask("PATCH", "/groups/"+id, `{"visibility":"private"}`).want(200)
	if got := list("&q=team3"); slices.Contains(got, "team3") {
		t.Errorf("a private group is found: %v", got)
	}
}

// walk asks for page after page of the public groups and gives their names, and how
// many groups each request looked at.
func (g *groupHarness) walk(query string) (names []string, looked []int) {
	g.t.Helper()
	rows := 0
	g.journal.wrapView = func(v journal.View) journal.View { return &countedView{v, &rows} }
	defer func() { g.journal.wrapView = nil }()
	for cursor := ""; len(looked) < 100; {
		rows = 0
		page := g.public().ask("GET", "/directory/groups?"+query+cursor, "").want(200)
		looked = append(looked, rows)
		for _, item := range page.at("items").([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		if page.at("has_more") != true {
			return names, looked
		}
		cursor = "&cursor=" + page.text("next_cursor")
	}
	g.t.Fatalf("%s: the walk does not end", query)
	return nil, nil
}

// countedView counts the rows of the directory that are looked at.
type countedView struct {
	journal.View
	rows *int
}

func (v *countedView) Rows(slot parley.Slot, table journal.Table, prefix, beyond []byte, reverse bool, fn func(key, value []byte) bool) error {
	return v.View.Rows(slot, table, prefix, beyond, reverse, func(key, value []byte) bool {
		if table == journal.PublicTable {
			*v.rows++
		}
		return fn(key, value)
	})
}

const boundedGroups = "team0 team1 team2 research team4 team5 team6 team7 team8"

// newBoundedHarness has groups of which one request may look at two. It may read one
// more, to know that there is one.
func newBoundedHarness(t *testing.T) *groupHarness {
	g := newGroupHarness(t)
	for _, name := range strings.Fields(boundedGroups) {
		g.group(name, `,"enrollment_policy":"open","description":"A team of research"`)
	}
	g.service.searchWork = 2*(searchStep+(searchRead+1)*len("team0A team of research")) + searchStep/2
	return g
}

// TestASearchIsBounded: one request looks at so much and no more, and a client that goes
// on finds every group that fits, each once.
func TestASearchIsBounded(t *testing.T) {
	g := newBoundedHarness(t)
	ranked := "team0 team1 research team2 team4 team5 team6 team7 team8" // stretch by stretch, within one the better first
	for query, want := range map[string]string{
		"limit=50&q=papers+people": "", "limit=50": boundedGroups, "limit=4": boundedGroups, "limit=1&q=-": boundedGroups,
		"limit=50&q=research": ranked, "limit=2&q=research": ranked, "limit=1&q=research": ranked,
	} {
		names, looked := g.walk(query)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
		if most := slices.Max(looked); strings.Contains(query, "q=r") && most > 3 {
			t.Errorf("%s looks at %d groups for a request", query, most)
		}
	}
	nothing := g.public().ask("GET", "/directory/groups?q=xyzzy", "").want(200).is(map[string]any{"items": []any{}, "has_more": true})
	cursor := nothing.text("next_cursor")
	for what, path := range map[string]string{
		"another query's": "?q=team&cursor=" + cursor, "without its query": "?cursor=" + cursor,
		"cut short": "?q=xyzzy&cursor=" + cursor[:len(cursor)-2], "changed": "?q=xyzzy&cursor=A" + cursor, "made up": "?q=xyzzy&cursor=" + strings.Repeat("A", 5000),
		"of another length": "?q=xyzzy&cursor=" + g.service.Cursors.Seal("directory groups xyzzy", make([]byte, 24)),
	} {
		if a := g.public().ask("GET", "/directory/groups"+path, ""); a.status != 400 || a.at("code") != "invalid_cursor" {
			t.Errorf("a cursor that is %s is answered %d", what, a.status)
		}
	}
}

// TestASearchIsBoundedControl: without the bound one request looks at all groups.
func TestASearchIsBoundedControl(t *testing.T) {
	g := newBoundedHarness(t)
	g.service.searchWork = 1 << 40
	names, looked := g.walk("limit=50&q=research")
	if len(names) != len(strings.Fields(boundedGroups)) || slices.Max(looked) != len(names) || names[0] != "research" {
		t.Errorf("without a bound the walk looks at %v groups for its requests, and finds %v", looked, names)
	}
}

// modelGroup is a group of a model of the directory. It fits if its score is more
// than 0.
type modelGroup struct {
	id    parley.GroupID
	score float64
	text  int
}

// walkOf takes one step of a walk through a model, by what the requests use.
func walkOf(w groupWalk, rows []modelGroup, words, limit, work int) (shown []parley.GroupID, next groupWalk, more bool, looked int) {
	l := newWalkStep(groupWalkOf(w.bytes()), &search{words: make([]queryWord, words)}, limit, work)
	for _, r := range rows {
		if bytes.Compare(r.id[:], w.beyond[:]) <= 0 {
			continue
		}
		if !l.begin(r.id, r.text) {
			break
		}
		looked++
		if at := (foundAt{r.score, r.id}); l.wants(at) {
			l.add(foundGroup{foundAt: at})
		}
	}
	l.settle()
	for _, f := range l.page() {
		shown = append(shown, f.id)
	}
	next, more = l.next()
	return shown, next, more, looked
}

// TestAWalkFindsEachGroupOnce walks through a model while groups come and go, their
// texts grow, and the limits of the requests differ. A group that fits and stays is
// shown once, one that does not fit never.
func TestAWalkFindsEachGroupOnce(t *testing.T) {
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
		for w, more, steps := (groupWalk{}), true, 0; more; steps++ {
			if steps > 500 {
				t.Fatal("the walk does not end")
			}
			var page []parley.GroupID
			var looked int
			limit, work := rapid.IntRange(1, 6).Draw(t, "limit"), work.Draw(t, "work")
			page, w, more, looked = walkOf(w, rows, words, limit, work)
			if len(page) > limit || looked > max(1, work/searchStep) {
				t.Fatalf("a request for %d groups with work for %d shows %d of %d", limit, work/searchStep, len(page), looked)
			}
			for _, id := range page {
				if shown[id]++; shown[id] > 1 {
					t.Fatalf("%x is shown twice", id)
				}
			}
			if len(rows) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(rows)-1).Draw(t, "which")
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0: // one goes
				delete(stays, rows[i].id)
				rows = slices.Delete(rows, i, i+1)
			case 1: // one comes
				r := modelGroup{id: rows[i].id, score: float64(rapid.IntRange(1, 3).Draw(t, "new")), text: 10}
				if r.id[1]++; i+1 == len(rows) || bytes.Compare(r.id[:], rows[i+1].id[:]) < 0 {
					rows = slices.Insert(rows, i+1, r)
				}
			case 2: // one says more
				rows[i].text = 2000
			}
		}
		for id, fits := range stays {
			if (shown[id] == 1) != fits {
				t.Errorf("%x is shown %d times, fits: %v", id, shown[id], fits)
			}
		}
	})
}

// TestAWalkThroughTextsThatGrow: within a stretch whose texts have grown, the work
// ends before a group that fits better than what the page shows.
func TestAWalkThroughTextsThatGrow(t *testing.T) {
	var rows []modelGroup
	for i, score := range []float64{2, 1, 1, 2} {
		r := modelGroup{score: score}
		r.id[15] = byte(1 + i)
		rows = append(rows, r)
	}
	var order []byte
	w, more := groupWalk{}, true
	for _, work := range []int{4, 3, 3, 3, 3, 3} { // groups that a request may look at
		var page []parley.GroupID
		page, w, more, _ = walkOf(w, rows, 1, 1, work*searchStep)
		for _, id := range page {
			order = append(order, id[15])
		}
		if !more {
			break
		}
	}
	if !slices.Equal(order, []byte{1, 2, 4, 3}) || more {
		t.Errorf("the walk shows %v, goes on: %v", order, more)
	}
}

// TestAWalkIsRanked: what one request can look at comes best first, however short
// its pages are.
func TestAWalkIsRanked(t *testing.T) {
	var rows []modelGroup
	for i, score := range []float64{1, 3, 0, 2, 3, 9, 1} {
		r := modelGroup{score: score}
		r.id[15] = byte(1 + i)
		rows = append(rows, r)
	}
	for limit := range 7 {
		var order []byte
		for w, more := (groupWalk{}), true; more; {
			var page []parley.GroupID
			page, w, more, _ = walkOf(w, rows, 1, limit+1, 5*searchStep)
			for _, id := range page {
				order = append(order, id[15])
			}
		}
		if !slices.Equal(order, []byte{2, 5, 4, 1, 6, 7}) {
			t.Errorf("in pages of %d the walk shows %v", limit+1, order)
		}
	}
}

// TestComparingIsWork: words that look like those of the query take longer to
// compare, non-ASCII text and the state of an owner longer to read, so that a request
// looks at fewer groups with them.
func TestComparingIsWork(t *testing.T) {
	looked := func(words, text string, owner query.GroupOwner) (n int) {
		l := newWalkStep(groupWalk{}, newSearch(words), 20, searchWork)
		l.scan(func(yield func(*record.PublicGroup, query.GroupOwner) bool) {
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
			t.Errorf("%s: a request looks at %d groups, at %d that take less", what, costly, plain)
		}
	}
	for _, slug := range []string{"first", ""} { // also of owners that are no more
		plain, costly := looked("abc", "", query.GroupOwner{Slug: slug}), looked("abc", "", query.GroupOwner{Slug: slug, Read: true})
		if plain < 2*costly || costly < 10 {
			t.Errorf("a request looks at %d groups whose owners are read, at %d whose owners are at hand", costly, plain)
		}
	}
}
