package blackbox

import (
	"slices"
	"strings"
	"testing"
)

// TestJoining covers the part of the join request table in which an agent requests a
// seat, with and without an invitation.
func TestJoining(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g, x := s.Org(t).Agent("admin"), s.Org(t).Agent("applicant")
		for _, row := range []struct {
			policy  string
			voucher bool
			want    string
		}{
			{"open", false, "joined"},
			{"open", true, "joined"},
			{"closed", false, "403:invitation_required"},
			{"closed", true, "joined"},
			{"majority", false, "pending"},
			{"majority", true, "joined"}, // a voucher bypasses the policy
			{"unanimity", false, "pending"},
			{"unanimity", true, "joined"},
		} {
			body := obj{"enrollment_policy": row.policy, "visibility": "private"}
			if row.voucher {
				body["members"] = []string{x.ID}
			}
			r := g.group(body)
			a := r.join(x, obj{"message": "Let me in."}).As("%v", row)
			switch row.want {
			case "joined":
				a.Want(200).Is("status", "joined", "member.agent_id", x.ID, "member.role", "member", "member.is_own_org", true)
				Exactly(t, a.Asked, a.Body, "status member")
				r.checkMembers(row.policy, g, x)
				r.join(x).As("again").Refused(409, "already_member")
			case "pending":
				a.Want(200).Is("status", "pending", "request.status", "pending", "request.message", "Let me in.", "request.invited_by", nil, "request.group_handle", r.handle, "request.group_name", r.name)
				Exactly(t, a.Asked, a.Body, "status request")
				r.join(x, obj{"message": "Again."}).As("this is how an applicant follows it").Want(200).
					Is("status", "pending", "request.id", a.At("request.id"), "request.message", "Let me in.", "request.created_at", a.At("request.created_at"))
				r.checkMembers(row.policy, g)
				if n := len(r.requests(g, "all")); n != 1 {
					t.Errorf("%v: %d requests", row, n)
				}
			default:
				a.matches(row.want)
				r.checkMembers(row.policy, g)
			}
		}
	})
}

// TestInviting covers the part of the table in which a member invites an agent.
func TestInviting(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		g, member, outside := o.Agent("admin"), o.Agent("member"), o.Agent("outside")
		y := s.Org(t).Agent("invitee")
		for _, row := range []struct {
			policy string
			by     *Agent
			want   string
		}{
			{"closed", g, "invited"},
			{"closed", member, "403:not_admin"},
			{"closed", outside, "403:not_member"},
			{"open", g, "not_required"},
			{"open", outside, "403:not_member"},
			{"majority", g, "pending"},
			{"majority", member, "pending"},
			{"majority", outside, "403:not_member"},
			{"unanimity", g, "pending"},
			{"unanimity", member, "pending"},
		} {
			r := g.groupWithPolicy(row.policy, member)
			a := r.invite(row.by, y, obj{"message": "Come."}).As("%s by %s", row.policy, row.by.Name)
			if strings.HasPrefix(row.want, "403") {
				a.matches(row.want)
				continue
			}
			a.Want(200).Is("status", row.want)
			Exactly(t, a.Asked, a.Body, "request_id status")
			r.checkMembers("an invitation seats nobody", g, member)
			if row.want == "not_required" {
				a.Is("request_id", nil)
				if n := len(r.requests(g, "all")); n != 0 {
					t.Errorf("%d requests in an open group", n)
				}
				continue
			}
			id := a.Str("request_id")
			r.checkRequest(row.policy, g, id, "status", row.want, "agent_id", y.ID, "message", "Come.", "invited_by", row.by.ID, "group_id", r.id, "group_handle", r.handle, "group_name", r.name)
			if row.want == "pending" {
				r.checkRequest("the nominator's approval is already counted", row.by, id, "approvals", 1, "denials", 0, "electorate_size", 2, "your_vote", "approve")
			}
			r.invite(row.by, y).As("again").Refused(409, "already_invited")
			r.invite(g, member).As("a member").Refused(409, "already_member")
		}
	})
}

// TestNomination: a nominee needs both its own consent and the votes, in either order.
func TestNomination(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		g, b, c := o.Agent("a"), o.Agent("b"), o.Agent("c")
		y := s.Org(t).Agent("nominee")

		r := g.groupWithPolicy("majority", b, c)
		id := r.invited(b, y, "pending")
		r.join(y).As("the nominee's consent").Want(200).Is("status", "pending", "request.id", id, "request.approvals", 1)
		r.join(y).As("consent again").Want(200).Is("status", "pending", "request.id", id)
		r.checkMembers("consent seats nobody", g, b, c)
		if status := r.voted(g, id, "approve"); status != "approved" {
			t.Errorf("consent first, then two of three: %s", status)
		}
		r.checkMembers("consent first", g, b, c, y)

		r = g.groupWithPolicy("majority", b, c)
		id = r.invited(b, y, "pending")
		if status := r.voted(g, id, "approve"); status != "invited" {
			t.Errorf("votes first: %s, want invited", status)
		}
		r.checkMembers("votes alone seat nobody", g, b, c)
		r.checkRequest("votes first", g, id, "status", "invited", "you_may_vote", false, "you_may_vote_reason", "not_a_vote")
		r.joined(y)
		r.checkMembers("votes first, then consent", g, b, c, y)
		r.checkRequest("votes first, then consent", g, id, "status", "accepted")

		r = g.groupWithPolicy("unanimity")
		id = r.invited(g, y, "pending")
		r.checkRequest("a nomination always answers pending", g, id, "status", "pending", "approvals", 1, "approvals_needed", 1)
		r.joined(y) // enough approvals: the nominee's join seats it at once
		r.checkMembers("the only elector nominated", g, y)

		r = g.groupWithPolicy("unanimity", b)
		id = r.invited(g, y, "pending")
		if status := r.voted(b, id, "deny"); status != "denied" {
			t.Errorf("a denied nomination is %s", status)
		}
		again := r.applied(y)
		if again["id"] == id || again["invited_by"] != nil {
			t.Errorf("after a denied nomination the agent's own application is %v", again)
		}
	})
}

// TestJoinSchema: join requests that the schema rejects.
func TestJoinSchema(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		g, x := o.Agent("admin"), s.Org(t).Agent("applicant")
		r := g.groupWithPolicy("majority")
		r.join(x, obj{"message": strings.Repeat("m", 501)}).Invalid("body.message", "string_too_long")
		r.applied(x, obj{"message": strings.Repeat("m", 500)})
		x.Request("POST", "/groups/"+Nobody+"/join", nil).Refused(404, "not_found")
		x.Request("POST", "/groups/none/join", nil).Invalid("path", "uuid_parsing")
		s.Call(t, "", "POST", r.path("/join"), nil).Refused(401, "not_authenticated")

		open := g.group(obj{"enrollment_policy": "open"})
		x.Org.Post(open.path("/join"), nil).As("the only agent need not be named").Want(200).Is("status", "joined", "member.agent_id", x.ID)
		second := x.Org.Agent("second")
		several := x.Org.Post(open.path("/join"), nil).As("of several").Refused(400, "agent_required")
		if told, _ := several.At("candidates").([]any); len(told) != 2 || !slices.Contains(told, any(x.ID)) || !slices.Contains(told, any(second.ID)) {
			several.Errorf("candidates should be %s and %s", x.ID, second.ID)
		}
		s.Org(t).Post(open.path("/join"), nil).As("of none").Refused(400, "agent_required").Is("candidates", []any{})
		x.Org.Post(open.path("/join"), nil, "X-Svc-Agent", g.ID).As("another organization's agent").Refused(403, "not_owner")
		x.Org.Post(open.path("/join"), nil, "X-Svc-Agent", second.Handle).As("by handle").Want(200).Is("member.agent_id", second.ID)
	})
}

// TestInviteSchema: the accepted forms of an invitee.
func TestInviteSchema(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g, guests := s.Org(t).Agent("admin"), s.Org(t)
		r := g.group()
		for name, body := range map[string]func(y *Agent) obj{
			"id":           func(y *Agent) obj { return obj{"agent_id": y.ID} },
			"handle":       func(y *Agent) obj { return obj{"handle": y.Handle} },
			"agent_handle": func(y *Agent) obj { return obj{"agent_handle": strings.ToUpper(y.Handle)} },
		} {
			y := guests.Agent("y" + RandomHex(3))
			id := g.Request("POST", r.path("/invite"), body(y)).As("%s", name).Want(200).Is("status", "invited").Str("request_id")
			r.checkRequest(name, g, id, "agent_id", y.ID, "invited_by", g.ID)
		}
		y := guests.Agent("late")
		g.Request("POST", r.path("/invite"), obj{}).As("nobody").Want(422)
		g.Request("POST", r.path("/invite"), obj{"agent_id": "x"}).Invalid("body.agent_id", "uuid_parsing")
		r.invite(g, y, obj{"message": strings.Repeat("m", 501)}).Invalid("body.message", "string_too_long")
		g.Request("POST", r.path("/invite"), obj{"agent_id": Nobody}).Refused(404, "not_found")
		g.Request("POST", r.path("/invite"), obj{"handle": "nobody@" + guests.Slug + ".localhost"}).Refused(404, "not_found")
		r.invite(g, y, obj{"message": strings.Repeat("m", 500)}).Want(200)
	})
}

// TestBatchInvite: one request invites several agents and reports each agent it cannot
// invite, with the reason.
func TestBatchInvite(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o, guests := s.Org(t), s.Org(t)
		g, member, revoked := o.Agent("admin"), o.Agent("member"), o.Agent("revoked")
		o.Delete(revoked.Path("")).Want(204)
		one, two, three, before := guests.Agent("one"), guests.Agent("two"), guests.Agent("three"), guests.Agent("before")
		confined := guests.Agent("confined")
		confined.group(obj{"isolated": true})
		for policy, status := range map[string]string{"closed": "invited", "majority": "pending"} {
			r := g.groupWithPolicy(policy, member)
			r.invite(g, before).Want(200)
			a := g.Request("POST", r.path("/invite"), obj{"message": "All of you.", "agents": []any{
				one.ID, two.Handle,
				obj{"agent_id": three.ID, "message": "You."},
				obj{"handle": before.Handle},
				Nobody, revoked.ID, g.ID, member.ID, confined.ID, one.ID,
			}}).As("%s", policy).Want(200)
			Exactly(t, a.Asked, a.Body, "results invited pending skipped")
			want := []struct {
				who    any
				reason any
			}{
				{one.ID, nil},
				{two.ID, nil},
				{three.ID, nil},
				{before.ID, "already_invited"},
				{nil, "not_found"},
				{revoked.ID, "revoked"},
				{g.ID, "self"},
				{member.ID, "already_member"},
				{confined.ID, "isolation_conflict"},
				{one.ID, "already_invited"},
			}
			rows, _ := a.At("results").([]any)
			if len(rows) != len(want) {
				a.Fatalf("want %d results", len(want))
			}
			for i, row := range Objects(rows) {
				Shaped(t, "result", row, invitedShape)
				good := want[i].reason == nil
				if row["reason"] != want[i].reason || want[i].who != nil && row["agent_id"] != want[i].who || good && row["status"] != status || good != (Text(row, "request_id") != "") {
					t.Errorf("%s: result %d is %v, want %v", policy, i, row, want[i])
				}
			}
			a.Is("skipped", 7, status, 3)
			if other := map[string]string{"invited": "pending", "pending": "invited"}[status]; !Same(a.At(other), 0) {
				a.Errorf("%s should be 0", other)
			}
			r.checkRequest("the message of all", g, Text(Objects(rows)[0], "request_id"), "message", "All of you.", "status", status)
			r.checkRequest("its own message", g, Text(Objects(rows)[2], "request_id"), "message", "You.")
			r.checkMembers("a batch seats nobody", g, member)
		}
		r := g.group()
		for _, alias := range []string{"agents", "members", "invites", "agent_ids", "handles"} {
			y := guests.Agent("y" + RandomHex(3))
			g.Request("POST", r.path("/invite"), obj{alias: []string{y.Handle}}).As("%s", alias).Want(200).Is("invited", 1, "pending", 0, "skipped", 0)
		}
		many := slices.Repeat([]string{Nobody}, 101)
		g.Request("POST", r.path("/invite"), obj{"agents": many[:100]}).As("a hundred").Want(200).Is("skipped", 100)
		g.Request("POST", r.path("/invite"), obj{"agents": many}).As("101").Invalid("body.agents", "")
		open := g.group(obj{"enrollment_policy": "open"})
		all := g.Request("POST", open.path("/invite"), obj{"agents": []string{one.ID}}).As("open").Want(200).Is("invited", 0, "pending", 0)
		if row := Objects(all.At("results").([]any))[0]; row["status"] != "not_required" || row["request_id"] != nil {
			all.Errorf("want not_required")
		}
	})
}

// TestWhoInvites: which agent invites if the request names none.
func TestWhoInvites(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o, guests := s.Org(t), s.Org(t)
		outside, member, second := o.Agent("outside"), o.Agent("member"), o.Agent("second")
		founder := s.Org(t).Agent("founder")
		r := founder.groupWithPolicy("majority", second, member)
		y := guests.Agent("y")
		id := o.Post(r.path("/invite"), obj{"agent_id": y.ID}).As("the first member").Want(200).Is("status", "pending").Str("request_id")
		r.checkRequest("no admin", founder, id, "invited_by", second.ID)
		r.role(founder, member, "admin").Want(200)
		z := guests.Agent("z")
		id = o.Post(r.path("/invite"), obj{"agent_id": z.ID}).As("the admin").Want(200).Str("request_id")
		r.checkRequest("an admin", founder, id, "invited_by", member.ID)
		guests.Post(r.path("/invite"), obj{"agent_id": outside.ID}).As("a private group of others").Refused(404, "not_found")
		public := founder.group(obj{"visibility": "public"})
		guests.Post(public.path("/invite"), obj{"agent_id": outside.ID}).As("a public group of others").Refused(403, "not_member")
	})
}

// TestInvitationMessage: the message that an invitation puts into the invitee's inbox.
func TestInvitationMessage(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g := s.Org(t).Agent("admin")
		guests := s.Org(t)
		for _, row := range []struct{ policy, status string }{{"closed", "invited"}, {"majority", "pending"}, {"roster", "invited"}} {
			y := guests.Agent("y" + RandomHex(3))
			y.Patch(y.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
			var r *group
			message := any("Do come.")
			if row.policy == "roster" {
				r = g.group(obj{"members": []any{obj{"agent_id": y.ID, "message": message}}})
			} else {
				r = g.groupWithPolicy(row.policy)
				r.invite(g, y, obj{"message": message}).Want(200)
			}
			request := r.requests(g, "live")[0]
			rows := y.Everything()
			if len(rows) != 1 {
				t.Fatalf("%s: %d messages in the inbox, want 1", row.policy, len(rows))
			}
			m := rows[0]
			Shaped(t, "notice", m, MessageShape)
			notice, _ := At(m, "metadata.group_invite").(obj)
			Exactly(t, "metadata", m["metadata"].(obj), "group_invite provenance")
			Exactly(t, "group_invite", notice, "group_id group_handle group_name request_id invited_by status message expires_at")
			for what, pair := range map[string][2]any{
				"type": {m["type"], "svc.v1.group_invite"}, "from": {m["from_agent_id"], g.ID}, "sender": {m["sender_handle"], g.Handle}, "to": {m["to_agent_id"], y.ID},
				"no group": {m["group_id"], nil}, "no group's handle": {m["group_handle"], nil}, "via": {At(m, "metadata.provenance.via"), "system"}, "org": {At(m, "metadata.provenance.org_id"), g.Org.ID},
				"group": {notice["group_id"], r.id}, "handle": {notice["group_handle"], r.handle}, "name": {notice["group_name"], r.name}, "request": {notice["request_id"], request["id"]},
				"inviter": {notice["invited_by"], g.ID}, "status": {notice["status"], row.status}, "message": {notice["message"], message}, "expiry": {notice["expires_at"], request["expires_at"]},
				"payload": {payloadJSON(t, m), notice},
			} {
				if !Same(pair[0], pair[1]) {
					t.Errorf("%s: %s is %v, want %v", row.policy, what, pair[0], pair[1])
				}
			}
			y.Talk(m).Is("status", "submitted")
			reply := y.Reply(m)
			if reply["to_agent_id"] != g.ID {
				t.Errorf("%s: the answer to an invitation goes to %v", row.policy, reply["to_agent_id"])
			}
			g.Peek(m).Is("status", "read")
		}
		open := g.group(obj{"enrollment_policy": "open"})
		y := guests.Agent("unbidden")
		open.invite(g, y).Want(200)
		if n := len(y.Everything()); n != 0 {
			t.Errorf("an open group needs no invitation, yet %d messages arrived", n)
		}
	})
}

// TestInvitesList: an agent's invitations and their outcomes.
func TestInvitesList(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g, guests := s.Org(t).Agent("admin"), s.Org(t)
		y, z := guests.Agent("y"), guests.Agent("z")
		list := func(what string, by *Agent, want ...any) {
			t.Helper()
			a := guests.Get("/groups/invites")
			if by != nil {
				a = by.Request("GET", "/groups/invites", nil)
			}
			got := []any{}
			for _, row := range Objects(a.Want(200).List) {
				Shaped(t, "invite", row, requestShape)
				got = append(got, Text(row, "group_name")+" "+Text(row, "status"))
			}
			if a.List == nil || !SameSet(got, want) {
				a.Errorf("%s: want %v", what, want)
			}
		}
		list("none", nil)
		closed, voting, applied := g.group(obj{"name": "closed-" + RandomHex(3)}), g.group(obj{"name": "voting-" + RandomHex(3), "enrollment_policy": "majority"}), g.groupWithPolicy("majority")
		invitation, nomination := closed.invited(g, y, "invited"), voting.invited(g, y, "pending")
		closed.invited(g, z, "invited")
		applied.applied(y)
		list("of one agent: invitations and nominations, no application", y, closed.name+" invited", voting.name+" pending")
		list("of the other", z, closed.name+" invited")
		list("of all agents", nil, closed.name+" invited", voting.name+" pending", closed.name+" invited")
		for _, row := range Objects(y.Request("GET", "/groups/invites", nil).Want(200).List) {
			reason := map[any]string{invitation: "not_a_vote", nomination: "own_request"}[row["id"]]
			if row["agent_id"] != y.ID || row["invited_by"] != g.ID || row["you_may_vote"] != false || row["you_may_vote_reason"] != reason || Text(row, "group_handle")[0] != '#' {
				t.Errorf("an invite is %v", row)
			}
		}
		closed.joined(y)
		list("one accepted", y, voting.name+" pending")
		g.Request("DELETE", voting.path(""), nil).Want(204)
		list("the other group deleted", y)
		g.Request("DELETE", closed.path(""), nil).Want(204)
		list("all over", nil)
		s.Call(t, "", "GET", "/groups/invites", nil).Refused(401, "not_authenticated")
	})
}
