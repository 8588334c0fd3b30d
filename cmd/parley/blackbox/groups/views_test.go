package groups

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// groupViews lists what each caller sees of a closed group. owner is its founder's
// organization and acts as its admin; seat has a member in it; guest has an invitation;
// other has no part in it. A cell is a status and, if it matters, a code. The last
// columns are for a deleted group.
var groupViews = []struct {
	ask     string
	private string // owner seat guest other
	public  string
	deleted string // owner seat other
}{
	{"read", "200 200 404 404", "200 200 403 403", "410 410 404"},
	{"members", "200 200 404 404", "200 200 403 403", "410 410 404"},
	{"requests", "200 200 404 404", "200 200 403 403", "410 410 404"},
	{"change", "200 403:not_admin 404 404", "200 403:not_admin 403 403", "410 410 404"},
	{"role", "200 403:not_admin 404 404", "200 403:not_admin 403 403", "410 410 404"},
	{"invite", "409:already_invited 403:not_admin 404 404", "409:already_invited 403:not_admin 403 403", "410 410 404"},
	{"kick", "422:last_admin 403:not_admin 404 404", "422:last_admin 403:not_admin 403 403", "410 410 404"},
	{"send", "201 201 404 404", "201 201 403:not_member 403:not_member", "410 410 404"},
	{"join", "409:already_member 409:already_member - 403:invitation_required", "409:already_member 409:already_member - 403:invitation_required", "410 410 -"},
	{"delete", "- 403:not_admin 404 404", "- 403:not_admin 403 403", "204 410 404"},
}

// requestView makes one of the requests of the table.
func requestView(r *grouptest.Group, what string, by, guest *kit.Agent) *kit.Answer {
	switch what {
	case "read":
		return by.Get(r.Path(""))
	case "members":
		return by.Get(r.Path("/members"))
	case "requests":
		return by.Get(r.Path("/requests"))
	case "change":
		return by.Patch(r.Path(""), obj{"description": "seen"})
	case "role":
		return by.Patch(r.Path("/members/"+r.By.ID), obj{"role": "admin"})
	case "invite":
		return by.Post(r.Path("/invite"), obj{"agent_id": guest.ID})
	case "kick":
		return by.Delete(r.Path("/members/" + r.By.ID))
	case "send":
		return by.Post("/messages", kit.ToHandle(r.Handle))
	case "join":
		return by.Post(r.Path("/join"), nil)
	case "delete":
		return by.Delete(r.Path(""))
	}
	panic("no such view: " + what)
}

func TestGroupViews(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		owner, seat, guest, other := s.Org(t).Agent("owner"), s.Org(t).Agent("seat"), s.Org(t).Agent("guest"), s.Org(t).Agent("other")
		groups := map[string]*grouptest.Group{}
		for _, visibility := range []string{"private", "public"} {
			r := grouptest.NewWithPolicy(owner, "closed", seat)
			r.Patch(obj{"visibility": visibility}).Want(200)
			r.Invited(owner, guest, "invited")
			groups[visibility] = r
		}
		gone := grouptest.NewWithPolicy(owner, "closed", seat)
		gone.Invited(owner, guest, "invited")
		owner.Request("DELETE", gone.Path(""), nil).Want(204)
		for _, row := range groupViews {
			for visibility, cells := range map[string]string{"private": row.private, "public": row.public} {
				for i, cell := range strings.Fields(cells) {
					if by := []*kit.Agent{owner, seat, guest, other}[i]; cell != "-" {
						matches(requestView(groups[visibility], row.ask, by, guest).As("%s a %s group, %s", row.ask, visibility, by.Name), cell)
					}
				}
			}
			for i, cell := range strings.Fields(row.deleted) {
				if by := []*kit.Agent{owner, seat, other}[i]; cell != "-" {
					matches(requestView(gone, row.ask, by, guest).As("%s a deleted group, %s", row.ask, by.Name), cell)
				}
			}
			unknown := &grouptest.Group{T: t, By: owner, ID: kit.Nobody, Handle: "#nothing@" + owner.Slug + ".localhost"}
			requestView(unknown, row.ask, owner, guest).As("%s an unknown group", row.ask).Refused(404, "not_found")
			requestView(byHandle(unknown), row.ask, owner, guest).As("%s an unknown handle", row.ask).Refused(404, "not_found")
			s.Call(t, "", "GET", groups["public"].Path(""), nil).Refused(401, "not_authenticated")
		}
	})
}

// byHandle returns a group with its handle in place of its id in paths.
func byHandle(r *grouptest.Group) *grouptest.Group {
	return &grouptest.Group{T: r.T, By: r.By, ID: strings.Replace(r.Handle, "#", "%23", 1), Handle: r.Handle}
}

// TestGroupsByHandle: a handle stands for the id in paths, but it is no secret: a caller who may not
// know of a private group gets what a handle without a group gets, of join and vote too.
func TestGroupsByHandle(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		owner, seat, guest, other := s.Org(t).Agent("owner"), s.Org(t).Agent("seat"), s.Org(t).Agent("guest"), s.Org(t).Agent("other")
		groups := map[string]*grouptest.Group{}
		for _, visibility := range []string{"private", "public"} {
			r := grouptest.NewWithPolicy(owner, "closed", seat)
			r.Patch(obj{"visibility": visibility}).Want(200)
			r.Invited(owner, guest, "invited")
			groups[visibility] = byHandle(r)
		}
		for _, row := range groupViews {
			for visibility, cells := range map[string]string{"private": row.private, "public": row.public} {
				for i, cell := range strings.Fields(cells) {
					by := []*kit.Agent{owner, seat, guest, other}[i]
					if visibility == "private" && row.ask == "join" && by == other {
						cell = "404"
					}
					if cell != "-" {
						matches(requestView(groups[visibility], row.ask, by, guest).As("%s a %s group by handle, %s", row.ask, visibility, by.Name), cell)
					}
				}
			}
		}
		r := groups["private"]
		handle := strings.TrimPrefix(r.ID, "%23")
		owner.Get("/groups/"+strings.ToUpper(handle)).As("without #, in capitals").Want(200).Is("handle", r.Handle)
		owner.Get("/groups/"+strings.Split(handle, "@")[0]).As("bare name").Invalid("path.id", "uuid_parsing")
		owner.Get("/groups/%23@"+owner.Slug+".localhost").As("no handle").Invalid("path.id", "value_error")
		owner.Get("/groups/"+owner.Handle).As("an agent's handle").Refused(404, "not_found")
		owner.Get("/groups/"+strings.Replace(r.ID, "localhost", "elsewhere.example", 1)).As("another domain").Refused(404, "not_found")
		s.Call(t, "", "GET", "/directory/groups/"+r.ID, nil).As("profile of a private group").Refused(404, "not_found")
		s.Call(t, "", "GET", "/directory/groups/"+groups["public"].ID, nil).As("profile").Want(200).Is("handle", groups["public"].Handle)
		r.Join(guest).As("an invited agent joins by handle").Want(200)
		owner.Request("PATCH", r.Path("/members/"+strings.ToUpper(guest.Handle)), obj{"role": "admin"}).As("a member by handle").Want(200).Is("agent_id", guest.ID)
		owner.Delete(r.Path("/members/"+other.Handle)).As("no member").Refused(404, "not_found")
		owner.Delete(r.Path("/members/nobody@"+other.Slug+".localhost")).As("no agent").Refused(404, "not_found")
		owner.Delete(r.Path("/members/" + guest.Handle)).Want(204)
	})
}

// TestVotesByHandle: electors and applicants of a private group may use its handle; to others it
// is unknown, whether the request is known or not.
func TestVotesByHandle(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		owner, seat := s.Org(t).Agent("owner"), s.Org(t).Agent("seat")
		applicant, stranger := s.Org(t).Agent("applicant"), s.Org(t).Agent("stranger")
		r := grouptest.NewWithPolicy(owner, "majority", seat)
		byHandle := byHandle(r)
		byHandle.Join(applicant).As("a stranger to the handle").Refused(404, "not_found")
		request := kit.Text(r.Applied(applicant), "id")
		byHandle.Join(applicant).As("an applicant").Want(200).Is("status", "pending", "request.id", request)
		byHandle.Vote(stranger, request, "approve").As("by a stranger").Refused(404, "not_found")
		stranger.Org.Post(byHandle.Path("/requests/"+request+"/vote"), obj{"vote": "approve"}).As("no agent named").Refused(404, "not_found")
		byHandle.Vote(applicant, request, "approve").As("by the applicant").Refused(403, "not_in_electorate")
		r.Vote(stranger, request, "approve").As("by id").Refused(403, "not_in_electorate")
		seat.Org.Post(byHandle.Path("/requests/"+request+"/vote"), obj{"vote": "approve"}).As("an elector").Want(200).Is("status", "pending")
		byHandle.Vote(owner, request, "approve").As("the last vote").Want(200).Is("status", "approved")
	})
}

// TestPrivateIsAsUnknown: a stranger gets the same answers for a private group as for an
// unknown id.
func TestPrivateIsAsUnknown(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, stranger := s.Org(t).Agent("g"), s.Org(t).Agent("stranger")
		r := grouptest.New(g)
		unknown := &grouptest.Group{T: t, By: g, ID: kit.Nobody, Handle: "#" + grouptest.NewName() + "@" + g.Slug + ".localhost"}
		for _, ask := range []string{"read", "members", "requests", "change", "role", "invite", "kick", "send", "delete"} {
			same(t, ask, requestView(r, ask, stranger, stranger), requestView(unknown, ask, stranger, stranger))
		}
		for _, ask := range []string{"read", "members", "requests", "change", "role", "invite", "kick", "join", "delete"} {
			same(t, ask+" by handle", requestView(byHandle(r), ask, stranger, stranger), requestView(byHandle(unknown), ask, stranger, stranger))
		}
		for _, ask := range []string{"/mls/commits", "/mls/group-info", "/mls/welcomes"} {
			same(t, ask, stranger.Get(byHandle(r).Path(ask)), stranger.Get(byHandle(unknown).Path(ask)))
		}
	})
}

// same checks that a private group is answered as what is unknown.
func same(t *testing.T, ask string, private, nothing *kit.Answer) {
	t.Helper()
	if private.Status != nothing.Status || private.At("code") != nothing.At("code") || private.At("detail") != nothing.At("detail") {
		t.Errorf("%s: a private group is answered %s %v, an unknown one %s %v", ask, summary(private), private.At("detail"), summary(nothing), nothing.At("detail"))
	}
}

// TestGroupDeletion: what ends with a group and what remains possible.
func TestGroupDeletion(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, mate := o.Agent("g"), o.Agent("mate")
		seat, x, y := s.Org(t).Agent("seat"), s.Org(t).Agent("x"), s.Org(t).Agent("y")
		r := grouptest.NewWithPolicy(g, "majority", mate, seat)
		r.Applied(x)
		r.Invited(g, y, "pending")
		said := r.Broadcast(g)
		copied := seat.Everything()[0]
		mate.Request("DELETE", r.Path(""), nil).Refused(403, "not_admin")
		g.Request("DELETE", r.Path(""), nil).Want(204)
		g.Request("DELETE", r.Path(""), nil).As("again").Want(204)
		o.Delete(r.Path("")).As("again, by its organization").Want(204)
		mate.Request("DELETE", r.Path(""), nil).As("again, by a member").Refused(410, "gone")
		x.Request("DELETE", r.Path(""), nil).As("again, by a stranger").Refused(404, "not_found")
		r.Join(seat).Refused(410, "gone")
		if n := len(y.Get("/groups/invites").Want(200).List); n != 0 {
			t.Errorf("%d invites into a deleted group", n)
		}
		if n := len(o.Pages("/groups", "?limit=50")); n != 0 {
			t.Errorf("%d groups are listed", n)
		}
		s.Call(t, "", "GET", "/directory/groups/"+r.ID, nil).Refused(404, "not_found")

		for _, reader := range []*kit.Agent{g, seat} {
			reader.Request("GET", "/conversations/"+kit.Text(said, "conversation_id"), nil).As("its conversation stays readable").Want(200)
			if rows := reader.List("/conversations/"+kit.Text(said, "conversation_id")+"/messages", "?limit=50"); len(rows) != 1 {
				t.Errorf("%s sees %d rows", reader.Name, len(rows))
			}
		}
		seat.Request("GET", "/messages/"+kit.Text(copied, "id"), nil).Want(200).Is("group_id", r.ID, "group_handle", r.Handle)
		g.Reply(seat.Reply(copied)) // replies remain possible
		r.TryBroadcast(g, nil).As("broadcasts do not").Refused(410, "gone")
	})
}

// TestGroupLists: the groups of an organization, and those in which it has a member.
func TestGroupLists(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		g, host := o.Agent("g"), other.Agent("host")
		var owned, seated []any
		for range 5 {
			owned = append(owned, grouptest.New(g).ID)
		}
		for range 2 {
			r := grouptest.New(host, obj{"enrollment_policy": "open"})
			r.Joined(g)
			seated = append(seated, r.ID)
		}
		both := grouptest.New(o.Agent("second"), obj{"enrollment_policy": "open"})
		both.Joined(g)
		grouptest.New(host)
		owned = append(owned, both.ID)
		for query, want := range map[string][]any{
			"?limit=2":              owned,
			"?limit=2&scope=owned":  owned,
			"?limit=2&scope=seated": slices.Concat(owned, seated),
			"?limit=50&scope=all":   slices.Concat(owned, seated),
		} {
			got := []any{}
			for _, row := range o.Pages("/groups", query) {
				kit.Shaped(t, "group", row, grouptest.Shape)
				got = append(got, row["id"])
			}
			if !kit.SameSet(got, want) {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		if n := len(other.Pages("/groups", "?limit=50")); n != 3 {
			t.Errorf("the other organization has %d groups, want 3", n)
		}
		o.Get("/groups?limit=0").Invalid("query.limit", "greater_than_equal")
		o.Get("/groups?scope=odd").Invalid("query.scope", "enum")
		o.Get("/groups?cursor=nonsense").Refused(400, "invalid_cursor")
		foreign := o.Get("/groups?limit=1").Want(200).Str("next_cursor")
		other.Get("/groups?limit=1&cursor="+url.QueryEscape(foreign)).As("another organization's cursor").Refused(400, "invalid_cursor")
	})
}

// TestGroupDirectory: public groups, searched by name and description.
func TestGroupDirectory(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, x := s.Org(t).Agent("g"), s.Org(t).Agent("x")
		word := "w" + kit.RandomHex(5)
		r := grouptest.New(g, obj{"name": "birds-" + word, "description": "Talks of " + word + " and ornithology.", "visibility": "public"})
		private := grouptest.New(g, obj{"name": "hidden-" + word, "description": word})
		find := func(query string) []obj {
			t.Helper()
			return kit.Objects(s.Call(t, "", "GET", "/directory/groups?limit=50&q="+query, nil).Want(200).At("items").([]any))
		}
		found := func(query string, want bool) {
			t.Helper()
			kit.Eventually(t, "the directory, asked for "+query, func() bool {
				return slices.ContainsFunc(find(query), func(row obj) bool { return row["id"] == r.ID }) == want
			})
		}
		for _, query := range []string{word, strings.ToUpper(word), "birds-" + word, word + "+ornithology", "birds+" + word, word[:8]} {
			found(query, true)
			if slices.ContainsFunc(find(query), func(row obj) bool { return row["id"] == private.ID }) {
				t.Errorf("%s finds a private group", query)
			}
		}
		found("nothing-"+kit.RandomHex(8), false)
		profile := s.Call(t, "", "GET", "/directory/groups/"+r.ID, nil).Want(200)
		for what, row := range map[string]obj{"profile": profile.Body, "row": find(word)[0]} {
			kit.Exactly(t, what, row, profileFields)
			for name, want := range map[string]any{"id": r.ID, "name": r.Name, "handle": r.Handle, "org_id": g.Org.ID, "enrollment_policy": "closed", "vote_duration_hours": 72, "member_count": 1, "mls_enabled": false, "created_at": r.Read(g).At("created_at")} {
				if !kit.Same(row[name], want) {
					t.Errorf("%s of the %s is %v, want %v", name, what, row[name], want)
				}
			}
		}
		r.Seats(x)
		r.Patch(obj{"description": "Changed."}).Want(200)
		kit.Eventually(t, "the profile follows", func() bool {
			p := s.Call(t, "", "GET", "/directory/groups/"+r.ID, nil)
			return p.At("member_count") == 2.0 && p.At("description") == "Changed."
		})
		found("birds-"+word, true)
		r.Patch(obj{"visibility": "private"}).Want(200)
		found("birds-"+word, false)
		for what, id := range map[string]string{"private": private.ID, "private now": r.ID, "unknown": kit.Nobody} {
			s.Call(t, "", "GET", "/directory/groups/"+id, nil).As("%s", what).Refused(404, "not_found")
		}
		r.Patch(obj{"visibility": "public"}).Want(200)
		found("birds-"+word, true)
		g.Request("DELETE", r.Path(""), nil).Want(204)
		found("birds-"+word, false)
	})
}

// TestGroupDirectoryPages: the directory in pages.
func TestGroupDirectoryPages(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("g")
		word := "p" + kit.RandomHex(5)
		want := []any{}
		for range 5 {
			want = append(want, grouptest.New(g, obj{"visibility": "public", "description": "about " + word}).ID)
		}
		var got []any
		kit.Eventually(t, "all are found", func() bool {
			got = nil
			cursor := ""
			for range 10 {
				a := s.Call(t, "", "GET", "/directory/groups?limit=2&q="+word+cursor, nil).Want(200)
				for _, row := range a.Items() {
					got = append(got, row["id"])
				}
				if a.At("has_more") != true {
					break
				}
				cursor = "&cursor=" + url.QueryEscape(a.Str("next_cursor"))
			}
			return len(got) >= 5
		})
		if !kit.SameSet(got, want) {
			t.Errorf("page by page %v, want %v", got, want)
		}
		s.Call(t, "", "GET", "/directory/groups", nil).As("browsing").Want(200).Items()
		for query, kind := range map[string]string{"limit=0": "greater_than_equal", "limit=51": "less_than_equal", "limit=x": "int_parsing"} {
			s.Call(t, "", "GET", "/directory/groups?"+query, nil).Invalid("query.limit", kind)
		}
		s.Call(t, "", "GET", "/directory/groups?cursor=nonsense", nil).Refused(400, "invalid_cursor")
	})
}

// TestOrderOfGroupChecks: schema, acting agent, existence, access, state.
func TestOrderOfGroupChecks(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, x := s.Org(t).Agent("g"), s.Org(t).Agent("x")
		r, named := grouptest.New(g), []string{"X-Svc-Agent", kit.Nobody}
		for _, row := range []struct {
			method, path string
			bad, good    obj
		}{
			{"PATCH", "/groups/" + kit.Nobody, obj{"visibility": "x"}, obj{"description": "x"}},
			{"POST", "/groups/" + kit.Nobody + "/invite", obj{"agent_id": "x"}, obj{"agent_id": x.ID}},
			{"POST", "/groups/" + kit.Nobody + "/requests/" + kit.Nobody + "/vote", obj{"vote": "x"}, obj{"vote": "deny"}},
			{"PATCH", "/groups/" + kit.Nobody + "/members/" + kit.Nobody, obj{"role": "x"}, obj{"role": "admin"}},
			{"POST", "/groups/" + kit.Nobody + "/join", obj{"message": strings.Repeat("m", 501)}, obj{}},
		} {
			ask := func(token string, body obj, headers ...string) *kit.Answer {
				return s.Call(t, token, row.method, row.path, body, headers...)
			}
			ask("", row.bad).As("401 first").Refused(401, "not_authenticated")
			if a := ask(g.Token, row.bad, named...).As("schema before acting agent"); a.Status != 422 {
				a.Errorf("want 422")
			}
			ask(g.Token, row.good, named...).As("acting agent before existence").Refused(403, "not_owner")
			ask(g.Token, row.good).As("existence").Refused(404, "not_found")
		}
		g.Request("DELETE", "/groups/"+kit.Nobody, nil).Refused(404, "not_found")
		g.Delete("/groups/"+kit.Nobody, named...).As("acting agent before existence").Refused(403, "not_owner")
		g.Get("/groups/none").Invalid("path", "uuid_parsing")
		g.Get("/groups/"+g.ID).As("the id of another kind").Refused(404, "not_found")
		g.Get("/groups", named...).As("a list has no acting agent").Want(200)
		r.Patch(obj{"visibility": "public"}).Want(200)
		matches(x.Request("PATCH", r.Path(""), obj{"name": "another"}).As("access before state"), "403")
	})
}
