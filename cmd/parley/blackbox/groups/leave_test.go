package groups

import (
	"slices"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestLeaveOrKick: the acting agent decides whether a removal is a departure or a kick.
// Each row has a group of its own, with the members founder (admin), twin and mate of one
// organization and guest of another, which has only one agent.
func TestLeaveOrKick(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		founder, twin, mate := o.Agent("founder"), o.Agent("twin"), o.Agent("mate")
		guest := other.Agent("guest")
		stranger := s.Org(t).Agent("stranger")
		for _, row := range []struct {
			what  string
			by    *kit.Org
			named string // empty: no header
			whom  *kit.Agent
			want  string
		}{
			{"leaving", o, "twin", twin, "204"},
			{"leaving, named by id", o, twin.ID, twin, "204"},
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
			{"an unknown agent", o, "founder", &kit.Agent{ID: kit.Nobody}, "404:not_found"},
			{"a stranger to a private group", stranger.Org, "", twin, "404:not_found"},
			{"another organization's agent named", other, founder.ID, guest, "403:not_owner"},
		} {
			r := grouptest.NewWithPolicy(founder, "closed", twin, mate, guest)
			headers := []string{}
			if row.named != "" {
				headers = []string{"X-Svc-Agent", row.named}
			}
			a := matches(row.by.Delete(r.Path("/members/"+row.whom.ID), headers...).As("%s", row.what), row.want)
			left := []*kit.Agent{founder, twin, mate, guest}
			if a.Status == 204 {
				left = slices.DeleteFunc(left, func(g *kit.Agent) bool { return g == row.whom })
				r.Remove(founder, row.whom).As("%s, again", row.what).Refused(404, "not_found")
				r.Join(row.whom).As("%s, and back without an invitation", row.what).Refused(403, "invitation_required")
			}
			r.CheckMembers(row.what, left...)
			if admins := admins(r, founder); admins != "founder" {
				t.Errorf("%s: the admins are %q", row.what, admins)
			}
		}
	})
}

// TestRoles: admins promote and demote; the last admin cannot be demoted.
func TestRoles(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		a, b, outside := o.Agent("a"), o.Agent("b"), o.Agent("outside")
		c := other.Agent("c")
		stranger := s.Org(t).Agent("stranger")
		r := grouptest.NewWithPolicy(a, "closed", b, c)
		for _, row := range []struct {
			what     string
			by, whom *kit.Agent
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
			answered := matches(r.Role(row.by, row.whom, row.role).As("%s", row.what), row.want)
			if answered.Status == 200 {
				answered.Shaped(grouptest.MemberShape).Is("agent_id", row.whom.ID, "role", row.role)
			}
			if admins := admins(r, a); admins != row.admins {
				t.Errorf("%s: the admins are %q, want %q", row.what, admins, row.admins)
			}
		}
		r.Role(b, a, "owner").Invalid("body.role", "enum")
		b.Request("PATCH", r.Path("/members/"+a.ID), obj{}).Invalid("body.role", "missing")
		o.Patch(r.Path("/members/"+a.ID), obj{"role": "admin"}).As("the organization's admin acts where none is named").Want(200).Is("role", "admin")
		r.Remove(b, b).As("an admin leaves where another stays").Want(204)
		r.CheckMembers("after all", a, c)
	})
}

// TestMemberRows: the member listing, and which agents belong to the caller.
func TestMemberRows(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		a := o.Agent("a")
		var others []*kit.Agent
		for range 6 {
			others = append(others, other.Agent("m"+kit.RandomHex(3)))
		}
		r := grouptest.NewWithPolicy(a, "closed", others...)
		for _, reader := range []*kit.Agent{a, others[2]} {
			rows := r.Members(reader)
			for _, m := range rows {
				if own := (m["agent_id"] == a.ID) == (reader == a); m["is_own_org"] != own {
					t.Errorf("to %s: is_own_org of %v", reader.Name, m)
				}
			}
			var whole, walked []string
			for _, m := range rows {
				whole = append(whole, kit.Text(m, "id"))
			}
			for _, m := range reader.List(r.Path("/members"), "?limit=2") {
				walked = append(walked, kit.Text(m, "id"))
			}
			if !slices.Equal(whole, walked) || len(slices.Compact(slices.Sorted(slices.Values(whole)))) != 7 {
				t.Errorf("page by page %v, at once %v", walked, whole)
			}
		}
		before := r.Members(a)
		r.Remove(others[0], others[0]).Want(204)
		r.Seats(others[0])
		after := r.Members(a)
		find := func(rows []obj) obj {
			return rows[slices.IndexFunc(rows, func(m obj) bool { return m["agent_id"] == others[0].ID })]
		}
		if was, is := find(before), find(after); was["id"] == is["id"] || kit.Text(was, "joined_at") > kit.Text(is, "joined_at") {
			t.Errorf("a membership that began again: before %v, after %v", was, is)
		}
		a.Request("GET", r.Path("/members?limit=0"), nil).Invalid("query.limit", "greater_than_equal")
		a.Request("GET", r.Path("/members?cursor=nonsense"), nil).Refused(400, "invalid_cursor")
	})
}

// TestRevokingAMember: a revoked agent leaves every group; the other members remain.
func TestRevokingAMember(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		own, other := s.Org(t), s.Org(t)
		g := own.Agent("first")
		others := []*kit.Agent{other.Agent("x"), own.Agent("y"), own.Agent("z")}
		r := grouptest.NewWithPolicy(g, "closed", others...)
		g.Delete(g.Path("")).Want(204)
		r.By = others[1]
		kit.Eventually(t, "the longest-seated of the owning organization", func() bool { return admins(r, r.By) == r.By.Name })
		r.CheckMembers("with another admin", others...)
		r.Patch(obj{"description": "inherited"}).Want(200)
		g.Get(g.Path("")).As("its own record").Want(200)
		g.Get(g.Path("/messages")).As("its own inbox").Want(200)
		g.Delete(g.Path("")).As("again").Want(204)
		g, second := own.Agent("g"), own.Agent("second")
		r = grouptest.NewWithPolicy(g, "closed", second)
		r.Role(g, second, "admin").Want(200)
		second.Delete(second.Path("")).Want(204)
		kit.Eventually(t, "an admin of several", func() bool { return r.Read(g).At("member_count") == 1.0 })
		r.CheckMembers("an admin of several", g)

		alone := own.Agent("alone")
		empty := grouptest.New(alone)
		alone.Delete(alone.Path("")).Want(204)
		kit.Eventually(t, "a group without members is deleted", func() bool { return own.Get(empty.Path("")).Status == 410 })
		own.Get(empty.Path("")).Refused(410, "gone")
	})
}

// TestRevocationResolvesRequests: a revoked elector no longer counts; requests of a revoked
// applicant, nominee or invitee end.
func TestRevocationResolvesRequests(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, guests := s.Org(t), s.Org(t)
		a, b, c := o.Agent("a"), o.Agent("b"), o.Agent("c")
		x := guests.Agent("x")
		r := grouptest.NewWithPolicy(a, "unanimity", b, c)
		id := kit.Text(r.Applied(x), "id")
		voted(r, a, id, "approve")
		voted(r, b, id, "approve")
		c.Delete(c.Path("")).Want(204)
		kit.Eventually(t, "the electorate recounts", func() bool { return r.Request(a, id)["status"] == "approved" })
		r.CheckMembers("after an elector was revoked", a, b, x)

		applicant, nominee, invitee := guests.Agent("applicant"), guests.Agent("nominee"), guests.Agent("invitee")
		closed := grouptest.New(a)
		requests := map[*kit.Agent]struct {
			r  *grouptest.Group
			id string
		}{
			applicant: {r, kit.Text(r.Applied(applicant), "id")},
			nominee:   {r, r.Invited(a, nominee, "pending")},
			invitee:   {closed, closed.Invited(a, invitee, "invited")},
		}
		for g := range requests {
			g.Delete(g.Path("")).Want(204)
		}
		for g, q := range requests {
			kit.Eventually(t, "the request of the "+g.Name, func() bool { return q.r.Request(a, q.id)["status"] == "canceled" })
			checkRequest(q.r, g.Name, a, q.id, "status", "canceled", "agent_id", g.ID)
			q.r.Join(g).As("%s", g.Name).Refused(403, "not_owner")
		}
		r.Vote(b, requests[applicant].id, "approve").Refused(409, "request_closed")
		if n := len(guests.Get("/groups/invites").Want(200).List); n != 0 {
			t.Errorf("%d invites of revoked agents", n)
		}
	})
}
