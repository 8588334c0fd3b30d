package api

import (
	"net/http"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestRequestID(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		for _, id := range []string{"a", "req-1_2.3", strings.Repeat("x", 128)} {
			a := s.Call(t, "", "GET", "/health", nil, "X-Request-ID", id).Want(200)
			if a.Header.Get("X-Request-ID") != id {
				a.Errorf("%q is not echoed", id)
			}
		}
		for _, id := range []string{strings.Repeat("x", 129), "a b", "<script>", "ä"} {
			a := s.Call(t, "", "GET", "/health", nil, "X-Request-ID", id).Want(200)
			if got := a.Header.Get("X-Request-ID"); got == id || got == "" {
				a.Errorf("%q is echoed as %q", id, got)
			}
		}
		seen := map[string]bool{}
		for range 50 {
			seen[s.Call(t, "", "GET", "/health", nil).Want(200).Header.Get("X-Request-ID")] = true
		}
		if len(seen) != 50 {
			t.Errorf("50 requests had %d ids", len(seen))
		}
		a := s.Call(t, "", "GET", "/org", nil, "X-Request-ID", "mine").Refused(401, "not_authenticated")
		a.Is("request_id", "mine")
	})
}

func TestSecurityHeaders(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		for _, a := range []*kit.Answer{
			o.Get("/org"), o.Get("/nothing"), o.Get("/messages/" + kit.Nobody), s.Call(t, "", "GET", "/org", nil),
			s.Call(t, "", "GET", "/health", nil), s.Call(t, "", "GET", "/docs", nil), s.Call(t, "", "GET", "/openapi.json", nil),
			o.Post("/messages", obj{}),
		} {
			if a.Header.Get("X-Content-Type-Options") != "nosniff" {
				a.Errorf("X-Content-Type-Options is %q", a.Header.Get("X-Content-Type-Options"))
			}
		}
	})
}

func TestCORS(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g := o.Agent("open")
		for _, path := range []string{"/health", g.Path("/keys"), "/agents/keys?ids=" + g.ID, "/.well-known/jwks.json", "/openapi.json", g.Path("/did.json"), "/.well-known/webfinger?resource=acct:" + g.Handle} {
			a := s.Call(t, "", "GET", path, nil, "Origin", "https://app.example").Want(200)
			if a.Header.Get("Access-Control-Allow-Origin") != "*" {
				a.Errorf("Access-Control-Allow-Origin is %q", a.Header.Get("Access-Control-Allow-Origin"))
			}
			if a.Header.Get("Access-Control-Allow-Credentials") != "" {
				a.Errorf("credentials are allowed across origins")
			}
			p := s.Call(t, "", "OPTIONS", path, nil, "Origin", "https://app.example", "Access-Control-Request-Method", "GET")
			if p.Status/100 != 2 || p.Header.Get("Access-Control-Allow-Origin") != "*" {
				p.Errorf("the preflight fails")
			}
		}
		for _, path := range []string{"/org", "/agents", g.Path(""), g.Path("/messages")} {
			p := s.Call(t, "", "OPTIONS", path, nil, "Origin", "https://app.example", "Access-Control-Request-Method", "GET").Want(204)
			if p.Header.Get("Access-Control-Allow-Origin") != "" || p.Header.Get("Access-Control-Allow-Headers") != "" {
				p.Errorf("a private resource is open to every origin")
			}
		}
		a := o.Get("/org", "Origin", "https://app.example").Want(200)
		if a.Header.Get("Access-Control-Allow-Origin") != "" {
			a.Errorf("a private answer is open to every origin")
		}
	})
}

func TestHead(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("headed")
		for _, path := range []string{"/health", g.Path("/keys"), g.Path("/did.json"), "/.well-known/webfinger?resource=acct:" + g.Handle, "/.well-known/jwks.json"} {
			a := s.Call(t, "", "HEAD", path, nil)
			if a.Err != nil || a.Status != http.StatusOK || len(a.Raw) != 0 {
				a.Errorf("want 200 without a body")
			}
		}
		s.Call(t, "", "HEAD", "/nothing", nil).Want(404)
	})
}

func TestMediaTypes(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		body := kit.Verbatim(`{"to_agent_id":"` + b.ID + `","type":"svc.v1.dm","encrypted_payload":"QQ"}`)
		for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json", "application/problem+json;a=b", ""} {
			a.Post("/messages", body, "Content-Type", kind).As("%q", kind).Want(201)
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/xml", "application/jsonx"} {
			a.Post("/messages", body, "Content-Type", kind).As("%q", kind).Refused(415, "unsupported_media_type")
		}
	})
}

func TestStrictJSON(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		good := `"to_agent_id":"` + b.ID + `","type":"svc.v1.dm","encrypted_payload":"QQ"`
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
			a.Post("/messages", kit.Verbatim(body)).As("%s", name).Invalid("body", "json_invalid")
		}
		for name, body := range map[string]string{"array": `[]`, "text": `"a"`, "number": `1`, "true": `true`} {
			a.Post("/messages", kit.Verbatim(body)).As("%s", name).Invalid("body", "")
		}
		for name, body := range map[string]string{"empty": ``, "null": `null`} {
			a.Post("/messages", kit.Verbatim(body)).As("%s", name).Invalid("body", "")
		}
		if n := len(b.Everything()); n != 0 {
			t.Errorf("%d messages were created from bad bodies", n)
		}
		a.Post("/messages", kit.Verbatim(" \r\n\t{"+good+",\"metadata\":{\"\\u00e4\":\"\\ud83d\\ude00\"}} \n")).Want(201).Is("metadata.ä", "😀")
	})
}

func TestDeepJSONIsHarmless(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for _, depth := range []int{2000, 100_000} {
			body := `{"to_agent_id":"` + b.ID + `","type":"svc.v1.dm","encrypted_payload":"QQ","unheard_of":` +
				strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
			if r := a.Post("/messages", kit.Verbatim(body)); r.Err != nil || r.Status >= 500 {
				r.Errorf("%d arrays deep", depth)
			}
		}
		s.Call(t, "", "GET", "/health", nil).Want(200)
	})
}
