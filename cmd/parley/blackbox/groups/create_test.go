package groups

import (
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestGroupCreation: the properties of a new group for each request.
func TestGroupCreation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("founder")
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
			body := obj{"name": grouptest.NewName(), "description": "A group."}
			if row.policy != "" {
				body["enrollment_policy"] = row.policy
			}
			if row.visibility != "" {
				body["visibility"] = row.visibility
			}
			a := grouptest.TryCreate(g, body).As("%v", row).Want(201).Shaped(grouptest.Shape)
			a.Is("name", body["name"], "handle", "#"+kit.Text(body, "name")+"@"+g.Slug+".localhost", "description", "A group.",
				"enrollment_policy", row.becomes, "visibility", row.visible, "isolated", false, "vote_duration_hours", 72,
				"member_count", 1, "member_agent_ids", []string{g.ID}, "conversation_id", nil,
				"mls_enabled", false, "mls_pending", false, "mls_group_id", nil, "mls_cipher_suite", nil)
			r := grouptest.Founded(g, a)
			again := r.Read(g)
			for name := range strings.FieldsSeq(grouptest.Shape) {
				name, _, _ = strings.Cut(name, ":")
				again.Is(name, a.At(name))
			}
			if admins := admins(r, g); admins != "founder" {
				t.Errorf("%v: the admins are %q", row, admins)
			}
		}
	})
}

// TestGroupCreationSchema: requests that the schema rejects.
func TestGroupCreationSchema(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("founder")
		for _, bad := range []string{"", "-a", "a-", "a_b", "a.b", "a b", "UPPER", "ä", "#a", "a@b", strings.Repeat("a", 64)} {
			grouptest.TryCreate(g, obj{"name": bad}).As("name %q", bad).Invalid("body.name", "")
		}
		for _, good := range []string{"a", "7", "a--b", strings.Repeat("a", 63)} {
			grouptest.TryCreate(g, obj{"name": good}).As("name %q", good).Want(201).Is("name", good)
		}
		g.Request("POST", "/groups", obj{}).Invalid("body.name", "missing")
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
			{"members", slices.Repeat([]string{kit.Nobody}, 101), "too_long"},
		} {
			grouptest.TryCreate(g, obj{row.field: row.value}).As("%s %.20v", row.field, row.value).Invalid("body."+row.field, row.kind)
		}
		for _, hours := range []int{1, 72} {
			grouptest.TryCreate(g, obj{"vote_duration_hours": hours, "description": strings.Repeat("d", 2000)}).Want(201).Is("vote_duration_hours", hours)
		}
		grouptest.TryCreate(g, obj{"enrollment_policy": nil, "visibility": nil, "description": nil, "members": nil, "unheard_of": 1}).
			As("null is absent, others are ignored").Want(201).Is("enrollment_policy", "closed", "description", nil)
	})
}

// TestGroupNames: an organization uses each group name at most once, ever.
func TestGroupNames(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, other, stranger := o.Agent("founder"), o.Agent("other"), s.Org(t).Agent("founder")
		r := grouptest.New(g, obj{"name": "large"})
		grouptest.TryCreate(g, obj{"name": "large"}).Refused(409, "name_taken")
		grouptest.TryCreate(other, obj{"name": "large"}).As("another agent").Refused(409, "name_taken")
		grouptest.TryCreate(stranger, obj{"name": "large"}).As("another organization").Want(201)
		o.Agent("large") // agents and groups have separate namespaces
		g.Request("DELETE", r.Path(""), nil).Want(204)
		grouptest.TryCreate(g, obj{"name": "large"}).As("after its deletion").Refused(409, "name_taken")
		made := kit.Concurrently(8, func(int) *kit.Answer { return grouptest.TryCreate(g, obj{"name": "once"}) })
		n := 0
		for _, a := range made {
			if a.Status == 201 {
				n++
			} else {
				a.Refused(409, "name_taken")
			}
		}
		if n != 1 {
			t.Errorf("%d groups of the same name, created at once", n)
		}
	})
}

// TestGroupFounder: which agent founds a group if the request names none.
func TestGroupFounder(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		o.Post("/groups", obj{"name": "none"}).As("no agent").Refused(400, "agent_required")
		first, second := o.Agent("first"), o.Agent("second")
		admin := func(a *kit.Answer, g *kit.Agent) {
			t.Helper()
			a.Want(201).Is("member_agent_ids", []string{g.ID})
		}
		admin(o.Post("/groups", obj{"name": "by-default"}), first)
		admin(o.Post("/groups", obj{"name": "by-id"}, "X-Svc-Agent", second.ID), second)
		admin(o.Post("/groups", obj{"name": "by-name"}, "X-Svc-Agent", "second"), second)
		o.Post("/groups", obj{"name": "by-nobody"}, "X-Svc-Agent", kit.Nobody).Refused(403, "not_owner")
		o.Post("/groups", obj{"name": "-"}, "X-Svc-Agent", kit.Nobody).As("schema before acting agent").Invalid("body.name", "")
	})
}

// TestGroupRosterAtOnce: requests with one key that found a group at the same time report
// every agent of the roster as invited.
func TestGroupRosterAtOnce(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		founder, guests := o.Agent("founder"), s.Org(t).NewAgents(6, "guest-")
		var roster []any
		for _, guest := range guests {
			roster = append(roster, guest.ID)
		}
		answers, name := make(chan *kit.Answer, 4), grouptest.NewName()
		for range cap(answers) {
			go func() {
				answers <- grouptest.TryCreate(founder, obj{"name": name, "enrollment_policy": "closed", "members": roster}, "Idempotency-Key", "once")
			}()
		}
		requests := map[string]bool{}
		for range cap(answers) {
			a := <-answers
			rows, _ := a.At("invitations").([]any)
			for _, row := range kit.Objects(rows) {
				requests[kit.Text(row, "request_id")] = true
				if row["status"] != "invited" || row["reason"] != nil {
					a.Errorf("an entry is answered %v", row)
				}
			}
		}
		if len(requests) != len(guests) {
			t.Errorf("%d requests for %d guests", len(requests), len(guests))
		}
	})
}

// TestGroupRoster: under every policy, a founding roster creates invitations and seats
// nobody. Invalid entries do not fail the creation.
func TestGroupRoster(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, revoked := o.Agent("founder"), o.Agent("revoked")
		o.Delete(revoked.Path("")).Want(204)
		guests := s.Org(t)
		byID, byHandle, asObject := guests.Agent("by-id"), guests.Agent("by-handle"), guests.Agent("as-object")
		for _, policy := range []string{"open", "closed", "majority", "unanimity"} {
			a := grouptest.TryCreate(g, obj{"enrollment_policy": policy, "members": []any{
				byID.ID, byHandle.Handle,
				obj{"agent_id": asObject.ID, "message": "Do come."},
				kit.Nobody,
				obj{"handle": "nobody@" + o.Slug + ".localhost"},
				revoked.ID, g.ID, byID.Handle,
			}}).As("%s", policy).Want(201).Is("member_count", 1, "member_agent_ids", []string{g.ID})
			rows, _ := a.At("invitations").([]any)
			want := []struct{ who, status, reason any }{
				{byID.ID, "invited", nil},
				{byHandle.ID, "invited", nil},
				{asObject.ID, "invited", nil},
				{nil, nil, "not_found"},
				{nil, nil, "not_found"},
				{revoked.ID, nil, "revoked"},
				{g.ID, nil, "self"},
				{byID.ID, nil, "already_invited"},
			}
			if len(rows) != len(want) {
				a.Fatalf("want a row for each of %d entries", len(want))
			}
			for i, row := range kit.Objects(rows) {
				kit.Shaped(t, "invitation", row, invitedShape)
				w := want[i]
				if row["reason"] != w.reason || (w.reason == nil) != (kit.Text(row, "request_id") != "") || w.who != nil && row["agent_id"] != w.who || w.status != nil && row["status"] != w.status {
					t.Errorf("%s: entry %d is answered %v, want %v", policy, i, row, w)
				}
			}
			r := grouptest.Founded(g, a)
			if rows := r.Requests(g, "invited"); len(rows) != 3 {
				t.Errorf("%s: %d invitations, want 3", policy, len(rows))
			}
			checkRequest(r, policy, g, kit.Text(kit.Objects(rows)[2], "request_id"), "status", "invited", "message", "Do come.", "invited_by", g.ID)
			r.Joined(byHandle)
			r.CheckMembers(policy, g, byHandle)
			checkRequest(r, policy, g, kit.Text(kit.Objects(rows)[1], "request_id"), "status", "accepted")
		}
	})
}

// TestGroupIdempotency: repeating a creation with its key creates one group.
func TestGroupIdempotency(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("founder")
		a := grouptest.TryCreate(g, obj{"name": "once"}, "Idempotency-Key", "k").First()
		again := grouptest.TryCreate(g, obj{"name": "once"}, "Idempotency-Key", "k").Want(200).Is("id", a.At("id"), "created_at", a.At("created_at"))
		if again.Header.Get("Idempotency-Replayed") != "true" {
			again.Errorf("Idempotency-Replayed is %q", again.Header.Get("Idempotency-Replayed"))
		}
		grouptest.TryCreate(g, obj{"name": "once"}, "Idempotency-Key", "other").Refused(409, "name_taken")
		grouptest.TryCreate(g, obj{"name": "twice"}, "Idempotency-Key", "other").As("refusals are not remembered").First()
		grouptest.TryCreate(g, obj{}, "Idempotency-Key", strings.Repeat("k", 256)).Invalid("header.Idempotency-Key", "string_too_long")
		var got []string
		made := 0
		for _, a := range kit.Concurrently(12, func(int) *kit.Answer {
			return grouptest.TryCreate(g, obj{"name": "at-once"}, "Idempotency-Key", "at-once")
		}) {
			if a.Status == 201 {
				made++
			} else {
				a.Want(200)
			}
			got = append(got, a.Str("id"))
		}
		slices.Sort(got)
		if made != 1 || len(slices.Compact(got)) != 1 {
			t.Errorf("%d groups for one key at once: %v", made, got)
		}
		if n := len(g.Pages("/groups", "?limit=50")); n != 3 {
			t.Errorf("the organization has %d groups, want 3", n)
		}
	})
}

// TestGroupPatch: which fields can change, which agents may change them, and which fields
// never change.
func TestGroupPatch(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		o.Agent("first")
		g := o.Agent("admin")
		r := grouptest.New(g, obj{"description": "old"})
		for _, row := range []struct{ body, becomes obj }{
			{obj{}, obj{"description": "old", "enrollment_policy": "closed"}},
			{obj{"description": "new"}, obj{"description": "new"}},
			{obj{"description": nil}, obj{"description": nil}},
			{obj{"enrollment_policy": "majority"}, obj{"enrollment_policy": "majority", "visibility": "private"}},
			{obj{"enrollment": "unanimity"}, obj{"enrollment_policy": "unanimity"}},
			{obj{"visibility": "public"}, obj{"visibility": "public"}},
			{obj{"vote_duration_hours": 5}, obj{"vote_duration_hours": 5}},
			{obj{"vote_duration": 6}, obj{"vote_duration_hours": 6}},
			{obj{"name": r.Name, "isolated": false, "unheard_of": 1}, obj{"name": r.Name, "isolated": false}},
			{obj{"visibility": nil, "enrollment_policy": nil, "vote_duration_hours": nil}, obj{"visibility": "public", "enrollment_policy": "unanimity", "vote_duration_hours": 6}},
		} {
			a := r.Patch(row.body).As("%v", row.body).Want(200).Shaped(grouptest.Shape)
			for name, v := range row.becomes {
				a.Is(name, v)
				r.Read(g).Is(name, v)
			}
		}
		o.Patch(r.Path(""), obj{"description": "by default"}).As("the organization's admin acts where none is named").Want(200).Is("description", "by default")
		o.Patch(r.Path(""), obj{}, "X-Svc-Agent", "first").As("an agent that is none").Refused(403, "not_admin")
		r.Patch(obj{"name": "another"}).Refused(409, "name_immutable")
		r.Patch(obj{"isolated": true}).Refused(409, "isolated_immutable")
		for field, bad := range map[string]any{"enrollment_policy": "x", "visibility": "x", "vote_duration_hours": 73, "description": strings.Repeat("d", 2001)} {
			r.Patch(obj{field: bad}).As("%s", field).Invalid("body."+field, "")
		}
		r.Read(g).Is("name", r.Name, "isolated", false, "description", "by default")
	})
}
