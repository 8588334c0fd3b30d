package http

import (
	"context"
	"fmt"
	"html"
	"io"
	stdhttp "net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/actors/org"
	"parley/http/limit"
	"parley/http/rest"
	"parley/http/web"
)

// browserAccept is what browsers send for a page.
const browserAccept = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// browse requests a page as a browser does.
func (h *cardHarness) browse(path string, head ...string) *response {
	h.t.Helper()
	return h.visit(path, append([]string{browserAccept}, head...)...)
}

// visit requests a page with these headers.
func (h *cardHarness) visit(path string, head ...string) *response {
	h.t.Helper()
	p := h.public()
	r, err := stdhttp.NewRequest("GET", "http://home"+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, line := range head {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	answer, err := p.http.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	a := &response{t: h.t, what: "GET " + path, status: answer.StatusCode, head: answer.Header}
	if a.raw, err = io.ReadAll(answer.Body); err != nil {
		h.t.Fatal(err)
	}
	return a
}

// has checks that a page has these texts.
func (a *response) has(texts ...string) *response {
	a.t.Helper()
	for _, text := range texts {
		if !strings.Contains(string(a.raw), text) {
			a.t.Errorf("%s has no %q:\n%s", a.what, text, a.raw)
		}
	}
	return a
}

// without checks that a page has none of these texts.
func (a *response) without(texts ...string) *response {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(string(a.raw), text) {
			a.t.Errorf("%s has %q:\n%s", a.what, text, a.raw)
		}
	}
	return a
}

var (
	rowLink  = regexp.MustCompile(`<h3><a href="\.\.?/a/([^"@]+)@`)
	nextPage = regexp.MustCompile(`rel="next" href="(\?[^"]+)"`)
)

// listed returns the names of the agents that a page lists.
func (a *response) listed() string {
	var names []string
	for _, m := range rowLink.FindAllStringSubmatch(string(a.raw), -1) {
		names = append(names, m[1])
	}
	return strings.Join(names, " ")
}

func newPageHarness(t *testing.T) (h *cardHarness, group string) {
	h = newCardHarness(t)
	group = h.group("friends", `,"enrollment_policy":"open","description":"Friends of <b>invoices</b>"`)
	h.awaitGroup("friends")
	return h, group
}

// awaitGroup waits until a group is found. Words that resemble its name may be found
// before it.
func (h *cardHarness) awaitGroup(name string) {
	h.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if found := h.public().ask("GET", "/directory/groups?q="+name, "").want(200); strings.Contains(string(found.raw), `"name":"`+name+`"`) {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the group %s is not found after thirty seconds", name)
		}
	}
}

var pagePaths = []string{"/", "/find/agents", "/find/agents?q=invoices&category=office", "/find/groups", "/find/groups?q=friends", "/a/ann@first.home.example", "/g/friends@first.home.example"}

func TestPages(t *testing.T) {
	h, group := newPageHarness(t)
	for path, texts := range map[string][]string{
		"/":                             {"Parley server", "<strong>home.example</strong>", "Show 3 agents", `href="./a/ann@first.home.example"`, "Invoice checker", "Compares invoices with orders.", `href="./find/agents?category=office"`, `href="./docs"`},
		"/find/agents":                  {"3 agents", `href="../a/bob@second.home.example"`, `value="finance"`},
		"/find/agents?q=billing":        {`value="billing"`, "found by words and by meaning", `href="../a/ann@first.home.example"`},
		"/find/agents?category=Finance": {"1 agent<", `value="finance" checked`, `href="?"`},
		"/find/agents?q=zzzzzz":         {"No agent found"},
		"/a/ann@first.home.example":     {"<h1 dir=\"auto\">Invoice checker</h1>", "parley send ann@first.home.example", "curl https://home.example/messages", "acme.v1.invoice", "parley verify-keys ann@first.home.example", "en-gb", "DE", "did:web:first.home.example:agents:ann", h.ann, "Ed25519", "X25519"},
		"/a/art@first.home.example":     {"svc.v1.dm", `href="../a2a/art@first.home.example/agent.json"`},
		"/find/groups":                  {`href="../g/friends@first.home.example"`, "#friends@first.home.example", "Friends of &lt;b&gt;invoices&lt;/b&gt;", "1 member<"},
		"/find/groups?q=friends":        {`value="friends"`, "Groups found"},
		"/g/friends@first.home.example": {"<h1>friends</h1>", "#friends@first.home.example", "Open: any agent may join.", "parley group join " + group},
	} {
		a := h.browse(path).want(200).has(texts...).without("ZgotmplZ", "&lt;nil&gt;")
		if got := a.head.Get("Content-Type"); got != "text/html; charset=utf-8" {
			t.Errorf("%s is %s", path, got)
		}
	}
	card := h.public().ask("GET", "/agents/"+h.ann+"/card", "").want(200)
	page := h.browse("/a/ann@first.home.example")
	for _, word := range strings.Fields(card.text("svc.verification_words")) {
		page.has("<li>" + word + "</li>")
	}
	page.has(card.text("svc.signing_key.x"), card.text("svc.encryption_key.x")).without("/a2a/")
	h.public().ask("GET", "/a2a/art@first.home.example/agent.json", "").want(200)
}

// TestPagesListWhatTheEndpointsFind: the pages show the same agents in the same order.
func TestPagesListWhatTheEndpointsFind(t *testing.T) {
	h, _ := newPageHarness(t)
	for form, query := range map[string]string{
		"": "", "q=": "", "q=invoices": "q=invoices&semantic=invoices", "q=+billing+": "q=billing&semantic=billing", "category=office": "category=office",
		"category=finance&category=weather": "category=finance&category=weather", "tag=text,+audit": "tag=text&tag=audit", "language=fr,ja": "language=fr&language=ja",
		"jurisdiction=de": "jurisdiction=de", "message_type=acme.v1.invoice": "message_type=acme.v1.invoice", "pricing_model=free": "pricing_model=free", "verified=true": "", "verified=false": "verified=false",
		"sort=name": "sort=name", "q=&category=&tag=&language=&jurisdiction=&message_type=&pricing_model=&verified=&sort=relevance": "", "org_id=" + h.second.owner.String(): "org_id=" + h.second.owner.String(),
	} {
		if got, want := h.browse("/find/agents?"+form).want(200).listed(), h.find(query); got != want {
			t.Errorf("the page of %q lists %q, the endpoint finds %q", form, got, want)
		}
	}
}

func TestPagesInPages(t *testing.T) {
	h, _ := newPageHarness(t)
	for i := range 25 {
		id := h.second.agent(fmt.Sprint("extra", i))
		h.second.publish(id, card{"name": fmt.Sprint("Weather ", i), "description": "rain & sun", "svc": card{"categories": []string{"a&b"}}})
		time.Sleep(time.Millisecond)
		h.group(fmt.Sprint("team", i), `,"enrollment_policy":"open"`)
	}
	h.settle(28)
	for path, want := range map[string]int{"/find/agents": 28, "/find/agents?q=rain+%26+sun&category=a%26b": 25, "/find/agents?sort=name": 28} {
		seen := map[string]bool{}
		for at := path; at != ""; {
			a := h.browse(at).want(200)
			for _, name := range strings.Fields(a.listed()) {
				if seen[name] {
					t.Errorf("%s shows %s twice", path, name)
				}
				seen[name] = true
			}
			if next := nextPage.FindStringSubmatch(string(a.raw)); next == nil {
				at = ""
			} else {
				at = "/find/agents" + html.UnescapeString(next[1])
			}
		}
		if len(seen) != want {
			t.Errorf("%s shows %d agents, want %d", path, len(seen), want)
		}
	}
	h.awaitGroup("team24")
	groups := h.browse("/find/groups").want(200)
	next := nextPage.FindStringSubmatch(string(groups.raw))
	if next == nil {
		t.Fatalf("no second page of groups: %s", groups.raw)
	}
	h.browse("/find/groups"+html.UnescapeString(next[1])).want(200).has("team24@", "First page").without("team0@")
}

// TestPagesAreStrict: what a page may load, how it is cached, and what it loads.
func TestPagesAreStrict(t *testing.T) {
	h, _ := newPageHarness(t)
	inline := regexp.MustCompile(`(?i)<style|<script[^>]*>[^<]|\son\w+=|\sstyle=|<base|https?://[^"]*" *(?:rel="stylesheet"|></script)`)
	asset := regexp.MustCompile(`(?:src|href)="[./]*(/assets/[^"]+)"`)
	for _, path := range append(slices.Clone(pagePaths), "/a/nobody@first.home.example", "/nowhere/at/all") {
		a := h.browse(path)
		if found := inline.FindString(string(a.raw)); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		for name, want := range map[string]string{"Content-Security-Policy": web.Policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Vary": "Accept"} {
			if got := a.head.Get(name); got != want {
				t.Errorf("%s has %s: %q, want %q", path, name, got, want)
			}
		}
		files := asset.FindAllStringSubmatch(string(a.raw), -1)
		if len(files) != 3 {
			t.Errorf("%s loads %q", path, files)
		}
		for _, file := range files {
			h.visit(file[1]).want(200)
		}
		if a.status != 200 {
			if got := a.head.Get("Cache-Control"); got != "no-store" {
				t.Errorf("%s has Cache-Control %q", path, got)
			}
			continue
		}
		tag := a.head.Get("ETag")
		if got := a.head.Get("Cache-Control"); got != "no-cache" || tag == "" {
			t.Errorf("%s has Cache-Control %q, ETag %q", path, got, tag)
		}
		if again := h.browse(path, "If-None-Match: "+tag); again.status != 304 || len(again.raw) != 0 {
			t.Errorf("%s is answered %d again", path, again.status)
		}
		h.browse(path, `If-None-Match: "other"`).want(200)
	}
	for _, forbidden := range []string{"unsafe", "*", "data:", "http"} {
		if strings.Contains(web.Policy, forbidden) {
			t.Errorf("the policy allows %s", forbidden)
		}
	}
}

func TestPageFiles(t *testing.T) {
	h, _ := newPageHarness(t)
	style := regexp.MustCompile(`assets/page-[0-9a-f]{16}\.css`).FindString(string(h.browse("/").raw))
	plain := h.visit("/"+style, "Accept-Encoding: identity").want(200)
	packed := h.visit("/"+style, "Accept-Encoding: gzip").want(200)
	if got := plain.head.Get("Content-Type"); got != "text/css; charset=utf-8" || plain.head.Get("Cache-Control") != "public, max-age=31536000, immutable" {
		t.Errorf("the style has %v", plain.head)
	}
	if packed.head.Get("Content-Encoding") != "gzip" || len(packed.raw)*2 > len(plain.raw) || packed.head.Get("Vary") != "Accept-Encoding" {
		t.Errorf("compressed: %d of %d bytes, %v", len(packed.raw), len(plain.raw), packed.head)
	}
	for _, unknown := range []string{"/assets/page.css", "/assets/", "/assets/page-0000000000000000.css"} {
		h.visit(unknown).want(404)
	}
}

// TestPageRefusals: browsers get a page, other clients the JSON of the API.
func TestPageRefusals(t *testing.T) {
	h, _ := newPageHarness(t)
	h.group("closed", `,"visibility":"private"`)
	long := strings.Repeat("a", 501)
	for path, status := range map[string]int{
		"/nowhere": 404, "/nowhere/at/all": 404, "/a/": 404, "/a/ann": 404, "/a/ann@second.home.example": 404, "/a/nobody@first.home.example": 404, "/a/ann@first.other.example": 404,
		"/a/%23friends@first.home.example": 404, "/g/nobody@first.home.example": 404, "/g/friends": 404, "/g/closed@first.home.example": 404, "/find": 404, "/find/agents/x": 404,
		"/find/agents?q=" + long: 422, "/find/agents?sort=size": 422, "/find/agents?pricing_model=cheap": 422, "/find/agents?verified=perhaps": 422, "/find/agents?org_id=7": 422,
		"/find/agents?cursor=x": 400, "/find/groups?cursor=x": 400, "/find/groups?q=" + long: 422,
	} {
		h.browse(path).want(status).has("<h1>", "Look for agents")
		for _, accept := range []string{"Accept: application/json", "Accept: */*", "X-None: none"} {
			a := h.public().ask("GET", path, "", accept).want(status)
			if got := a.head.Get("Content-Type"); got != "application/json" {
				t.Errorf("%s with %q is %s", path, accept, got)
			}
		}
	}
	h.public().ask("GET", "/directory/agents?limit=0", "", browserAccept).want(422, "validation_error") // the API answers JSON to browsers too
	h.public().ask("GET", "/agents/"+h.nobody.owner.String()+"/card", "", browserAccept).want(404, "not_found")
	if unknown, private := h.browse("/g/nobody@first.home.example"), h.browse("/g/closed@first.home.example"); plainRefusal(unknown) != plainRefusal(private) {
		t.Errorf("a private group can be told from an unknown one:\n%s\n%s", unknown.raw, private.raw)
	}
}

var requestInPage = regexp.MustCompile(`Request <code>[^<]*`)

// plainRefusal returns a page without its request id.
func plainRefusal(a *response) string { return requestInPage.ReplaceAllString(string(a.raw), "") }

// TestPagesShowNothingHidden: agents that are not in the directory have no page and are in
// no list, also while the index still has them. Control: before, they are shown.
func TestPagesShowNothingHidden(t *testing.T) {
	for what, hide := range map[string]func(h *cardHarness){
		"revoked":    func(h *cardHarness) { h.first.ask("DELETE", "/agents/"+h.ann, "").want(204) },
		"unlisted":   func(h *cardHarness) { h.first.ask("PATCH", "/agents/"+h.ann, `{"unlisted":true}`).want(200) },
		"withdrawn":  func(h *cardHarness) { h.first.ask("DELETE", "/agents/"+h.ann+"/card", "").want(204) },
		"not public": func(h *cardHarness) { h.first.publish(h.ann, card{"name": "Invoice checker", "is_public": false}) },
		"suspended": func(h *cardHarness) {
			if _, err := h.node.Orgs.SetTerms(context.Background(), h.first.owner, org.Suspend{}); err != nil {
				h.t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := newCardHarness(t)
			h.directory.Close() // it follows no more
			lists := []string{"/", "/find/agents", "/find/agents?q=invoice", "/find/agents?q=billing", "/find/agents?sort=name"}
			for _, path := range lists {
				h.browse(path).want(200).has("Invoice checker", "ann@first.home.example")
			}
			h.browse("/a/ann@first.home.example").want(200)
			hide(h)
			for _, path := range lists {
				h.browse(path).want(200).without("Invoice checker", "ann@first.home.example")
			}
			hidden, unknown := h.browse("/a/ann@first.home.example").want(404), h.browse("/a/nobody@first.home.example").want(404)
			strip := func(a *response) string { return plainRefusal(a) }
			if strip(hidden) != strip(unknown) {
				t.Errorf("an agent that is %s can be told from an unknown one:\n%s\n%s", what, hidden.raw, unknown.raw)
			}
			h.public().ask("GET", "/directory/agents/"+h.ann, "").want(404, "not_found")
			if got := h.find("q=invoice"); strings.Contains(got, "ann") {
				t.Errorf("the endpoint finds %q", got)
			}
		})
	}
}

// TestPagesEscapeCards: no text of a card becomes a part of the page's markup, and no
// address of a script becomes a link.
func TestPagesEscapeCards(t *testing.T) {
	h := newCardHarness(t)
	n := 0
	attack := func() string {
		n++
		return fmt.Sprintf(`x%d'"><canary onload=a()></textarea></script>{{.}}`, n)
	}
	hiddenText := "\u202edrowssap\u2066\u200f\x00\x07\x1b[31m\ufeff\U000e0041"
	h.first.publish(h.ann, card{
		"name": attack(), "description": attack() + hiddenText, "version": attack() + hiddenText, "provider": card{"organization": attack(), "url": "https://evil.example/" + url.PathEscape(attack())},
		"skills":            []any{card{"id": attack(), "name": attack(), "description": attack() + hiddenText, "tags": []string{attack()}, "examples": []string{attack() + hiddenText}, "inputModes": []string{"text/plain; " + attack()}, "outputModes": []string{"text/plain; " + attack()}}},
		"defaultInputModes": []string{"text/plain; " + attack()}, "defaultOutputModes": []string{"text/plain; " + attack()},
		"svc": card{"categories": []string{attack()}, "message_types_accepted": []string{"a.b.c"}, "payload_schemas": card{
			"a.b.c": "javascript:a()", "a.b.d": "data:text/html,<canary>", "a.b.e": "https://evil.example/?" + attack(), "a.b.f": "JaVaScRiPt:a()", "a.b.g": "vbscript:a()", "a.b.h": "https://user:canary@evil.example/",
		}},
	})
	h.settle(3)
	schemes := regexp.MustCompile(`(?i)(?:href|src|action)="\s*(?:javascript|data|vbscript):`)
	for _, path := range []string{"/", "/find/agents", "/find/agents?q=canary", "/a/ann@first.home.example"} {
		a := h.browse(path).want(200).has("&lt;canary").without("<canary", "</textarea", "\u202e", "\u2066", "\u200f", "\x00", "\x07", "\x1b", "\ufeff", "\U000e0041", "ZgotmplZ", "user:canary@evil.example/\"")
		if found := schemes.FindString(string(a.raw)); found != "" {
			t.Errorf("%s has the link %q", path, found)
		}
		if strings.Contains(string(a.raw), `'">`) {
			t.Errorf("%s has unescaped quotes", path)
		}
	}
	for _, path := range []string{"/find/agents?", "/find/groups?"} {
		for _, name := range []string{"q", "tag", "language", "jurisdiction", "message_type", "category"} {
			h.browse(path+name+"="+url.QueryEscape(`'"><canary>`)).want(200).without("<canary", `'">`)
		}
	}
	h.browse("/" + url.PathEscape(`'"><canary>`)).want(404).without("<canary")
	h.first.ask("PUT", "/agents/"+h.ann+"/card", `{"name":"a","description":"","provider":{"organization":"a","url":"javascript:a()"}}`).want(422)
}

// TestPagesNeedAPlace: pages share the places of the other public searches.
func TestPagesNeedAPlace(t *testing.T) {
	h, _ := newPageHarness(t)
	*inside[*limit.Slots](h.service.directory, "queries") = limit.NewSlots(1)
	*inside[time.Duration](h.service.directory, "queries", "wait") = time.Millisecond
	leave, err := (*inside[*limit.Slots](h.service.directory, "queries")).Enter(address("another"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/find/agents", "/find/agents?q=rain"} {
		if a := h.browse(path).want(503).has("Not possible at the moment"); a.head.Get("Retry-After") == "" {
			t.Errorf("%s has no Retry-After", path)
		}
	}
	leave()
	h.browse("/").want(200)
}

// TestPagesHaveARate: pages count as public requests of an address.
func TestPagesHaveARate(t *testing.T) {
	h, _ := newPageHarness(t)
	*inside[func(*rest.Call) error](h.server, "judge") = h.service.Admit
	h.service.rates = newRates(Rates{Public: len(pagePaths)}, h.service.Clock)
	for _, path := range pagePaths {
		h.browse(path).want(200)
	}
	if a := h.browse("/find/agents").want(429).has("Too many requests", "Look for agents"); a.head.Get("Retry-After") == "" || a.head.Get("RateLimit-Limit") == "" {
		t.Errorf("no hint when to try again: %v", a.head)
	}
}
