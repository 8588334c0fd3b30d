package groups

import (
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestJoining covers the part of the join request table in which an agent requests a
// seat, with and without an invitation.
func TestJoining(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
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
			r := grouptest.New(g, body)
			a := r.Join(x, obj{"message": "Let me in."}).As("%v", row)
			switch row.want {
			case "joined":
				a.Want(200).Is("status", "joined", "member.agent_id", x.ID, "member.role", "member", "member.is_own_org", true)
				kit.Exactly(t, a.Asked, a.Body, "status member")
				r.CheckMembers(row.policy, g, x)
				r.Join(x).As("again").Refused(409, "already_member")
			case "pending":
				a.Want(200).Is("status", "pending", "request.status", "pending", "request.message", "Let me in.", "request.invited_by", nil, "request.group_handle", r.Handle, "request.group_name", r.Name)
				kit.Exactly(t, a.Asked, a.Body, "status request")
				r.Join(x, obj{"message": "Again."}).As("this is how an applicant follows it").Want(200).
					Is("status", "pending", "request.id", a.At("request.id"), "request.message", "Let me in.", "request.created_at", a.At("request.created_at"))
				r.CheckMembers(row.policy, g)
				if n := len(r.Requests(g, "all")); n != 1 {
					t.Errorf("%v: %d requests", row, n)
				}
			default:
				matches(a, row.want)
				r.CheckMembers(row.policy, g)
			}
		}
	})
}

// TestInviting covers the part of the table in which a member invites an agent.
func TestInviting(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, member, outside := o.Agent("admin"), o.Agent("member"), o.Agent("outside")
		y := s.Org(t).Agent("invitee")
		for _, row := range []struct {
			policy string
			by     *kit.Agent
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
			r := grouptest.NewWithPolicy(g, row.policy, member)
			a := r.Invite(row.by, y, obj{"message": "Come."}).As("%s by %s", row.policy, row.by.Name)
			if strings.HasPrefix(row.want, "403") {
				matches(a, row.want)
				continue
			}
			a.Want(200).Is("status", row.want)
			kit.Exactly(t, a.Asked, a.Body, "request_id status")
			r.CheckMembers("an invitation seats nobody", g, member)
			if row.want == "not_required" {
				a.Is("request_id", nil)
				if n := len(r.Requests(g, "all")); n != 0 {
					t.Errorf("%d requests in an open group", n)
				}
				continue
			}
			id := a.Str("request_id")
			checkRequest(r, row.policy, g, id, "status", row.want, "agent_id", y.ID, "message", "Come.", "invited_by", row.by.ID, "group_id", r.ID, "group_handle", r.Handle, "group_name", r.Name)
			if row.want == "pending" {
				checkRequest(r, "the nominator's approval is already counted", row.by, id, "approvals", 1, "denials", 0, "electorate_size", 2, "your_vote", "approve")
			}
			r.Invite(row.by, y).As("again").Refused(409, "already_invited")
			r.Invite(g, member).As("a member").Refused(409, "already_member")
		}
	})
}

// TestNomination: a nominee needs both its own consent and the votes, in either order.
func TestNomination(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, b, c := o.Agent("a"), o.Agent("b"), o.Agent("c")
		y := s.Org(t).Agent("nominee")

		r := grouptest.NewWithPolicy(g, "majority", b, c)
		id := r.Invited(b, y, "pending")
		r.Join(y).As("the nominee's consent").Want(200).Is("status", "pending", "request.id", id, "request.approvals", 1)
		r.Join(y).As("consent again").Want(200).Is("status", "pending", "request.id", id)
		r.CheckMembers("consent seats nobody", g, b, c)
		if status := voted(r, g, id, "approve"); status != "approved" {
			t.Errorf("consent first, then two of three: %s", status)
		}
		r.CheckMembers("consent first", g, b, c, y)

		r = grouptest.NewWithPolicy(g, "majority", b, c)
		id = r.Invited(b, y, "pending")
		if status := voted(r, g, id, "approve"); status != "invited" {
			t.Errorf("votes first: %s, want invited", status)
		}
		r.CheckMembers("votes alone seat nobody", g, b, c)
		checkRequest(r, "votes first", g, id, "status", "invited", "you_may_vote", false, "you_may_vote_reason", "not_a_vote")
		r.Joined(y)
		r.CheckMembers("votes first, then consent", g, b, c, y)
		checkRequest(r, "votes first, then consent", g, id, "status", "accepted")

		r = grouptest.NewWithPolicy(g, "unanimity")
		id = r.Invited(g, y, "pending")
		checkRequest(r, "a nomination always answers pending", g, id, "status", "pending", "approvals", 1, "approvals_needed", 1)
		r.Joined(y) // enough approvals: the nominee's join seats it at once
		r.CheckMembers("the only elector nominated", g, y)

		r = grouptest.NewWithPolicy(g, "unanimity", b)
		id = r.Invited(g, y, "pending")
		if status := voted(r, b, id, "deny"); status != "denied" {
			t.Errorf("a denied nomination is %s", status)
		}
		for _, row := range kit.Objects(y.Request("GET", "/groups/invites", nil).Want(200).List) {
			if row["id"] == id {
				t.Error("a denied nomination is still listed")
			}
		}
		again := r.Applied(y)
		if again["id"] == id || again["invited_by"] != nil {
			t.Errorf("after a denied nomination the agent's own application is %v", again)
		}
	})
}

// TestJoinSchema: join requests that the schema rejects.
func TestJoinSchema(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, x := o.Agent("admin"), s.Org(t).Agent("applicant")
		r := grouptest.NewWithPolicy(g, "majority")
		r.Join(x, obj{"message": strings.Repeat("m", 501)}).Invalid("body.message", "string_too_long")
		r.Applied(x, obj{"message": strings.Repeat("m", 500)})
		x.Request("POST", "/groups/"+kit.Nobody+"/join", nil).Refused(404, "not_found")
		x.Request("POST", "/groups/none/join", nil).Invalid("path", "uuid_parsing")
		s.Call(t, "", "POST", r.Path("/join"), nil).Refused(401, "not_authenticated")

		open := grouptest.New(g, obj{"enrollment_policy": "open"})
		x.Org.Post(open.Path("/join"), nil).As("the only agent need not be named").Want(200).Is("status", "joined", "member.agent_id", x.ID)
		second := x.Org.Agent("second")
		several := x.Org.Post(open.Path("/join"), nil).As("of several").Refused(400, "agent_required")
		if told, _ := several.At("candidates").([]any); len(told) != 2 || !slices.Contains(told, any(x.ID)) || !slices.Contains(told, any(second.ID)) {
			several.Errorf("candidates should be %s and %s", x.ID, second.ID)
		}
		s.Org(t).Post(open.Path("/join"), nil).As("of none").Refused(400, "agent_required").Is("candidates", []any{})
		x.Org.Post(open.Path("/join"), nil, "X-Svc-Agent", g.ID).As("another organization's agent").Refused(403, "not_owner")
		x.Org.Post(open.Path("/join"), nil, "X-Svc-Agent", second.Handle).As("by handle").Want(200).Is("member.agent_id", second.ID)
	})
}

// TestInviteSchema: the accepted forms of an invitee.
func TestInviteSchema(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, guests := s.Org(t).Agent("admin"), s.Org(t)
		r := grouptest.New(g)
		for name, body := range map[string]func(y *kit.Agent) obj{
			"id":           func(y *kit.Agent) obj { return obj{"agent_id": y.ID} },
			"handle":       func(y *kit.Agent) obj { return obj{"handle": y.Handle} },
			"agent_handle": func(y *kit.Agent) obj { return obj{"agent_handle": strings.ToUpper(y.Handle)} },
		} {
			y := guests.Agent("y" + kit.RandomHex(3))
			id := g.Request("POST", r.Path("/invite"), body(y)).As("%s", name).Want(200).Is("status", "invited").Str("request_id")
			checkRequest(r, name, g, id, "agent_id", y.ID, "invited_by", g.ID)
		}
		y := guests.Agent("late")
		g.Request("POST", r.Path("/invite"), obj{}).As("nobody").Want(422)
		g.Request("POST", r.Path("/invite"), obj{"agent_id": "x"}).Invalid("body.agent_id", "uuid_parsing")
		r.Invite(g, y, obj{"message": strings.Repeat("m", 501)}).Invalid("body.message", "string_too_long")
		g.Request("POST", r.Path("/invite"), obj{"agent_id": kit.Nobody}).Refused(404, "not_found")
		g.Request("POST", r.Path("/invite"), obj{"handle": "nobody@" + guests.Slug + ".localhost"}).Refused(404, "not_found")
		r.Invite(g, y, obj{"message": strings.Repeat("m", 500)}).Want(200)
	})
}

// TestBatchInvite: one request invites several agents and reports each agent it cannot
// invite, with the reason.
func TestBatchInvite(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, guests := s.Org(t), s.Org(t)
		g, member, revoked := o.Agent("admin"), o.Agent("member"), o.Agent("revoked")
		o.Delete(revoked.Path("")).Want(204)
		one, two, three, before := guests.Agent("one"), guests.Agent("two"), guests.Agent("three"), guests.Agent("before")
		confined := guests.Agent("confined")
		grouptest.New(confined, obj{"isolated": true})
		for policy, status := range map[string]string{"closed": "invited", "majority": "pending"} {
			r := grouptest.NewWithPolicy(g, policy, member)
			r.Invite(g, before).Want(200)
			a := g.Request("POST", r.Path("/invite"), obj{"message": "All of you.", "agents": []any{
				one.ID, two.Handle,
				obj{"agent_id": three.ID, "message": "You."},
				obj{"handle": before.Handle},
				kit.Nobody, revoked.ID, g.ID, member.ID, confined.ID, one.ID,
			}}).As("%s", policy).Want(200)
			kit.Exactly(t, a.Asked, a.Body, "results invited pending skipped")
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
			for i, row := range kit.Objects(rows) {
				kit.Shaped(t, "result", row, invitedShape)
				good := want[i].reason == nil
				if row["reason"] != want[i].reason || want[i].who != nil && row["agent_id"] != want[i].who || good && row["status"] != status || good != (kit.Text(row, "request_id") != "") {
					t.Errorf("%s: result %d is %v, want %v", policy, i, row, want[i])
				}
			}
			a.Is("skipped", 7, status, 3)
			if other := map[string]string{"invited": "pending", "pending": "invited"}[status]; !kit.Same(a.At(other), 0) {
				a.Errorf("%s should be 0", other)
			}
			checkRequest(r, "the message of all", g, kit.Text(kit.Objects(rows)[0], "request_id"), "message", "All of you.", "status", status)
			checkRequest(r, "its own message", g, kit.Text(kit.Objects(rows)[2], "request_id"), "message", "You.")
			r.CheckMembers("a batch seats nobody", g, member)
		}
		r := grouptest.New(g)
		for _, alias := range []string{"agents", "members", "invites", "agent_ids", "handles"} {
			y := guests.Agent("y" + kit.RandomHex(3))
			g.Request("POST", r.Path("/invite"), obj{alias: []string{y.Handle}}).As("%s", alias).Want(200).Is("invited", 1, "pending", 0, "skipped", 0)
		}
		many := slices.Repeat([]string{kit.Nobody}, 101)
		g.Request("POST", r.Path("/invite"), obj{"agents": many[:100]}).As("a hundred").Want(200).Is("skipped", 100)
		g.Request("POST", r.Path("/invite"), obj{"agents": many}).As("101").Invalid("body.agents", "")
		open := grouptest.New(g, obj{"enrollment_policy": "open"})
		all := g.Request("POST", open.Path("/invite"), obj{"agents": []string{one.ID}}).As("open").Want(200).Is("invited", 0, "pending", 0)
		if row := kit.Objects(all.At("results").([]any))[0]; row["status"] != "not_required" || row["request_id"] != nil {
			all.Errorf("want not_required")
		}
	})
}

// TestWhoInvites: which agent invites if the request names none.
func TestWhoInvites(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, guests := s.Org(t), s.Org(t)
		outside, member, second := o.Agent("outside"), o.Agent("member"), o.Agent("second")
		founder := s.Org(t).Agent("founder")
		r := grouptest.NewWithPolicy(founder, "majority", second, member)
		y := guests.Agent("y")
		id := o.Post(r.Path("/invite"), obj{"agent_id": y.ID}).As("the first member").Want(200).Is("status", "pending").Str("request_id")
		checkRequest(r, "no admin", founder, id, "invited_by", second.ID)
		r.Role(founder, member, "admin").Want(200)
		z := guests.Agent("z")
		id = o.Post(r.Path("/invite"), obj{"agent_id": z.ID}).As("the admin").Want(200).Str("request_id")
		checkRequest(r, "an admin", founder, id, "invited_by", member.ID)
		guests.Post(r.Path("/invite"), obj{"agent_id": outside.ID}).As("a private group of others").Refused(404, "not_found")
		public := grouptest.New(founder, obj{"visibility": "public"})
		guests.Post(public.Path("/invite"), obj{"agent_id": outside.ID}).As("a public group of others").Refused(403, "not_member")
	})
}

// TestInvitationMessage: the message that an invitation puts into the invitee's inbox.
func TestInvitationMessage(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("admin")
		guests := s.Org(t)
		for _, row := range []struct{ policy, status string }{{"closed", "invited"}, {"majority", "pending"}, {"roster", "invited"}} {
			y := guests.Agent("y" + kit.RandomHex(3))
			y.Patch(y.Path(""), obj{"incoming_policy": "groups_only"}).Want(200)
			var r *grouptest.Group
			message := any("Do come.")
			if row.policy == "roster" {
				r = grouptest.New(g, obj{"members": []any{obj{"agent_id": y.ID, "message": message}}})
			} else {
				r = grouptest.NewWithPolicy(g, row.policy)
				r.Invite(g, y, obj{"message": message}).Want(200)
			}
			request := r.Requests(g, "live")[0]
			rows := y.Everything()
			if len(rows) != 1 {
				t.Fatalf("%s: %d messages in the inbox, want 1", row.policy, len(rows))
			}
			m := rows[0]
			kit.Shaped(t, "notice", m, kit.MessageShape)
			notice, _ := kit.At(m, "metadata.group_invite").(obj)
			kit.Exactly(t, "metadata", m["metadata"].(obj), "group_invite provenance")
			kit.Exactly(t, "group_invite", notice, "group_id group_handle group_name request_id invited_by status message expires_at")
			for what, pair := range map[string][2]any{
				"type": {m["type"], "svc.v1.group_invite"}, "from": {m["from_agent_id"], g.ID}, "sender": {m["sender_handle"], g.Handle}, "to": {m["to_agent_id"], y.ID},
				"no group": {m["group_id"], nil}, "no group's handle": {m["group_handle"], nil}, "via": {kit.At(m, "metadata.provenance.via"), "system"}, "org": {kit.At(m, "metadata.provenance.org_id"), g.Org.ID},
				"group": {notice["group_id"], r.ID}, "handle": {notice["group_handle"], r.Handle}, "name": {notice["group_name"], r.Name}, "request": {notice["request_id"], request["id"]},
				"inviter": {notice["invited_by"], g.ID}, "status": {notice["status"], row.status}, "message": {notice["message"], message}, "expiry": {notice["expires_at"], request["expires_at"]},
				"payload": {payloadJSON(t, m), notice},
			} {
				if !kit.Same(pair[0], pair[1]) {
					t.Errorf("%s: %s is %v, want %v", row.policy, what, pair[0], pair[1])
				}
			}
			y.Conversation(m).Is("status", "submitted")
			reply := y.Reply(m)
			if reply["to_agent_id"] != g.ID {
				t.Errorf("%s: the answer to an invitation goes to %v", row.policy, reply["to_agent_id"])
			}
			g.Peek(m).Is("status", "read")
		}
		open := grouptest.New(g, obj{"enrollment_policy": "open"})
		y := guests.Agent("unbidden")
		open.Invite(g, y).Want(200)
		if n := len(y.Everything()); n != 0 {
			t.Errorf("an open group needs no invitation, yet %d messages arrived", n)
		}
	})
}

// TestInvitesList: an agent's invitations and their outcomes.
func TestInvitesList(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, guests := s.Org(t).Agent("admin"), s.Org(t)
		y, z := guests.Agent("y"), guests.Agent("z")
		list := func(what string, by *kit.Agent, want ...any) {
			t.Helper()
			a := guests.Get("/groups/invites")
			if by != nil {
				a = by.Request("GET", "/groups/invites", nil)
			}
			got := []any{}
			for _, row := range kit.Objects(a.Want(200).List) {
				kit.Shaped(t, "invite", row, grouptest.RequestShape)
				got = append(got, kit.Text(row, "group_name")+" "+kit.Text(row, "status"))
			}
			if a.List == nil || !kit.SameSet(got, want) {
				a.Errorf("%s: want %v", what, want)
			}
		}
		list("none", nil)
		closed, voting, applied := grouptest.New(g, obj{"name": "closed-" + kit.RandomHex(3)}), grouptest.New(g, obj{"name": "voting-" + kit.RandomHex(3), "enrollment_policy": "majority"}), grouptest.NewWithPolicy(g, "majority")
		invitation, nomination := closed.Invited(g, y, "invited"), voting.Invited(g, y, "pending")
		closed.Invited(g, z, "invited")
		applied.Applied(y)
		list("of one agent: invitations and nominations, no application", y, closed.Name+" invited", voting.Name+" pending")
		list("of the other", z, closed.Name+" invited")
		list("of all agents", nil, closed.Name+" invited", voting.Name+" pending", closed.Name+" invited")
		for _, row := range kit.Objects(y.Request("GET", "/groups/invites", nil).Want(200).List) {
			reason := map[any]string{invitation: "not_a_vote", nomination: "own_request"}[row["id"]]
			if row["agent_id"] != y.ID || row["invited_by"] != g.ID || row["you_may_vote"] != false || row["you_may_vote_reason"] != reason || kit.Text(row, "group_handle")[0] != '#' {
				t.Errorf("an invite is %v", row)
			}
		}
		closed.Joined(y)
		list("one accepted", y, voting.Name+" pending")
		g.Request("DELETE", voting.Path(""), nil).Want(204)
		list("the other group deleted", y)
		g.Request("DELETE", closed.Path(""), nil).Want(204)
		list("all over", nil)
		s.Call(t, "", "GET", "/groups/invites", nil).Refused(401, "not_authenticated")
	})
}
