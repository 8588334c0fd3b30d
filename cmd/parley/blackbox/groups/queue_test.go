package groups

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestJoinRequestsOfOneOrganization: at most 20 pending votes of a group are on
// applications of one organization. Nominations and invitations of its agents do not
// count, because others make them.
func TestJoinRequestsOfOneOrganization(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, o := s.Org(t).Agent("founder"), s.Org(t)
		r := grouptest.NewWithPolicy(g, "majority", s.Org(t).Agent("member"))
		applicants := o.NewAgents(24, "c")
		nominated := r.Invited(g, applicants[23], "pending")
		var first string
		for i, c := range applicants[:20] {
			if id := kit.Text(r.Applied(c), "id"); i == 0 {
				first = id
			}
		}
		full := func(what string, c *kit.Agent) {
			t.Helper()
			r.Join(c).As("%s", what).Refused(403, "quota_exceeded").
				Is("quota", "join_requests", "limit", 20, "used", 20, "resets_at", nil)
		}
		full("the 21st", applicants[20])
		r.Join(applicants[3]).As("one that waits follows its request").Want(200).Is("status", "pending")
		r.Applied(s.Org(t).Agent("other"))
		r.Invited(g, applicants[21], "pending")
		r.Join(applicants[23]).As("a nominee consents").Want(200).Is("request.id", nominated)
		full("still", applicants[20])
		if n := len(r.Requests(g, "pending")); n != 23 {
			t.Errorf("%d requests are pending, want 23", n)
		}
		r.Vote(g, first, "deny").Want(200).Is("status", "denied")
		r.Applied(applicants[20])
		full("one for one", applicants[22])
		r.Patch(obj{"enrollment_policy": "open"}).Want(200)
		r.Joined(applicants[22])
	})
}

// TestJoinRequestsOfAGroup: at most 1,000 requests of a group wait for votes.
func TestJoinRequestsOfAGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand agents")
	}
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, o := s.Org(t).Agent("founder"), s.Org(t)
		r := grouptest.NewWithPolicy(g, "unanimity", s.Org(t).Agent("member"))
		applicants := o.NewAgents(1002, "c")
		for i := 0; i < 1000; i += 100 {
			agents := []string{}
			for _, c := range applicants[i : i+100] {
				agents = append(agents, c.ID)
			}
			g.Request("POST", r.Path("/invite"), obj{"agents": agents}).Want(200).Is("pending", 100, "skipped", 0)
		}
		r.Join(applicants[1000]).Refused(403, "quota_exceeded").Is("quota", "join_requests", "limit", 1000, "used", 1000)
		r.Invite(g, applicants[1000]).Refused(403, "quota_exceeded").Is("quota", "join_requests", "limit", 1000)
		many := g.Request("POST", r.Path("/invite"), obj{"agents": []string{applicants[1000].ID, applicants[1001].ID}}).Want(200)
		many.Is("pending", 0, "skipped", 2)
		r.Patch(obj{"enrollment_policy": "closed"}).Want(200)
		r.Invited(g, applicants[1001], "invited") // invitations need no vote
		r.Patch(obj{"enrollment_policy": "unanimity"}).Want(200)
		r.Vote(g, kit.Text(r.Requests(g, "pending")[0], "id"), "deny").Want(200).Is("status", "denied")
		r.Applied(applicants[1000])
	})
}

// TestIsolatedGroupInvitationHasNoText: text of a member of an isolated group does not
// reach outsiders, not even in an invitation.
func TestIsolatedGroupInvitationHasNoText(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		for _, policy := range []string{"closed", "majority"} {
			g, x, y := s.Org(t).Agent("founder"), s.Org(t).Agent("x"), s.Org(t).Agent("y")
			r := grouptest.New(g, obj{"enrollment_policy": policy, "isolated": true, "members": []any{obj{"agent_id": x.ID, "message": "Hello."}}})
			r.Invite(g, y, obj{"message": "Hello."}).Want(200)
			for _, invitee := range []*kit.Agent{x, y} {
				m := invitee.Everything()[0]
				if notice, _ := kit.At(m, "metadata.group_invite").(obj); notice == nil || notice["message"] != nil {
					t.Errorf("%s: the notice is %v", policy, notice)
				}
				if told, _ := payloadJSON(t, m).(obj); told["message"] != nil || told["group_id"] != r.ID {
					t.Errorf("%s: the payload is %v", policy, told)
				}
				rows := kit.Objects(invitee.Request("GET", "/groups/invites", nil).Want(200).List)
				if len(rows) != 1 || rows[0]["message"] != nil {
					t.Errorf("%s: the invitations are %v", policy, rows)
				}
			}
		}
	})
}
