package http

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/org"
	"parley/http/rest"
)

// suspensionFaults suspends an organization and returns what it can still do.
func suspensionFaults(t *testing.T, take func(*rest.Route)) (faults []string) {
	t.Helper()
	h := harnessInMemory(t, 1)
	defer h.close()
	routes := *inside[[]rest.Route](h.server, "routes")
	for i := range routes {
		take(&routes[i])
	}
	p, other := h.tenant("first"), h.tenant("second")
	ann, bob := p.agent("ann"), other.agent("bob")
	said := `{"to_agent_id":"` + bob + `","type":"svc.v1.dm","encrypted_payload":"AA"}`
	p.ask("POST", "/messages", said).want(201)
	if _, err := h.node.Orgs.SetTerms(context.Background(), p.owner, org.Suspend{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/messages", said},
		{"POST", "/groups", `{"name":"ops"}`},
		{"POST", "/org/credentials", ``},
		{"PATCH", "/org", `{"name":"Another"}`},
		{"POST", "/agents/" + ann + "/poll-token", ``},
	} {
		if a := p.ask(c.method, c.path, c.body); a.status != 403 || a.at("code") != "suspended" {
			faults = append(faults, fmt.Sprintf("%s %s: %d", c.method, c.path, a.status))
		}
	}
	for _, path := range []string{"/org", "/agents", "/agents/" + ann + "/messages"} {
		p.ask("GET", path, "").want(200)
	}
	other.ask("POST", "/messages", `{"to_agent_id":"`+ann+`","type":"svc.v1.dm","encrypted_payload":"AA"}`).want(201)
	if _, err := h.node.Orgs.SetTerms(context.Background(), p.owner, org.Resume{}); err != nil {
		t.Fatal(err)
	}
	p.ask("POST", "/messages", said).want(201)
	return faults
}

func TestSuspendedOrganizationOnlyReads(t *testing.T) {
	for _, fault := range suspensionFaults(t, func(*rest.Route) {}) {
		t.Error(fault)
	}
}

// TestSuspendedOrganizationOnlyReadsControl: routes that ignore the suspension do what
// is requested.
func TestSuspendedOrganizationOnlyReadsControl(t *testing.T) {
	faults := suspensionFaults(t, func(r *rest.Route) { r.Exempt = true })
	want := []string{"POST /messages: 201", "POST /groups: 201", "POST /org/credentials: 201", "PATCH /org: 200"}
	if len(faults) != len(want)+1 || !slices.Equal(faults[:len(want)], want) {
		t.Errorf("found %q, want %q and a poll token", faults, want)
	}
}

// TestStreamsOfASuspendedOrganizationEnd: after the suspension no heartbeat is sent,
// even if nothing ends the stream, as on another node. In the control nothing is suspended.
func TestStreamsOfASuspendedOrganizationEnd(t *testing.T) {
	for _, name := range []string{"suspended", "control"} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, h *harness) {
				l := h.listen(h.agent("alice"), h.token(h.client), "")
				heartbeats(t, l, 1)
				if name == "control" {
					heartbeats(t, l, 2)
					h.service.EndStreams(h.owner)
				} else if _, err := h.node.Orgs.SetTerms(context.Background(), h.owner, org.Suspend{}); err != nil {
					t.Fatal(err)
				}
				over(t, l)
			})
		})
	}
}

// TestStreamsEndOnOtherNodes: what ends streams here is told to other nodes, and what they tell
// ends streams here, before a heartbeat is due.
func TestStreamsEndOnOtherNodes(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		var told []string
		h.service.endings.Report(func(key string, _ int) { told = append(told, key) })
		alice, bob := h.agent("alice"), h.agent("bob")
		heard, kept := h.listen(alice, h.token(h.client), ""), h.listen(bob, h.token(h.client), "")
		synctest.Wait() // an opening is sent before its stream is registered
		h.service.endings.Spend("no id", 1)
		h.service.endings.Spend(string(alice[:]), 1)
		began := time.Now()
		over(t, heard)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the stream ended after %v", waited)
		}
		heartbeats(t, kept, 1)
		if len(told) > 0 {
			t.Errorf("what was told is passed on: %q", told)
		}
		h.service.EndStreams(h.owner)
		over(t, kept)
		if !slices.Equal(told, []string{string(h.owner[:])}) {
			t.Errorf("told %q", told)
		}
	})
}
