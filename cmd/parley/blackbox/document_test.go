package blackbox

import (
	"strings"
	"testing"
	"time"
)

// TestPublicDocuments: each document has a type, an ETag and a maximum age, and the
// server sends the body only to clients that do not have it.
func TestPublicDocuments(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g := o.agent("g")
		for path, cache := range map[string]string{
			"/.well-known/jwks.json":                  "max-age=3600",
			"/.well-known/oauth-authorization-server": "max-age=3600",
			"/agents/" + g.id + "/keys":               "no-cache",
			"/agents/keys?ids=" + g.id:                "no-cache",
		} {
			ask := func(headers ...string) *answer {
				return s.call(t, "", "GET", path, nil, headers...).as("%s %v", path, headers)
			}
			a := ask().want(200)
			tag, modified := a.header.Get("ETag"), a.header.Get("Last-Modified")
			if !strings.Contains(a.header.Get("Cache-Control"), cache) {
				a.errorf("Cache-Control is %q, want %s", a.header.Get("Cache-Control"), cache)
			}
			if len(tag) < 10 || tag[0] != '"' || tag[len(tag)-1] != '"' {
				a.errorf("ETag is %q", tag)
			}
			at, err := time.Parse(time.RFC1123, modified)
			if err != nil || at.After(time.Now()) || !strings.HasSuffix(modified, " GMT") {
				a.errorf("Last-Modified is %q", modified)
			}
			for name, headers := range map[string][]string{
				"its tag": {"If-None-Match", tag}, "one of several": {"If-None-Match", `"other", W/` + tag}, "any": {"If-None-Match", "*"},
			} {
				b := ask(headers...).as("%s: %s", path, name).want(304)
				if len(b.raw) != 0 || b.header.Get("ETag") != tag || b.header.Get("Cache-Control") != a.header.Get("Cache-Control") {
					b.errorf("ETag %q, Cache-Control %q", b.header.Get("ETag"), b.header.Get("Cache-Control"))
				}
			}
			ask("If-None-Match", `"another"`, "If-Modified-Since", modified).want(200)
			ask("If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT").want(200)
			since := ask("If-Modified-Since", modified)
			if want := map[bool]int{true: 200, false: 304}[cache == "no-cache"]; since.status != want {
				since.errorf("want %d", want)
			}
		}
		// A rotated key changes the document's ETag at once.
		before := s.call(t, "", "GET", g.path("/keys"), nil).want(200).header.Get("ETag")
		_, seal := newKeys()
		g.post(g.path("/keys"), obj{"encryption_public_key": sealJWK(seal)}).want(200)
		s.call(t, "", "GET", g.path("/keys"), nil, "If-None-Match", before).want(200)
	})
}
