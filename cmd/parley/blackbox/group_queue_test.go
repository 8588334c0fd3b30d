package blackbox

import "testing"

// TestJoinRequestsOfOneOrganization: at most 20 pending votes of a group are on
// applications of one organization. Nominations and invitations of its agents do not
// count, because others make them.
func TestJoinRequestsOfOneOrganization(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, o := s.org(t).agent("founder"), s.org(t)
		r := g.groupWithPolicy("majority", s.org(t).agent("member"))
		applicants := o.newAgents(24, "c")
		nominated := r.invited(g, applicants[23], "pending")
		var first string
		for i, c := range applicants[:20] {
			if id := text(r.applied(c), "id"); i == 0 {
				first = id
			}
		}
		full := func(what string, c *agent) {
			t.Helper()
			r.join(c).as("%s", what).refused(403, "quota_exceeded").
				is("quota", "join_requests", "limit", 20, "used", 20, "resets_at", nil)
		}
		full("the 21st", applicants[20])
		r.join(applicants[3]).as("one that waits follows its request").want(200).is("status", "pending")
		r.applied(s.org(t).agent("other"))
		r.invited(g, applicants[21], "pending")
		r.join(applicants[23]).as("a nominee consents").want(200).is("request.id", nominated)
		full("still", applicants[20])
		if n := len(r.requests(g, "pending")); n != 23 {
			t.Errorf("%d requests are pending, want 23", n)
		}
		r.vote(g, first, "deny").want(200).is("status", "denied")
		r.applied(applicants[20])
		full("one for one", applicants[22])
		r.patch(obj{"enrollment_policy": "open"}).want(200)
		r.joined(applicants[22])
	})
}

// TestJoinRequestsOfAGroup: at most 1,000 requests of a group wait for votes.
func TestJoinRequestsOfAGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand agents")
	}
	each(t, func(t *testing.T, s *server) {
		g, o := s.org(t).agent("founder"), s.org(t)
		r := g.groupWithPolicy("unanimity", s.org(t).agent("member"))
		applicants := o.newAgents(1002, "c")
		for i := 0; i < 1000; i += 100 {
			agents := []string{}
			for _, c := range applicants[i : i+100] {
				agents = append(agents, c.id)
			}
			g.request("POST", r.path("/invite"), obj{"agents": agents}).want(200).is("pending", 100, "skipped", 0)
		}
		r.join(applicants[1000]).refused(403, "quota_exceeded").is("quota", "join_requests", "limit", 1000, "used", 1000)
		r.invite(g, applicants[1000]).refused(403, "quota_exceeded").is("quota", "join_requests", "limit", 1000)
		many := g.request("POST", r.path("/invite"), obj{"agents": []string{applicants[1000].id, applicants[1001].id}}).want(200)
		many.is("pending", 0, "skipped", 2)
		r.patch(obj{"enrollment_policy": "closed"}).want(200)
		r.invited(g, applicants[1001], "invited") // invitations need no vote
		r.patch(obj{"enrollment_policy": "unanimity"}).want(200)
		r.vote(g, text(r.requests(g, "pending")[0], "id"), "deny").want(200).is("status", "denied")
		r.applied(applicants[1000])
	})
}

// TestIsolatedGroupInvitationHasNoText: text of a member of an isolated group does not
// reach outsiders, not even in an invitation.
func TestIsolatedGroupInvitationHasNoText(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for _, policy := range []string{"closed", "majority"} {
			g, x, y := s.org(t).agent("founder"), s.org(t).agent("x"), s.org(t).agent("y")
			r := g.group(obj{"enrollment_policy": policy, "isolated": true, "members": []any{obj{"agent_id": x.id, "message": "Hello."}}})
			r.invite(g, y, obj{"message": "Hello."}).want(200)
			for _, invitee := range []*agent{x, y} {
				m := invitee.everything()[0]
				if notice, _ := at(m, "metadata.group_invite").(obj); notice == nil || notice["message"] != nil {
					t.Errorf("%s: the notice is %v", policy, notice)
				}
				if told, _ := payloadJSON(t, m).(obj); told["message"] != nil || told["group_id"] != r.id {
					t.Errorf("%s: the payload is %v", policy, told)
				}
				rows := objects(invitee.request("GET", "/groups/invites", nil).want(200).list)
				if len(rows) != 1 || rows[0]["message"] != nil {
					t.Errorf("%s: the invitations are %v", policy, rows)
				}
			}
		}
	})
}
