package blackbox

import (
	"strings"
	"testing"
	"time"
)

// aSecondPasses waits until the date of a document that has just changed is final: dates
// have no fractions, and it is the end of the second of the change.
func aSecondPasses() { time.Sleep(1100 * time.Millisecond) }

// TestPublicDocuments: each document has a type, an ETag and a maximum age, and the
// server sends the body only to clients that do not have it.
func TestPublicDocuments(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g := o.agent("g")
		g.put(g.path("/card"), bridgedCard()).want(200)
		aSecondPasses()
		for path, cache := range map[string]string{
			"/.well-known/jwks.json": "max-age=3600",
			"/compliance/info":       "max-age=3600",
			"/llms.txt":              "max-age=3600",
			"/.well-known/oauth-authorization-server": "max-age=3600",
			"/ext/svc/v1":                   "max-age=3600",
			"/agents/" + g.id + "/keys":     "no-cache",
			"/agents/keys?ids=" + g.id:      "no-cache",
			"/agents/" + g.id + "/did.json": "max-age=300",
			webFinger(g):                    "max-age=300",
			bridgeCard(g):                   "max-age=300",
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
			// The documents of a node are as old as its process: another node may answer with its own.
			if want := map[bool]int{true: 200, false: 304}[cache == "no-cache"]; since.status != want && (s.nodes == nil || since.status != 200) {
				since.errorf("want %d", want)
			}
		}
		// A rotated key changes the ETag of documents with keys at once, and their date.
		tags, dates := map[string]string{}, map[string]string{}
		for _, path := range []string{g.path("/keys"), g.path("/did.json")} {
			a := s.call(t, "", "GET", path, nil).want(200)
			tags[path], dates[path] = a.header.Get("ETag"), a.header.Get("Last-Modified")
		}
		_, seal := newKeys()
		g.post(g.path("/keys"), obj{"encryption_public_key": sealJWK(seal)}).want(200)
		for path := range tags {
			s.call(t, "", "GET", path, nil, "If-None-Match", tags[path]).want(200)
		}
		aSecondPasses()
		for path := range dates {
			s.call(t, "", "GET", path, nil, "If-Modified-Since", dates[path]).want(200)
		}
	})
}
