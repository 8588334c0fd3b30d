package http

import (
	"fmt"
	"testing"
)

func TestInvitations(t *testing.T) {
	g := newGroupHarness(t)
	id := g.group("ops", "")
	path := "/groups/" + id
	g.first.ask("POST", path+"/invite", `{"agent_handle":"`+g.second.handle("bob")+`","message":"Do come"}`).want(200).is(map[string]any{"status": "invited"})
	g.first.ask("POST", path+"/invite", `{"handle":"`+g.second.handle("bob")+`"}`).want(409, "already_invited")
	g.first.ask("POST", path+"/invite", `{"handle":"`+g.second.handle("ghost")+`"}`).want(404)
	g.first.ask("POST", path+"/invite", `{"handle":"ghost"}`).want(422)
	g.first.ask("POST", path+"/invite", `{}`).want(422)
	g.first.ask("POST", path+"/invite", `{"agents":[],"agent_id":"`+g.bob+`"}`).want(422)
	g.first.ask("POST", path+"/invite", `{"agents":[5]}`).want(422).is(map[string]any{"detail.0.loc": []any{"body", "agents", 0}})
	g.first.ask("POST", path+"/invite", `{"agent_id":"`+g.ann+`"}`).want(409, "already_member")
	g.first.ask("POST", path+"/invite", `{"agent_id":"`+g.art+`"}`, as("art")).want(403, "not_member")
	shown := map[string]any{
		"group_id": id, "group_name": "ops", "group_handle": "#ops@first.home.example", "agent_id": g.bob, "status": "invited", "message": "Do come",
		"invited_by": g.ann, "you_may_vote": false, "you_may_vote_reason": "not_a_vote", "electorate_size": nil, "approvals_needed": nil, "resolved_at": nil,
	}
	mine := g.second.ask("GET", "/groups/invites", "").want(200)
	(&response{t: t, what: "invites", raw: mine.raw, body: mine.at("0")}).is(shown)
	theirs := g.first.ask("GET", path+"/requests?status=invited", "").want(200)
	(&response{t: t, what: "requests", raw: theirs.raw, body: theirs.at("items.0")}).is(shown)
	if g.first.ask("GET", path+"/requests", "").len("items") != 0 || g.first.ask("GET", "/groups/invites", "").len("") != 0 {
		t.Error("an invitation is listed as a vote, or to agents that were not invited")
	}
	g.second.ask("POST", path+"/requests/"+mine.text("0.id")+"/vote", `{"vote":"approve"}`).want(403, "not_in_electorate")
	g.first.ask("POST", path+"/requests/"+mine.text("0.id")+"/vote", `{"vote":"approve"}`).want(409, "request_closed")
	joined := g.second.ask("POST", path+"/join", "").want(200)
	joined.is(map[string]any{"status": "joined", "member.agent_id": g.bob, "member.role": "member", "member.agent_handle": g.second.handle("bob")})
	g.second.ask("POST", path+"/join", "").want(409, "already_member")
	all := g.first.ask("GET", path+"/requests?status=all", "").want(200).is(map[string]any{"items.0.status": "accepted", "items.0.you_may_vote_reason": "request_closed"})
	if all.len("items") != 1 || all.at("items.0.resolved_at") == nil {
		t.Errorf("settled: %s", all.raw)
	}
}

func TestInvitationsOfMany(t *testing.T) {
	g := newGroupHarness(t)
	id := g.group("ops", `,"isolated":true`)
	gone, busy := g.second.agent("gone"), g.second.agent("busy")
	g.second.ask("DELETE", "/agents/"+gone, "").want(204)
	g.second.ask("POST", "/groups", `{"name":"elsewhere"}`, as("busy")).want(201)
	names := []string{
		`{"agent_id":"` + g.bob + `","message":"Hello"}`, `"` + g.ann + `"`, `"` + gone + `"`, `"` + busy + `"`, `"nobody@second.home.example"`, `"` + g.bob + `"`,
		`"bob"`, `{"handle":"` + g.first.handle("art") + `"}`,
	}
	body := names[0]
	for _, name := range names[1:] {
		body += "," + name
	}
	a := g.first.ask("POST", "/groups/"+id+"/invite", `{"handles":[`+body+`],"message":"All"}`, as("ann")).want(200)
	a.is(map[string]any{"invited": 2, "pending": 0, "skipped": 6})
	for i, reason := range []any{nil, "self", "revoked", "isolation_conflict", "not_found", "already_invited", "not_found", nil} {
		a.is(map[string]any{fmt.Sprintf("results.%d.reason", i): reason})
	}
	// An isolated group sends no text to agents outside it: the invitations have none.
	g.second.ask("GET", "/groups/invites", "", as("bob")).want(200).is(map[string]any{"0.message": nil})
	g.first.ask("GET", "/groups/invites", "", as("art")).want(200).is(map[string]any{"0.message": nil})
	g.first.ask("POST", "/groups/"+id+"/invite", `{"agent_id":"`+busy+`"}`).want(409, "isolation_conflict")
	g.first.ask("POST", "/groups/"+id+"/invite", `{"agent_id":"`+gone+`"}`).want(410)
	open := g.first.ask("POST", "/groups", `{"name":"open","enrollment_policy":"open"}`, as("art")).want(201).text("id")
	g.first.ask("POST", "/groups/"+open+"/invite", `{"agent_id":"`+g.bob+`"}`).want(200).is(map[string]any{"status": "not_required", "request_id": nil})
	g.first.ask("POST", "/groups/"+id+"/join", "", as("art")).want(409, "isolation_conflict")
	g.second.ask("POST", "/groups/"+id+"/join", "", as("bob")).want(200)
	g.second.ask("POST", "/groups/"+open+"/join", "", as("bob")).want(409, "isolation_conflict")
	g.second.ask("POST", "/groups", `{"name":"another"}`, as("bob")).want(409, "isolation_conflict")
}

func TestVotes(t *testing.T) {
	g := newGroupHarness(t)
	id := g.group("ops", "")
	path := "/groups/" + id
	g.seat(id, g.first, g.art)
	g.seat(id, g.second, g.bob)
	g.first.ask("PATCH", path, `{"enrollment_policy":"majority"}`).want(200)
	nick := g.nobody.agent("nick")
	filed := g.nobody.ask("POST", path+"/join", `{"message":"Please"}`).want(200)
	filed.is(map[string]any{
		"status": "pending", "request.status": "pending", "request.message": "Please", "request.invited_by": nil, "request.agent_id": nick,
		"request.you_may_vote": false, "request.you_may_vote_reason": "own_request", "request.electorate_size": 3, "request.quorum_total_members": 3,
		"request.approvals": 0, "request.denials": 0, "request.approvals_needed": 2, "request.denials_needed": 2, "request.your_vote": nil,
		"request.group_handle": "#ops@first.home.example",
	})
	request := filed.text("request.id")
	g.nobody.ask("POST", path+"/join", "").want(200).is(map[string]any{"status": "pending", "request.id": request})
	vote := path + "/requests/" + request + "/vote"
	g.first.ask("POST", vote, `{"vote":"maybe"}`).want(422)
	g.first.ask("POST", vote, `{"vote":"approve"}`).want(400, "agent_required").is(map[string]any{"candidates": []string{g.ann, g.art}})
	g.nobody.ask("POST", vote, `{"vote":"approve"}`).want(403, "not_in_electorate")
	g.first.ask("POST", path+"/requests/"+id+"/vote", `{"vote":"approve"}`, as("ann")).want(404)
	g.first.ask("GET", path+"/requests", "").want(200).is(map[string]any{"items.0.you_may_vote": false, "items.0.you_may_vote_reason": "no_acting_agent"})
	g.second.ask("POST", vote, `{"choice":"deny"}`).want(200).is(map[string]any{"request_id": request, "status": "pending", "your_vote": "deny", "mls_seated": false})
	g.second.ask("GET", path+"/requests", "").want(200).is(map[string]any{
		"items.0.you_may_vote": true, "items.0.you_may_vote_reason": "ok", "items.0.your_vote": "deny", "items.0.denials": 1,
	})
	g.second.ask("POST", vote, `{"decision":"approve"}`).want(200).is(map[string]any{"status": "pending", "your_vote": "approve"})
	g.first.ask("POST", vote, `{"vote":"approve"}`, as("art")).want(200).is(map[string]any{"status": "approved", "your_vote": "approve"})
	g.first.ask("POST", vote, `{"vote":"approve"}`, as("ann")).want(409, "request_closed")
	g.nobody.ask("GET", path, "").want(200).is(map[string]any{"member_count": 4})
	g.first.ask("GET", path+"/requests?status=all&limit=2", "").want(200).is(map[string]any{"has_more": true})
}
