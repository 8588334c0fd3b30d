package http

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/org"
	"parley/http/limit"
)

// card is what a test publishes.
type card map[string]any

func (p *tenant) publish(id string, c card) *response {
	p.t.Helper()
	whole := card{"description": "", "is_public": true}
	for name, value := range c {
		whole[name] = value
	}
	body, err := json.Marshal(whole)
	if err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond) // so that the order by time is the order of publishing
	return p.ask("PUT", "/agents/"+id+"/card", string(body)).want(200)
}

// cardHarness has these cards, by the names of their agents.
type cardHarness struct {
	*groupHarness
	ids map[string]string
}

func skill(name string, tags ...string) card {
	return card{"id": name, "name": name, "description": "does " + name, "tags": tags}
}

func newCardHarness(t *testing.T, change ...func(*harnessOptions)) *cardHarness {
	h := &cardHarness{newGroupHarness(t, change...), map[string]string{}}
	h.ids["ann"], h.ids["art"], h.ids["bob"] = h.ann, h.art, h.bob
	h.first.publish(h.ann, card{
		"name": "Invoice checker", "description": "Compares invoices with orders.", "version": "2.0", "skills": []any{skill("check", "finance", "audit"), skill("explain", "Audit", "text")},
		"svc": card{"categories": []string{"Finance", "Office"}, "languages": []string{"en-GB", "de"}, "jurisdiction": "de", "pricing_model": "free", "message_types_accepted": []string{"acme.v1.invoice"}},
	})
	h.first.publish(h.art, card{
		"name": "Translator", "description": "Translates letters and invoices.", "skills": []any{skill("translate", "text")},
		"svc": card{"categories": []string{"office"}, "languages": []string{"fr", "en"}, "jurisdiction": "FR", "pricing_model": "per_request", "a2a_enabled": true},
	})
	h.second.publish(h.bob, card{
		"name": "zebra weather", "description": "Forecasts rain.", "skills": []any{skill("forecast", "weather")},
		"svc": card{"categories": []string{"weather"}, "languages": []string{"ja"}},
	})
	h.settle(3)
	return h
}

// find returns the names of the agents that a query finds, in order.
func (h *cardHarness) find(query string) string {
	h.t.Helper()
	return h.names(h.public().ask("GET", "/directory/agents?"+query, "").want(200).at("items"))
}

func (h *cardHarness) names(rows any) string {
	h.t.Helper()
	found := []string{}
	for _, row := range rows.([]any) {
		id := row.(map[string]any)["id"].(string)
		for name, known := range h.ids {
			if known == id {
				found = append(found, name)
			}
		}
	}
	return strings.Join(found, " ")
}

func TestDirectoryParameters(t *testing.T) {
	h := newCardHarness(t)
	second := h.second.owner.String()
	for query, want := range map[string]string{
		"": "bob art ann", "q=": "bob art ann", "q=%20&semantic=+": "bob art ann",
		"q=invoice+checker": "ann art", "query=invoice+checker": "ann art", "q=weather&query=invoice": "bob", "q=+&query=weather": "bob",
		"q=chekcer": "ann", "q=transl": "art", "q=audit": "ann", "q=nothingofthesort": "",
		"semantic=rain+forecast": "bob", "semantic=billing": "art ann",
		"category=finance": "ann", "category=+FINANCE+": "ann", "category=finance&category=weather": "bob ann", "category=": "bob art ann", "category=none": "",
		"tag=text": "art ann", "tag=text&tag=audit": "ann", "tag=text&tag=weather": "",
		"language=en": "art ann", "language=EN-gb": "ann", "language=ja&language=fr": "bob art", "language=e": "",
		"jurisdiction=de": "ann", "jurisdiction=+FR": "art", "jurisdiction=+": "bob art ann",
		"message_type=acme.v1.invoice": "ann", "message_type=acme.v1": "", "org_id=" + second: "bob", "org_id=" + h.ann: "",
		"verified=true": "bob art ann", "verified=false": "",
		"pricing_model=free": "ann", "pricing_model=per_request": "art", "pricing_model=subscription": "",
		"sort=name": "ann art bob", "sort=created_at": "bob art ann", "sort=relevance": "bob art ann",
		"limit=1": "bob", "q=invoices&limit=1&sort=name": "ann",
		"q=invoices&category=office&language=fr&tag=text&jurisdiction=fr&pricing_model=per_request&verified=true&org_id=" + h.first.owner.String(): "art",
		"q=invoices&semantic=translation&category=office&sort=name":                                                                                "ann art",
		"q=invoices&sort=created_at": "art ann",
	} {
		if got := h.find(query); got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
}

func TestDirectoryRefusals(t *testing.T) {
	h := newCardHarness(t)
	long := strings.Repeat("é", 501)
	for query, loc := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "sort=size": "sort", "sort=": "sort", "pricing_model=cheap": "pricing_model",
		"pricing_model=FREE": "pricing_model", "org_id=7": "org_id", "verified=perhaps": "verified", "q=" + long: "q", "query=" + long: "query", "semantic=" + long: "semantic",
		"category=a" + strings.Repeat("&category=a", 100): "category", "unknown=1": "unknown",
	} {
		h.public().ask("GET", "/directory/agents?"+query, "").want(422, "validation_error").is(map[string]any{"detail.0.loc.0": "query", "detail.0.loc.1": loc})
	}
	for _, query := range []string{"limit=100", "q=" + long[:1000], "semantic=" + long[:1000]} {
		h.public().ask("GET", "/directory/agents?"+query, "").want(200)
	}
	for _, query := range []string{"limit=0", "limit=101", "semantic=" + long, "q=" + long} {
		h.public().ask("GET", "/directory/agents/stream?"+query, "").want(422)
	}
}

func TestDirectoryAnswer(t *testing.T) {
	h := newCardHarness(t)
	page := h.public().ask("GET", "/directory/agents?q=invoice+checker&limit=1&tag=audit", "").want(200)
	page.is(map[string]any{
		"has_more": false, "next_cursor": nil, "search_mode": []any{"text", "structured"}, "total": 1,
		"items.0.id": h.ann, "items.0.agent_id": h.ann, "items.0.org_id": h.first.owner.String(), "items.0.name": "Invoice checker", "items.0.handle": h.first.handle("ann"),
		"items.0.description": "Compares invoices with orders.", "items.0.version": "2.0", "items.0.categories": []any{"finance", "office"}, "items.0.tags": []any{"finance", "audit", "text"},
		"items.0.languages": []any{"en-gb", "de"}, "items.0.jurisdiction": "DE", "items.0.pricing_model": "free", "items.0.message_types_accepted": []any{"acme.v1.invoice"},
		"items.0.skills.0.id": "check", "items.0.verified": true, "items.0.trust_tier": 1, "items.0.human_oversight": false, "items.0.a2a_enabled": false, "items.0.score": 1.0,
	})
	row := page.at("items.0").(map[string]any)
	if len(row) != 21 || row["created_at"] == nil || row["updated_at"] == nil {
		t.Errorf("the row has %d members: %v", len(row), row)
	}
	if got := page.head.Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("Access-Control-Allow-Origin is %q", got)
	}
	for query, want := range map[string][]any{
		"": {}, "q=%20": {}, "q=a": {"text"}, "tag=a": {"structured"}, "tag=+": {}, "semantic=rain": {"semantic"}, "verified=false": {"structured"},
		"semantic=rain&q=rain&category=weather": {"text", "structured", "semantic"}, "sort=name": {}, "q=a&sort=name": {"text"},
	} {
		page := h.public().ask("GET", "/directory/agents?"+query, "").want(200)
		if got := page.at("search_mode"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q has the modes %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"", "tag=text", "q=invoices&sort=name"} {
		if got := h.public().ask("GET", "/directory/agents?"+query, "").want(200).at("items.0.score"); got != nil {
			t.Errorf("%q has the score %v", query, got)
		}
	}
}

func TestDirectoryDetail(t *testing.T) {
	h := newCardHarness(t)
	detail := h.public().ask("GET", "/directory/agents/"+h.ann, "").want(200)
	detail.is(map[string]any{
		"id": h.ann, "agent_id": h.ann, "handle": h.first.handle("ann"), "tags": []any{"finance", "audit", "text"}, "is_public": true, "svc.agent_id": h.ann,
		"categories": []any{"finance", "office"}, "svc.categories": []any{"finance", "office"}, "score": nil, "last_active_at": nil,
	})
	own := h.first.ask("GET", "/agents/"+h.ann, "").want(200)
	if detail.at("registered_at") != own.at("created_at") {
		t.Errorf("registered at %v, made at %v", detail.at("registered_at"), own.at("created_at"))
	}
	stored, members := h.public().ask("GET", "/agents/"+h.ann+"/card", "").want(200), detail.body.(map[string]any)
	for name, value := range stored.body.(map[string]any) {
		if fmt.Sprint(members[name]) != fmt.Sprint(value) {
			t.Errorf("%s is %v, in the card %v", name, members[name], value)
		}
	}
	h.public().ask("GET", "/directory/agents/x", "").want(422)
	h.public().ask("GET", "/directory/agents/"+h.nobody.owner.String(), "").want(404, "not_found")
}

// TestDirectoryLastActive: the detail of an agent shows the hour in which it last sent,
// whatever it sent, and nothing else shows it.
func TestDirectoryLastActive(t *testing.T) {
	t.Parallel() // it waits for timers
	var late atomic.Int64
	noon := time.Now().Truncate(time.Hour)
	h := newCardHarness(t, func(o *harnessOptions) {
		o.Clock = func() time.Time { return noon.Add(25*time.Minute + time.Duration(late.Load())) }
	})
	shows := func(id string, hour any) {
		t.Helper()
		if at, ok := hour.(time.Time); ok {
			hour = at.UTC().Format("2006-01-02T15:04:05.000000Z")
		}
		h.public().ask("GET", "/directory/agents/"+id, "").want(200).is(map[string]any{"last_active_at": hour})
	}
	h.opsGroup()
	for _, id := range []string{h.ann, h.art, h.bob} {
		shows(id, nil)
	}
	sent := h.first.ask("POST", "/messages", `{"to_agent_id":"`+h.bob+`","type":"svc.v1.dm","encrypted_payload":"AA"}`, as(h.ann)).want(201)
	shows(h.ann, noon)
	shows(h.bob, nil)
	late.Store(int64(time.Hour))
	h.second.ask("POST", "/messages/"+sent.text("id")+"/reply", `{"type":"svc.v1.dm","encrypted_payload":"AA"}`, as(h.bob)).want(201)
	shows(h.bob, noon.Add(time.Hour))
	h.first.ask("POST", "/messages", `{"to_agent_id":"`+h.ann+`","type":"svc.v1.dm","encrypted_payload":"AA"}`, as(h.ann)).want(422, "self_message")
	shows(h.ann, noon)
	h.first.ask("POST", "/messages", groupMessage, as(h.art)).want(201)
	shows(h.art, noon.Add(time.Hour))
	late.Store(int64(26 * time.Hour))
	h.first.ask("POST", "/messages/sync?timeout_ms=1000", `{"to_agent_id":"`+h.bob+`","type":"svc.v1.dm","encrypted_payload":"AA"}`, as(h.ann)).want(200)
	shows(h.ann, noon.Add(26*time.Hour))
	for _, path := range []string{"/directory/agents", "/agents/" + h.ann + "/card", "/.well-known/agent-cards/" + h.ann + ".json", "/directory/agents?q=invoices"} {
		if a := h.public().ask("GET", path, "").want(200); strings.Contains(string(a.raw), "last_active") {
			t.Errorf("%s shows when an agent was active: %s", path, a.raw)
		}
	}
	h.first.ask("PATCH", "/agents/"+h.ann, `{"unlisted":true}`).want(200)
	h.public().ask("GET", "/directory/agents/"+h.ann, "").want(404)
	h.first.ask("PATCH", "/agents/"+h.ann, `{"unlisted":false}`).want(200)
	shows(h.ann, noon.Add(26*time.Hour))
}

// TestDirectoryWalk: each card comes once, whatever the limit, and a cursor works with its
// own parameters only.
func TestDirectoryWalk(t *testing.T) {
	h := newCardHarness(t)
	for i := range 7 {
		name := fmt.Sprint("extra", i)
		h.ids[name] = h.second.agent(name)
		h.second.publish(h.ids[name], card{"name": "Weather " + name, "description": "rain and billing", "svc": card{"categories": []string{"weather"}}})
	}
	h.settle(10)
	for _, query := range []string{"", "q=weather", "semantic=rain", "q=weather&semantic=rain", "category=weather", "sort=name", "q=weather&sort=created_at"} {
		want := h.find(query + "&limit=100")
		for _, limit := range []int{1, 2, 3} {
			var got []string
			cursor := ""
			for range 20 {
				page := h.public().ask("GET", fmt.Sprintf("/directory/agents?%s&limit=%d%s", query, limit, cursor), "").want(200)
				got = append(got, strings.Fields(h.names(page.at("items")))...)
				if page.at("has_more") != true {
					break
				}
				cursor = "&cursor=" + page.text("next_cursor")
			}
			if found := strings.Join(got, " "); found != want || len(got) < 2 {
				t.Errorf("%q in pages of %d finds %q, want %q", query, limit, found, want)
			}
		}
	}
	const base = "q=weather&category=weather&language=&sort=relevance&limit=1"
	cursor := "&cursor=" + h.public().ask("GET", "/directory/agents?"+base, "").want(200).text("next_cursor")
	for _, same := range []string{base, "limit=50&query=+weather&category=WEATHER&category=weather+"} {
		h.public().ask("GET", "/directory/agents?"+same+cursor, "").want(200)
	}
	for _, other := range []string{
		"category=weather", "q=rain&category=weather", "q=weather", "q=weather&category=office", "q=weather&category=weather&tag=a", "q=weather&category=weather&language=en",
		"q=weather&category=weather&jurisdiction=DE", "q=weather&category=weather&message_type=a.b.c", "q=weather&category=weather&org_id=" + h.ann,
		"q=weather&category=weather&verified=true", "q=weather&category=weather&verified=false", "q=weather&category=weather&pricing_model=free",
		"q=weather&category=weather&sort=name", "q=weather&category=weather&semantic=rain",
	} {
		h.public().ask("GET", "/directory/agents?"+other+cursor, "").want(400, "invalid_cursor")
	}
	for _, wrong := range []string{"x", cursor[len("&cursor="):] + "A", strings.Repeat("A", 5000), h.service.Cursors.Seal("directory agents", []byte{0, 1})} {
		h.public().ask("GET", "/directory/agents?"+base+"&cursor="+wrong, "").want(400, "invalid_cursor")
	}
}

// TestDirectoryPageEndsBeforeTheBound: long cards are divided into pages, and none is
// missed.
func TestDirectoryPageEndsBeforeTheBound(t *testing.T) {
	h := newCardHarness(t)
	for i := range 24 {
		name := fmt.Sprint("long", i)
		h.ids[name] = h.second.agent(name)
		long := card{"name": name, "skills": []any{}}
		for j := range 12 {
			long["skills"] = append(long["skills"].([]any), card{"id": fmt.Sprint(j), "name": "s", "description": strings.Repeat("d", 4900)})
		}
		h.second.publish(h.ids[name], long)
	}
	h.settle(27)
	for _, query := range []string{"sort=created_at", "q=long1+long2+d"} {
		seen, pages, cursor := map[string]bool{}, 0, ""
		for range 30 {
			page := h.public().ask("GET", "/directory/agents?limit=100&"+query+cursor, "").want(200)
			if len(page.raw) > 1<<20 {
				t.Fatalf("a page of %d bytes", len(page.raw))
			}
			for _, name := range strings.Fields(h.names(page.at("items"))) {
				if seen[name] {
					t.Errorf("%s comes twice", name)
				}
				seen[name] = true
			}
			if pages++; page.at("has_more") != true {
				break
			}
			cursor = "&cursor=" + page.text("next_cursor")
		}
		if total := h.public().ask("GET", "/directory/agents?limit=1&"+query, "").at("total"); pages < 2 || float64(len(seen)) != total {
			t.Errorf("%s: %d cards on %d pages, of %v", query, len(seen), pages, total)
		}
	}
}

// TestDirectoryShowsNothingOutOfDate: the index still has cards that may not be shown any
// more. Control: with a current index they are not even counted.
func TestDirectoryShowsNothingOutOfDate(t *testing.T) {
	for what, hide := range map[string]func(h *cardHarness){
		"revoked":    func(h *cardHarness) { h.first.ask("DELETE", "/agents/"+h.ann, "").want(204) },
		"unlisted":   func(h *cardHarness) { h.first.ask("PATCH", "/agents/"+h.ann, `{"unlisted":true}`).want(200) },
		"withdrawn":  func(h *cardHarness) { h.first.ask("DELETE", "/agents/"+h.ann+"/card", "").want(204) },
		"not public": func(h *cardHarness) { h.first.publish(h.ann, card{"name": "Invoice checker", "is_public": false}) },
	} {
		t.Run(what, func(t *testing.T) {
			h := newCardHarness(t)
			h.directory.Close() // it follows no more
			hide(h)
			for _, query := range []string{"", "q=invoice", "semantic=billing", "sort=name", "category=finance"} {
				if got := h.find(query); strings.Contains(got, "ann") {
					t.Errorf("%q shows %q", query, got)
				}
				events, _ := h.searchStream("/directory/agents/stream?" + query)
				if text := strings.Join(events, ""); strings.Contains(text, h.ann) || strings.Contains(text, "Invoice checker") {
					t.Errorf("the stream of %q shows %s", query, text)
				}
			}
			page := h.public().ask("GET", "/directory/agents?sort=name&limit=1", "").want(200).is(map[string]any{"items": []any{}, "has_more": true, "total": 3})
			h.public().ask("GET", "/directory/agents?sort=name&limit=1&cursor="+page.text("next_cursor"), "").want(200).is(map[string]any{"items.0.id": h.art})
			h.public().ask("GET", "/directory/agents/"+h.ann, "").want(404, "not_found")
			unknown, hidden := h.public().ask("GET", "/directory/agents/"+h.nobody.owner.String(), ""), h.public().ask("GET", "/directory/agents/"+h.ann, "")
			if unknown.text("detail") != hidden.text("detail") {
				t.Errorf("an agent that is %s can be told from an unknown one", what)
			}
			h.reopenDirectory(2)
			h.public().ask("GET", "/directory/agents?q=invoice", "").want(200).is(map[string]any{"total": 1})
			if got := string(h.public().ask("GET", "/directory/categories", "").want(200).raw); strings.Contains(got, "finance") {
				t.Errorf("categories: %s", got)
			}
		})
	}
}

// TestDirectoryHidesSuspended: nothing is shown of an agent whose organization is
// suspended, and all of it again when it is resumed.
func TestDirectoryHidesSuspended(t *testing.T) {
	h := newCardHarness(t)
	shown := func(want bool) {
		t.Helper()
		for _, query := range []string{"", "q=invoice", "semantic=billing", "sort=name", "category=finance", "org_id=" + h.first.owner.String()} {
			if got := strings.Contains(h.find(query), "ann"); got != want {
				t.Errorf("%q shows the agent: %v", query, got)
			}
			events, _ := h.searchStream("/directory/agents/stream?" + query)
			if got := strings.Contains(strings.Join(events, ""), h.ann); got != want {
				t.Errorf("the stream of %q shows the agent: %v", query, got)
			}
		}
		if a := h.public().ask("GET", "/directory/agents/"+h.ann, ""); a.status != map[bool]int{true: 200, false: 404}[want] {
			t.Errorf("the detail is %d", a.status)
		}
	}
	shown(true)
	if _, err := h.node.Orgs.SetTerms(context.Background(), h.first.owner, org.Suspend{}); err != nil {
		t.Fatal(err)
	}
	shown(false)
	if _, err := h.node.Orgs.SetTerms(context.Background(), h.first.owner, org.Resume{}); err != nil {
		t.Fatal(err)
	}
	shown(true)
}

// TestDirectoryCardsThatMeanNothing: however many cards have a text without a vector,
// later ones are found by their meaning.
func TestDirectoryCardsThatMeanNothing(t *testing.T) {
	h := newCardHarness(t)
	for i := range 70 { // more than are asked for at once
		h.second.publish(h.second.agent(fmt.Sprint("mute", i)), card{"name": "!!!"})
	}
	h.ids["late"] = h.second.agent("late")
	h.second.publish(h.ids["late"], card{"name": "Rain gauge", "description": "Forecasts rain and storms."})
	got := ""
	for range 400 {
		if got = h.find("semantic=rain+forecast&limit=100"); strings.Contains(got, "late") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if fields := strings.Fields(got); len(fields) != 2 || !strings.Contains(got, "bob") {
		t.Errorf("found by meaning: %q", got)
	}
	h.public().ask("GET", "/directory/agents?semantic=rain+forecast&limit=100", "").want(200).is(map[string]any{"total": 2})
}

func TestDirectoryCategories(t *testing.T) {
	h := newCardHarness(t)
	const want = `[{"name":"office","count":2},{"name":"finance","count":1},{"name":"weather","count":1}]`
	if got := string(h.public().ask("GET", "/directory/categories", "").want(200).raw); got != want {
		t.Errorf("categories %s, want %s", got, want)
	}
	first := h.public().ask("GET", "/directory/categories?limit=2", "").want(200).is(map[string]any{"items.1.name": "finance", "has_more": true})
	h.public().ask("GET", "/directory/categories?cursor="+first.text("next_cursor"), "").want(200).is(map[string]any{"items.0.name": "weather", "has_more": false})
	h.public().ask("GET", "/directory/categories?cursor=x", "").want(400, "invalid_cursor")
}

// TestDirectoryWithoutProvider: the words of semantic are looked for, on all pages of the
// list, also if the provider is back by then.
func TestDirectoryWithoutProvider(t *testing.T) {
	h := newCardHarness(t)
	const path = "/directory/agents?semantic=invoices&limit=1"
	withVector := h.public().ask("GET", "/directory/agents?semantic=billing+translation&limit=1", "").want(200).is(map[string]any{"search_mode": []any{"semantic"}})
	h.reopenDirectory(3) // without cached vectors
	h.embedder.failing.Store(true)
	page := h.public().ask("GET", path, "").want(200).is(map[string]any{"search_mode": []any{"text"}, "total": 2})
	seen := h.names(page.at("items"))
	if withVector.at("has_more") == true {
		next := "/directory/agents?semantic=billing+translation&cursor=" + withVector.text("next_cursor")
		h.public().ask("GET", next, "").want(503, "overloaded")
		h.embedder.failing.Store(false)
		h.public().ask("GET", next, "").want(200).is(map[string]any{"search_mode": []any{"semantic"}})
	} else {
		t.Error("there is no second page")
	}
	for _, failing := range []bool{true, false} {
		h.embedder.failing.Store(failing)
		next := h.public().ask("GET", path+"&cursor="+page.text("next_cursor"), "").want(200).is(map[string]any{"search_mode": []any{"text"}})
		if got := h.names(next.at("items")); got == seen || got == "" {
			t.Errorf("the second page has %q after %q", got, seen)
		}
	}
	h.embedder.failing.Store(true)
	h.public().ask("GET", "/directory/agents?q=weather&semantic=invoices&category=office", "").want(200).is(map[string]any{"search_mode": []any{"text", "structured"}, "total": 2})
}

// TestDirectorySearchNeedsAPlace: searches share the places of the other public searches.
func TestDirectorySearchNeedsAPlace(t *testing.T) {
	h := newCardHarness(t)
	*inside[*limit.Slots](h.service.directory, "queries") = limit.NewSlots(1)
	*inside[time.Duration](h.service.directory, "queries", "wait") = time.Millisecond
	leave, err := (*inside[*limit.Slots](h.service.directory, "queries")).Enter(address("another"), nil)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/directory/agents", "/directory/agents?semantic=rain", "/directory/agents/stream"}
	for _, path := range paths {
		h.public().ask("GET", path, "").want(503, "overloaded")
	}
	leave()
	h.public().ask("GET", paths[0], "").want(200)
	h.public().ask("GET", paths[1], "").want(200)
	h.phases(paths[2])
}
