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
func (r *group) requestView(what string, by, guest *agent) *answer {
	switch what {
	case "read":
		return by.get(r.path(""))
	case "members":
		return by.get(r.path("/members"))
	case "requests":
		return by.get(r.path("/requests"))
	case "change":
		return by.patch(r.path(""), obj{"description": "seen"})
	case "role":
		return by.patch(r.path("/members/"+r.by.id), obj{"role": "admin"})
	case "invite":
		return by.post(r.path("/invite"), obj{"agent_id": guest.id})
	case "kick":
		return by.delete(r.path("/members/" + r.by.id))
	case "send":
		return by.post("/messages", toHandle(r.handle))
	case "join":
		return by.post(r.path("/join"), nil)
	case "delete":
		return by.delete(r.path(""))
	}
	panic("no such view: " + what)
}

func TestGroupViews(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		owner, seat, guest, other := s.org(t).agent("owner"), s.org(t).agent("seat"), s.org(t).agent("guest"), s.org(t).agent("other")
		groups := map[string]*group{}
		for _, visibility := range []string{"private", "public"} {
			r := owner.groupWithPolicy("closed", seat)
			r.patch(obj{"visibility": visibility}).want(200)
			r.invited(owner, guest, "invited")
			groups[visibility] = r
		}
		gone := owner.groupWithPolicy("closed", seat)
		gone.invited(owner, guest, "invited")
		owner.request("DELETE", gone.path(""), nil).want(204)
		for _, row := range groupViews {
			for visibility, cells := range map[string]string{"private": row.private, "public": row.public} {
				for i, cell := range strings.Fields(cells) {
					if by := []*agent{owner, seat, guest, other}[i]; cell != "-" {
						groups[visibility].requestView(row.ask, by, guest).as("%s a %s group, %s", row.ask, visibility, by.name).matches(cell)
					}
				}
			}
			for i, cell := range strings.Fields(row.deleted) {
				if by := []*agent{owner, seat, other}[i]; cell != "-" {
					gone.requestView(row.ask, by, guest).as("%s a deleted group, %s", row.ask, by.name).matches(cell)
				}
			}
			unknown := &group{t: t, by: owner, id: nobody, handle: "#nothing@" + owner.slug + ".localhost"}
			unknown.requestView(row.ask, owner, guest).as("%s an unknown group", row.ask).refused(404, "not_found")
			s.call(t, "", "GET", groups["public"].path(""), nil).refused(401, "not_authenticated")
		}
	})
}

// TestPrivateIsAsUnknown: a stranger gets the same answers for a private group as for an
// unknown id.
func TestPrivateIsAsUnknown(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, stranger := s.org(t).agent("g"), s.org(t).agent("stranger")
		r := g.group()
		unknown := &group{t: t, by: g, id: nobody, handle: "#" + groupName() + "@" + g.slug + ".localhost"}
		for _, ask := range []string{"read", "members", "requests", "change", "role", "invite", "kick", "send", "delete"} {
			private, nothing := r.requestView(ask, stranger, stranger), unknown.requestView(ask, stranger, stranger)
			if private.status != nothing.status || private.at("code") != nothing.at("code") || private.at("detail") != nothing.at("detail") {
				t.Errorf("%s: a private group is answered %s %v, an unknown id %s %v", ask, private.summary(), private.at("detail"), nothing.summary(), nothing.at("detail"))
			}
		}
	})
}

// TestGroupDeletion: what ends with a group and what remains possible.
func TestGroupDeletion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, mate := o.agent("g"), o.agent("mate")
		seat, x, y := s.org(t).agent("seat"), s.org(t).agent("x"), s.org(t).agent("y")
		r := g.groupWithPolicy("majority", mate, seat)
		r.applied(x)
		r.invited(g, y, "pending")
		said := r.broadcast(g)
		copied := seat.everything()[0]
		mate.request("DELETE", r.path(""), nil).refused(403, "not_admin")
		g.request("DELETE", r.path(""), nil).want(204)
		g.request("DELETE", r.path(""), nil).as("again").refused(410, "gone")
		r.join(seat).refused(410, "gone")
		if n := len(y.get("/groups/invites").want(200).list); n != 0 {
			t.Errorf("%d invites into a deleted group", n)
		}
		if n := len(o.pages("/groups", "?limit=50")); n != 0 {
			t.Errorf("%d groups are listed", n)
		}
		s.call(t, "", "GET", "/directory/groups/"+r.id, nil).refused(404, "not_found")

		for _, reader := range []*agent{g, seat} {
			reader.request("GET", "/conversations/"+text(said, "conversation_id"), nil).as("its conversation stays readable").want(200)
			if rows := reader.list("/conversations/"+text(said, "conversation_id")+"/messages", "?limit=50"); len(rows) != 1 {
				t.Errorf("%s sees %d rows", reader.name, len(rows))
			}
		}
		seat.request("GET", "/messages/"+text(copied, "id"), nil).want(200).is("group_id", r.id, "group_handle", r.handle)
		g.reply(seat.reply(copied)) // replies remain possible
		r.tryBroadcast(g, nil).as("broadcasts do not").refused(410, "gone")
	})
}

// TestGroupLists: the groups of an organization, and those in which it has a member.
func TestGroupLists(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t)
		g, host := o.agent("g"), other.agent("host")
		var owned, seated []any
		for range 5 {
			owned = append(owned, g.group().id)
		}
		for range 2 {
			r := host.group(obj{"enrollment_policy": "open"})
			r.joined(g)
			seated = append(seated, r.id)
		}
		both := o.agent("second").group(obj{"enrollment_policy": "open"})
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
			for _, row := range o.pages("/groups", query) {
				shaped(t, "group", row, groupShape)
				got = append(got, row["id"])
			}
			if !sameSet(got, want) {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		if n := len(other.pages("/groups", "?limit=50")); n != 3 {
			t.Errorf("the other organization has %d groups, want 3", n)
		}
		o.get("/groups?limit=0").invalid("query.limit", "greater_than_equal")
		o.get("/groups?scope=odd").invalid("query.scope", "enum")
		o.get("/groups?cursor=nonsense").refused(400, "invalid_cursor")
		foreign := o.get("/groups?limit=1").want(200).str("next_cursor")
		other.get("/groups?limit=1&cursor="+url.QueryEscape(foreign)).as("another organization's cursor").refused(400, "invalid_cursor")
	})
}

// TestGroupDirectory: public groups, searched by name and description.
func TestGroupDirectory(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, x := s.org(t).agent("g"), s.org(t).agent("x")
		word := "w" + randomHex(5)
		r := g.group(obj{"name": "birds-" + word, "description": "Talks of " + word + " and ornithology.", "visibility": "public"})
		private := g.group(obj{"name": "hidden-" + word, "description": word})
		find := func(query string) []obj {
			t.Helper()
			return objects(s.call(t, "", "GET", "/directory/groups?limit=50&q="+query, nil).want(200).at("items").([]any))
		}
		found := func(query string, want bool) {
			t.Helper()
			eventually(t, "the directory, asked for "+query, func() bool {
				return slices.ContainsFunc(find(query), func(row obj) bool { return row["id"] == r.id }) == want
			})
		}
		for _, query := range []string{word, strings.ToUpper(word), "birds-" + word, word + "+ornithology", "birds+" + word, word[:8]} {
			found(query, true)
			if slices.ContainsFunc(find(query), func(row obj) bool { return row["id"] == private.id }) {
				t.Errorf("%s finds a private group", query)
			}
		}
		found("nothing-"+randomHex(8), false)
		profile := s.call(t, "", "GET", "/directory/groups/"+r.id, nil).want(200)
		for what, row := range map[string]obj{"profile": profile.body, "row": find(word)[0]} {
			exactly(t, what, row, profileFields)
			for name, want := range map[string]any{"id": r.id, "name": r.name, "handle": r.handle, "org_id": g.org.id, "enrollment_policy": "closed", "vote_duration_hours": 72, "member_count": 1, "mls_enabled": false, "created_at": r.read(g).at("created_at")} {
				if !same(row[name], want) {
					t.Errorf("%s of the %s is %v, want %v", name, what, row[name], want)
				}
			}
		}
		r.seats(x)
		r.patch(obj{"description": "Changed."}).want(200)
		eventually(t, "the profile follows", func() bool {
			p := s.call(t, "", "GET", "/directory/groups/"+r.id, nil)
			return p.at("member_count") == 2.0 && p.at("description") == "Changed."
		})
		found("birds-"+word, true)
		r.patch(obj{"visibility": "private"}).want(200)
		found("birds-"+word, false)
		for what, id := range map[string]string{"private": private.id, "private now": r.id, "unknown": nobody} {
			s.call(t, "", "GET", "/directory/groups/"+id, nil).as("%s", what).refused(404, "not_found")
		}
		r.patch(obj{"visibility": "public"}).want(200)
		found("birds-"+word, true)
		g.request("DELETE", r.path(""), nil).want(204)
		found("birds-"+word, false)
	})
}

// TestGroupDirectoryPages: the directory in pages.
func TestGroupDirectoryPages(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("g")
		word := "p" + randomHex(5)
		want := []any{}
		for range 5 {
			want = append(want, g.group(obj{"visibility": "public", "description": "about " + word}).id)
		}
		var got []any
		eventually(t, "all are found", func() bool {
			got = nil
			cursor := ""
			for range 10 {
				a := s.call(t, "", "GET", "/directory/groups?limit=2&q="+word+cursor, nil).want(200)
				for _, row := range a.items() {
					got = append(got, row["id"])
				}
				if a.at("has_more") != true {
					break
				}
				cursor = "&cursor=" + url.QueryEscape(a.str("next_cursor"))
			}
			return len(got) >= 5
		})
		if !sameSet(got, want) {
			t.Errorf("page by page %v, want %v", got, want)
		}
		s.call(t, "", "GET", "/directory/groups", nil).as("browsing").want(200).items()
		for query, kind := range map[string]string{"limit=0": "greater_than_equal", "limit=51": "less_than_equal", "limit=x": "int_parsing"} {
			s.call(t, "", "GET", "/directory/groups?"+query, nil).invalid("query.limit", kind)
		}
		s.call(t, "", "GET", "/directory/groups?cursor=nonsense", nil).refused(400, "invalid_cursor")
	})
}

// TestOrderOfGroupChecks: schema, acting agent, existence, access, state.
func TestOrderOfGroupChecks(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, x := s.org(t).agent("g"), s.org(t).agent("x")
		r, named := g.group(), []string{"X-Svc-Agent", nobody}
		for _, row := range []struct {
			method, path string
			bad, good    obj
		}{
			{"PATCH", "/groups/" + nobody, obj{"visibility": "x"}, obj{"description": "x"}},
			{"POST", "/groups/" + nobody + "/invite", obj{"agent_id": "x"}, obj{"agent_id": x.id}},
			{"POST", "/groups/" + nobody + "/requests/" + nobody + "/vote", obj{"vote": "x"}, obj{"vote": "deny"}},
			{"PATCH", "/groups/" + nobody + "/members/" + nobody, obj{"role": "x"}, obj{"role": "admin"}},
			{"POST", "/groups/" + nobody + "/join", obj{"message": strings.Repeat("m", 501)}, obj{}},
		} {
			ask := func(token string, body obj, headers ...string) *answer {
				return s.call(t, token, row.method, row.path, body, headers...)
			}
			ask("", row.bad).as("401 first").refused(401, "not_authenticated")
			if a := ask(g.token, row.bad, named...).as("schema before acting agent"); a.status != 422 {
				a.errorf("want 422")
			}
			ask(g.token, row.good, named...).as("acting agent before existence").refused(403, "not_owner")
			ask(g.token, row.good).as("existence").refused(404, "not_found")
		}
		g.request("DELETE", "/groups/"+nobody, nil).refused(404, "not_found")
		g.delete("/groups/"+nobody, named...).as("acting agent before existence").refused(403, "not_owner")
		g.get("/groups/none").invalid("path", "uuid_parsing")
		g.get("/groups/"+g.id).as("the id of another kind").refused(404, "not_found")
		g.get("/groups", named...).as("a list has no acting agent").want(200)
		r.patch(obj{"visibility": "public"}).want(200)
		x.request("PATCH", r.path(""), obj{"name": "another"}).as("access before state").matches("403")
	})
}
