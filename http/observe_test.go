package http

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"parley/http/httpserver"
	"parley/http/messages"
)

// TestPosted: the observer gets the message that a send or a reply has stored, its
// broadcast if it belongs to one, and whether an earlier request stored it. It gets
// none for other answers.
func TestPosted(t *testing.T) {
	g := newGroupHarness(t)
	g.opsGroup()
	var mu sync.Mutex
	var told []string
	g.observe(func(a httpserver.Answer) {
		mu.Lock()
		defer mu.Unlock()
		if id, repeated, posted := messages.Posted(&a); posted {
			told = append(told, fmt.Sprint(id, " ", repeated))
		}
	})
	direct := `{"to_agent_id":"` + g.bob + `","type":"svc.v1.dm","encrypted_payload":"AA"}`
	var want []string
	expect := func(id string, repeated bool) { want = append(want, fmt.Sprint(id, " ", repeated)) }
	sent := g.first.ask("POST", "/messages", direct, as("ann"), "Idempotency-Key: k").want(201).text("id")
	expect(sent, false)
	g.first.ask("POST", "/messages", direct, as("ann"), "Idempotency-Key: k").want(200)
	expect(sent, true)
	expect(g.second.ask("POST", "/messages/"+sent+"/reply", `{"type":"svc.v1.dm","encrypted_payload":"QQ"}`).want(201).text("id"), false)
	expect(g.first.ask("POST", "/messages/sync?timeout_ms=1000", direct, as("ann")).want(200).text("message.id"), false)
	expect(g.first.ask("POST", "/messages", groupMessage, as("ann")).want(201).text("broadcast_id"), false)
	g.first.ask("POST", "/messages", `{"type":"svc.v1.dm","encrypted_payload":"AA"}`, as("ann")).want(422)
	g.second.ask("GET", "/messages/"+sent, "").want(200)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told, want) {
		t.Errorf("observed %q, want %q", told, want)
	}
}
