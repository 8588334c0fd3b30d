package blackbox

import (
	"net/url"
	"slices"
	"strings"
	"testing"
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
	{"delete", "- 403:not_admin 404 404", "- 403:not_admin 403 403", "410 410 404"},
}

// requestView makes one of the requests of the table.
func (r *group) requestView(what string, by, guest *Agent) *Answer {
	switch what {
	case "read":
		return by.Get(r.path(""))
	case "members":
		return by.Get(r.path("/members"))
	case "requests":
		return by.Get(r.path("/requests"))
	case "change":
		return by.Patch(r.path(""), obj{"description": "seen"})
	case "role":
		return by.Patch(r.path("/members/"+r.by.ID), obj{"role": "admin"})
	case "invite":
		return by.Post(r.path("/invite"), obj{"agent_id": guest.ID})
	case "kick":
		return by.Delete(r.path("/members/" + r.by.ID))
	case "send":
		return by.Post("/messages", ToHandle(r.handle))
	case "join":
		return by.Post(r.path("/join"), nil)
	case "delete":
		return by.Delete(r.path(""))
	}
	panic("no such view: " + what)
}

func TestGroupViews(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		owner, seat, guest, other := s.Org(t).Agent("owner"), s.Org(t).Agent("seat"), s.Org(t).Agent("guest"), s.Org(t).Agent("other")
		groups := map[string]*group{}
		for _, visibility := range []string{"private", "public"} {
			r := owner.groupWithPolicy("closed", seat)
			r.patch(obj{"visibility": visibility}).Want(200)
			r.invited(owner, guest, "invited")
			groups[visibility] = r
		}
		gone := owner.groupWithPolicy("closed", seat)
		gone.invited(owner, guest, "invited")
		owner.Request("DELETE", gone.path(""), nil).Want(204)
		for _, row := range groupViews {
			for visibility, cells := range map[string]string{"private": row.private, "public": row.public} {
				for i, cell := range strings.Fields(cells) {
					if by := []*Agent{owner, seat, guest, other}[i]; cell != "-" {
						groups[visibility].requestView(row.ask, by, guest).As("%s a %s group, %s", row.ask, visibility, by.Name).matches(cell)
					}
				}
			}
			for i, cell := range strings.Fields(row.deleted) {
				if by := []*Agent{owner, seat, other}[i]; cell != "-" {
					gone.requestView(row.ask, by, guest).As("%s a deleted group, %s", row.ask, by.Name).matches(cell)
				}
			}
			unknown := &group{t: t, by: owner, id: Nobody, handle: "#nothing@" + owner.Slug + ".localhost"}
			unknown.requestView(row.ask, owner, guest).As("%s an unknown group", row.ask).Refused(404, "not_found")
			s.Call(t, "", "GET", groups["public"].path(""), nil).Refused(401, "not_authenticated")
		}
	})
}

// TestPrivateIsAsUnknown: a stranger gets the same answers for a private group as for an
// unknown id.
func TestPrivateIsAsUnknown(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g, stranger := s.Org(t).Agent("g"), s.Org(t).Agent("stranger")
		r := g.group()
		unknown := &group{t: t, by: g, id: Nobody, handle: "#" + groupName() + "@" + g.Slug + ".localhost"}
		for _, ask := range []string{"read", "members", "requests", "change", "role", "invite", "kick", "send", "delete"} {
			private, nothing := r.requestView(ask, stranger, stranger), unknown.requestView(ask, stranger, stranger)
			if private.Status != nothing.Status || private.At("code") != nothing.At("code") || private.At("detail") != nothing.At("detail") {
				t.Errorf("%s: a private group is answered %s %v, an unknown id %s %v", ask, private.summary(), private.At("detail"), nothing.summary(), nothing.At("detail"))
			}
		}
	})
}

// TestGroupDeletion: what ends with a group and what remains possible.
func TestGroupDeletion(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		g, mate := o.Agent("g"), o.Agent("mate")
		seat, x, y := s.Org(t).Agent("seat"), s.Org(t).Agent("x"), s.Org(t).Agent("y")
		r := g.groupWithPolicy("majority", mate, seat)
		r.applied(x)
		r.invited(g, y, "pending")
		said := r.broadcast(g)
		copied := seat.Everything()[0]
		mate.Request("DELETE", r.path(""), nil).Refused(403, "not_admin")
		g.Request("DELETE", r.path(""), nil).Want(204)
		g.Request("DELETE", r.path(""), nil).As("again").Refused(410, "gone")
		r.join(seat).Refused(410, "gone")
		if n := len(y.Get("/groups/invites").Want(200).List); n != 0 {
			t.Errorf("%d invites into a deleted group", n)
		}
		if n := len(o.Pages("/groups", "?limit=50")); n != 0 {
			t.Errorf("%d groups are listed", n)
		}
		s.Call(t, "", "GET", "/directory/groups/"+r.id, nil).Refused(404, "not_found")

		for _, reader := range []*Agent{g, seat} {
			reader.Request("GET", "/conversations/"+Text(said, "conversation_id"), nil).As("its conversation stays readable").Want(200)
			if rows := reader.List("/conversations/"+Text(said, "conversation_id")+"/messages", "?limit=50"); len(rows) != 1 {
				t.Errorf("%s sees %d rows", reader.Name, len(rows))
			}
		}
		seat.Request("GET", "/messages/"+Text(copied, "id"), nil).Want(200).Is("group_id", r.id, "group_handle", r.handle)
		g.Reply(seat.Reply(copied)) // replies remain possible
		r.tryBroadcast(g, nil).As("broadcasts do not").Refused(410, "gone")
	})
}

// TestGroupLists: the groups of an organization, and those in which it has a member.
func TestGroupLists(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o, other := s.Org(t), s.Org(t)
		g, host := o.Agent("g"), other.Agent("host")
		var owned, seated []any
		for range 5 {
			owned = append(owned, g.group().id)
		}
		for range 2 {
			r := host.group(obj{"enrollment_policy": "open"})
			r.joined(g)
			seated = append(seated, r.id)
		}
		both := o.Agent("second").group(obj{"enrollment_policy": "open"})
		both.joined(g)
		host.group()
		owned = append(owned, both.id)
		for query, want := range map[string][]any{
			"?limit=2":              owned,
			"?limit=2&scope=owned":  owned,
			"?limit=2&scope=seated": slices.Concat(owned, seated),
			"?limit=50&scope=all":   slices.Concat(owned, seated),
		} {
			got := []any{}
			for _, row := range o.Pages("/groups", query) {
				Shaped(t, "group", row, groupShape)
				got = append(got, row["id"])
			}
			if !SameSet(got, want) {
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
	Each(t, func(t *testing.T, s *Server) {
		g, x := s.Org(t).Agent("g"), s.Org(t).Agent("x")
		word := "w" + RandomHex(5)
		r := g.group(obj{"name": "birds-" + word, "description": "Talks of " + word + " and ornithology.", "visibility": "public"})
		private := g.group(obj{"name": "hidden-" + word, "description": word})
		find := func(query string) []obj {
			t.Helper()
			return Objects(s.Call(t, "", "GET", "/directory/groups?limit=50&q="+query, nil).Want(200).At("items").([]any))
		}
		found := func(query string, want bool) {
			t.Helper()
			Eventually(t, "the directory, asked for "+query, func() bool {
				return slices.ContainsFunc(find(query), func(row obj) bool { return row["id"] == r.id }) == want
			})
		}
		for _, query := range []string{word, strings.ToUpper(word), "birds-" + word, word + "+ornithology", "birds+" + word, word[:8]} {
			found(query, true)
			if slices.ContainsFunc(find(query), func(row obj) bool { return row["id"] == private.id }) {
				t.Errorf("%s finds a private group", query)
			}
		}
		found("nothing-"+RandomHex(8), false)
		profile := s.Call(t, "", "GET", "/directory/groups/"+r.id, nil).Want(200)
		for what, row := range map[string]obj{"profile": profile.Body, "row": find(word)[0]} {
			Exactly(t, what, row, profileFields)
			for name, want := range map[string]any{"id": r.id, "name": r.name, "handle": r.handle, "org_id": g.Org.ID, "enrollment_policy": "closed", "vote_duration_hours": 72, "member_count": 1, "mls_enabled": false, "created_at": r.read(g).At("created_at")} {
				if !Same(row[name], want) {
					t.Errorf("%s of the %s is %v, want %v", name, what, row[name], want)
				}
			}
		}
		r.seats(x)
		r.patch(obj{"description": "Changed."}).Want(200)
		Eventually(t, "the profile follows", func() bool {
			p := s.Call(t, "", "GET", "/directory/groups/"+r.id, nil)
			return p.At("member_count") == 2.0 && p.At("description") == "Changed."
		})
		found("birds-"+word, true)
		r.patch(obj{"visibility": "private"}).Want(200)
		found("birds-"+word, false)
		for what, id := range map[string]string{"private": private.id, "private now": r.id, "unknown": Nobody} {
			s.Call(t, "", "GET", "/directory/groups/"+id, nil).As("%s", what).Refused(404, "not_found")
		}
		r.patch(obj{"visibility": "public"}).Want(200)
		found("birds-"+word, true)
		g.Request("DELETE", r.path(""), nil).Want(204)
		found("birds-"+word, false)
	})
}

// TestGroupDirectoryPages: the directory in pages.
func TestGroupDirectoryPages(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g := s.Org(t).Agent("g")
		word := "p" + RandomHex(5)
		want := []any{}
		for range 5 {
			want = append(want, g.group(obj{"visibility": "public", "description": "about " + word}).id)
		}
		var got []any
		Eventually(t, "all are found", func() bool {
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
		if !SameSet(got, want) {
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
	Each(t, func(t *testing.T, s *Server) {
		g, x := s.Org(t).Agent("g"), s.Org(t).Agent("x")
		r, named := g.group(), []string{"X-Svc-Agent", Nobody}
		for _, row := range []struct {
			method, path string
			bad, good    obj
		}{
			{"PATCH", "/groups/" + Nobody, obj{"visibility": "x"}, obj{"description": "x"}},
			{"POST", "/groups/" + Nobody + "/invite", obj{"agent_id": "x"}, obj{"agent_id": x.ID}},
			{"POST", "/groups/" + Nobody + "/requests/" + Nobody + "/vote", obj{"vote": "x"}, obj{"vote": "deny"}},
			{"PATCH", "/groups/" + Nobody + "/members/" + Nobody, obj{"role": "x"}, obj{"role": "admin"}},
			{"POST", "/groups/" + Nobody + "/join", obj{"message": strings.Repeat("m", 501)}, obj{}},
		} {
			ask := func(token string, body obj, headers ...string) *Answer {
				return s.Call(t, token, row.method, row.path, body, headers...)
			}
			ask("", row.bad).As("401 first").Refused(401, "not_authenticated")
			if a := ask(g.Token, row.bad, named...).As("schema before acting agent"); a.Status != 422 {
				a.Errorf("want 422")
			}
			ask(g.Token, row.good, named...).As("acting agent before existence").Refused(403, "not_owner")
			ask(g.Token, row.good).As("existence").Refused(404, "not_found")
		}
		g.Request("DELETE", "/groups/"+Nobody, nil).Refused(404, "not_found")
		g.Delete("/groups/"+Nobody, named...).As("acting agent before existence").Refused(403, "not_owner")
		g.Get("/groups/none").Invalid("path", "uuid_parsing")
		g.Get("/groups/"+g.ID).As("the id of another kind").Refused(404, "not_found")
		g.Get("/groups", named...).As("a list has no acting agent").Want(200)
		r.patch(obj{"visibility": "public"}).Want(200)
		x.Request("PATCH", r.path(""), obj{"name": "another"}).As("access before state").matches("403")
	})
}
