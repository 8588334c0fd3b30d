package blackbox

import (
	"slices"
	"strings"
	"testing"
)

// TestJoining covers the part of the join request table in which an agent requests a
// seat, with and without an invitation.
func TestJoining(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, x := s.org(t).agent("admin"), s.org(t).agent("applicant")
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
				body["members"] = []string{x.id}
			}
			r := g.group(body)
			a := r.join(x, obj{"message": "Let me in."}).as("%v", row)
			switch row.want {
			case "joined":
				a.want(200).is("status", "joined", "member.agent_id", x.id, "member.role", "member", "member.is_own_org", true)
				exactly(t, a.asked, a.body, "status member")
				r.checkMembers(row.policy, g, x)
				r.join(x).as("again").refused(409, "already_member")
			case "pending":
				a.want(200).is("status", "pending", "request.status", "pending", "request.message", "Let me in.", "request.invited_by", nil, "request.group_handle", r.handle, "request.group_name", r.name)
				exactly(t, a.asked, a.body, "status request")
				r.join(x, obj{"message": "Again."}).as("this is how an applicant follows it").want(200).
					is("status", "pending", "request.id", a.at("request.id"), "request.message", "Let me in.", "request.created_at", a.at("request.created_at"))
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
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, member, outside := o.agent("admin"), o.agent("member"), o.agent("outside")
		y := s.org(t).agent("invitee")
		for _, row := range []struct {
			policy string
			by     *agent
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
			a := r.invite(row.by, y, obj{"message": "Come."}).as("%s by %s", row.policy, row.by.name)
			if strings.HasPrefix(row.want, "403") {
				a.matches(row.want)
				continue
			}
			a.want(200).is("status", row.want)
			exactly(t, a.asked, a.body, "request_id status")
			r.checkMembers("an invitation seats nobody", g, member)
			if row.want == "not_required" {
				a.is("request_id", nil)
				if n := len(r.requests(g, "all")); n != 0 {
					t.Errorf("%d requests in an open group", n)
				}
				continue
			}
			id := a.str("request_id")
			r.checkRequest(row.policy, g, id, "status", row.want, "agent_id", y.id, "message", "Come.", "invited_by", row.by.id, "group_id", r.id, "group_handle", r.handle, "group_name", r.name)
			if row.want == "pending" {
				r.checkRequest("the nominator's approval is already counted", row.by, id, "approvals", 1, "denials", 0, "electorate_size", 2, "your_vote", "approve")
			}
			r.invite(row.by, y).as("again").refused(409, "already_invited")
			r.invite(g, member).as("a member").refused(409, "already_member")
		}
	})
}

// TestNomination: a nominee needs both its own consent and the votes, in either order.
func TestNomination(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, b, c := o.agent("a"), o.agent("b"), o.agent("c")
		y := s.org(t).agent("nominee")

		r := g.groupWithPolicy("majority", b, c)
		id := r.invited(b, y, "pending")
		r.join(y).as("the nominee's consent").want(200).is("status", "pending", "request.id", id, "request.approvals", 1)
		r.join(y).as("consent again").want(200).is("status", "pending", "request.id", id)
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
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, x := o.agent("admin"), s.org(t).agent("applicant")
		r := g.groupWithPolicy("majority")
		r.join(x, obj{"message": strings.Repeat("m", 501)}).invalid("body.message", "string_too_long")
		r.applied(x, obj{"message": strings.Repeat("m", 500)})
		x.request("POST", "/groups/"+nobody+"/join", nil).refused(404, "not_found")
		x.request("POST", "/groups/none/join", nil).invalid("path", "uuid_parsing")
		s.call(t, "", "POST", r.path("/join"), nil).refused(401, "not_authenticated")

		open := g.group(obj{"enrollment_policy": "open"})
		x.org.post(open.path("/join"), nil).as("the only agent need not be named").want(200).is("status", "joined", "member.agent_id", x.id)
		second := x.org.agent("second")
		several := x.org.post(open.path("/join"), nil).as("of several").refused(400, "agent_required")
		if told, _ := several.at("candidates").([]any); len(told) != 2 || !slices.Contains(told, any(x.id)) || !slices.Contains(told, any(second.id)) {
			several.errorf("candidates should be %s and %s", x.id, second.id)
		}
		s.org(t).post(open.path("/join"), nil).as("of none").refused(400, "agent_required").is("candidates", []any{})
		x.org.post(open.path("/join"), nil, "X-Svc-Agent", g.id).as("another organization's agent").refused(403, "not_owner")
		x.org.post(open.path("/join"), nil, "X-Svc-Agent", second.handle).as("by handle").want(200).is("member.agent_id", second.id)
	})
}

// TestInviteSchema: the accepted forms of an invitee.
func TestInviteSchema(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, guests := s.org(t).agent("admin"), s.org(t)
		r := g.group()
		for name, body := range map[string]func(y *agent) obj{
			"id":           func(y *agent) obj { return obj{"agent_id": y.id} },
			"handle":       func(y *agent) obj { return obj{"handle": y.handle} },
			"agent_handle": func(y *agent) obj { return obj{"agent_handle": strings.ToUpper(y.handle)} },
		} {
			y := guests.agent("y" + randomHex(3))
			id := g.request("POST", r.path("/invite"), body(y)).as("%s", name).want(200).is("status", "invited").str("request_id")
			r.checkRequest(name, g, id, "agent_id", y.id, "invited_by", g.id)
		}
		y := guests.agent("late")
		g.request("POST", r.path("/invite"), obj{}).as("nobody").want(422)
		g.request("POST", r.path("/invite"), obj{"agent_id": "x"}).invalid("body.agent_id", "uuid_parsing")
		r.invite(g, y, obj{"message": strings.Repeat("m", 501)}).invalid("body.message", "string_too_long")
		g.request("POST", r.path("/invite"), obj{"agent_id": nobody}).refused(404, "not_found")
		g.request("POST", r.path("/invite"), obj{"handle": "nobody@" + guests.slug + ".localhost"}).refused(404, "not_found")
		r.invite(g, y, obj{"message": strings.Repeat("m", 500)}).want(200)
	})
}

// TestBatchInvite: one request invites several agents and reports each agent it cannot
// invite, with the reason.
func TestBatchInvite(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, guests := s.org(t), s.org(t)
		g, member, revoked := o.agent("admin"), o.agent("member"), o.agent("revoked")
		o.delete(revoked.path("")).want(204)
		one, two, three, before := guests.agent("one"), guests.agent("two"), guests.agent("three"), guests.agent("before")
		confined := guests.agent("confined")
		confined.group(obj{"isolated": true})
		for policy, status := range map[string]string{"closed": "invited", "majority": "pending"} {
			r := g.groupWithPolicy(policy, member)
			r.invite(g, before).want(200)
			a := g.request("POST", r.path("/invite"), obj{"message": "All of you.", "agents": []any{
				one.id, two.handle,
				obj{"agent_id": three.id, "message": "You."},
				obj{"handle": before.handle},
				nobody, revoked.id, g.id, member.id, confined.id, one.id,
			}}).as("%s", policy).want(200)
			exactly(t, a.asked, a.body, "results invited pending skipped")
			want := []struct {
				who    any
				reason any
			}{
				{one.id, nil},
				{two.id, nil},
				{three.id, nil},
				{before.id, "already_invited"},
				{nil, "not_found"},
				{revoked.id, "revoked"},
				{g.id, "self"},
				{member.id, "already_member"},
				{confined.id, "isolation_conflict"},
				{one.id, "already_invited"},
			}
			rows, _ := a.at("results").([]any)
			if len(rows) != len(want) {
				a.fatalf("want %d results", len(want))
			}
			for i, row := range objects(rows) {
				shaped(t, "result", row, invitedShape)
				good := want[i].reason == nil
				if row["reason"] != want[i].reason || want[i].who != nil && row["agent_id"] != want[i].who || good && row["status"] != status || good != (text(row, "request_id") != "") {
					t.Errorf("%s: result %d is %v, want %v", policy, i, row, want[i])
				}
			}
			a.is("skipped", 7, status, 3)
			if other := map[string]string{"invited": "pending", "pending": "invited"}[status]; !same(a.at(other), 0) {
				a.errorf("%s should be 0", other)
			}
			r.checkRequest("the message of all", g, text(objects(rows)[0], "request_id"), "message", "All of you.", "status", status)
			r.checkRequest("its own message", g, text(objects(rows)[2], "request_id"), "message", "You.")
			r.checkMembers("a batch seats nobody", g, member)
		}
		r := g.group()
		for _, alias := range []string{"agents", "members", "invites", "agent_ids", "handles"} {
			y := guests.agent("y" + randomHex(3))
			g.request("POST", r.path("/invite"), obj{alias: []string{y.handle}}).as("%s", alias).want(200).is("invited", 1, "pending", 0, "skipped", 0)
		}
		many := slices.Repeat([]string{nobody}, 101)
		g.request("POST", r.path("/invite"), obj{"agents": many[:100]}).as("a hundred").want(200).is("skipped", 100)
		g.request("POST", r.path("/invite"), obj{"agents": many}).as("101").invalid("body.agents", "")
		open := g.group(obj{"enrollment_policy": "open"})
		all := g.request("POST", open.path("/invite"), obj{"agents": []string{one.id}}).as("open").want(200).is("invited", 0, "pending", 0)
		if row := objects(all.at("results").([]any))[0]; row["status"] != "not_required" || row["request_id"] != nil {
			all.errorf("want not_required")
		}
	})
}

// TestWhoInvites: which agent invites if the request names none.
func TestWhoInvites(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, guests := s.org(t), s.org(t)
		outside, member, second := o.agent("outside"), o.agent("member"), o.agent("second")
		founder := s.org(t).agent("founder")
		r := founder.groupWithPolicy("majority", second, member)
		y := guests.agent("y")
		id := o.post(r.path("/invite"), obj{"agent_id": y.id}).as("the first member").want(200).is("status", "pending").str("request_id")
		r.checkRequest("no admin", founder, id, "invited_by", second.id)
		r.role(founder, member, "admin").want(200)
		z := guests.agent("z")
		id = o.post(r.path("/invite"), obj{"agent_id": z.id}).as("the admin").want(200).str("request_id")
		r.checkRequest("an admin", founder, id, "invited_by", member.id)
		guests.post(r.path("/invite"), obj{"agent_id": outside.id}).as("a private group of others").refused(404, "not_found")
		public := founder.group(obj{"visibility": "public"})
		guests.post(public.path("/invite"), obj{"agent_id": outside.id}).as("a public group of others").refused(403, "not_member")
	})
}

// TestInvitationMessage: the message that an invitation puts into the invitee's inbox.
func TestInvitationMessage(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("admin")
		guests := s.org(t)
		for _, row := range []struct{ policy, status string }{{"closed", "invited"}, {"majority", "pending"}, {"roster", "invited"}} {
			y := guests.agent("y" + randomHex(3))
			y.patch(y.path(""), obj{"incoming_policy": "groups_only"}).want(200)
			var r *group
			message := any("Do come.")
			if row.policy == "roster" {
				r = g.group(obj{"members": []any{obj{"agent_id": y.id, "message": message}}})
			} else {
				r = g.groupWithPolicy(row.policy)
				r.invite(g, y, obj{"message": message}).want(200)
			}
			request := r.requests(g, "live")[0]
			rows := y.everything()
			if len(rows) != 1 {
				t.Fatalf("%s: %d messages in the inbox, want 1", row.policy, len(rows))
			}
			m := rows[0]
			shaped(t, "notice", m, messageShape)
			notice, _ := at(m, "metadata.group_invite").(obj)
			exactly(t, "metadata", m["metadata"].(obj), "group_invite provenance")
			exactly(t, "group_invite", notice, "group_id group_handle group_name request_id invited_by status message expires_at")
			for what, pair := range map[string][2]any{
				"type": {m["type"], "svc.v1.group_invite"}, "from": {m["from_agent_id"], g.id}, "sender": {m["sender_handle"], g.handle}, "to": {m["to_agent_id"], y.id},
				"no group": {m["group_id"], nil}, "no group's handle": {m["group_handle"], nil}, "via": {at(m, "metadata.provenance.via"), "system"}, "org": {at(m, "metadata.provenance.org_id"), g.org.id},
				"group": {notice["group_id"], r.id}, "handle": {notice["group_handle"], r.handle}, "name": {notice["group_name"], r.name}, "request": {notice["request_id"], request["id"]},
				"inviter": {notice["invited_by"], g.id}, "status": {notice["status"], row.status}, "message": {notice["message"], message}, "expiry": {notice["expires_at"], request["expires_at"]},
				"payload": {payloadJSON(t, m), notice},
			} {
				if !same(pair[0], pair[1]) {
					t.Errorf("%s: %s is %v, want %v", row.policy, what, pair[0], pair[1])
				}
			}
			y.talk(m).is("status", "submitted")
			reply := y.reply(m)
			if reply["to_agent_id"] != g.id {
				t.Errorf("%s: the answer to an invitation goes to %v", row.policy, reply["to_agent_id"])
			}
			g.peek(m).is("status", "read")
		}
		open := g.group(obj{"enrollment_policy": "open"})
		y := guests.agent("unbidden")
		open.invite(g, y).want(200)
		if n := len(y.everything()); n != 0 {
			t.Errorf("an open group needs no invitation, yet %d messages arrived", n)
		}
	})
}

// TestInvitesList: an agent's invitations and their outcomes.
func TestInvitesList(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, guests := s.org(t).agent("admin"), s.org(t)
		y, z := guests.agent("y"), guests.agent("z")
		list := func(what string, by *agent, want ...any) {
			t.Helper()
			a := guests.get("/groups/invites")
			if by != nil {
				a = by.request("GET", "/groups/invites", nil)
			}
			got := []any{}
			for _, row := range objects(a.want(200).list) {
				shaped(t, "invite", row, requestShape)
				got = append(got, text(row, "group_name")+" "+text(row, "status"))
			}
			if a.list == nil || !sameSet(got, want) {
				a.errorf("%s: want %v", what, want)
			}
		}
		list("none", nil)
		closed, voting, applied := g.group(obj{"name": "closed-" + randomHex(3)}), g.group(obj{"name": "voting-" + randomHex(3), "enrollment_policy": "majority"}), g.groupWithPolicy("majority")
		invitation, nomination := closed.invited(g, y, "invited"), voting.invited(g, y, "pending")
		closed.invited(g, z, "invited")
		applied.applied(y)
		list("of one agent: invitations and nominations, no application", y, closed.name+" invited", voting.name+" pending")
		list("of the other", z, closed.name+" invited")
		list("of all agents", nil, closed.name+" invited", voting.name+" pending", closed.name+" invited")
		for _, row := range objects(y.request("GET", "/groups/invites", nil).want(200).list) {
			reason := map[any]string{invitation: "not_a_vote", nomination: "own_request"}[row["id"]]
			if row["agent_id"] != y.id || row["invited_by"] != g.id || row["you_may_vote"] != false || row["you_may_vote_reason"] != reason || text(row, "group_handle")[0] != '#' {
				t.Errorf("an invite is %v", row)
			}
		}
		closed.joined(y)
		list("one accepted", y, voting.name+" pending")
		g.request("DELETE", voting.path(""), nil).want(204)
		list("the other group deleted", y)
		g.request("DELETE", closed.path(""), nil).want(204)
		list("all over", nil)
		s.call(t, "", "GET", "/groups/invites", nil).refused(401, "not_authenticated")
	})
}
