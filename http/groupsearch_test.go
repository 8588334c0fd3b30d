package http

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/client/parley"
	"parley/journal"
)

func TestGroupDirectory(t *testing.T) {
	g := newGroupHarness(t)
	for i := range 5 {
		g.group(fmt.Sprintf("team%d", i), `,"enrollment_policy":"open","description":"A team of research"`)
	}
	g.group("team9", "")
	g.settleGroups(5)
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

// walk requests page after page of the public groups, and calls between before each
// further page. It returns their names and how many rows of groups each request read.
func (g *groupHarness) walk(query string, between func()) (names []string, looked []int) {
	g.t.Helper()
	rows := 0
	counted := func(v journal.View) journal.View { return journal.ViewOf(&countedView{v, &rows}) }
	g.journal.wrapView.Store(&counted)
	defer g.journal.wrapView.Store(nil)
	for cursor := ""; len(looked) < 100; between() {
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

func (v *countedView) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	if table == journal.PublicTable {
		*v.rows++
	}
	return v.View.Row(slot, table, key)
}

// TestGroupSearchIsBounded: a request reads the groups that it shows and no others, however
// many there are, and a client that follows the cursors finds every match exactly once,
// the best first.
func TestGroupSearchIsBounded(t *testing.T) {
	g := newGroupHarness(t)
	const all = "team0 team1 team2 research team4 team5 team6 team7 team8"
	for _, name := range strings.Fields(all) {
		g.group(name, `,"enrollment_policy":"open","description":"A team of research"`)
	}
	g.settleGroups(9)
	ranked := "research team0 team1 team2 team4 team5 team6 team7 team8"
	for query, want := range map[string]string{
		"limit=50&q=papers+people": "", "limit=50&q=research+people": "", "limit=50": all, "limit=4": all, "limit=1&q=-": all,
		"limit=50&q=research": ranked, "limit=2&q=research": ranked, "limit=1&q=research": ranked, "limit=2&q=first+resaerch": ranked,
		"limit=3&q=team7": "team7 team0 team1 team2 team4 team5 team6 team8 research",
	} {
		names, looked := g.walk(query, func() {})
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
		read := 0
		for _, n := range looked {
			read += n
		}
		if read != len(names) {
			t.Errorf("%s reads %d groups to show %d", query, read, len(names))
		}
	}
	cursor := g.public().ask("GET", "/directory/groups?q=research&limit=1", "").want(200).text("next_cursor")
	for what, path := range map[string]string{
		"another query's": "?q=team&cursor=" + cursor, "without its query": "?cursor=" + cursor,
		"cut short": "?q=research&cursor=" + cursor[:len(cursor)-2], "changed": "?q=research&cursor=A" + cursor, "made up": "?q=research&cursor=" + strings.Repeat("A", 5000),
		"of another form": "?q=research&cursor=" + g.service.Cursors.Seal("directory groups research", make([]byte, 24)),
	} {
		if a := g.public().ask("GET", "/directory/groups"+path, ""); a.status != 400 || a.at("code") != "invalid_cursor" {
			t.Errorf("a cursor that is %s is answered %d", what, a.status)
		}
	}
}

// TestGroupWalkWhileGroupsChange: groups that agents join during a walk are neither missed
// nor shown twice, and groups that are made or deleted meanwhile do not disturb it.
func TestGroupWalkWhileGroupsChange(t *testing.T) {
	for _, query := range []string{"limit=2", "limit=2&q=research"} {
		g := newGroupHarness(t)
		var ids []string
		for i := range 7 {
			ids = append(ids, g.group(fmt.Sprintf("team%d", i), `,"enrollment_policy":"open","description":"A team of research"`))
		}
		g.settleGroups(7)
		next := 0
		names, _ := g.walk(query, func() {
			for _, i := range [][]int{{0, 6}, {1, 4}, {2, 3}}[next] {
				g.second.ask("POST", "/groups/"+ids[i]+"/join", "").want(200)
			}
			g.first.ask("DELETE", "/groups/"+g.group(fmt.Sprintf("early%d", next), `,"enrollment_policy":"open","description":"research"`), "").want(204)
			next++
			if next == 1 {
				g.first.ask("DELETE", "/groups/"+ids[5], "").want(204)
			}
		})
		if got, want := strings.Join(names, " "), "team0 team1 team2 team3 team4 team6"; got != want {
			t.Errorf("%s shows %q, want %q", query, got, want)
		}
	}
}
