package blackbox

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

type route struct{ method, path string }

// ownRoutes require a token.
var ownRoutes = []route{
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
var openRoutes = []route{
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
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		for _, path := range []string{"/nothing", "/org/nothing", "/messages/" + nobody + "/nothing", "/metrics", "/debug/pprof/", "/org/", "/ORG"} {
			o.get(path).refused(404, "not_found")
			s.call(t, "", "GET", path, nil).refused(404, "not_found")
		}
	})
}

func TestWrongMethod(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		for _, c := range []struct{ method, path, allow string }{
			{"DELETE", "/org", "GET PATCH"},
			{"PUT", "/messages", "POST"},
			{"POST", "/messages/" + nobody, "GET"},
			{"GET", "/messages/" + nobody + "/reply", "POST"},
			{"POST", "/conversations/" + nobody + "/status", "PATCH"},
			{"PUT", "/agents/" + nobody, "GET PATCH DELETE"},
			{"GET", "/oauth/token", "POST"},
			{"POST", "/health", "GET"},
			{"PATCH", "/agents", "GET POST"},
			{"DELETE", "/poll/abc", "GET"},
		} {
			a := s.call(t, o.token, c.method, c.path, nil).refused(405, "method_not_allowed")
			allow := regexp.MustCompile(`\s*,\s*`).Split(a.header.Get("Allow"), -1)
			for m := range strings.FieldsSeq(c.allow) {
				if !slices.Contains(allow, m) {
					a.errorf("Allow is %q, want %s", a.header.Get("Allow"), c.allow)
				}
			}
			if slices.Contains(allow, c.method) {
				a.errorf("Allow names the method that is refused")
			}
		}
	})
}

func TestHealthAndVersion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a := s.call(t, "", "GET", "/health", nil).want(200)
		a.shaped("status:str version:str uptime_s:any durability:str checks:obj").is("status", "ok", "durability", "fsync")
		s.call(t, "", "GET", "/version", nil).want(200).is("version", a.at("version"))
	})
}

// pageFile matches the address of a file that a page loads.
var pageFile = regexp.MustCompile(`(?:src|href)="\.(/assets/[^"]+)"`)

// TestStart: browsers get a page that loads files of this server only, all other clients
// links as JSON.
func TestStart(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		links := s.call(t, "", "GET", "/", nil).want(200)
		exactly(t, "the start", links.body, "name version documentation openapi health registration token_endpoint")
		for _, name := range []string{"documentation", "openapi", "health"} {
			path, own := strings.CutPrefix(links.str(name), s.base)
			if !own {
				links.errorf("%s is elsewhere", name)
				continue
			}
			s.call(t, "", "GET", path, nil).want(200)
		}
		version := s.call(t, "", "GET", "/version", nil).want(200).str("version")
		links.is("version", version)
		page := s.call(t, "", "GET", "/", nil, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8").want(200)
		if page.header.Get("Content-Type") != "text/html; charset=utf-8" || page.header.Get("Vary") != "Accept" || !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") {
			page.errorf("not a page of its own: %v", page.header)
		}
		text := string(page.raw)
		for _, want := range []string{version, `href="./docs"`, `href="./openapi.json"`, `href="./health"`, "parley register my-org", "--url " + s.base} {
			if !strings.Contains(text, want) {
				page.errorf("no %s on the page", want)
			}
		}
		for _, foreign := range []string{"<style", "@import", "url(", " style=", " onclick=", `src="http`, "{{"} {
			if strings.Contains(text, foreign) {
				page.errorf("the page has %s", foreign)
			}
		}
		files := pageFile.FindAllStringSubmatch(text, -1)
		if len(files) != 3 {
			page.errorf("loads %q", files)
		}
		for _, file := range files {
			if a := s.call(t, "", "GET", file[1], nil).want(200); !strings.Contains(a.header.Get("Cache-Control"), "immutable") {
				a.errorf("Cache-Control is %q", a.header.Get("Cache-Control"))
			}
		}
		s.call(t, "", "POST", "/", nil).refused(405, "method_not_allowed")
	})
}

func TestDocs(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a := s.call(t, "", "GET", "/docs", nil).want(200)
		if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || len(a.raw) < 200 {
			a.errorf("not a page: %s", a.header.Get("Content-Type"))
		}
		if strings.Contains(string(a.raw), "https://cdn") || strings.Contains(string(a.raw), "https://unpkg") {
			a.errorf("the page needs the internet")
		}
	})
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

func TestOpenAPI(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a := s.call(t, "", "GET", "/openapi.json", nil).want(200)
		if !strings.HasPrefix(a.str("openapi"), "3.1") {
			a.errorf("not OpenAPI 3.1")
		}
		paths, _ := a.at("paths").(obj)
		known := map[string]obj{}
		for path, methods := range paths {
			known[pathParameter.ReplaceAllString(path, "{}")], _ = methods.(obj)
			if !strings.HasPrefix(path, "/") {
				t.Errorf("path %q", path)
			}
		}
		for _, r := range slices.Concat(ownRoutes, openRoutes) {
			operation, ok := known[pathParameter.ReplaceAllString(r.path, "{}")][strings.ToLower(r.method)].(obj)
			if !ok {
				t.Errorf("the document has no %s %s", r.method, r.path)
				continue
			}
			if _, ok := operation["responses"].(obj); !ok {
				t.Errorf("%s %s has no responses", r.method, r.path)
			}
		}
	})
}
