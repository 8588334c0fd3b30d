package api

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// openRoutes require none.
var openRoutes = []kit.Route{
	{Method: "POST", Path: "/auth/register"},
	{Method: "POST", Path: "/auth/register/solve"},
	{Method: "POST", Path: "/auth/verify-email"},
	{Method: "POST", Path: "/oauth/token"},
	{Method: "GET", Path: "/agents/{id}/card"},
	{Method: "GET", Path: "/agents/{id}/keys"},
	{Method: "GET", Path: "/agents/{id}/key-bindings"},
	{Method: "GET", Path: "/agents/{id}/key-log"},
	{Method: "GET", Path: "/key-log"},
	{Method: "GET", Path: "/key-log/checkpoint"},
	{Method: "GET", Path: "/key-log/proofs/inclusion"},
	{Method: "GET", Path: "/key-log/proofs/consistency"},
	{Method: "GET", Path: "/agents/keys"},
	{Method: "GET", Path: "/poll/{token}"},
	{Method: "GET", Path: "/directory/agents"},
	{Method: "GET", Path: "/directory/agents/stream"},
	{Method: "GET", Path: "/directory/agents/{id}"},
	{Method: "GET", Path: "/directory/categories"},
	{Method: "GET", Path: "/directory/groups"},
	{Method: "GET", Path: "/directory/groups/{id}"},
	{Method: "GET", Path: "/.well-known/jwks.json"},
	{Method: "GET", Path: "/.well-known/webfinger"},
	{Method: "GET", Path: "/.well-known/agent-cards/{id}.json"},
	{Method: "GET", Path: "/agents/{id}/did.json"},
	{Method: "GET", Path: "/a2a/{id}/agent.json"},
	{Method: "GET", Path: "/a2a/{id}/.well-known/agent-card.json"},
	{Method: "GET", Path: "/ext/{brand}/v1"},
	{Method: "GET", Path: "/.well-known/oauth-authorization-server"},
	{Method: "GET", Path: "/find/agents"},
	{Method: "GET", Path: "/find/groups"},
	{Method: "GET", Path: "/a/{handle}"},
	{Method: "GET", Path: "/g/{handle}"},
	{Method: "GET", Path: "/assets/{file}"},
	{Method: "DELETE", Path: "/orgs/{id}"},
	{Method: "GET", Path: "/orgs/{id}/export"},
	{Method: "GET", Path: "/compliance/info"},
	{Method: "GET", Path: "/llms.txt"},
	{Method: "GET", Path: "/health"},
	{Method: "GET", Path: "/version"},
}

func TestUnknownPaths(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		for _, path := range []string{"/nothing", "/org/nothing", "/messages/" + kit.Nobody + "/nothing", "/metrics", "/debug/pprof/", "/org/", "/ORG"} {
			o.Get(path).Refused(404, "not_found")
			s.Call(t, "", "GET", path, nil).Refused(404, "not_found")
		}
	})
}

func TestWrongMethod(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		for _, c := range []struct{ method, path, allow string }{
			{"DELETE", "/org", "GET PATCH"},
			{"PUT", "/messages", "POST"},
			{"POST", "/messages/" + kit.Nobody, "GET"},
			{"GET", "/messages/" + kit.Nobody + "/reply", "POST"},
			{"POST", "/conversations/" + kit.Nobody + "/status", "PATCH"},
			{"PUT", "/agents/" + kit.Nobody, "GET PATCH DELETE"},
			{"GET", "/oauth/token", "POST"},
			{"POST", "/health", "GET"},
			{"PATCH", "/agents", "GET POST"},
			{"DELETE", "/poll/abc", "GET"},
		} {
			a := s.Call(t, o.Token, c.method, c.path, nil).Refused(405, "method_not_allowed")
			allow := regexp.MustCompile(`\s*,\s*`).Split(a.Header.Get("Allow"), -1)
			for m := range strings.FieldsSeq(c.allow) {
				if !slices.Contains(allow, m) {
					a.Errorf("Allow is %q, want %s", a.Header.Get("Allow"), c.allow)
				}
			}
			if slices.Contains(allow, c.method) {
				a.Errorf("Allow names the method that is refused")
			}
		}
	})
}

func TestHealthAndVersion(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a := s.Call(t, "", "GET", "/health", nil).Want(200)
		a.Shaped("status:str version:str uptime_s:any durability:str checks:obj").Is("status", "ok", "durability", "fsync")
		s.Call(t, "", "GET", "/version", nil).Want(200).Is("version", a.At("version"))
	})
}

// pageFile matches the address of a file that a page loads.
var pageFile = regexp.MustCompile(`(?:src|href)="\.(/assets/[^"]+)"`)

// TestStart: browsers get a page that loads files of this server only, all other clients
// links as JSON.
func TestStart(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		links := s.Call(t, "", "GET", "/", nil).Want(200)
		kit.Exactly(t, "the start", links.Body, "name version documentation openapi health registration token_endpoint")
		for _, name := range []string{"documentation", "openapi", "health"} {
			path, own := strings.CutPrefix(links.Str(name), s.Base)
			if !own {
				links.Errorf("%s is elsewhere", name)
				continue
			}
			s.Call(t, "", "GET", path, nil).Want(200)
		}
		version := s.Call(t, "", "GET", "/version", nil).Want(200).Str("version")
		links.Is("version", version)
		page := s.Call(t, "", "GET", "/", nil, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8").Want(200)
		if page.Header.Get("Content-Type") != "text/html; charset=utf-8" || page.Header.Get("Vary") != "Accept" || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			page.Errorf("not a page of its own: %v", page.Header)
		}
		text := string(page.Raw)
		for _, want := range []string{version, `href="./docs"`, `href="./openapi.json"`, `href="./health"`, "parley register my-org", "--url " + s.Base} {
			if !strings.Contains(text, want) {
				page.Errorf("no %s on the page", want)
			}
		}
		for _, foreign := range []string{"<style", "@import", "url(", " style=", " onclick=", `src="http`, "{{"} {
			if strings.Contains(text, foreign) {
				page.Errorf("the page has %s", foreign)
			}
		}
		files := pageFile.FindAllStringSubmatch(text, -1)
		if len(files) != 3 {
			page.Errorf("loads %q", files)
		}
		for _, file := range files {
			if a := s.Call(t, "", "GET", file[1], nil).Want(200); !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
				a.Errorf("Cache-Control is %q", a.Header.Get("Cache-Control"))
			}
		}
		s.Call(t, "", "POST", "/", nil).Refused(405, "method_not_allowed")
	})
}

func TestDocs(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a := s.Call(t, "", "GET", "/docs", nil).Want(200)
		if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") || len(a.Raw) < 200 {
			a.Errorf("not a page: %s", a.Header.Get("Content-Type"))
		}
		if strings.Contains(string(a.Raw), "https://cdn") || strings.Contains(string(a.Raw), "https://unpkg") {
			a.Errorf("the page needs the internet")
		}
	})
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

func TestOpenAPI(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a := s.Call(t, "", "GET", "/openapi.json", nil).Want(200)
		if !strings.HasPrefix(a.Str("openapi"), "3.1") {
			a.Errorf("not OpenAPI 3.1")
		}
		paths, _ := a.At("paths").(obj)
		known := map[string]obj{}
		for path, methods := range paths {
			known[pathParameter.ReplaceAllString(path, "{}")], _ = methods.(obj)
			if !strings.HasPrefix(path, "/") {
				t.Errorf("path %q", path)
			}
		}
		for _, r := range slices.Concat(kit.OwnRoutes, openRoutes) {
			operation, ok := known[pathParameter.ReplaceAllString(r.Path, "{}")][strings.ToLower(r.Method)].(obj)
			if !ok {
				t.Errorf("the document has no %s %s", r.Method, r.Path)
				continue
			}
			if _, ok := operation["responses"].(obj); !ok {
				t.Errorf("%s %s has no responses", r.Method, r.Path)
			}
		}
	})
}
