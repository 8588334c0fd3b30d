package httpserver

import (
	"bufio"
	"bytes"
	"net"
	stdhttp "net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"parley/http/rest"
)

// exposed are the headers of answers that pages may read besides those that the standard allows.
const exposed = "ETag, Idempotency-Replayed, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-ID"

func TestParseOrigins(t *testing.T) {
	for _, list := range [][]string{
		{"*"},
		{"https://app.example"},
		{"https://app.example", " http://localhost:3000", "https://[::1]:8443", "http://127.0.0.1", "https://xn--bcher-kva.example", "chrome-extension://abcdefgh", "http://app.example:443"},
	} {
		if o, err := ParseOrigins(list); err != nil || o == nil {
			t.Errorf("%q: %v", list, err)
		}
	}
	if o, err := ParseOrigins(nil); o != nil || err != nil {
		t.Errorf("an empty list: %v, %v", o, err)
	}
	for _, list := range [][]string{
		{""},
		{"null"},
		{"*", "https://app.example"},
		{"https://*.example"},
		{"app.example"},
		{"https://app.example/"},
		{"https://app.example/x"},
		{"https://App.example"},
		{"HTTPS://app.example"},
		{"https://app.example:443"},
		{"http://app.example:80"},
		{"https://app.example:0"},
		{"https://app.example:65536"},
		{"https://u@app.example"},
		{"https://bücher.example"},
		{"https://[::1"},
		{"https://[0::1]"},
		{"https://[127.0.0.1]"},
		{"https://app.example\r\nX: y"},
		{"https://a https://b"},
		{"https://"},
		{"file:///x"},
	} {
		if _, err := ParseOrigins(list); err == nil {
			t.Errorf("%q is accepted", list)
		}
	}
}

// permitting is a toy server for pages of the origins.
func permitting(t *testing.T, origins ...string) *toy {
	t.Helper()
	return newToy(t, func(o *Options) {
		var err error
		if o.Origins, err = ParseOrigins(origins); err != nil {
			t.Fatal(err)
		}
		o.ErrorPage = func(string, *rest.Problem, string) rest.HTML { return rest.HTML{Body: []byte("page")} }
		o.Routes = append(o.Routes, rest.Stream("GET", "/events", rest.Read, "Stream.", func(c *rest.Call, _ *struct{}) error {
			head := c.AppendStreamHead(nil)
			c.RequestCtx().HijackSetNoResponse(true)
			c.RequestCtx().Hijack(hijackWith(append(head, "\r\n"...)))
			return nil
		}))
	})
}

func hijackWith(head []byte) fasthttp.HijackHandler {
	return func(conn net.Conn) { _, _ = conn.Write(head); _ = conn.Close() }
}

// TestListedOriginsReadEveryAnswer: also refusals from before a handler runs, and streams. Pages of
// other origins read public GETs only, as without the list.
func TestListedOriginsReadEveryAnswer(t *testing.T) {
	s := permitting(t, "https://app.example", "http://localhost:3000")
	large := strings.Repeat("x", anonymousBodyMax+1)
	for name, c := range map[string]struct {
		method, target, body string
		head                 []string
		status               int
		public               bool
		vary                 string
	}{
		"answer":     {method: "GET", target: "/things/" + toyID, head: []string{"Authorization: Bearer zero"}, status: 200},
		"HEAD":       {method: "HEAD", target: "/things/" + toyID, head: []string{"Authorization: Bearer zero"}, status: 200},
		"created":    {method: "POST", target: "/things", body: `{"name":"n"}`, head: []string{"Authorization: Bearer one"}, status: 201},
		"public":     {method: "GET", target: "/things/public", status: 200, public: true},
		"failure":    {method: "GET", target: "/fail/gone", status: 410, public: true},
		"panic":      {method: "GET", target: "/fail/panic", status: 500, public: true},
		"no token":   {method: "GET", target: "/things/" + toyID, status: 401},
		"no tier":    {method: "POST", target: "/things", body: `{}`, head: []string{"Authorization: Bearer zero"}, status: 403},
		"no route":   {method: "GET", target: "/nope", status: 404},
		"no page":    {method: "GET", target: "/nope", head: []string{"Accept: text/html"}, status: 404, vary: "Origin, Accept"},
		"no method":  {method: "DELETE", target: "/things", status: 405},
		"too large":  {method: "POST", target: "/things", body: large, head: []string{"Authorization: Bearer bad"}, status: 401},
		"larger":     {method: "POST", target: "/token", body: large, status: 413},
		"asks first": {method: "POST", target: "/token", body: large, head: []string{"Expect: 100-continue"}, status: 413},
		"schema":     {method: "POST", target: "/things", body: `{`, head: []string{"Authorization: Bearer one"}, status: 422},
		"rate":       {method: "GET", target: "/fail/rate", status: 429, public: true},
		"busy":       {method: "GET", target: "/fail/busy", status: 503, public: true},
		"malformed":  {method: "GET", target: "/a//b", status: 400},
		"stream":     {method: "GET", target: "/events", head: []string{"Authorization: Bearer zero"}, status: 200},
		"no stream":  {method: "GET", target: "/events", status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			if c.vary == "" {
				c.vary = "Origin"
			}
			for origin, allowed := range map[string]string{"https://app.example": "https://app.example", "http://localhost:3000": "http://localhost:3000", "https://evil.example": "", "https://app.example.evil.example": "", "null": "", "": ""} {
				wantExposed := exposed
				if allowed == "" {
					wantExposed = ""
					if c.public {
						allowed, wantExposed = "*", "ETag, Retry-After, X-Request-ID"
					}
				}
				head := c.head
				if origin != "" {
					head = append([]string{"Origin: " + origin}, head...)
				}
				a := s.ask(t, c.method, c.target, c.body, head...)
				if a.StatusCode != c.status {
					t.Fatalf("%d %s, want %d", a.StatusCode, a.body, c.status)
				}
				for name, want := range map[string]string{"Access-Control-Allow-Origin": allowed, "Access-Control-Expose-Headers": wantExposed, "Vary": c.vary, "Access-Control-Allow-Credentials": ""} {
					if got := strings.Join(a.Header.Values(name), ";"); got != want {
						t.Errorf("of %q, %s is %q, want %q", origin, name, got, want)
					}
				}
			}
		})
	}
}

func TestAnyOrigin(t *testing.T) {
	s := permitting(t, "*")
	for _, head := range [][]string{nil, {"Origin: https://a"}, {"Origin: null"}} {
		a := s.ask(t, "GET", "/things/"+toyID, "", head...)
		if a.StatusCode != 401 || a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Vary") != "Origin" || a.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%q: %d %v", head, a.StatusCode, a.Header)
		}
	}
	// A connection that is refused has sent no origin yet.
	rejected := func(o *Origins) stdhttp.Header {
		a, err := stdhttp.ReadResponse(bufio.NewReader(bytes.NewReader((&answers{newRequestID: func() string { return "r" }, origins: o}).noRoom())), nil)
		if err != nil {
			t.Fatal(err)
		}
		return a.Header
	}
	if h := rejected(s.origins); h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Vary") != "Origin" || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "Retry-After") {
		t.Errorf("%v", h)
	}
	listed, _ := ParseOrigins([]string{"https://a"})
	if h := rejected(listed); h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", h)
	}
}

func TestPreflight(t *testing.T) {
	s := permitting(t, "https://app.example")
	const always = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, A2A-Version, Accept, If-Modified-Since, If-None-Match"
	ask := func(target, origin, headers string) answered {
		return s.ask(t, "OPTIONS", target, "", "Origin: "+origin, "Access-Control-Request-Method: PATCH", "Access-Control-Request-Headers: "+headers)
	}
	for asked, also := range map[string]string{
		"": "", "authorization,content-type": "", "x-svc-agent": ", x-svc-agent", "authorization, X-Svc-Agent ,x-request-id": ", X-Svc-Agent, x-request-id",
		"cookie, y-svc, xx": "", "x-": "", "x-a b, x-(, x-ok": ", x-ok",
	} {
		a := ask("/things/"+toyID, "https://app.example", asked)
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin": "https://app.example", "Access-Control-Allow-Methods": "DELETE, GET, HEAD, OPTIONS, PATCH", "Access-Control-Allow-Headers": always + also,
			"Access-Control-Max-Age": "7200", "Access-Control-Allow-Credentials": "", "Access-Control-Expose-Headers": "", "Vary": "Origin", "Allow": "DELETE, GET, HEAD, OPTIONS, PATCH",
		} {
			if got := a.Header.Get(name); a.StatusCode != 204 || got != want {
				t.Errorf("%q: %d, %s is %q, want %q", asked, a.StatusCode, name, got, want)
			}
		}
	}
	for target, allowed := range map[string]string{"/things/" + toyID: "", "/things": "", "/token": "", "/things/public": "*"} {
		a := ask(target, "https://evil.example", "authorization")
		methods, headers := a.Header.Get("Access-Control-Allow-Methods"), a.Header.Get("Access-Control-Allow-Headers")
		if a.StatusCode != 204 || a.Header.Get("Access-Control-Allow-Origin") != allowed || a.Header.Get("Vary") != "Origin" || strings.Contains(methods, "PATCH") || strings.Contains(headers, "Authorization") {
			t.Errorf("%s of an unlisted origin: %d %v", target, a.StatusCode, a.Header)
		}
	}
	if a := ask("/nope", "https://app.example", ""); a.StatusCode != 404 || a.Header.Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("a path without a route: %d %v", a.StatusCode, a.Header)
	}
}

// TestNoOriginsCostNothing: without the list, no header is set and no answer varies by origin; with
// it, an answer costs no allocation more.
func TestNoOriginsCostNothing(t *testing.T) {
	a := newToy(t, nil).ask(t, "GET", "/things/"+toyID, "", "Origin: https://app.example", "Authorization: Bearer zero")
	if a.Header.Get("Vary") != "" || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", a.Header)
	}
	listed, err := ParseOrigins([]string{"https://app.example"})
	if err != nil {
		t.Fatal(err)
	}
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.Set("Origin", "https://app.example")
	listed.permit(&ctx)
	if n := testing.AllocsPerRun(100, func() { ctx.Response.Reset(); listed.permit(&ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
