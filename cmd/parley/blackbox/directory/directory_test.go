package directory

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

const rowShape = "id:uuid agent_id:uuid org_id:uuid name:str handle:str description:str? version:str? categories:arr tags:arr languages:arr jurisdiction:str? pricing_model:str? message_types_accepted:arr skills:arr verified:bool trust_tier:int human_oversight:bool a2a_enabled:bool score:num? created_at:time updated_at:time?"

// directoryScene has three public cards, one after the other. mark is a word that no
// other card has.
type directoryScene struct {
	s      *kit.Server
	mark   string
	agents map[string]*kit.Agent
}

func newDirectoryScene(t *testing.T, s *kit.Server) *directoryScene {
	t.Helper()
	d := &directoryScene{s: s, mark: "m" + kit.RandomHex(3), agents: map[string]*kit.Agent{}}
	first, second := s.Org(t), s.Org(t)
	tagged := func(tags ...any) []any {
		return []any{obj{"id": "a", "name": "Work", "description": "Does it.", "tags": tags}}
	}
	for _, c := range []struct {
		name string
		of   *kit.Org
		card obj
	}{
		{"ann", first, obj{"name": d.mark + " invoice checker", "description": "Compares invoices with orders.", "skills": tagged(d.mark+"x", d.mark+"y"), "svc": obj{"categories": []any{d.mark + " one", d.mark}, "languages": []any{d.lang("GB")}, "jurisdiction": d.mark, "pricing_model": "free", "message_types_accepted": []any{d.mark + ".v1.a"}}}},
		{"art", first, obj{"name": d.mark + " translator", "description": "Translates letters and invoices.", "skills": tagged(d.mark + "y"), "svc": obj{"categories": []any{d.mark + " two", d.mark}, "languages": []any{d.lang("")}, "pricing_model": "per_request"}}},
		{"bob", second, obj{"name": d.mark + " weather", "description": "Forecasts rain.", "svc": obj{"categories": []any{d.mark}}}},
	} {
		g := c.of.Agent(c.name)
		g.Put(g.Path("/card"), kit.Merged(kit.Merged(kit.PlainCard(), c.card), obj{"is_public": true})).Want(200)
		d.agents[c.name] = g
		kit.Eventually(t, "the card of "+c.name+" is found", func() bool { return strings.Contains(d.find(t, "q="+d.mark), c.name) })
	}
	kit.Eventually(t, "the cards are found by meaning", func() bool {
		return len(strings.Fields(d.find(t, "semantic=rain+translation+invoices&category="+d.mark))) == 3
	})
	return d
}

// lang returns a language that no other card has.
func (d *directoryScene) lang(region string) string {
	if region != "" {
		region = "-" + region
	}
	return "qxx-" + d.mark + region
}

// find walks the pages of a search and returns the names of the scene's agents, in order.
func (d *directoryScene) find(t testing.TB, query string) string {
	t.Helper()
	var found []string
	for cursor := ""; ; {
		a := d.s.Call(t, "", "GET", "/directory/agents?"+query+cursor, nil).Want(200)
		found = append(found, d.names(a.At("items").([]any))...)
		if a.At("has_more") != true {
			return strings.Join(found, " ")
		}
		cursor = "&cursor=" + a.Str("next_cursor")
	}
}

func (d *directoryScene) names(rows []any) (found []string) {
	for _, row := range rows {
		for name, g := range d.agents {
			if row.(obj)["id"] == g.ID {
				found = append(found, name)
			}
		}
	}
	return found
}

func TestDirectoryParameters(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		d := newDirectoryScene(t, s)
		first, second := d.agents["ann"].Org.ID, d.agents["bob"].Org.ID
		for query, want := range map[string]string{
			"":                              "bob art ann",
			"q=" + d.mark + "+weather":      "bob",
			"query=" + d.mark + "x":         "ann",
			"q=+&query=" + d.mark + "x":     "ann",
			"category=" + d.mark:            "bob art ann",
			"category=" + d.mark + "%20ONE": "ann",
			"category=" + d.mark + "+one&category=" + d.mark + "+two": "art ann",
			"tag=" + d.mark + "y": "art ann",
			"tag=" + d.mark + "y&tag=+" + strings.ToUpper(d.mark) + "X":                       "ann",
			"language=" + d.lang(""):                                                          "art ann",
			"language=" + strings.ToUpper(d.lang("gb")):                                       "ann",
			"jurisdiction=" + d.mark:                                                          "ann",
			"message_type=" + d.mark + ".v1.a":                                                "ann",
			"message_type=" + d.mark + ".v1":                                                  "",
			"org_id=" + first:                                                                 "art ann",
			"org_id=" + second:                                                                "bob",
			"verified=true&category=" + d.mark:                                                "bob art ann",
			"verified=false&category=" + d.mark:                                               "",
			"pricing_model=free&category=" + d.mark:                                           "ann",
			"pricing_model=negotiated&category=" + d.mark:                                     "",
			"semantic=rain+forecast&category=" + d.mark:                                       "bob",
			"sort=name&category=" + d.mark:                                                    "ann art bob",
			"sort=created_at&category=" + d.mark + "&limit=1":                                 "bob art ann",
			"q=invoices&category=" + d.mark + "&sort=name&limit=1":                            "ann art",
			"q=transaltor&tag=" + d.mark + "y&org_id=" + first + "&pricing_model=per_request": "art",
			"q=invoices&tag=" + d.mark + "y&org_id=" + first + "&verified=true":               "ann",
		} {
			got := d.find(t, query)
			if !strings.Contains(query, "sort=") && (strings.Contains(query, "q=") || strings.Contains(query, "query=") || strings.Contains(query, "semantic=")) {
				got, _, _ = strings.Cut(got, " ") // others may be found too, further down
			}
			if got != want {
				t.Errorf("%q finds %q, want %q", query, got, want)
			}
		}
		long := strings.Repeat("a", 501)
		for query, kind := range map[string]string{
			"limit=0": "greater_than_equal", "limit=101": "less_than_equal", "sort=size": "enum", "pricing_model=cheap": "enum", "org_id=7": "uuid_parsing",
			"verified=perhaps": "bool_parsing", "q=" + long: "string_too_long", "query=" + long: "string_too_long", "semantic=" + long: "string_too_long",
		} {
			name, _, _ := strings.Cut(query, "=")
			s.Call(t, "", "GET", "/directory/agents?"+query, nil).Invalid("query."+name, kind)
		}
		a := s.Call(t, "", "GET", "/directory/agents?limit=1&category="+d.mark, nil).Want(200)
		a.Is("total", 3, "search_mode", []any{"structured"}, "has_more", true)
		row, _ := a.At("items").([]any)[0].(obj)
		kit.Exactly(t, "a row", row, names(rowShape))
		for _, other := range []string{"", "&sort=name", "&q=a", "&verified=true"} {
			query := "/directory/agents?cursor=" + a.Str("next_cursor") + other
			if other != "" {
				query += "&category=" + d.mark
			}
			s.Call(t, "", "GET", query, nil).Refused(400, "invalid_cursor")
		}
		counts := s.Call(t, "", "GET", "/directory/categories", nil).Want(200)
		if text := string(counts.Raw); !strings.Contains(text, `{"name":"`+d.mark+`","count":3}`) || !strings.Contains(text, `{"name":"`+d.mark+` one","count":1}`) {
			counts.Errorf("the categories are %s", text)
		}
	})
}

// names returns the names in shapes, each once.
func names(shapes string) string {
	var all []string
	for _, word := range strings.Fields(shapes) {
		name, _, _ := strings.Cut(word, ":")
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// TestDirectoryByHandle: the agent or the group whose whole handle is looked for comes first,
// if it is listed.
func TestDirectoryByHandle(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		named, other, hidden := o.Agent("zoe"), o.Agent("other"), o.Agent("hidden")
		named.Put(named.Path("/card"), kit.Merged(kit.PlainCard(), obj{"name": "Quiet", "description": "Nothing.", "is_public": true})).Want(200)
		other.Put(other.Path("/card"), kit.Merged(kit.PlainCard(), obj{"name": "Zoe " + o.Slug + " localhost", "description": named.Handle + " " + hidden.Handle, "is_public": true})).Want(200)
		hidden.Put(hidden.Path("/card"), kit.Merged(kit.PlainCard(), obj{"is_public": false})).Want(200)
		first := func(path, query string) (id any) {
			if rows := s.Call(t, "", "GET", path+"?"+query, nil).Want(200).Items(); len(rows) > 0 {
				id = rows[0]["id"]
			}
			return id
		}
		kit.Eventually(t, "both cards are found", func() bool {
			return first("/directory/agents", "q="+o.Slug) == any(other.ID) && first("/directory/agents", "q="+named.Handle) == any(named.ID)
		})
		for query, want := range map[string]string{
			"q=" + strings.ToUpper(named.Handle): named.ID, "query=" + named.Handle + "&limit=1": named.ID, "q=" + named.Handle + "+also": other.ID,
			"q=" + hidden.Handle: other.ID, "q=zoe@" + o.Slug + ".elsewhere": other.ID,
		} {
			if got := first("/directory/agents", query); got != any(want) {
				t.Errorf("%s: the first is %v, want %s", query, got, want)
			}
		}
		stream := s.Call(t, "", "GET", "/directory/agents/stream?q="+named.Handle, nil)
		if at := strings.Index(string(stream.Raw), named.ID); at < 0 || at > strings.Index(string(stream.Raw), other.ID) {
			t.Errorf("stream: %s", stream.Raw)
		}
		group := func(name, description string) *kit.Answer {
			return named.Request("POST", "/groups", obj{"name": name, "description": description, "enrollment_policy": "open", "visibility": "public"}).Want(201)
		}
		loud, board := group("board-"+o.Slug, "board board"), group("board", "")
		handle := strings.TrimPrefix(board.Str("handle"), "#")
		kit.Eventually(t, "both groups are found", func() bool {
			return len(s.Call(t, "", "GET", "/directory/groups?q="+o.Slug, nil).Want(200).Items()) == 2
		})
		for _, query := range []string{"q=%23" + handle, "q=" + strings.ToUpper(handle)} {
			if got := first("/directory/groups", query); got != any(board.Str("id")) {
				t.Errorf("%s: the first group is %v, want %s; the other is %s", query, got, board.Str("id"), loud.Str("id"))
			}
		}
	})
}

func TestDirectoryStream(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		d := newDirectoryScene(t, s)
		for query, want := range map[string]string{
			"q=" + d.mark + "x":               "fuzzy",
			"query=" + d.mark + "x&limit=1":   "fuzzy",
			"q=" + d.mark + "x&semantic=rain": "fuzzy semantic",
			"semantic=" + d.mark + "x":        "fuzzy semantic",
		} {
			a := s.Call(t, "", "GET", "/directory/agents/stream?"+query, nil)
			var got []string
			events := strings.Split(strings.TrimSuffix(string(a.Raw), "\n\n"), "\n\n")
			for i, event := range events[:len(events)-1] {
				var phase struct {
					Phase   string
					Results []obj
					Error   *string
				}
				if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &phase); err != nil || phase.Error != nil {
					t.Fatalf("%s: %q: %v", query, event, err)
				}
				if got = append(got, phase.Phase); i == 0 && (len(phase.Results) == 0 || phase.Results[0]["id"] != d.agents["ann"].ID) {
					t.Errorf("%s: the first phase has %v", query, phase.Results)
				}
			}
			if last := events[len(events)-1]; strings.Join(got, " ") != want || last != "data: [DONE]" {
				t.Errorf("%s: %q, want %q; the last event is %q", query, got, want, last)
			}
		}
	})
}

// TestDirectoryLeaks: what is unlisted, revoked, withdrawn, not public or private appears
// nowhere in the directory, whatever is searched for. Control: what is public appears.
func TestDirectoryLeaks(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		secret := kit.Canaries{}
		plant := func(what string, unlisted, public bool) *kit.Agent {
			secret[what] = "canary" + kit.RandomHex(9)
			g := o.Agent("g" + kit.RandomHex(6))
			if unlisted {
				g.Patch(g.Path(""), obj{"unlisted": true}).Want(200)
			}
			g.Put(g.Path("/card"), kit.Merged(kit.PlainCard(), obj{
				"name": "Name " + secret[what], "description": "About " + secret[what], "is_public": public,
				"skills": []any{obj{"id": "a", "name": secret[what], "description": secret[what], "tags": []any{secret[what]}}}, "svc": obj{"categories": []any{secret[what]}},
			})).Want(200)
			return g
		}
		shown, later := plant("public", false, true), plant("unlisted later", false, true)
		revoked, withdrawn, closed := plant("revoked", false, true), plant("withdrawn", false, true), plant("not public any more", false, true)
		hidden := []*kit.Agent{plant("unlisted", true, true), plant("not public", false, false), later, revoked, withdrawn, closed}
		secret["private group"] = "canary" + kit.RandomHex(9)
		private := grouptest.New(shown, obj{"visibility": "private", "description": secret["private group"]})
		look := func(word string) (bodies []byte) {
			word = url.QueryEscape(word)
			for _, path := range []string{
				"/directory/agents?q=" + word, "/directory/agents?limit=100&sort=created_at", "/directory/agents?semantic=" + word, "/directory/agents?q=name&semantic=about+" + word,
				"/directory/agents?category=" + word, "/directory/agents?tag=" + word, "/directory/agents?limit=100&org_id=" + o.ID, "/directory/agents/stream?limit=100&q=" + word,
				"/directory/agents/stream?semantic=" + word, "/directory/categories", "/directory/groups?q=" + word, "/directory/groups?limit=50",
				"/find/agents?org_id=" + o.ID, "/find/agents?sort=created_at", "/find/groups", // a page repeats the words of its search
			} {
				a := s.Call(t, "", "GET", path, nil)
				if a.Status != 200 {
					a.Errorf("answered %d", a.Status)
				}
				bodies = append(bodies, a.Raw...)
			}
			return bodies
		}
		kit.Eventually(t, "all cards that are public are found", func() bool {
			found := secret.Found(s.Call(t, "", "GET", "/directory/agents?limit=100&org_id="+o.ID, nil).Want(200).Raw)
			return len(found) == 5
		})
		later.Patch(later.Path(""), obj{"unlisted": true}).Want(200)
		revoked.Delete(revoked.Path("")).Want(204)
		withdrawn.Delete(withdrawn.Path("/card")).Want(204)
		closed.Put(closed.Path("/card"), kit.PlainCard()).Want(200)
		for what, word := range secret { // at once: the index may still have them
			if found := secret.Found(s.Call(t, "", "GET", "/directory/agents?q="+word, nil).Want(200).Raw); what != "public" && slices.Contains(found, what) {
				t.Errorf("%s is shown right after the change", what)
			}
		}
		kit.Eventually(t, "the index has forgotten them", func() bool {
			return len(secret.Found(s.Call(t, "", "GET", "/directory/categories", nil).Want(200).Raw)) == 1
		})
		for _, word := range secret {
			if found := secret.Found(look(word)); fmt.Sprint(found) != "[public]" && fmt.Sprint(found) != "[]" || word == secret["public"] && len(found) == 0 {
				t.Errorf("%s shows %v", word, found)
			}
		}
		unknown := s.Call(t, "", "GET", "/directory/agents/"+kit.Nobody, nil).Refused(404, "not_found")
		for _, g := range hidden {
			if a := s.Call(t, "", "GET", "/directory/agents/"+g.ID, nil).Refused(404, "not_found"); a.At("detail") != unknown.At("detail") {
				a.Errorf("it can be told from an unknown agent: %s", a.Raw)
			}
		}
		s.Call(t, "", "GET", "/directory/groups/"+private.ID, nil).Refused(404, "not_found")
		a := s.Call(t, "", "GET", "/directory/agents/"+shown.ID, nil).Want(200)
		kit.Exactly(t, "the detail", a.Body, names(cardShape+" "+rowShape)+" registered_at last_active_at")
	})
}
