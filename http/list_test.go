package http

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
)

// arrayCase is a list with seven rows that is a plain array by default.
type arrayCase struct {
	party  *tenant
	path   string
	id     string // the member that identifies a row
	insert func() // adds a row
	remove func(id string)
	// again decodes an array into wire structs and encodes it again.
	again func(t *testing.T, raw []byte) []byte
}

func rewritten[T any](t *testing.T, raw []byte) []byte {
	t.Helper()
	var rows []T
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const arrayRows = 7

// arrayCases fills the four lists.
func arrayCases(g *groupHarness) map[string]*arrayCase {
	n := 0
	next := func() string { n++; return "n" + strconv.Itoa(n) }
	team := g.harness.tenant("team")
	hooks := func() {
		g.first.hook([]string{g.art, g.ann}[n%2], "https://example.com/"+next(), "").want(201)
	}
	room := g.group("room", `,"enrollment_policy":"open"`)
	enter := func() {
		g.second.ask("POST", "/groups/"+room+"/join", "", as(g.second.agent(next()))).want(200)
	}
	whom, other := g.second.agent("bea"), g.bob
	invites := func() {
		whom, other = other, whom
		g.first.ask("POST", "/groups/"+g.group(next(), "")+"/invite", `{"agent_id":"`+whom+`"}`, as("ann")).want(200)
	}
	cases := map[string]*arrayCase{
		"agents": {team, "/agents", "id", func() { team.agent(next()) }, func(id string) {
			team.ask("DELETE", "/agents/"+id, "").want(204)
		}, rewritten[api.Agent]},
		"webhooks": {g.first, "/webhooks", "id", hooks, func(id string) {
			g.first.ask("DELETE", "/webhooks/"+id, "").want(204)
		}, rewritten[api.Webhook]},
		"participants": {g.first, "", "agent_id", enter, func(id string) {
			g.first.ask("DELETE", "/groups/"+room+"/members/"+id, "", as("ann")).want(204)
		}, rewritten[api.Participant]},
		"invites": {g.second, "/groups/invites", "id", invites, nil, rewritten[api.JoinRequest]},
	}
	cases["invites"].remove = func(id string) { // the invited agent joins
		for _, row := range g.second.ask("GET", "/groups/invites", "").want(200).body.([]any) {
			if r := row.(map[string]any); r["id"] == id {
				g.second.ask("POST", "/groups/"+r["group_id"].(string)+"/join", "", as(r["agent_id"].(string))).want(200)
			}
		}
	}
	for name, c := range cases {
		rows := 0
		if name == "participants" {
			rows = 1 // ann founded the group
		}
		for ; rows < arrayRows; rows++ {
			c.insert()
		}
	}
	said := g.first.ask("POST", "/messages", `{"to_handle":"#room@first.home.example","type":"svc.v1.dm","encrypted_payload":"aGVsbG8"}`, as("ann")).want(201)
	cases["participants"].path = "/conversations/" + said.text("conversation_id") + "/participants"
	return cases
}

// rowsOf returns the ids of an array or a page.
func (c *arrayCase) rowsOf(rows any) (ids []string) {
	for _, row := range rows.([]any) {
		ids = append(ids, row.(map[string]any)[c.id].(string))
	}
	return ids
}

// from walks the pages that follow a cursor and returns the ids and the raw items.
func (c *arrayCase) from(limit int, cursor string) (ids []string, raw [][]byte) {
	for range 20 {
		query := "?limit=" + strconv.Itoa(limit)
		if cursor != "" {
			query += "&cursor=" + url.QueryEscape(cursor)
		}
		a := c.party.ask("GET", c.path+query, "").want(200)
		var page struct {
			Items []jsontext.Value `json:"items"`
		}
		if err := json.Unmarshal(a.raw, &page); err != nil {
			a.t.Fatal(err)
		}
		for _, item := range page.Items {
			raw = append(raw, item)
		}
		ids = append(ids, c.rowsOf(a.at("items"))...)
		if a.at("has_more") != true {
			a.is(map[string]any{"next_cursor": nil})
			return ids, raw
		}
		if a.len("items") != limit {
			a.t.Fatalf("a page with limit %d has %d rows: %s", limit, a.len("items"), a.raw)
		}
		cursor = a.text("next_cursor")
	}
	c.party.t.Fatal("the walk never ends")
	return nil, nil
}

// TestArraysInPages: joined, the pages have the same bytes as the array, whatever the
// page size.
func TestArraysInPages(t *testing.T) {
	g := newGroupHarness(t)
	for name, c := range arrayCases(g) {
		whole := c.party.ask("GET", c.path, "").want(200)
		if whole.len("") != arrayRows {
			t.Fatalf("%s: %d rows: %s", name, whole.len(""), whole.raw)
		}
		if again := c.again(t, whole.raw); !bytes.Equal(again, whole.raw) {
			t.Errorf("%s: the array is\n%s, want\n%s", name, whole.raw, again)
		}
		for _, limit := range []int{1, 3, arrayRows, 100} {
			_, items := c.from(limit, "")
			if joined := "[" + string(bytes.Join(items, []byte(","))) + "]"; joined != string(whole.raw) {
				t.Errorf("%s, limit %d: the pages have\n%s, want\n%s", name, limit, joined, whole.raw)
			}
		}
		for _, limit := range []string{"0", "101", "-1", "x"} {
			c.party.ask("GET", c.path+"?limit="+limit, "").want(422, "validation_error")
		}
		// A cursor without a limit requests a page too.
		cursor := c.party.ask("GET", c.path+"?limit=3", "").want(200).text("next_cursor")
		rest := c.party.ask("GET", c.path+"?cursor="+url.QueryEscape(cursor), "").want(200)
		if want := c.rowsOf(whole.body)[3:]; !slices.Equal(c.rowsOf(rest.at("items")), want) || rest.at("has_more") != false {
			t.Errorf("%s, only a cursor: %s, want %v", name, rest.raw, want)
		}
	}
	for _, path := range []string{"/agents", "/webhooks", "/groups/invites"} {
		if none := g.nobody.ask("GET", path, "").want(200); string(none.raw) != "[]" {
			t.Errorf("%s: an empty array is %s", path, none.raw)
		}
		none := g.nobody.ask("GET", path+"?limit=1", "").want(200)
		if string(none.raw) != `{"items":[],"next_cursor":null,"has_more":false}` {
			t.Errorf("%s: an empty page is %s", path, none.raw)
		}
	}
}

// TestArrayWalkDuringChanges: no row is returned twice, and none is missing that was
// present during the whole walk.
func TestArrayWalkDuringChanges(t *testing.T) {
	for _, limit := range []int{1, 3} {
		g := newGroupHarness(t)
		for name, c := range arrayCases(g) {
			all := c.rowsOf(c.party.ask("GET", c.path, "").want(200).body)
			first := c.party.ask("GET", c.path+"?limit="+strconv.Itoa(limit), "").want(200)
			shown := c.rowsOf(first.at("items"))
			if name != "participants" { // keep the only admin
				c.remove(all[0])
			}
			c.remove(all[limit]) // the next row of the walk
			c.remove(all[5])
			c.insert()
			c.insert()
			rest, _ := c.from(limit, first.text("next_cursor"))
			shown = append(shown, rest...)
			now := c.rowsOf(c.party.ask("GET", c.path, "").want(200).body)
			for i, id := range shown {
				if slices.Contains(shown[:i], id) {
					t.Errorf("%s, limit %d: %s is returned twice: %v", name, limit, id, shown)
				}
			}
			stayed := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return !slices.Contains(now, id) })
			seen := slices.DeleteFunc(slices.Clone(shown), func(id string) bool { return !slices.Contains(stayed, id) })
			if len(stayed) < 3 || len(stayed) >= arrayRows || !slices.Equal(seen, stayed) {
				t.Errorf("%s, limit %d: of the rows that stayed\n%v\nthe walk returned\n%v", name, limit, stayed, seen)
			}
		}
	}
}

func TestArrayCursorsBelongToTheirList(t *testing.T) {
	g := newGroupHarness(t)
	cases := arrayCases(g)
	for name, c := range cases {
		cursor := c.party.ask("GET", c.path+"?limit=1", "").want(200).text("next_cursor")
		bad := []string{"x", cursor + "A", cursor[:len(cursor)-4]}
		for other, o := range cases {
			if other != name { // of another route, and in most cases of another organization
				bad = append(bad, o.party.ask("GET", o.path+"?limit=1", "").want(200).text("next_cursor"))
			}
		}
		for _, cursor := range bad {
			c.party.ask("GET", c.path+"?cursor="+url.QueryEscape(cursor), "").want(400, "invalid_cursor")
		}
		other := map[*tenant]*tenant{g.first: g.second, g.second: g.first, cases["agents"].party: g.first}[c.party]
		other.ask("GET", c.path+"?cursor="+url.QueryEscape(cursor), "").want(400, "invalid_cursor")
		if filter := map[string]string{
			"agents": "include_revoked=true", "webhooks": "include_inactive=true",
		}[name]; filter != "" {
			c.party.ask("GET", c.path+"?"+filter+"&cursor="+url.QueryEscape(cursor), "").want(400, "invalid_cursor")
		}
	}
	cursor := g.second.ask("GET", "/groups/invites?limit=1", "", as("bea")).want(200).text("next_cursor")
	g.second.ask("GET", "/groups/invites?cursor="+url.QueryEscape(cursor), "", as("bob")).want(400, "invalid_cursor")
	cursor = g.first.ask("GET", "/webhooks?limit=1&agent_id="+g.ann, "").want(200).text("next_cursor")
	g.first.ask("GET", "/webhooks?agent_id="+g.art+"&cursor="+url.QueryEscape(cursor), "").want(400, "invalid_cursor")
	g.first.ask("GET", "/webhooks?agent_id="+g.ann+"&cursor="+url.QueryEscape(cursor), "").want(200)
}

// TestLongArraysAreRefused: an array of exactly the maximum size is answered. If the
// maximum is a byte less, the array is refused, but its pages are answered.
func TestLongArraysAreRefused(t *testing.T) {
	g := newGroupHarness(t)
	if g.service.lists.ArrayBytes != 8<<20 {
		t.Fatalf("the bound is %d", g.service.lists.ArrayBytes)
	}
	for name, c := range arrayCases(g) {
		whole := c.party.ask("GET", c.path, "").want(200)
		g.service.lists.ArrayBytes = len(whole.raw)
		if exact := c.party.ask("GET", c.path, "").want(200); !bytes.Equal(exact.raw, whole.raw) {
			t.Errorf("%s: at the bound: %s", name, exact.raw)
		}
		g.service.lists.ArrayBytes--
		long := c.party.ask("GET", c.path, "").want(503, "overloaded")
		if after, err := strconv.Atoi(long.head.Get("Retry-After")); err != nil || after < 1 {
			t.Errorf("%s: Retry-After %q", name, long.head.Get("Retry-After"))
		}
		if ids, _ := c.from(3, ""); !slices.Equal(ids, c.rowsOf(whole.body)) {
			t.Errorf("%s: beyond the bound the pages have %v", name, ids)
		}
		g.service.lists.ArrayBytes = parley.ArrayBytesMax
		c.party.ask("GET", c.path, "").want(200)
	}
}

// TestManyWebhooksInPages: of keys that arrive in any order, a page keeps the smallest.
func TestManyWebhooksInPages(t *testing.T) {
	l := &rest.List{Limit: 3}
	var keys [][]byte
	for i := range 10_000 {
		keys = l.Keep(keys, fmt.Appendf(nil, "%05d", i*7919%10_000))
		if len(keys) > 8*100 {
			t.Fatalf("%d keys are kept", len(keys))
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	for i, key := range keys[:l.Limit+1] {
		if string(key) != fmt.Sprintf("%05d", i) {
			t.Errorf("key %d is %s", i, key)
		}
	}
}

// TestListPageIsBoundedInBytes: a page ends before the row that would make it longer
// than 1 MiB, but has at least one row.
func TestListPageIsBoundedInBytes(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	limit, next := 100, (*string)(nil)
	sizes := []int{300 << 10, 300 << 10, 300 << 10, 300 << 10, 2 << 20, 10}
	for _, rows := range []int{3, 1, 1, 1} {
		call := callOf(h.owner)
		l, err := h.service.lists.New(call, api.Paging{Limit: &limit, Cursor: next}, "sizes", 1)
		if err != nil {
			t.Fatal(err)
		}
		for i, size := range sizes {
			if !l.Add([]byte{byte(i)}, strings.Repeat("x", size), nil) {
				break
			}
		}
		answer, err := l.Answer(nil)
		if err != nil {
			t.Fatal(err)
		}
		var page api.Page[string]
		if err := json.Unmarshal(answer.JSON, &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Items) != rows || rows > 1 && len(answer.JSON) > parley.PageBytesMax {
			t.Errorf("a page has %d rows and %d bytes, want %d rows", len(page.Items), len(answer.JSON), rows)
		}
		next = page.NextCursor
	}
	if next != nil {
		t.Error("the last page has a cursor")
	}
}

// callOf returns a call of an organization without a server.
func callOf(owner parley.OrgID) *rest.Call {
	c := rest.NewCall(&fasthttp.RequestCtx{}, &rest.Host{}, &rest.Route{Access: rest.Read}, "")
	c.Caller.Org = owner
	return c
}
