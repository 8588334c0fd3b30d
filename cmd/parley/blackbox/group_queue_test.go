package blackbox

import "testing"

// TestJoinRequestsOfOneOrganization: at most 20 pending votes of a group are on
// applications of one organization. Nominations and invitations of its agents do not
// count, because others make them.
func TestJoinRequestsOfOneOrganization(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g, o := s.Org(t).Agent("founder"), s.Org(t)
		r := g.groupWithPolicy("majority", s.Org(t).Agent("member"))
		applicants := o.NewAgents(24, "c")
		nominated := r.invited(g, applicants[23], "pending")
		var first string
		for i, c := range applicants[:20] {
			if id := Text(r.applied(c), "id"); i == 0 {
				first = id
			}
		}
		full := func(what string, c *Agent) {
			t.Helper()
			r.join(c).As("%s", what).Refused(403, "quota_exceeded").
				Is("quota", "join_requests", "limit", 20, "used", 20, "resets_at", nil)
		}
		full("the 21st", applicants[20])
		r.join(applicants[3]).As("one that waits follows its request").Want(200).Is("status", "pending")
		r.applied(s.Org(t).Agent("other"))
		r.invited(g, applicants[21], "pending")
		r.join(applicants[23]).As("a nominee consents").Want(200).Is("request.id", nominated)
		full("still", applicants[20])
		if n := len(r.requests(g, "pending")); n != 23 {
			t.Errorf("%d requests are pending, want 23", n)
		}
		r.vote(g, first, "deny").Want(200).Is("status", "denied")
		r.applied(applicants[20])
		full("one for one", applicants[22])
		r.patch(obj{"enrollment_policy": "open"}).Want(200)
		r.joined(applicants[22])
	})
}

// TestJoinRequestsOfAGroup: at most 1,000 requests of a group wait for votes.
func TestJoinRequestsOfAGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand agents")
	}
	Each(t, func(t *testing.T, s *Server) {
		g, o := s.Org(t).Agent("founder"), s.Org(t)
		r := g.groupWithPolicy("unanimity", s.Org(t).Agent("member"))
		applicants := o.NewAgents(1002, "c")
		for i := 0; i < 1000; i += 100 {
			agents := []string{}
			for _, c := range applicants[i : i+100] {
				agents = append(agents, c.ID)
			}
			g.Request("POST", r.path("/invite"), obj{"agents": agents}).Want(200).Is("pending", 100, "skipped", 0)
		}
		r.join(applicants[1000]).Refused(403, "quota_exceeded").Is("quota", "join_requests", "limit", 1000, "used", 1000)
		r.invite(g, applicants[1000]).Refused(403, "quota_exceeded").Is("quota", "join_requests", "limit", 1000)
		many := g.Request("POST", r.path("/invite"), obj{"agents": []string{applicants[1000].ID, applicants[1001].ID}}).Want(200)
		many.Is("pending", 0, "skipped", 2)
		r.patch(obj{"enrollment_policy": "closed"}).Want(200)
		r.invited(g, applicants[1001], "invited") // invitations need no vote
		r.patch(obj{"enrollment_policy": "unanimity"}).Want(200)
		r.vote(g, Text(r.requests(g, "pending")[0], "id"), "deny").Want(200).Is("status", "denied")
		r.applied(applicants[1000])
	})
}

// TestIsolatedGroupInvitationHasNoText: text of a member of an isolated group does not
// reach outsiders, not even in an invitation.
func TestIsolatedGroupInvitationHasNoText(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		for _, policy := range []string{"closed", "majority"} {
			g, x, y := s.Org(t).Agent("founder"), s.Org(t).Agent("x"), s.Org(t).Agent("y")
			r := g.group(obj{"enrollment_policy": policy, "isolated": true, "members": []any{obj{"agent_id": x.ID, "message": "Hello."}}})
			r.invite(g, y, obj{"message": "Hello."}).Want(200)
			for _, invitee := range []*Agent{x, y} {
				m := invitee.Everything()[0]
				if notice, _ := At(m, "metadata.group_invite").(obj); notice == nil || notice["message"] != nil {
					t.Errorf("%s: the notice is %v", policy, notice)
				}
				if told, _ := payloadJSON(t, m).(obj); told["message"] != nil || told["group_id"] != r.id {
					t.Errorf("%s: the payload is %v", policy, told)
				}
				rows := Objects(invitee.Request("GET", "/groups/invites", nil).Want(200).List)
				if len(rows) != 1 || rows[0]["message"] != nil {
					t.Errorf("%s: the invitations are %v", policy, rows)
				}
			}
		}
	})
}
