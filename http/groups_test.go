package http

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/actors/group"
	"parley/client/parley"
)

// groupHarness has two organizations, the first with the agents ann and art, the second
// with bob, and a third without a seat.
type groupHarness struct {
	*harness
	first, second, nobody *tenant
	ann, art, bob         string
}

func newGroupHarness(t *testing.T, change ...func(*harnessOptions)) *groupHarness {
	h := harnessInMemory(t, 4, change...)
	t.Cleanup(h.close)
	g := &groupHarness{harness: h, first: h.tenant("first"), second: h.tenant("second")}
	g.nobody = h.tenant("third")
	g.ann, g.art, g.bob = g.first.agent("ann"), g.first.agent("art"), g.second.agent("bob")
	return g
}

// public is a caller without a token.
func (g *groupHarness) public() *tenant {
	p := *g.nobody
	p.token = ""
	return &p
}

// group makes a group of ann's, with additional members of the body. Groups are listed
// in the order of their ids, which is the order of their making if that is not within
// one millisecond.
func (g *groupHarness) group(name, more string) string {
	g.t.Helper()
	time.Sleep(time.Millisecond)
	return g.first.ask("POST", "/groups", `{"name":"`+name+`"`+more+`}`).want(201).text("id")
}

// seat invites an agent as ann; the agent joins.
func (g *groupHarness) seat(id string, p *tenant, agent string) {
	g.t.Helper()
	g.first.ask("POST", "/groups/"+id+"/invite", `{"agent_id":"`+agent+`"}`, as("ann")).want(200)
	p.ask("POST", "/groups/"+id+"/join", ``, as(agent)).want(200).is(map[string]any{"status": "joined"})
}

func TestGroupIsCreated(t *testing.T) {
	g := newGroupHarness(t)
	made := g.first.ask("POST", "/groups", `{"name":"ops"}`).want(201)
	id := made.text("id")
	made.is(map[string]any{
		"name": "ops", "handle": "#ops@first.home.example", "description": nil, "enrollment_policy": "closed", "visibility": "private",
		"isolated": false, "vote_duration_hours": 72, "member_count": 1, "member_agent_ids": []string{g.ann}, "conversation_id": nil,
		"mls_enabled": false, "mls_pending": false, "mls_group_id": nil, "mls_cipher_suite": nil, "invitations": []any{},
	})
	g.first.ask("GET", "/groups/"+id, "").want(200).is(map[string]any{"id": id, "handle": "#ops@first.home.example"})
	g.first.ask("POST", "/groups", `{"name":"ops"}`).want(409, "name_taken")
	g.first.ask("POST", "/groups", `{"name":"Ops"}`).want(422)
	g.first.ask("POST", "/groups", `{"name":"x","vote_duration_hours":73}`).want(422)
	g.first.ask("POST", "/groups", `{"name":"x"}`, as("nobody")).want(403, "not_owner")
	g.nobody.ask("POST", "/groups", `{"name":"x"}`).want(400, "agent_required").is(map[string]any{"candidates": []any{}})
	open := g.first.ask("POST", "/groups", `{"name":"open","enrollment_policy":"open","description":"All are welcome"}`, as("art")).want(201)
	open.is(map[string]any{"visibility": "public", "description": "All are welcome", "member_agent_ids": []string{g.art}})
	g.first.ask("GET", "/org/quotas", "").want(200).is(map[string]any{"quotas.groups.used": 2})
	g.first.ask("GET", "/groups/"+id+"/members", "").want(200).is(map[string]any{
		"items.0.agent_id": g.ann, "items.0.agent_handle": g.first.handle("ann"), "items.0.group_id": id, "items.0.is_own_org": true, "items.0.role": "admin",
	})
}

func TestGroupIsCreatedOnce(t *testing.T) {
	g := newGroupHarness(t)
	body := `{"name":"ops","members":["` + g.bob + `","` + g.first.handle("art") + `","` + g.bob + `","ghost@first.home.example"]}`
	made := g.first.ask("POST", "/groups", body, "Idempotency-Key: k").want(201)
	made.is(map[string]any{
		"member_count": 1, "invitations.0.status": "invited", "invitations.0.handle": g.second.handle("bob"), "invitations.1.agent_id": g.art,
		"invitations.2.reason": "already_invited", "invitations.3.reason": "not_found", "invitations.3.status": "skipped", "invitations.3.request_id": nil,
	})
	g.second.ask("POST", "/groups/"+made.text("id")+"/join", "").want(200).is(map[string]any{"status": "joined"})
	again := g.first.ask("POST", "/groups", body, "Idempotency-Key: k").want(200)
	again.is(map[string]any{"id": made.text("id"), "invitations": made.at("invitations"), "member_count": 2})
	if again.head.Get("Idempotency-Replayed") != "true" {
		t.Error("the repeat is not marked as one")
	}
	g.second.ask("GET", "/agents/"+g.bob+"/messages", "").want(200).is(map[string]any{
		"has_more": false, "items.0.type": "svc.v1.group_invite", "items.0.group_id": nil, "items.0.from_agent_id": g.ann,
		"items.0.metadata.provenance.via": "system", "items.0.metadata.group_invite.group_handle": "#ops@first.home.example",
		"items.0.metadata.group_invite.request_id": made.text("invitations.0.request_id"), "items.0.metadata.group_invite.invited_by": g.ann,
	})
	g.first.ask("POST", "/groups", `{"name":"other"}`, "Idempotency-Key: k").want(409, "idempotency_mismatch")
}

// TestGroupVisibility: requests everything about a private and a public group, as its
// owner, as an organization with a seat, as a stranger and without a token.
func TestGroupVisibility(t *testing.T) {
	g := newGroupHarness(t)
	closed, open := g.group("closed", ""), g.group("open", `,"visibility":"public"`)
	for _, id := range []string{closed, open} {
		g.seat(id, g.second, g.bob)
	}
	g.nobody.agent("nick")
	for _, c := range []struct {
		method, path, body string
		private, public    int
	}{
		{"GET", "", "", 404, 403},
		{"GET", "/members", "", 404, 403},
		{"GET", "/requests", "", 404, 403},
		{"PATCH", "", `{"description":"x"}`, 404, 403},
		{"DELETE", "", "", 404, 403},
		{"POST", "/invite", `{"agent_id":"` + g.art + `"}`, 404, 403},
		{"DELETE", "/members/" + g.ann, "", 404, 403},
		{"PATCH", "/members/" + g.ann, `{"role":"member"}`, 404, 403},
		{"POST", "/join", "", 403, 403},
		{"POST", "/requests/" + closed + "/vote", `{"vote":"deny"}`, 403, 403},
	} {
		g.nobody.ask(c.method, "/groups/"+closed+c.path, c.body).want(c.private)
		g.nobody.ask(c.method, "/groups/"+open+c.path, c.body).want(c.public)
		if c.method == "GET" {
			g.second.ask(c.method, "/groups/"+closed+c.path, "").want(200)
			g.first.ask(c.method, "/groups/"+closed+c.path, "").want(200)
		}
		unknown := g.nobody.ask(c.method, "/groups/"+g.bob+c.path, c.body).want(404)
		if c.private == 404 {
			private := g.nobody.ask(c.method, "/groups/"+closed+c.path, c.body)
			if private.text("detail") != unknown.text("detail") {
				t.Errorf("%s %s: a private group (%s) can be told from a missing one (%s)", c.method, c.path, private.raw, unknown.raw)
			}
		}
	}
	send := func(p *tenant, name string) *response {
		return p.ask("POST", "/messages", `{"to_handle":"#`+name+`@first.home.example","type":"svc.v1.dm","encrypted_payload":"AA"}`)
	}
	send(g.nobody, "closed").want(404)
	send(g.nobody, "none").want(404)
	send(g.nobody, "open").want(403, "not_member")
	g.public().ask("GET", "/directory/groups/"+closed, "").want(404)
	g.public().ask("GET", "/directory/groups/"+open, "").want(200).is(map[string]any{"handle": "#open@first.home.example", "member_count": 2})
	for _, id := range []string{closed, open} {
		g.first.ask("DELETE", "/groups/"+id, "").want(204)
		g.first.ask("GET", "/groups/"+id, "").want(410)
		g.second.ask("GET", "/groups/"+id, "").want(410)
		g.second.ask("POST", "/groups/"+id+"/join", "").want(410)
		g.first.ask("DELETE", "/groups/"+id, "").want(204)
		g.nobody.ask("GET", "/groups/"+id, "").want(404)
		g.nobody.ask("POST", "/groups/"+id+"/join", "").want(404)
		g.public().ask("GET", "/directory/groups/"+id, "").want(404)
	}
	send(g.nobody, "open").want(404)
	send(g.second, "open").want(410)
	if g.first.ask("GET", "/groups?scope=all", "").want(200).len("items") != 0 {
		t.Error("deleted groups are listed")
	}
}

// TestDeletedGroupSaysSo: who had a seat in a group that was deleted is told that, not that
// its owner was erased.
func TestDeletedGroupSaysSo(t *testing.T) {
	g := newGroupHarness(t)
	id := g.group("deleted", "")
	g.seat(id, g.second, g.bob)
	g.first.ask("DELETE", "/groups/"+id, "").want(204)
	for _, p := range []*tenant{g.first, g.second} {
		for _, path := range []string{"", "/members"} {
			p.ask("GET", "/groups/"+id+path, "").want(410, "gone").is(map[string]any{"detail": group.ErrDeleted.Text})
		}
	}
}

func TestGroupPages(t *testing.T) {
	g := newGroupHarness(t)
	var own []string
	for _, name := range []string{"a", "b", "c"} {
		own = append(own, g.group(name, ""))
	}
	g.first.ask("DELETE", "/groups/"+own[1], "").want(204)
	foreign := g.second.ask("POST", "/groups", `{"name":"theirs","members":["`+g.ann+`","`+g.art+`"]}`).want(201).text("id")
	for _, a := range []string{"ann", "art"} {
		g.first.ask("POST", "/groups/"+foreign+"/join", "", as(a)).want(200)
	}
	collect := func(path string) (ids []string) {
		for at := path; at != ""; {
			page := g.first.ask("GET", at, "").want(200)
			for i := range page.len("items") {
				item := page.at("items").([]any)[i].(map[string]any)
				if id, ok := item["id"].(string); ok {
					ids = append(ids, id)
				}
			}
			if at = ""; page.at("has_more") == true {
				at = path + "&cursor=" + page.text("next_cursor")
			}
		}
		return ids
	}
	for scope, want := range map[string][]string{"owned": {own[0], own[2]}, "seated": {own[0], own[2], foreign}, "all": {own[0], own[2], foreign}} {
		for _, limit := range []string{"1", "2", "20"} {
			got := collect("/groups?scope=" + scope + "&limit=" + limit)
			if strings.Join(got, " ") != strings.Join(want, " ") && scope != "seated" || len(got) != len(want) {
				t.Errorf("scope %s by %s: %v, want %v", scope, limit, got, want)
			}
		}
	}
	if members := collect("/groups/" + foreign + "/members?limit=2"); len(members) != 3 {
		t.Errorf("three members are listed as %v", members)
	}
	cursor := g.first.ask("GET", "/groups?limit=1", "").want(200).text("next_cursor")
	g.first.ask("GET", "/groups?scope=all&cursor="+cursor, "").want(400, "invalid_cursor")
	g.second.ask("GET", "/groups?cursor="+cursor, "").want(400, "invalid_cursor")
	g.first.ask("GET", "/groups?limit=101", "").want(422)
}

// TestGroupPageIsBoundedInBytes: control characters in a description take six bytes
// each, but count as one character.
func TestGroupPageIsBoundedInBytes(t *testing.T) {
	g := newGroupHarness(t)
	for i := range 100 {
		g.group(fmt.Sprintf("g%d", i), `,"description":"`+strings.Repeat(`\u0001`, 2000)+`"`)
	}
	seen, pages := map[any]bool{}, 0
	for cursor := ""; pages < 10; pages++ {
		a := g.first.ask("GET", "/groups?limit=100"+cursor, "").want(200)
		for _, item := range a.at("items").([]any) {
			seen[item.(map[string]any)["id"]] = true
		}
		if len(a.raw) > parley.PageBytesMax {
			t.Errorf("a page of %d bytes", len(a.raw))
		}
		if a.at("has_more") == false {
			break
		}
		cursor = "&cursor=" + a.text("next_cursor")
	}
	if len(seen) != 100 || pages != 1 {
		t.Errorf("%d groups on %d pages", len(seen), pages+1)
	}
}
