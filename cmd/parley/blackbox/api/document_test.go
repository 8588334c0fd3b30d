package api

import (
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestPublicDocuments: each document has a type, an ETag and a maximum age, and the
// server sends the body only to clients that do not have it.
func TestPublicDocuments(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g := o.Agent("g")
		g.Put(g.Path("/card"), kit.BridgedCard()).Want(200)
		kit.ASecondPasses()
		for path, cache := range map[string]string{
			"/.well-known/jwks.json": "max-age=3600",
			"/compliance/info":       "max-age=3600",
			"/llms.txt":              "max-age=3600",
			"/.well-known/oauth-authorization-server": "max-age=3600",
			"/ext/svc/v1":                   "max-age=3600",
			"/agents/" + g.ID + "/keys":     "no-cache",
			"/agents/keys?ids=" + g.ID:      "no-cache",
			"/agents/" + g.ID + "/did.json": "max-age=300",
			kit.WebFinger(g):                "max-age=300",
			kit.BridgeCard(g):               "max-age=300",
		} {
			ask := func(headers ...string) *kit.Answer {
				return s.Call(t, "", "GET", path, nil, headers...).As("%s %v", path, headers)
			}
			a := ask().Want(200)
			tag, modified := a.Header.Get("ETag"), a.Header.Get("Last-Modified")
			if !strings.Contains(a.Header.Get("Cache-Control"), cache) {
				a.Errorf("Cache-Control is %q, want %s", a.Header.Get("Cache-Control"), cache)
			}
			if len(tag) < 10 || tag[0] != '"' || tag[len(tag)-1] != '"' {
				a.Errorf("ETag is %q", tag)
			}
			at, err := time.Parse(time.RFC1123, modified)
			if err != nil || at.After(time.Now()) || !strings.HasSuffix(modified, " GMT") {
				a.Errorf("Last-Modified is %q", modified)
			}
			for name, headers := range map[string][]string{
				"its tag": {"If-None-Match", tag}, "one of several": {"If-None-Match", `"other", W/` + tag}, "any": {"If-None-Match", "*"},
			} {
				b := ask(headers...).As("%s: %s", path, name).Want(304)
				if len(b.Raw) != 0 || b.Header.Get("ETag") != tag || b.Header.Get("Cache-Control") != a.Header.Get("Cache-Control") {
					b.Errorf("ETag %q, Cache-Control %q", b.Header.Get("ETag"), b.Header.Get("Cache-Control"))
				}
			}
			ask("If-None-Match", `"another"`, "If-Modified-Since", modified).Want(200)
			ask("If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT").Want(200)
			since := ask("If-Modified-Since", modified)
			// The documents of a node are as old as its process: another node may answer with its own.
			if want := map[bool]int{true: 200, false: 304}[cache == "no-cache"]; since.Status != want && (s.Nodes == nil || since.Status != 200) {
				since.Errorf("want %d", want)
			}
		}
		// A rotated key changes the ETag of documents with keys at once, and their date.
		tags, dates := map[string]string{}, map[string]string{}
		for _, path := range []string{g.Path("/keys"), g.Path("/did.json")} {
			a := s.Call(t, "", "GET", path, nil).Want(200)
			tags[path], dates[path] = a.Header.Get("ETag"), a.Header.Get("Last-Modified")
		}
		_, seal := kit.NewKeys()
		g.Post(g.Path("/keys"), obj{"encryption_public_key": kit.SealJWK(seal)}).Want(200)
		for path := range tags {
			s.Call(t, "", "GET", path, nil, "If-None-Match", tags[path]).Want(200)
		}
		kit.ASecondPasses()
		for path := range dates {
			s.Call(t, "", "GET", path, nil, "If-Modified-Since", dates[path]).Want(200)
		}
	})
}
