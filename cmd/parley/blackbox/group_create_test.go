package blackbox

import (
	"slices"
	"strings"
	"testing"
)

// TestGroupCreation: the properties of a new group for each request.
func TestGroupCreation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("founder")
		for _, row := range []struct {
			policy, visibility string // requested; empty means omitted
			becomes, visible   string
		}{
			{"", "", "closed", "private"},
			{"open", "", "open", "public"},
			{"closed", "", "closed", "private"},
			{"majority", "", "majority", "private"},
			{"unanimity", "", "unanimity", "private"},
			{"open", "private", "open", "private"},
			{"closed", "public", "closed", "public"},
			{"majority", "public", "majority", "public"},
		} {
			body := obj{"name": groupName(), "description": "A group."}
			if row.policy != "" {
				body["enrollment_policy"] = row.policy
			}
			if row.visibility != "" {
				body["visibility"] = row.visibility
			}
			a := g.tryCreateGroup(body).as("%v", row).want(201).shaped(groupShape)
			a.is("name", body["name"], "handle", "#"+text(body, "name")+"@"+g.slug+".localhost", "description", "A group.",
				"enrollment_policy", row.becomes, "visibility", row.visible, "isolated", false, "vote_duration_hours", 72,
				"member_count", 1, "member_agent_ids", []string{g.id}, "conversation_id", nil,
				"mls_enabled", false, "mls_pending", false, "mls_group_id", nil, "mls_cipher_suite", nil)
			r := g.founded(a)
			again := r.read(g)
			for name := range strings.FieldsSeq(groupShape) {
				name, _, _ = strings.Cut(name, ":")
				again.is(name, a.at(name))
			}
			if admins := r.admins(g); admins != "founder" {
				t.Errorf("%v: the admins are %q", row, admins)
			}
		}
	})
}

// TestGroupCreationSchema: requests that the schema rejects.
func TestGroupCreationSchema(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("founder")
		for _, bad := range []string{"", "-a", "a-", "a_b", "a.b", "a b", "UPPER", "ä", "#a", "a@b", strings.Repeat("a", 64)} {
			g.tryCreateGroup(obj{"name": bad}).as("name %q", bad).invalid("body.name", "")
		}
		for _, good := range []string{"a", "7", "a--b", strings.Repeat("a", 63)} {
			g.tryCreateGroup(obj{"name": good}).as("name %q", good).want(201).is("name", good)
		}
		g.request("POST", "/groups", obj{}).invalid("body.name", "missing")
		for _, row := range []struct {
			field string
			value any
			kind  string
		}{
			{"name", nil, "missing"},
			{"enrollment_policy", "ajar", "enum"},
			{"visibility", "secret", "enum"},
			{"isolated", "maybe", "bool_parsing"},
			{"vote_duration_hours", 0, "greater_than_equal"},
			{"vote_duration_hours", 73, "less_than_equal"},
			{"vote_duration_hours", "soon", "int_parsing"},
			{"description", strings.Repeat("d", 2001), "string_too_long"},
			{"members", "everybody", ""},
			{"members", slices.Repeat([]string{nobody}, 101), "too_long"},
		} {
			g.tryCreateGroup(obj{row.field: row.value}).as("%s %.20v", row.field, row.value).invalid("body."+row.field, row.kind)
		}
		for _, hours := range []int{1, 72} {
			g.tryCreateGroup(obj{"vote_duration_hours": hours, "description": strings.Repeat("d", 2000)}).want(201).is("vote_duration_hours", hours)
		}
		g.tryCreateGroup(obj{"enrollment_policy": nil, "visibility": nil, "description": nil, "members": nil, "unheard_of": 1}).
			as("null is absent, others are ignored").want(201).is("enrollment_policy", "closed", "description", nil)
	})
}

// TestGroupNames: an organization uses each group name at most once, ever.
func TestGroupNames(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, other, stranger := o.agent("founder"), o.agent("other"), s.org(t).agent("founder")
		r := g.group(obj{"name": "large"})
		g.tryCreateGroup(obj{"name": "large"}).refused(409, "name_taken")
		other.tryCreateGroup(obj{"name": "large"}).as("another agent").refused(409, "name_taken")
		stranger.tryCreateGroup(obj{"name": "large"}).as("another organization").want(201)
		o.agent("large") // agents and groups have separate namespaces
		g.request("DELETE", r.path(""), nil).want(204)
		g.tryCreateGroup(obj{"name": "large"}).as("after its deletion").refused(409, "name_taken")
		made := concurrently(8, func(int) *answer { return g.tryCreateGroup(obj{"name": "once"}) })
		n := 0
		for _, a := range made {
			if a.status == 201 {
				n++
			} else {
				a.refused(409, "name_taken")
			}
		}
		if n != 1 {
			t.Errorf("%d groups of the same name, created at once", n)
		}
	})
}

// TestGroupFounder: which agent founds a group if the request names none.
func TestGroupFounder(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		o.post("/groups", obj{"name": "none"}).as("no agent").refused(400, "agent_required")
		first, second := o.agent("first"), o.agent("second")
		admin := func(a *answer, g *agent) {
			t.Helper()
			a.want(201).is("member_agent_ids", []string{g.id})
		}
		admin(o.post("/groups", obj{"name": "by-default"}), first)
		admin(o.post("/groups", obj{"name": "by-id"}, "X-Svc-Agent", second.id), second)
		admin(o.post("/groups", obj{"name": "by-name"}, "X-Svc-Agent", "second"), second)
		o.post("/groups", obj{"name": "by-nobody"}, "X-Svc-Agent", nobody).refused(403, "not_owner")
		o.post("/groups", obj{"name": "-"}, "X-Svc-Agent", nobody).as("schema before acting agent").invalid("body.name", "")
	})
}

// TestGroupRoster: under every policy, a founding roster creates invitations and seats
// nobody. Invalid entries do not fail the creation.
func TestGroupRoster(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, revoked := o.agent("founder"), o.agent("revoked")
		o.delete(revoked.path("")).want(204)
		guests := s.org(t)
		byID, byHandle, asObject := guests.agent("by-id"), guests.agent("by-handle"), guests.agent("as-object")
		for _, policy := range []string{"open", "closed", "majority", "unanimity"} {
			a := g.tryCreateGroup(obj{"enrollment_policy": policy, "members": []any{
				byID.id, byHandle.handle,
				obj{"agent_id": asObject.id, "message": "Do come."},
				nobody,
				obj{"handle": "nobody@" + o.slug + ".localhost"},
				revoked.id, g.id, byID.handle,
			}}).as("%s", policy).want(201).is("member_count", 1, "member_agent_ids", []string{g.id})
			rows, _ := a.at("invitations").([]any)
			want := []struct{ who, status, reason any }{
				{byID.id, "invited", nil},
				{byHandle.id, "invited", nil},
				{asObject.id, "invited", nil},
				{nil, nil, "not_found"},
				{nil, nil, "not_found"},
				{revoked.id, nil, "revoked"},
				{g.id, nil, "self"},
				{byID.id, nil, "already_invited"},
			}
			if len(rows) != len(want) {
				a.fatalf("want a row for each of %d entries", len(want))
			}
			for i, row := range objects(rows) {
				shaped(t, "invitation", row, invitedShape)
				w := want[i]
				if row["reason"] != w.reason || (w.reason == nil) != (text(row, "request_id") != "") || w.who != nil && row["agent_id"] != w.who || w.status != nil && row["status"] != w.status {
					t.Errorf("%s: entry %d is answered %v, want %v", policy, i, row, w)
				}
			}
			r := g.founded(a)
			if rows := r.requests(g, "invited"); len(rows) != 3 {
				t.Errorf("%s: %d invitations, want 3", policy, len(rows))
			}
			r.checkRequest(policy, g, text(objects(rows)[2], "request_id"), "status", "invited", "message", "Do come.", "invited_by", g.id)
			r.joined(byHandle)
			r.checkMembers(policy, g, byHandle)
			r.checkRequest(policy, g, text(objects(rows)[1], "request_id"), "status", "accepted")
		}
	})
}

// TestGroupIdempotency: repeating a creation with its key creates one group.
func TestGroupIdempotency(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("founder")
		a := g.tryCreateGroup(obj{"name": "once"}, "Idempotency-Key", "k").first()
		again := g.tryCreateGroup(obj{"name": "once"}, "Idempotency-Key", "k").want(200).is("id", a.at("id"), "created_at", a.at("created_at"))
		if again.header.Get("Idempotency-Replayed") != "true" {
			again.errorf("Idempotency-Replayed is %q", again.header.Get("Idempotency-Replayed"))
		}
		g.tryCreateGroup(obj{"name": "once"}, "Idempotency-Key", "other").refused(409, "name_taken")
		g.tryCreateGroup(obj{"name": "twice"}, "Idempotency-Key", "other").as("refusals are not remembered").first()
		g.tryCreateGroup(obj{}, "Idempotency-Key", strings.Repeat("k", 256)).invalid("header.Idempotency-Key", "string_too_long")
		var got []string
		made := 0
		for _, a := range concurrently(12, func(int) *answer { return g.tryCreateGroup(obj{"name": "at-once"}, "Idempotency-Key", "at-once") }) {
			if a.status == 201 {
				made++
			} else {
				a.want(200)
			}
			got = append(got, a.str("id"))
		}
		slices.Sort(got)
		if made != 1 || len(slices.Compact(got)) != 1 {
			t.Errorf("%d groups for one key at once: %v", made, got)
		}
		if n := len(g.pages("/groups", "?limit=50")); n != 3 {
			t.Errorf("the organization has %d groups, want 3", n)
		}
	})
}

// TestGroupPatch: which fields can change, which agents may change them, and which fields
// never change.
func TestGroupPatch(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		o.agent("first")
		g := o.agent("admin")
		r := g.group(obj{"description": "old"})
		for _, row := range []struct{ body, becomes obj }{
			{obj{}, obj{"description": "old", "enrollment_policy": "closed"}},
			{obj{"description": "new"}, obj{"description": "new"}},
			{obj{"description": nil}, obj{"description": nil}},
			{obj{"enrollment_policy": "majority"}, obj{"enrollment_policy": "majority", "visibility": "private"}},
			{obj{"enrollment": "unanimity"}, obj{"enrollment_policy": "unanimity"}},
			{obj{"visibility": "public"}, obj{"visibility": "public"}},
			{obj{"vote_duration_hours": 5}, obj{"vote_duration_hours": 5}},
			{obj{"vote_duration": 6}, obj{"vote_duration_hours": 6}},
			{obj{"name": r.name, "isolated": false, "unheard_of": 1}, obj{"name": r.name, "isolated": false}},
			{obj{"visibility": nil, "enrollment_policy": nil, "vote_duration_hours": nil}, obj{"visibility": "public", "enrollment_policy": "unanimity", "vote_duration_hours": 6}},
		} {
			a := r.patch(row.body).as("%v", row.body).want(200).shaped(groupShape)
			for name, v := range row.becomes {
				a.is(name, v)
				r.read(g).is(name, v)
			}
		}
		o.patch(r.path(""), obj{"description": "by default"}).as("the organization's admin acts where none is named").want(200).is("description", "by default")
		o.patch(r.path(""), obj{}, "X-Svc-Agent", "first").as("an agent that is none").refused(403, "not_admin")
		r.patch(obj{"name": "another"}).refused(409, "name_immutable")
		r.patch(obj{"isolated": true}).refused(409, "isolated_immutable")
		for field, bad := range map[string]any{"enrollment_policy": "x", "visibility": "x", "vote_duration_hours": 73, "description": strings.Repeat("d", 2001)} {
			r.patch(obj{field: bad}).as("%s", field).invalid("body."+field, "")
		}
		r.read(g).is("name", r.name, "isolated", false, "description", "by default")
	})
}
