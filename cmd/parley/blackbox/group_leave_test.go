package blackbox

import (
	"slices"
	"testing"
)

// TestLeaveOrKick: the acting agent decides whether a removal is a departure or a kick.
// Each row has a group of its own, with the members founder (admin), twin and mate of one
// organization and guest of another, which has only one agent.
func TestLeaveOrKick(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t)
		founder, twin, mate := o.agent("founder"), o.agent("twin"), o.agent("mate")
		guest := other.agent("guest")
		stranger := s.org(t).agent("stranger")
		for _, row := range []struct {
			what  string
			by    *org
			named string // empty: no header
			whom  *agent
			want  string
		}{
			{"leaving", o, "twin", twin, "204"},
			{"leaving, named by id", o, twin.id, twin, "204"},
			{"leaving, the only agent of its organization", other, "", guest, "204"},
			{"a kick by the admin", o, "founder", guest, "204"},
			{"a kick in the name of the admin, where several could act", o, "", guest, "204"},
			{"where several could act, it is a kick of an own agent too", o, "", twin, "204"},
			{"a kick by a member", o, "twin", guest, "403:not_admin"},
			{"a kick by a member of its own colleague", o, "twin", mate, "403:not_admin"},
			{"a kick by an organization without an admin", other, "", twin, "403:not_admin"},
			{"the last admin leaves", o, "founder", founder, "422:last_admin"},
			{"the last admin, unnamed", o, "", founder, "422:last_admin"},
			{"one who is no member", o, "founder", stranger, "404:not_found"},
			{"an unknown agent", o, "founder", &agent{id: nobody}, "404:not_found"},
			{"a stranger to a private group", stranger.org, "", twin, "404:not_found"},
			{"another organization's agent named", other, founder.id, guest, "403:not_owner"},
		} {
			r := founder.groupWithPolicy("closed", twin, mate, guest)
			headers := []string{}
			if row.named != "" {
				headers = []string{"X-Svc-Agent", row.named}
			}
			a := row.by.delete(r.path("/members/"+row.whom.id), headers...).as("%s", row.what).matches(row.want)
			left := []*agent{founder, twin, mate, guest}
			if a.status == 204 {
				left = slices.DeleteFunc(left, func(g *agent) bool { return g == row.whom })
				r.remove(founder, row.whom).as("%s, again", row.what).refused(404, "not_found")
				r.join(row.whom).as("%s, and back without an invitation", row.what).refused(403, "invitation_required")
			}
			r.checkMembers(row.what, left...)
			if admins := r.admins(founder); admins != "founder" {
				t.Errorf("%s: the admins are %q", row.what, admins)
			}
		}
	})
}

// TestRoles: admins promote and demote; the last admin cannot be demoted.
func TestRoles(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t)
		a, b, outside := o.agent("a"), o.agent("b"), o.agent("outside")
		c := other.agent("c")
		stranger := s.org(t).agent("stranger")
		r := a.groupWithPolicy("closed", b, c)
		for _, row := range []struct {
			what     string
			by, whom *agent
			role     string
			want     string
			admins   string
		}{
			{"a member promotes", b, b, "admin", "403:not_admin", "a"},
			{"an agent outside", outside, b, "admin", "403:not_admin", "a"},
			{"a stranger", stranger, b, "admin", "404:not_found", "a"},
			{"the last admin demotes itself", a, a, "member", "422:last_admin", "a"},
			{"to what one is", a, a, "admin", "200", "a"},
			{"to what one is, a member", a, b, "member", "200", "a"},
			{"the admin promotes", a, b, "admin", "200", "a b"},
			{"a new admin promotes one of another organization", b, c, "admin", "200", "a b c"},
			{"who demotes who promoted it", c, a, "member", "200", "b c"},
			{"a former admin", a, b, "member", "403:not_admin", "b c"},
			{"an admin demotes itself", c, c, "member", "200", "b"},
			{"one who is no member", b, outside, "admin", "404:not_found", "b"},
			{"the only one left", b, b, "member", "422:last_admin", "b"},
		} {
			answered := r.role(row.by, row.whom, row.role).as("%s", row.what).matches(row.want)
			if answered.status == 200 {
				answered.shaped(memberShape).is("agent_id", row.whom.id, "role", row.role)
			}
			if admins := r.admins(a); admins != row.admins {
				t.Errorf("%s: the admins are %q, want %q", row.what, admins, row.admins)
			}
		}
		r.role(b, a, "owner").invalid("body.role", "enum")
		b.request("PATCH", r.path("/members/"+a.id), obj{}).invalid("body.role", "missing")
		o.patch(r.path("/members/"+a.id), obj{"role": "admin"}).as("the organization's admin acts where none is named").want(200).is("role", "admin")
		r.remove(b, b).as("an admin leaves where another stays").want(204)
		r.checkMembers("after all", a, c)
	})
}

// TestMemberRows: the member listing, and which agents belong to the caller.
func TestMemberRows(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t)
		a := o.agent("a")
		var others []*agent
		for range 6 {
			others = append(others, other.agent("m"+randomHex(3)))
		}
		r := a.groupWithPolicy("closed", others...)
		for _, reader := range []*agent{a, others[2]} {
			rows := r.members(reader)
			for _, m := range rows {
				if own := (m["agent_id"] == a.id) == (reader == a); m["is_own_org"] != own {
					t.Errorf("to %s: is_own_org of %v", reader.name, m)
				}
			}
			var whole, walked []string
			for _, m := range rows {
				whole = append(whole, text(m, "id"))
			}
			for _, m := range reader.list(r.path("/members"), "?limit=2") {
				walked = append(walked, text(m, "id"))
			}
			if !slices.Equal(whole, walked) || len(slices.Compact(slices.Sorted(slices.Values(whole)))) != 7 {
				t.Errorf("page by page %v, at once %v", walked, whole)
			}
		}
		before := r.members(a)
		r.remove(others[0], others[0]).want(204)
		r.seats(others[0])
		after := r.members(a)
		find := func(rows []obj) obj {
			return rows[slices.IndexFunc(rows, func(m obj) bool { return m["agent_id"] == others[0].id })]
		}
		if was, is := find(before), find(after); was["id"] == is["id"] || text(was, "joined_at") > text(is, "joined_at") {
			t.Errorf("a membership that began again: before %v, after %v", was, is)
		}
		a.request("GET", r.path("/members?limit=0"), nil).invalid("query.limit", "greater_than_equal")
		a.request("GET", r.path("/members?cursor=nonsense"), nil).refused(400, "invalid_cursor")
	})
}

// TestRevokingAMember: a revoked agent leaves every group; the other members remain.
func TestRevokingAMember(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		own, other := s.org(t), s.org(t)
		for _, row := range []struct {
			what   string
			others func() []*agent // called when the members join
			heir   int
		}{
			{"the longest-seated of the owning organization", func() []*agent {
				return []*agent{other.agent("x" + randomHex(3)), own.agent("y" + randomHex(3)), own.agent("z" + randomHex(3))}
			}, 1},
			{"else the longest-seated", func() []*agent {
				return []*agent{other.agent("x" + randomHex(3)), other.agent("y" + randomHex(3))}
			}, 0},
		} {
			g := own.agent("g" + randomHex(3))
			others := row.others()
			r := g.groupWithPolicy("closed", others...)
			g.delete(g.path("")).want(204)
			r.by = others[row.heir]
			eventually(t, row.what, func() bool { return r.admins(r.by) == others[row.heir].name })
			r.checkMembers(row.what, others...)
			r.patch(obj{"description": "inherited"}).want(200)
			g.get(g.path("")).as("its own record").want(200)
			g.get(g.path("/messages")).as("its own inbox").want(200)
			g.delete(g.path("")).as("again").want(204)
		}
		g, second := own.agent("g"), own.agent("second")
		r := g.groupWithPolicy("closed", second)
		r.role(g, second, "admin").want(200)
		second.delete(second.path("")).want(204)
		eventually(t, "an admin of several", func() bool { return r.read(g).at("member_count") == 1.0 })
		r.checkMembers("an admin of several", g)

		alone := own.agent("alone")
		empty := alone.group()
		alone.delete(alone.path("")).want(204)
		eventually(t, "a group without members is deleted", func() bool { return own.get(empty.path("")).status == 410 })
		own.get(empty.path("")).refused(410, "gone")
	})
}

// TestRevocationResolvesRequests: a revoked elector no longer counts; requests of a revoked
// applicant, nominee or invitee end.
func TestRevocationResolvesRequests(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, guests := s.org(t), s.org(t)
		a, b, c := o.agent("a"), o.agent("b"), o.agent("c")
		x := guests.agent("x")
		r := a.groupWithPolicy("unanimity", b, c)
		id := text(r.applied(x), "id")
		r.voted(a, id, "approve")
		r.voted(b, id, "approve")
		c.delete(c.path("")).want(204)
		eventually(t, "the electorate recounts", func() bool { return r.request(a, id)["status"] == "approved" })
		r.checkMembers("after an elector was revoked", a, b, x)

		applicant, nominee, invitee := guests.agent("applicant"), guests.agent("nominee"), guests.agent("invitee")
		closed := a.group()
		requests := map[*agent]struct {
			r  *group
			id string
		}{
			applicant: {r, text(r.applied(applicant), "id")},
			nominee:   {r, r.invited(a, nominee, "pending")},
			invitee:   {closed, closed.invited(a, invitee, "invited")},
		}
		for g := range requests {
			g.delete(g.path("")).want(204)
		}
		for g, q := range requests {
			eventually(t, "the request of the "+g.name, func() bool { return q.r.request(a, q.id)["status"] == "canceled" })
			q.r.checkRequest(g.name, a, q.id, "status", "canceled", "agent_id", g.id)
			q.r.join(g).as("%s", g.name).refused(403, "not_owner")
		}
		r.vote(b, requests[applicant].id, "approve").refused(409, "request_closed")
		if n := len(guests.get("/groups/invites").want(200).list); n != 0 {
			t.Errorf("%d invites of revoked agents", n)
		}
	})
}
