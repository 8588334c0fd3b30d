package operator

import (
	"net/http"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

const (
	page     = "https://app.example"
	stranger = "https://evil.example"
)

// allowing returns the origin that an answer allows, and "" with a complaint if its headers do not
// belong together.
func allowing(t testing.TB, what string, h http.Header) string {
	t.Helper()
	origin, exposed := h.Get("Access-Control-Allow-Origin"), h.Get("Access-Control-Expose-Headers")
	if !strings.Contains(h.Get("Vary"), "Origin") || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%s: %v", what, h)
	}
	for _, name := range []string{"Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "X-Request-ID", "Idempotency-Replayed"} {
		if origin != "" && origin != "*" && !strings.Contains(exposed, name) {
			t.Errorf("%s does not expose %s: %v", what, name, h)
		}
	}
	return origin
}

// TestPagesOfListedOrigins: a page of a listed origin does all that a client does: it gets a token,
// sends, repeats, follows its stream and reads errors. Others get nothing, and the operator's
// listeners allow nobody.
func TestPagesOfListedOrigins(t *testing.T) {
	kit.OneServerOnly(t, "its nodes would share an address for metrics")
	admin, metrics := kit.FreeAddress(t), kit.FreeAddress(t)
	s := kit.Start(t, "--cors-origins", page+",http://localhost:3000", "--admin-listen", admin, "--metrics-listen", metrics)
	alice, bob := kit.Pair(t, s)
	m := alice.Send(bob)

	for path, methods := range map[string]string{"/messages": "OPTIONS, POST", bob.Path("/messages"): "GET, HEAD, OPTIONS", bob.Path("/stream"): "GET, OPTIONS", "/oauth/token": "OPTIONS, POST", "/a2a/" + bob.Handle: "OPTIONS, POST", bob.Path(""): "DELETE, GET, HEAD, OPTIONS, PATCH"} {
		ask := func(origin string) *kit.Answer {
			return s.Call(t, "", "OPTIONS", path, nil, "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,x-svc-agent").Want(204)
		}
		a := ask(page)
		headers := a.Header.Get("Access-Control-Allow-Headers")
		if allowing(t, path, http.Header{"Vary": a.Header["Vary"]}) != "" || a.Header.Get("Access-Control-Allow-Origin") != page || a.Header.Get("Access-Control-Allow-Methods") != methods || len(a.Raw) != 0 {
			a.Errorf("the preflight of %s is %v", path, a.Header)
		}
		for _, name := range []string{"Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "A2A-Version", "x-svc-agent"} {
			if !strings.Contains(headers, name) {
				a.Errorf("the preflight of %s allows %s", path, headers)
			}
		}
		if b := ask(stranger); allowing(t, path, b.Header) != "" || b.Header.Get("Access-Control-Allow-Headers") != "" {
			b.Errorf("the preflight of a stranger has %v", b.Header)
		}
	}

	large := kit.Verbatim(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	keyed := kit.Message(bob)
	for _, origin := range []string{page, "http://localhost:3000", stranger} {
		want, from := origin, []string{"Origin", origin}
		if origin == stranger {
			want = ""
		}
		for what, a := range map[string]*kit.Answer{
			"a read":     bob.Get("/messages/"+kit.Text(m, "id"), from...).Want(200),
			"a repeat":   alice.Post("/messages", keyed, append(from, "Idempotency-Key", "of a page")...),
			"no token":   s.Call(t, "", "GET", "/org", nil, from...).Want(401),
			"not found":  bob.Get("/messages/"+kit.Nobody, from...).Want(404),
			"no route":   bob.Get("/nothing", from...).Want(404),
			"no method":  bob.Delete("/messages", from...).Want(405),
			"too large":  bob.Post("/messages", large, from...).Want(413),
			"no stream":  s.Call(t, "", "GET", bob.Path("/stream"), nil, from...).Want(401),
			"no schema":  bob.Post("/messages", obj{}, from...).Want(422),
			"bad client": s.Call(t, "", "POST", "/oauth/token", kit.Verbatim("grant_type=client_credentials"), append(from, "Content-Type", "application/x-www-form-urlencoded", "Authorization", kit.Basic("x", "y"))...),
		} {
			if got := allowing(t, what, a.Header); got != want {
				a.Errorf("%s of %s allows %q", what, origin, got)
			}
		}
		if got := streamOf(t, bob, origin); got != want {
			t.Errorf("the stream of %s allows %q", origin, got)
		}
		for _, address := range []string{admin, metrics} {
			for _, method := range []string{"GET", "OPTIONS"} {
				req, err := http.NewRequest(method, "http://"+address+"/readyz", nil)
				kit.Must(t, err)
				req.Header.Set("Origin", origin)
				req.Header.Set("Access-Control-Request-Method", "GET")
				resp, err := kit.AdminClient.Do(req)
				kit.Must(t, err)
				kit.Must(t, resp.Body.Close())
				for name := range resp.Header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s %s of %s has %s", method, address, origin, name)
					}
				}
			}
		}
	}
	if a := s.Call(t, "", "GET", "/health", nil, "Origin", stranger).Want(200); a.Header.Get("Access-Control-Allow-Origin") != "*" {
		a.Errorf("a public GET is closed to other origins")
	}
}

// streamOf opens an agent's stream from a page and returns the origin that it allows.
func streamOf(t *testing.T, g *kit.Agent, origin string) string {
	t.Helper()
	req, err := g.S.Request(g.Token, "GET", g.Path("/stream"), nil, "Accept", "text/event-stream", "Origin", origin)
	kit.Must(t, err)
	resp, err := kit.Streaming.Do(req)
	kit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the stream is %d %v", resp.StatusCode, resp.Header)
	}
	return allowing(t, "the stream", resp.Header)
}

func TestCORSOriginsAreChecked(t *testing.T) {
	for _, list := range []string{"app.example", "https://app.example/", "*,https://app.example", "null"} {
		if said := kit.Fails(t, t.TempDir(), "--cors-origins", list); !strings.Contains(said, "--cors-origins: ") {
			t.Errorf("%q: %s", list, said)
		}
	}
}
