package blackbox

import (
	"net/http"
	"strings"
	"testing"
)

func TestRequestID(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for _, id := range []string{"a", "req-1_2.3", strings.Repeat("x", 128)} {
			a := s.call(t, "", "GET", "/health", nil, "X-Request-ID", id).want(200)
			if a.header.Get("X-Request-ID") != id {
				a.errorf("%q is not echoed", id)
			}
		}
		for _, id := range []string{strings.Repeat("x", 129), "a b", "<script>", "ä"} {
			a := s.call(t, "", "GET", "/health", nil, "X-Request-ID", id).want(200)
			if got := a.header.Get("X-Request-ID"); got == id || got == "" {
				a.errorf("%q is echoed as %q", id, got)
			}
		}
		seen := map[string]bool{}
		for range 50 {
			seen[s.call(t, "", "GET", "/health", nil).want(200).header.Get("X-Request-ID")] = true
		}
		if len(seen) != 50 {
			t.Errorf("50 requests had %d ids", len(seen))
		}
		a := s.call(t, "", "GET", "/org", nil, "X-Request-ID", "mine").refused(401, "not_authenticated")
		a.is("request_id", "mine")
	})
}

func TestSecurityHeaders(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		for _, a := range []*answer{
			o.get("/org"), o.get("/nothing"), o.get("/messages/" + nobody), s.call(t, "", "GET", "/org", nil),
			s.call(t, "", "GET", "/health", nil), s.call(t, "", "GET", "/docs", nil), s.call(t, "", "GET", "/openapi.json", nil),
			o.post("/messages", obj{}),
		} {
			if a.header.Get("X-Content-Type-Options") != "nosniff" {
				a.errorf("X-Content-Type-Options is %q", a.header.Get("X-Content-Type-Options"))
			}
		}
	})
}

func TestCORS(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g := o.agent("open")
		for _, path := range []string{"/health", g.path("/keys"), "/agents/keys?ids=" + g.id, "/.well-known/jwks.json", "/openapi.json", g.path("/did.json"), "/.well-known/webfinger?resource=acct:" + g.handle} {
			a := s.call(t, "", "GET", path, nil, "Origin", "https://app.example").want(200)
			if a.header.Get("Access-Control-Allow-Origin") != "*" {
				a.errorf("Access-Control-Allow-Origin is %q", a.header.Get("Access-Control-Allow-Origin"))
			}
			if a.header.Get("Access-Control-Allow-Credentials") != "" {
				a.errorf("credentials are allowed across origins")
			}
			p := s.call(t, "", "OPTIONS", path, nil, "Origin", "https://app.example", "Access-Control-Request-Method", "GET")
			if p.status/100 != 2 || p.header.Get("Access-Control-Allow-Origin") != "*" {
				p.errorf("the preflight fails")
			}
		}
		for _, path := range []string{"/org", "/agents", g.path(""), g.path("/messages")} {
			p := s.call(t, "", "OPTIONS", path, nil, "Origin", "https://app.example", "Access-Control-Request-Method", "GET").want(204)
			if p.header.Get("Access-Control-Allow-Origin") != "" || p.header.Get("Access-Control-Allow-Headers") != "" {
				p.errorf("a private resource is open to every origin")
			}
		}
		a := o.get("/org", "Origin", "https://app.example").want(200)
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			a.errorf("a private answer is open to every origin")
		}
	})
}

func TestHead(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("headed")
		for _, path := range []string{"/health", g.path("/keys"), g.path("/did.json"), "/.well-known/webfinger?resource=acct:" + g.handle, "/.well-known/jwks.json"} {
			a := s.call(t, "", "HEAD", path, nil)
			if a.err != nil || a.status != http.StatusOK || len(a.raw) != 0 {
				a.errorf("want 200 without a body")
			}
		}
		s.call(t, "", "HEAD", "/nothing", nil).want(404)
	})
}

func TestMediaTypes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		body := verbatim(`{"to_agent_id":"` + b.id + `","type":"svc.v1.dm","encrypted_payload":"QQ"}`)
		for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json", "application/problem+json;a=b", ""} {
			a.post("/messages", body, "Content-Type", kind).as("%q", kind).want(201)
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/xml", "application/jsonx"} {
			a.post("/messages", body, "Content-Type", kind).as("%q", kind).refused(415, "unsupported_media_type")
		}
	})
}

func TestStrictJSON(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		good := `"to_agent_id":"` + b.id + `","type":"svc.v1.dm","encrypted_payload":"QQ"`
		for name, body := range map[string]string{
			"cut off":          `{` + good,
			"trailing":         `{` + good + `} x`,
			"two values":       `{` + good + `}{}`,
			"trailing comma":   `{` + good + `,}`,
			"comment":          `{` + good + `/* */}`,
			"single quotes":    `{'type':'a.b.c'}`,
			"NaN":              `{` + good + `,"metadata":{"n":NaN}}`,
			"bad escape":       `{` + good + `,"content_type":"\x"}`,
			"control":          "{" + good + ",\"content_type\":\"a\nb\"}",
			"not UTF-8":        "{" + good + ",\"content_type\":\"\xff\"}",
			"not UTF-8 inside": "{" + good + ",\"metadata\":{\"a\":\"\xff\"}}",
			"duplicate":        `{` + good + `,"type":"svc.v1.dm"}`,
			"duplicate inside": `{` + good + `,"metadata":{"a":1,"a":2}}`,
			"escaped twin":     `{` + good + `,"\u0074ype":"svc.v1.dm"}`,
		} {
			a.post("/messages", verbatim(body)).as("%s", name).invalid("body", "json_invalid")
		}
		for name, body := range map[string]string{"array": `[]`, "text": `"a"`, "number": `1`, "true": `true`} {
			a.post("/messages", verbatim(body)).as("%s", name).invalid("body", "")
		}
		for name, body := range map[string]string{"empty": ``, "null": `null`} {
			a.post("/messages", verbatim(body)).as("%s", name).invalid("body", "")
		}
		if n := len(b.everything()); n != 0 {
			t.Errorf("%d messages were created from bad bodies", n)
		}
		a.post("/messages", verbatim(" \r\n\t{"+good+",\"metadata\":{\"\\u00e4\":\"\\ud83d\\ude00\"}} \n")).want(201).is("metadata.ä", "😀")
	})
}

func TestDeepJSONIsHarmless(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for _, depth := range []int{2000, 100_000} {
			body := `{"to_agent_id":"` + b.id + `","type":"svc.v1.dm","encrypted_payload":"QQ","unheard_of":` +
				strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
			if r := a.post("/messages", verbatim(body)); r.err != nil || r.status >= 500 {
				r.errorf("%d arrays deep", depth)
			}
		}
		s.call(t, "", "GET", "/health", nil).want(200)
	})
}
