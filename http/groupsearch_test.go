package http

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley"
	"parley/http/search"
	"parley/journal"
)

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
		t.Errorf("the public profile: %v", profile)
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

// walk requests page after page of the public groups. It returns their names and how
// many groups each request read.
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

// countedView counts the rows of the directory that are read.
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

// newBoundedHarness has groups, of which one request may read two. It may read one more
// to learn whether there are others.
func newBoundedHarness(t *testing.T) *groupHarness {
	g := newGroupHarness(t)
	for _, name := range strings.Fields(boundedGroups) {
		g.group(name, `,"enrollment_policy":"open","description":"A team of research"`)
	}
	g.service.searchWork = 2*search.WorkOf(len("team0A team of research"), 1) + search.WorkOf(0, 0)/2
	return g
}

// TestSearchIsBounded: one request reads a bounded number of groups, and a client that
// follows the cursors finds every match exactly once.
func TestSearchIsBounded(t *testing.T) {
	g := newBoundedHarness(t)
	ranked := "team0 team1 research team2 team4 team5 team6 team7 team8" // stretch by stretch, the better match first within each
	for query, want := range map[string]string{
		"limit=50&q=papers+people": "", "limit=50": boundedGroups, "limit=4": boundedGroups, "limit=1&q=-": boundedGroups,
		"limit=50&q=research": ranked, "limit=2&q=research": ranked, "limit=1&q=research": ranked,
	} {
		names, looked := g.walk(query)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
		if most := slices.Max(looked); strings.Contains(query, "q=r") && most > 3 {
			t.Errorf("%s reads %d groups for a request", query, most)
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

// TestSearchIsBoundedControl: without the bound one request reads all groups.
func TestSearchIsBoundedControl(t *testing.T) {
	g := newBoundedHarness(t)
	g.service.searchWork = 1 << 40
	names, looked := g.walk("limit=50&q=research")
	if len(names) != len(strings.Fields(boundedGroups)) || slices.Max(looked) != len(names) || names[0] != "research" {
		t.Errorf("without a bound the walk reads %v groups for its requests, and finds %v", looked, names)
	}
}
