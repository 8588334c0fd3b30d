package blackbox

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

type Route struct{ Method, Path string }

// OwnRoutes require a token.
var OwnRoutes = []Route{
	{"GET", "/org"},
	{"PATCH", "/org"},
	{"GET", "/org/quotas"},
	{"POST", "/org/credentials"},
	{"DELETE", "/org/credentials/{id}"},
	{"GET", "/agents"},
	{"POST", "/agents"},
	{"GET", "/agents/{id}"},
	{"PATCH", "/agents/{id}"},
	{"DELETE", "/agents/{id}"},
	{"PUT", "/agents/{id}/card"},
	{"DELETE", "/agents/{id}/card"},
	{"POST", "/agents/{id}/keys"},
	{"POST", "/agents/{id}/keys/retire"},
	{"POST", "/agents/{id}/keys/pq"},
	{"DELETE", "/agents/{id}/keys/pq"},
	{"PUT", "/agents/{id}/key-binding"},
	{"POST", "/agents/{id}/mls/key-packages"},
	{"GET", "/agents/{id}/mls/key-packages/count"},
	{"POST", "/agents/{id}/mls/key-packages/claim"},
	{"POST", "/agents/{id}/verify-svid/challenge"},
	{"POST", "/agents/{id}/verify-svid"},
	{"POST", "/agents/{id}/poll-token"},
	{"DELETE", "/agents/{id}/poll-token"},
	{"GET", "/agents/{id}/messages"},
	{"GET", "/agents/{id}/conversations"},
	{"GET", "/agents/{id}/stream"},
	{"POST", "/messages"},
	{"POST", "/messages/sync"},
	{"GET", "/messages/{id}"},
	{"POST", "/messages/{id}/reply"},
	{"POST", "/messages/{id}/read"},
	{"GET", "/messages/{id}/receipt"},
	{"GET", "/messages/{id}/trace"},
	{"POST", "/agents/{id}/messages/ack"},
	{"GET", "/agents/{id}/wait"},
	{"GET", "/conversations/{id}"},
	{"GET", "/conversations/{id}/participants"},
	{"GET", "/conversations/{id}/messages"},
	{"PATCH", "/conversations/{id}/status"},
	{"GET", "/groups"},
	{"POST", "/groups"},
	{"GET", "/groups/invites"},
	{"GET", "/groups/{id}"},
	{"PATCH", "/groups/{id}"},
	{"DELETE", "/groups/{id}"},
	{"GET", "/groups/{id}/members"},
	{"PATCH", "/groups/{id}/members/{agent_id}"},
	{"DELETE", "/groups/{id}/members/{agent_id}"},
	{"POST", "/groups/{id}/join"},
	{"POST", "/groups/{id}/invite"},
	{"GET", "/groups/{id}/requests"},
	{"POST", "/groups/{id}/requests/{request_id}/vote"},
	{"POST", "/groups/{id}/mls/commits"},
	{"GET", "/groups/{id}/mls/commits"},
	{"GET", "/groups/{id}/mls/group-info"},
	{"GET", "/groups/{id}/mls/welcomes"},
	{"DELETE", "/groups/{id}/mls/welcomes/{welcome_id}"},
	{"GET", "/webhooks"},
	{"POST", "/webhooks"},
	{"PATCH", "/webhooks/{id}"},
	{"DELETE", "/webhooks/{id}"},
	{"GET", "/webhooks/{id}/deliveries"},
	{"GET", "/webhooks/{id}/deliveries/summary"},
	{"POST", "/webhooks/{id}/test"},
	{"POST", "/webhooks/{id}/rotate-secret"},
	{"POST", "/webhooks/{id}/deliveries/{job_id}/retry"},
}

// openRoutes require none.
var openRoutes = []Route{
	{"POST", "/auth/register"},
	{"POST", "/auth/register/solve"},
	{"POST", "/auth/verify-email"},
	{"POST", "/oauth/token"},
	{"GET", "/agents/{id}/card"},
	{"GET", "/agents/{id}/keys"},
	{"GET", "/agents/{id}/key-bindings"},
	{"GET", "/agents/{id}/key-log"},
	{"GET", "/key-log"},
	{"GET", "/key-log/checkpoint"},
	{"GET", "/key-log/proofs/inclusion"},
	{"GET", "/key-log/proofs/consistency"},
	{"GET", "/agents/keys"},
	{"GET", "/poll/{token}"},
	{"GET", "/directory/agents"},
	{"GET", "/directory/agents/stream"},
	{"GET", "/directory/agents/{id}"},
	{"GET", "/directory/categories"},
	{"GET", "/directory/groups"},
	{"GET", "/directory/groups/{id}"},
	{"GET", "/.well-known/jwks.json"},
	{"GET", "/.well-known/webfinger"},
	{"GET", "/.well-known/agent-cards/{id}.json"},
	{"GET", "/agents/{id}/did.json"},
	{"GET", "/a2a/{id}/agent.json"},
	{"GET", "/a2a/{id}/.well-known/agent-card.json"},
	{"GET", "/ext/{brand}/v1"},
	{"GET", "/.well-known/oauth-authorization-server"},
	{"GET", "/find/agents"},
	{"GET", "/find/groups"},
	{"GET", "/a/{handle}"},
	{"GET", "/g/{handle}"},
	{"GET", "/assets/{file}"},
	{"DELETE", "/orgs/{id}"},
	{"GET", "/orgs/{id}/export"},
	{"GET", "/compliance/info"},
	{"GET", "/llms.txt"},
	{"GET", "/health"},
	{"GET", "/version"},
}

func TestUnknownPaths(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		for _, path := range []string{"/nothing", "/org/nothing", "/messages/" + Nobody + "/nothing", "/metrics", "/debug/pprof/", "/org/", "/ORG"} {
			o.Get(path).Refused(404, "not_found")
			s.Call(t, "", "GET", path, nil).Refused(404, "not_found")
		}
	})
}

func TestWrongMethod(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		for _, c := range []struct{ method, path, allow string }{
			{"DELETE", "/org", "GET PATCH"},
			{"PUT", "/messages", "POST"},
			{"POST", "/messages/" + Nobody, "GET"},
			{"GET", "/messages/" + Nobody + "/reply", "POST"},
			{"POST", "/conversations/" + Nobody + "/status", "PATCH"},
			{"PUT", "/agents/" + Nobody, "GET PATCH DELETE"},
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
	Each(t, func(t *testing.T, s *Server) {
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
	Each(t, func(t *testing.T, s *Server) {
		links := s.Call(t, "", "GET", "/", nil).Want(200)
		Exactly(t, "the start", links.Body, "name version documentation openapi health registration token_endpoint")
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
	Each(t, func(t *testing.T, s *Server) {
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
	Each(t, func(t *testing.T, s *Server) {
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
		for _, r := range slices.Concat(OwnRoutes, openRoutes) {
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
