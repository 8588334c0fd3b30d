package http

import "testing"

// TestExtensionDocument: the URI of the extension of A2A cards answers, and describes every
// member that cards have.
func TestExtensionDocument(t *testing.T) {
	h := newBridgeHarness(t)
	card := h.public().ask("GET", "/a2a/"+h.art+"/agent.json", "").want(200)
	document := h.public().ask("GET", "/ext/svc/v1", "").want(200).is(object{"uri": card.at("capabilities.extensions.0.uri"), "required": false})
	stored := h.public().ask("GET", "/agents/"+h.art+"/card", "").want(200)
	members, described := stored.at("svc").(map[string]any), document.at("params").(map[string]any)
	for name := range members {
		if text, _ := described[name].(string); text == "" {
			t.Errorf("the member %s is not described", name)
		}
	}
	if len(members) != len(described) {
		t.Errorf("%d members are described of %d", len(described), len(members))
	}
	h.public().ask("GET", "/ext/other/v1", "").want(404)
}
