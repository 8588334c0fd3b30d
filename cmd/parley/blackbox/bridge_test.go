package blackbox

import (
	"net/url"
	"strings"
	"testing"
)

// bridgeCard is the path of an agent's A2A card.
func bridgeCard(g *agent) string { return "/a2a/" + g.handle + "/agent.json" }

// bridgedCard is a card of an agent that the A2A bridge serves.
func bridgedCard() obj { return extended("a2a_enabled", true) }

func bridgeAsk(suffix string) func(*accessScene) accessAsk {
	return func(c *accessScene) accessAsk {
		g := c.victim()
		g.put(g.path("/card"), bridgedCard()).want(200)
		return accessAsk{"/a2a/" + g.handle + suffix, nil}
	}
}

// TestA2ACard: an active agent has an A2A card while its card has a2a_enabled, public or
// not, listed or not. The card, the DID document and the A2A card name the same endpoint.
func TestA2ACard(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("bridged")
		at := func(path string) *answer { return s.call(t, "", "GET", path, nil).as("%s", path) }
		there := func() *answer { return at(bridgeCard(g)) }
		there().as("without a card").refused(404, "not_found")
		g.put(g.path("/card"), plainCard()).want(200)
		there().as("not A2A-enabled").refused(404, "not_found")
		g.put(g.path("/card"), bridgedCard()).want(200)
		endpoint := s.base + "/a2a/" + g.handle
		a := there().want(200).is(
			"name", "Plain", "description", "Nothing more.", "version", "1.0.0", "supportedInterfaces", []any{obj{"url": endpoint, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
			"securityRequirements", []any{obj{"schemes": obj{"oauth": obj{"list": []any{"org"}}}}},
			"skills", []any{obj{"id": "message", "name": "Plain", "description": "Nothing more.", "tags": []any{"message"}}})
		exactly(t, "the A2A card", a.body, "name description version supportedInterfaces capabilities securitySchemes securityRequirements defaultInputModes defaultOutputModes skills signatures")
		if a.header.Get("Cache-Control") != "public, max-age=300" || a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Content-Type") != "application/json" {
			a.errorf("headers %v", a.header)
		}
		for _, path := range []string{"/a2a/" + g.handle + "/.well-known/agent-card.json", "/a2a/" + url.PathEscape(strings.ToUpper(g.handle)) + "/agent.json", "/a2a/" + strings.Replace(g.handle, "@", "%40", 1) + "/agent.json", "/a2a/" + g.id + "/agent.json"} {
			if b := at(path).want(200); string(b.raw) != string(a.raw) {
				b.errorf("another card")
			}
		}
		at(g.path("/card")).want(200).is("svc.a2a_endpoint", endpoint)
		did := at("/agents/" + g.handle + "/did.json").want(200)
		if !strings.Contains(string(did.raw), `"type":"A2A","serviceEndpoint":"`+endpoint+`"`) {
			did.errorf("no service at %s", endpoint)
		}
		if h := s.call(t, "", "HEAD", bridgeCard(g), nil).want(200); len(h.raw) != 0 {
			h.errorf("HEAD has a body")
		}
		s.call(t, "", "OPTIONS", bridgeCard(g), nil, "Origin", "https://app.example", "Access-Control-Request-Method", "GET").want(204)
		s.call(t, "", "PUT", bridgeCard(g), obj{}).refused(405, "method_not_allowed")
		g.patch(g.path(""), obj{"unlisted": true}).want(200)
		there().as("unlisted").want(200)
		for _, path := range []string{"/a2a/nobody@" + g.org.slug + ".localhost/agent.json", "/a2a/x/agent.json", "/a2a/" + nobody + "/agent.json", "/a2a/@/agent.json", "/a2a/bridged@nobody-here.localhost/agent.json", "/a2a/" + g.handle + "/agent.xml"} {
			if a := at(path).refused(404, "not_found"); a.header.Get("Cache-Control") != "no-store" && !strings.HasSuffix(path, "xml") {
				a.errorf("headers %v", a.header)
			}
		}
		g.put(g.path("/card"), plainCard()).want(200)
		there().as("no longer A2A-enabled").refused(404, "not_found")
		g.put(g.path("/card"), bridgedCard()).want(200)
		g.delete(g.path("/card")).want(204)
		there().as("without a card again").refused(404, "not_found")
		g.put(g.path("/card"), bridgedCard()).want(200)
		g.delete(g.path("")).want(204)
		there().as("revoked").refused(404, "not_found")
	})
}
