package directory

import (
	"net/url"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestA2ACard: an active agent has an A2A card while its card has a2a_enabled, public or
// not, listed or not. The card, the DID document and the A2A card name the same endpoint.
func TestA2ACard(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("bridged")
		at := func(path string) *kit.Answer { return s.Call(t, "", "GET", path, nil).As("%s", path) }
		there := func() *kit.Answer { return at(kit.BridgeCard(g)) }
		there().As("without a card").Refused(404, "not_found")
		g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		there().As("not A2A-enabled").Refused(404, "not_found")
		g.Put(g.Path("/card"), kit.BridgedCard()).Want(200)
		endpoint := s.Base + "/a2a/" + g.Handle
		a := there().Want(200).Is(
			"name", "Plain", "description", "Nothing more.", "version", "1.0.0", "supportedInterfaces", []any{obj{"url": endpoint, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
			"securityRequirements", []any{
				obj{"schemes": obj{"oauth": obj{"list": []any{"org"}}}}, obj{"schemes": obj{"oauth": obj{"list": []any{"agents"}}}},
			},
			"skills", []any{obj{"id": "message", "name": "Plain", "description": "Nothing more.", "tags": []any{"message"}}})
		kit.Exactly(t, "the A2A card", a.Body, "name description version supportedInterfaces capabilities securitySchemes securityRequirements defaultInputModes defaultOutputModes skills signatures")
		if a.Header.Get("Cache-Control") != "public, max-age=300" || a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Content-Type") != "application/json" {
			a.Errorf("headers %v", a.Header)
		}
		for _, path := range []string{"/a2a/" + g.Handle + "/.well-known/agent-card.json", "/a2a/" + url.PathEscape(strings.ToUpper(g.Handle)) + "/agent.json", "/a2a/" + strings.Replace(g.Handle, "@", "%40", 1) + "/agent.json", "/a2a/" + g.ID + "/agent.json"} {
			if b := at(path).Want(200); string(b.Raw) != string(a.Raw) {
				b.Errorf("another card")
			}
		}
		at(g.Path("/card")).Want(200).Is("svc.a2a_endpoint", endpoint)
		did := at("/agents/" + g.Handle + "/did.json").Want(200)
		if !strings.Contains(string(did.Raw), `"type":"A2A","serviceEndpoint":"`+endpoint+`"`) {
			did.Errorf("no service at %s", endpoint)
		}
		if h := s.Call(t, "", "HEAD", kit.BridgeCard(g), nil).Want(200); len(h.Raw) != 0 {
			h.Errorf("HEAD has a body")
		}
		s.Call(t, "", "OPTIONS", kit.BridgeCard(g), nil, "Origin", "https://app.example", "Access-Control-Request-Method", "GET").Want(204)
		s.Call(t, "", "PUT", kit.BridgeCard(g), obj{}).Refused(405, "method_not_allowed")
		g.Patch(g.Path(""), obj{"unlisted": true}).Want(200)
		there().As("unlisted").Want(200)
		for _, path := range []string{"/a2a/nobody@" + g.Org.Slug + ".localhost/agent.json", "/a2a/x/agent.json", "/a2a/" + kit.Nobody + "/agent.json", "/a2a/@/agent.json", "/a2a/bridged@nobody-here.localhost/agent.json", "/a2a/" + g.Handle + "/agent.xml"} {
			if a := at(path).Refused(404, "not_found"); a.Header.Get("Cache-Control") != "no-store" && !strings.HasSuffix(path, "xml") {
				a.Errorf("headers %v", a.Header)
			}
		}
		g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		there().As("no longer A2A-enabled").Refused(404, "not_found")
		g.Put(g.Path("/card"), kit.BridgedCard()).Want(200)
		g.Delete(g.Path("/card")).Want(204)
		there().As("without a card again").Refused(404, "not_found")
		g.Put(g.Path("/card"), kit.BridgedCard()).Want(200)
		g.Delete(g.Path("")).Want(204)
		there().As("revoked").Refused(404, "not_found")
	})
}
