package http

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
		"#ops@first.hall.example": "ops research-ops", "first": "research ops cafe research-ops", "DÉJÀ": "cafe", "strasse": "cafe", "σίσυφος": "cafe",
		"xyzzy": "", "": "research research-ops ops cafe", " - ": "research research-ops ops cafe", "search": "research research-ops ops", "afe": "cafe",
	} {
		var found shortlist
		found.most = 10
		for i, g := range groups {
			at := foundAt{score: newSearch(query).score(g.name, "#"+g.name+"@first.hall.example", g.description)}
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
	g := newGroupHall(t)
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
		"items.0.name": "team3", "items.0.handle": "#team3@first.hall.example", "items.0.org_id": g.first.owner.String(),
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

// TestASearchIsBounded: a search looks at so much and no more, a list without a
// query goes on to its end all the same, and few run at once.
func TestASearchIsBounded(t *testing.T) {
	g := newGroupHall(t)
	for i := range 6 {
		g.group(fmt.Sprintf("team%d", i), `,"enrollment_policy":"open","description":"A team of research"`)
	}
	names := func(query string) (names []string) {
		page := g.public().ask("GET", "/directory/groups?limit=50"+query, "").want(200)
		for _, item := range page.at("items").([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		return names
	}
	g.service.searchWork = 2 * (searchStep + len("team0A team of research"))
	if got := strings.Join(names("&q=team"), " "); got != "team0 team1" {
		t.Errorf("a search that may look at two groups finds %q", got)
	}
	g.service.searchWork = searchWork
	if got := len(names("&q=team")); got != 6 {
		t.Errorf("a search that may look at all finds %d", got)
	}
	for range cap(g.service.queries) {
		g.service.queries <- struct{}{}
	}
	g.public().ask("GET", "/directory/groups?q=team", "").want(503, "overloaded")
	<-g.service.queries
	g.public().ask("GET", "/directory/groups?q=team", "").want(200)
}
