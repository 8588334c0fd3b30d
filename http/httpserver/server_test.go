package httpserver

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/rest"
)

func TestAnswers(t *testing.T) {
	s := newToy(t, nil)
	id := "/things/" + toyID
	for name, c := range map[string]struct {
		method, target, body string
		head                 []string
		status               int
		want                 string // the body; if empty, it is not compared
		headers              map[string]string
	}{
		"answer": {
			method: "GET", target: id + "?limit=3", head: []string{"Authorization: Bearer zero", "X-Request-ID: a.b:c_D-9"}, status: 200,
			want:    `{"id":"` + toyID + `","caller":"acme","limit":3,"note":null}`,
			headers: map[string]string{"Cache-Control": "no-store", "X-Request-Id": "a.b:c_D-9", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Server": "", "Content-Type": "application/json", "Access-Control-Allow-Origin": ""},
		},
		"no token": {
			method: "GET", target: id, status: 401, head: []string{"X-Request-ID: r"},
			want:    `{"detail":"A valid bearer token is required.","error":"AuthenticationError","code":"not_authenticated","request_id":"r"}`,
			headers: map[string]string{"Www-Authenticate": `Bearer realm="parley"`, "Cache-Control": "no-store"},
		},
		"bad token": {
			method: "GET", target: "/things/nope", status: 401, head: []string{"X-Request-ID: r", "Authorization: Bearer x"},
			want:    `{"detail":"The bearer token is \"malformed\".","error":"InvalidTokenError","code":"invalid_token","request_id":"r"}`,
			headers: map[string]string{"Www-Authenticate": `Bearer realm="parley", error="invalid_token", error_description="The bearer token is 'malformed'."`},
		},
		"tier before schema": {
			method: "POST", target: "/things", body: `{`, status: 403, head: []string{"X-Request-ID: r", "Authorization: Bearer zero"},
			want: `{"detail":"Your organization needs trust tier 1 for this.","error":"AuthorizationError","code":"trust_tier_required","request_id":"r"}`,
		},
		"rendered": {method: "POST", target: "/things", body: `{"name":"n"}`, status: 201, head: []string{"Authorization: Bearer one"}, want: `{"name":"n"}`},
		"schema": {
			method: "POST", target: "/things", body: `{"x":1}`, status: 422, head: []string{"Authorization: Bearer one", "X-Request-ID: r"},
			want: `{"detail":[{"loc":["body","x"],"msg":"Extra inputs are not permitted","type":"extra_forbidden"},{"loc":["body","name"],"msg":"Field required","type":"missing"}],"error":"validation_error","code":"validation_error","request_id":"r"}`,
		},
		"path id": {
			method: "PATCH", target: "/things/nope", body: `{}`, status: 422, head: []string{"Authorization: Bearer zero", "X-Request-ID: r"},
			want: `{"detail":[{"loc":["path","id"],"msg":"Input should be a handle, such as name@org.domain, or a valid UUID","type":"uuid_parsing"}],"error":"validation_error","code":"validation_error","request_id":"r"}`,
		},
		"no content":       {method: "DELETE", target: id, status: 204, head: []string{"Authorization: Bearer zero"}, headers: map[string]string{"Content-Type": ""}},
		"bad media":        {method: "PATCH", target: id, body: "x", status: 415, head: []string{"Authorization: Bearer zero", "Content-Type: text/plain", "X-Request-ID: r"}, want: `{"detail":"The body must be application/json.","error":"validation_error","code":"unsupported_media_type","request_id":"r"}`},
		"not found":        {method: "GET", target: "/nope", status: 404, head: []string{"X-Request-ID: r"}, want: `{"detail":"There is no such resource.","error":"NotFoundError","code":"not_found","request_id":"r"}`, headers: map[string]string{"Access-Control-Allow-Origin": ""}},
		"case counts":      {method: "GET", target: "/THINGS/public", status: 404},
		"slash counts":     {method: "GET", target: "/things/public/", status: 404},
		"wrong method":     {method: "PUT", target: id, status: 405, head: []string{"X-Request-ID: r"}, want: `{"detail":"The resource does not take this method.","error":"validation_error","code":"method_not_allowed","request_id":"r"}`, headers: map[string]string{"Allow": "DELETE, GET, HEAD, OPTIONS, PATCH"}},
		"odd method":       {method: "BREW", target: "/token", status: 405, headers: map[string]string{"Allow": "OPTIONS, POST"}},
		"head":             {method: "HEAD", target: id, status: 200, head: []string{"Authorization: Bearer zero"}, headers: map[string]string{"Content-Length": "83"}},
		"head of a stream": {method: "HEAD", target: "/stream/" + toyID, status: 405, headers: map[string]string{"Allow": "GET, OPTIONS"}},
		"public get":       {method: "GET", target: "/things/public", status: 200, want: `{"a":1}`, headers: map[string]string{"Access-Control-Allow-Origin": "*", "Cache-Control": ""}},
		"public failure":   {method: "GET", target: "/fail/gone", status: 410, headers: map[string]string{"Access-Control-Allow-Origin": "*"}},
		"public post":      {method: "POST", target: "/bind/" + toyID, body: `{"type":"a.b.c"}`, status: 200, headers: map[string]string{"Access-Control-Allow-Origin": ""}},
		"preflight":        {method: "OPTIONS", target: "/things/public", status: 204, head: []string{"Origin: https://a", "Access-Control-Request-Method: GET"}, headers: map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "GET, HEAD", "Allow": "DELETE, GET, HEAD, OPTIONS, PATCH"}},
		"options":          {method: "OPTIONS", target: id, status: 204, headers: map[string]string{"Access-Control-Allow-Origin": "", "Allow": "DELETE, GET, HEAD, OPTIONS, PATCH"}},
		"options of all":   {method: "OPTIONS", target: "*", status: 204},
		"options nowhere":  {method: "OPTIONS", target: "/nope", status: 404},
		"conflict":         {method: "GET", target: "/fail/conflict", status: 409, head: []string{"X-Request-ID: r"}, want: `{"detail":"That move is not in the table.","error":"ConflictError","code":"invalid_transition","request_id":"r","allowed":["paused"],"current_status":"open"}`},
		"rule":             {method: "GET", target: "/fail/rule", status: 422, head: []string{"X-Request-ID: r"}, want: `{"detail":[{"loc":["body","to_handle"],"msg":"You cannot write to yourself.","type":"value_error"}],"error":"validation_error","code":"self_message","request_id":"r"}`},
		"ssrf":             {method: "GET", target: "/fail/ssrf", status: 422, head: []string{"X-Request-ID: r"}, want: `{"detail":[{"loc":["body"],"msg":"The target is not public.","type":"value_error"}],"error":"ssrf_blocked","code":"ssrf_blocked","request_id":"r"}`},
		"rate":             {method: "GET", target: "/fail/rate", status: 429, head: []string{"X-Request-ID: r"}, want: `{"detail":"Too many requests.","error":"RateLimitError","code":"rate_limited","request_id":"r","retry_after":2}`, headers: map[string]string{"Retry-After": "2"}},
		"busy":             {method: "GET", target: "/fail/busy", status: 503, headers: map[string]string{"Retry-After": "1"}},
		"defect":           {method: "GET", target: "/fail/defect", status: 500, head: []string{"X-Request-ID: r"}, want: `{"detail":"Internal error.","error":"InternalError","code":"internal","request_id":"r"}`},
		"panic":            {method: "GET", target: "/fail/panic", status: 500, head: []string{"X-Request-ID: r"}, want: `{"detail":"Internal error.","error":"InternalError","code":"internal","request_id":"r"}`, headers: map[string]string{"X-Half": "", "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "*"}},
		"own status":       {method: "GET", target: "/fail/created", status: 201, headers: map[string]string{"Cache-Control": "private"}},
		"set status":       {method: "GET", target: "/fail/override", status: 202},
		"token":            {method: "POST", target: "/token", body: "grant_type=x", status: 200, head: []string{"Authorization: Basic good", "Content-Type: application/x-www-form-urlencoded"}, headers: map[string]string{"Cache-Control": "no-store"}},
		"bad client":       {method: "POST", target: "/token", status: 401, head: []string{"Authorization: Basic bad", "X-Request-ID: r"}, want: `{"detail":"The client credentials are not valid.","error":"invalid_client","code":"invalid_client","request_id":"r","error_description":"The client credentials are not valid."}`, headers: map[string]string{"Www-Authenticate": `Basic realm="parley", charset="UTF-8"`}},
		"bad grant":        {method: "POST", target: "/token", status: 400, head: []string{"X-Request-ID: r"}, want: `{"detail":"Only client_credentials.","error":"unsupported_grant_type","code":"unsupported_grant_type","request_id":"r","error_description":"Only client_credentials."}`},
		"bad token body":   {method: "POST", target: "/token", body: "{", status: 400},
		"odd token media":  {method: "POST", target: "/token", body: "{", status: 400, head: []string{"Content-Type: text/plain"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.ask(t, c.method, c.target, c.body, c.head...)
			if a.StatusCode != c.status || c.want != "" && a.body != c.want {
				t.Errorf("got %d\n%s\nwant %d\n%s", a.StatusCode, a.body, c.status, c.want)
			}
			for name, value := range c.headers {
				if a.Header.Get(name) != value {
					t.Errorf("header %s is %q, want %q", name, a.Header.Get(name), value)
				}
			}
			if a.Header.Get("X-Request-Id") == "" || a.json["request_id"] != nil && a.json["request_id"] != a.Header.Get("X-Request-Id") {
				t.Errorf("request id: header %q, body %v", a.Header.Get("X-Request-Id"), a.json["request_id"])
			}
			if c.method == "HEAD" && a.body != "" {
				t.Errorf("HEAD has a body: %q", a.body)
			}
		})
	}
	if log := s.log.String(); !strings.Contains(log, "the secret of the panic") || !strings.Contains(log, "toyFail") || !strings.Contains(log, "unexpected EOF") || strings.Count(log, "level=ERROR") != 2 {
		t.Errorf("defects are not logged once each, with their cause: %s", log)
	}
}

func TestRequestIDs(t *testing.T) {
	s := newToy(t, nil)
	for supplied, kept := range map[string]bool{
		"abc": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "a\"b": false, "é": false, "": false,
	} {
		a := s.ask(t, "GET", "/nope", "", "X-Request-ID: "+supplied)
		got := a.Header.Get("X-Request-Id")
		if (got == supplied) != kept || !kept && !strings.HasPrefix(got, "made-") {
			t.Errorf("%q came back as %q", supplied, got)
		}
	}
}

// TestNotFoundTakesWholeSteps: the time until the answer does not tell what was looked up.
func TestNotFoundTakesWholeSteps(t *testing.T) {
	s := newToy(t, nil)
	for range 10 {
		began := time.Now()
		if a := s.ask(t, "GET", "/fail/missing", ""); a.StatusCode != 404 || time.Since(began) < concealStep {
			t.Errorf("%d after %v", a.StatusCode, time.Since(began))
		}
	}
}

func TestPanicKeepsTheConnection(t *testing.T) {
	s := newToy(t, nil)
	said := s.say(t, "GET /fail/panic HTTP/1.1\r\nHost: toy\r\n\r\nGET /things/public HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n")
	if strings.Count(said, "HTTP/1.1 ") != 2 || !strings.HasSuffix(said, `{"a":1}`) {
		t.Errorf("after a panic the next request was not served:\n%s", said)
	}
}

func TestLimits(t *testing.T) {
	s := newToy(t, func(o *Options) { o.ReadTimeout = time.Second })
	for name, c := range map[string]struct{ request, status, code string }{
		"large body":         {"POST /token HTTP/1.1\r\nHost: toy\r\nContent-Length: 1048577\r\nX-Request-ID: r\r\n\r\nx", "413", `"code":"payload_too_large","request_id":"r"`},
		"huge body":          {"POST /token HTTP/1.1\r\nHost: toy\r\nContent-Length: 1073741824\r\nX-Request-ID: r\r\n\r\n0\r\n\r\n", "413", `"code":"payload_too_large","request_id":"r"`},
		"large chunked body": {"POST /token HTTP/1.1\r\nHost: toy\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n" + strings.Repeat("x", 0x200000) + "\r\n0\r\n\r\n", "413", `"code":"payload_too_large"`},
		"large headers":      {"GET / HTTP/1.1\r\nHost: toy\r\nX-A: " + strings.Repeat("x", 17<<10) + "\r\n\r\n", "431", `"code":"headers_too_large"`},
		"slow headers":       {"GET / HTTP/1.1\r\nHost: toy\r\n", "408", `"code":"request_timeout"`},
		"slow body":          {"POST /token HTTP/1.1\r\nHost: toy\r\nContent-Length: 10\r\n\r\nx", "408", `"code":"request_timeout"`},
	} {
		said := s.say(t, c.request)
		if !strings.HasPrefix(said, "HTTP/1.1 "+c.status+" ") || !strings.Contains(said, c.code) || !strings.Contains(said, "Connection: close") || !strings.Contains(said, `"error":"validation_error"`) {
			t.Errorf("%s: %s", name, said)
		}
	}
	whole := s.ask(t, "POST", "/bind/"+toyID, `{"type":"a.b.c","x":"`+strings.Repeat("x", 1<<20-23)+`"}`, "Authorization: Bearer zero")
	if whole.StatusCode != 200 {
		t.Errorf("a body of exactly 1 MiB: %d %s", whole.StatusCode, whole.body)
	}
	if stranger := s.ask(t, "PATCH", "/things/"+toyID, `{"x":"`+strings.Repeat("x", anonymousBodyMax)+`"}`); stranger.StatusCode != 401 {
		t.Errorf("a large body without a token: %d %s", stranger.StatusCode, stranger.body)
	}
	if public := s.ask(t, "POST", "/token", strings.Repeat("x", anonymousBodyMax+1)); public.StatusCode != 413 {
		t.Errorf("a large body without a token on a public route: %d %s", public.StatusCode, public.body)
	}
}

func TestStreamHijacks(t *testing.T) {
	s := newToy(t, nil)
	said := s.say(t, "GET /stream/"+toyID+" HTTP/1.1\r\nHost: toy\r\nAuthorization: Bearer zero\r\n\r\n")
	if said != "HTTP/1.1 200 OK\r\n\r\nlive" {
		t.Errorf("received %q", said)
	}
	if a := s.ask(t, "GET", "/stream/x", "", "Authorization: Bearer zero"); a.StatusCode != 422 {
		t.Errorf("a stream with an invalid id: %d", a.StatusCode)
	}
}

func TestShutdownDrains(t *testing.T) {
	s := newToy(t, nil)
	conn, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /slow HTTP/1.1\r\nHost: toy\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	ended := 0
	s.OnDrain(func() { ended++ })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	a := parse(t, bufio.NewReader(conn), "GET")
	if a.StatusCode != 200 || a.body != "done" || !a.Close {
		t.Errorf("the request under way: %d %q %v", a.StatusCode, a.body, a.Header)
	}
	if err := <-stopped; err != nil || ended != 1 {
		t.Errorf("shutdown: %v; closers ran %d times", err, ended)
	}
	s.OnDrain(func() { ended++ })
	if ended != 2 {
		t.Error("a closer registered late did not run")
	}
}

func TestObserve(t *testing.T) {
	type seen struct {
		path   string
		status int
		code   string
	}
	got := make(chan seen, 4)
	ids := make(chan string, 4)
	s := newToy(t, func(o *Options) {
		o.Observe = func(a Answer) {
			got <- seen{a.Route.Label(), a.Status, a.Code}
			ids <- a.RequestID
		}
	})
	s.ask(t, "GET", "/fail/busy", "", "X-Request-ID: mine")
	s.ask(t, "GET", "/nope", "")
	s.ask(t, "GET", "/things/public", "")
	s.say(t, "GET / HTTP/1.1\r\nbroken\r\n\r\n")
	for _, want := range []seen{{"/fail/{how}", 503, "overloaded"}, {"none", 404, "not_found"}, {"/things/public", 200, ""}, {"none", 400, "validation_error"}} {
		if a := <-got; a != want {
			t.Errorf("observed %v, want %v", a, want)
		}
	}
	if id := <-ids; id != "mine" {
		t.Errorf("observed the request id %q", id)
	}
}

func TestAdmit(t *testing.T) {
	s := newToy(t, func(o *Options) {
		o.Admit = func(c *rest.Call) error {
			if c.Caller.Slug != "acme" || c.Route().Path != "/things" {
				return nil
			}
			c.SetHeader("RateLimit-Remaining", "0")
			return parley.ErrOverloaded
		}
	})
	a := s.ask(t, "POST", "/things", "{", "Authorization: Bearer one")
	if a.StatusCode != 503 || a.Header.Get("RateLimit-Remaining") != "0" || a.Header.Get("Retry-After") != "1" {
		t.Errorf("refused call: %d %v", a.StatusCode, a.Header)
	}
	if a := s.ask(t, "POST", "/things", "{", "Authorization: Bearer zero"); a.StatusCode != 503 {
		t.Errorf("a caller without permission is counted: %d", a.StatusCode)
	}
	if a := s.ask(t, "GET", "/things/public", ""); a.StatusCode != 200 {
		t.Errorf("admitted call: %d", a.StatusCode)
	}
}

func TestTableIsChecked(t *testing.T) {
	type one struct {
		ID string `path:"id"`
	}
	type other struct {
		Name string `path:"name"`
	}
	nothing := func(*rest.Call, *struct{}) (rest.NoContent, error) { return rest.NoContent{}, nil }
	byID := func(*rest.Call, *one) (rest.NoContent, error) { return rest.NoContent{}, nil }
	byName := func(*rest.Call, *other) (rest.NoContent, error) { return rest.NoContent{}, nil }
	for name, table := range map[string][]rest.Route{
		"same path, other parameter": {rest.Typed("GET", "/a/{id}", rest.Public, 204, "", byID), rest.Typed("GET", "/a/{name}", rest.Public, 204, "", byName)},
		"a parameter nobody reads":   {rest.Typed("GET", "/a/{id}", rest.Public, 204, "", nothing)},
		"a parameter not there":      {rest.Typed("GET", "/a", rest.Public, 204, "", byID)},
		"no one to authenticate":     {rest.Typed("GET", "/a", rest.Read, 204, "", nothing)},
	} {
		if _, err := New(Options{Routes: table, Clock: time.Now, NewRequestID: func() string { return "" }}); err == nil {
			t.Errorf("%s: the invalid table was accepted", name)
		}
	}
}

// TestDocumentationPageHasOneContent: at every address of the page, its links lead to
// the same files.
func TestDocumentationPageHasOneContent(t *testing.T) {
	s := newToy(t, nil)
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for _, address := range []string{"/docs", "/docs/", "/docs/index.html"} {
		page := s.ask(t, "GET", address, "")
		base, _ := url.Parse(address)
		found := links.FindAllStringSubmatch(page.body, -1)
		if page.StatusCode != 200 || page.Header.Get("Content-Type") != "text/html; charset=utf-8" || len(found) != 6 {
			t.Errorf("%s: %d %v, %d links", address, page.StatusCode, page.Header, len(found))
		}
		for _, link := range found {
			target, err := base.Parse(link[1])
			if err != nil {
				t.Fatal(err)
			}
			if a := s.ask(t, "GET", target.Path, ""); a.StatusCode != 200 {
				t.Errorf("%s leads to %s: %d", address, target, a.StatusCode)
			}
		}
		if head := s.ask(t, "HEAD", address, ""); head.StatusCode != 200 {
			t.Errorf("HEAD %s: %d", address, head.StatusCode)
		}
	}
	if a := s.ask(t, "POST", "/docs/", ""); a.StatusCode != 404 {
		t.Errorf("POST: %d", a.StatusCode)
	}
}

func TestDocumentationPage(t *testing.T) {
	s := newToy(t, nil)
	page := s.ask(t, "GET", "/docs", "")
	if page.StatusCode != 200 || !strings.Contains(page.body, "swagger-ui-bundle.js") || page.Header.Get("Content-Security-Policy") != "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" {
		t.Errorf("page: %d %v", page.StatusCode, page.Header)
	}
	if strings.Contains(page.body, "<script>") || strings.Contains(page.body, "style=") || strings.Contains(page.body, "//") {
		t.Error("the page has inline code or addresses of other sites")
	}
	small := s.ask(t, "GET", "/docs/swagger-ui.css", "", "Accept-Encoding: gzip")
	r, err := gzip.NewReader(strings.NewReader(small.body))
	if err != nil || small.Header.Get("Content-Encoding") != "gzip" || small.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("compressed: %v %v", err, small.Header)
	}
	inflated, err := io.ReadAll(r)
	large := s.ask(t, "GET", "/docs/swagger-ui.css", "")
	if err != nil || string(inflated) != large.body || large.Header.Get("Content-Encoding") != "" || large.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("the two forms differ: %v %v", err, large.Header)
	}
	for _, target := range []string{"/docs/nope", "/docs/swagger-ui.css.gz", "/docs/%2e%2e", "/docs//"} {
		if a := s.ask(t, "GET", target, ""); a.StatusCode != 404 && a.StatusCode != 400 {
			t.Errorf("%s: %d", target, a.StatusCode)
		}
	}
}

// TestDamaged has requests fail while a file is damaged, and while none is.
func TestDamaged(t *testing.T) {
	damaged := atomic.Bool{}
	s := newToy(t, func(o *Options) {
		o.Routes = append(o.Routes, rest.Typed("POST", "/fail/{how}", rest.Public, 200, "Fail.", toyFail))
		o.Damaged = func(reads bool) *parley.Refusal {
			switch {
			case !damaged.Load():
				return nil
			case reads:
				return parley.ErrOverloaded
			}
			return parley.ErrOutcomeUnknown
		}
	})
	codes := func(method, how string) string {
		a := s.ask(t, method, "/fail/"+how, "")
		return fmt.Sprint(a.StatusCode, " ", a.json["code"])
	}
	for _, c := range []struct {
		method, how, sound, damaged string
	}{
		{"GET", "defect", "500 internal", "503 overloaded"},
		{"POST", "defect", "500 internal", "503 outcome_unknown"},
		{"POST", "conflict", "409 invalid_transition", "409 invalid_transition"},
	} {
		for now, want := range map[bool]string{false: c.sound, true: c.damaged} {
			damaged.Store(now)
			if got := codes(c.method, c.how); got != want {
				t.Errorf("%s %s, damaged %v: %s, want %s", c.method, c.how, now, got, want)
			}
		}
	}
}
