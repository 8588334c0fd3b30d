package mls

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/http/mls/mlstest"
)

// TestMLSBegins: the first commit turns MLS on for good. Members that it does not add await
// their Add, and are members in everything but broadcasts.
func TestMLSBegins(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, c, _ := trio(t, s)
		r := grouptest.NewWithPolicy(a, "open", b, c)
		for _, g := range []*kit.Agent{a, b} {
			g.Request("GET", r.Path("/mls/group-info"), nil).Refused(404, "not_found")
		}
		r.TryCommit(b, r.CommitBody(0)).As("not an admin").Refused(403, "not_admin")
		r.TryCommit(a, mlsEnter(r, 0, a)).As("external").Invalid("body.commit", "value_error")
		r.TryCommit(a, r.CommitBody(1)).As("another epoch").Refused(409, "epoch_conflict").Is("current_epoch", 0.0)
		first := r.AddBody(0, b)
		r.Committed(a, first)
		r.TryCommit(a, first).As("again").Want(200).Is("epoch", 1.0)
		r.TryCommit(a, r.AddBody(0, b)).As("another one in epoch 0").Refused(409, "epoch_conflict").Is("current_epoch", 1.0)
		checkMLS(r, "after the first commit", true, a, b)
		for _, g := range []*kit.Agent{a, b, c} {
			epochOf(r, g, 1)
			if rows := commits(r, g, "?since_epoch=0"); len(rows) != 1 || rows[0]["epoch"] != 0.0 || rows[0]["commit"] != first["commit"] || rows[0]["committed_by"] != a.ID {
				t.Errorf("%s sees commits %v", g.Name, rows)
			}
		}
		if rows := r.Welcomes(b); len(rows) != 1 || rows[0]["epoch"] != 1.0 || rows[0]["welcome"] != first["welcome"] {
			t.Errorf("the Welcomes of the added member: %v", rows)
		}
		if rows := append(r.Welcomes(a), r.Welcomes(c)...); len(rows) != 0 {
			t.Errorf("the Welcomes of others: %v", rows)
		}
		tryMLS(r, c, 1).As("of a pending member").Refused(409, "mls_pending")
		tryMLS(r, a, 1).Want(201).Is("recipient_count", 1.0)
		r.TryCommit(c, r.CommitBody(1)).As("a pending member's commit").Refused(409, "mls_pending")
		if rows := grouptest.CopiesOf(c); len(rows) != 0 {
			t.Errorf("the pending member got %v", rows)
		}
		r.TryCommit(c, kit.Merged(mlsEnter(r, 1, c), obj{"added": grouptest.IDsOf([]*kit.Agent{c, a})})).As("external for others").Invalid("body.added", "value_error")
		r.TryCommit(c, kit.Merged(mlsEnter(r, 1, c), obj{"welcome": kit.B64(mlstest.Welcome(1, 0))})).As("external with a Welcome").Invalid("body.added", "value_error")
		r.TryCommit(b, mlsEnter(r, 1, b)).As("external with a leaf").Invalid("body.commit", "value_error")
		r.Committed(c, mlsEnter(r, 1, c))
		checkMLS(r, "after the external commit", false, a, b, c)
		tryMLS(r, c, 2).Want(201).Is("recipient_count", 2.0)
	})
}

// TestMLSCommitIsChecked: one fault of what a committer sends, one refusal. The same commit
// without it is accepted.
func TestMLSCommitIsChecked(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, _, _ := trio(t, s)
		r := grouptest.NewWithPolicy(a, "open", b)
		other := grouptest.New(a)
		commit := func(c mlstest.Commit) obj { return obj{"commit": kit.B64(c.Message())} }
		info := func(g mlstest.GroupInfo) obj { return obj{"group_info": kit.B64(g.Message())} }
		for name, c := range map[string]struct {
			loc  string
			more obj
		}{
			"no base64url":                  {"body.commit", obj{"commit": "a+b/"}},
			"a cut base64url":               {"body.commit", obj{"commit": "A"}},
			"an empty commit":               {"body.commit", obj{"commit": ""}},
			"no MLSMessage":                 {"body.commit", obj{"commit": kit.B64([]byte("hello"))}},
			"a Welcome for a commit":        {"body.commit", obj{"commit": kit.B64(mlstest.Welcome(1, 0))}},
			"a GroupInfo for a commit":      {"body.commit", obj{"commit": kit.B64(mlstest.GroupInfo{Group: r.ID, Epoch: 1}.Message())}},
			"a commit with a byte too many": {"body.commit", obj{"commit": kit.B64(append(mlstest.Commit{Group: r.ID}.Message(), 0))}},
			"an application message":        {"body.commit", obj{"commit": kit.B64(mlstest.Application(r.ID, 0))}},
			"a proposal":                    {"body.commit", obj{"commit": kit.B64(mlstest.Proposal(r.ID, 0))}},
			"a commit of another group":     {"body.commit", commit(mlstest.Commit{Group: other.ID})},
			"a group_id of 16 bytes":        {"body.commit", commit(mlstest.Commit{Group: strings.ReplaceAll(r.ID, "-", "")[:16]})},
			"a group_id in upper case":      {"body.commit", commit(mlstest.Commit{Group: strings.ToUpper(r.ID)})},
			"a commit of another epoch":     {"body.commit", commit(mlstest.Commit{Group: r.ID, Epoch: 1})},
			"no GroupInfo":                  {"body.group_info", obj{"group_info": kit.B64([]byte("hello"))}},
			"a commit for a GroupInfo":      {"body.group_info", obj{"group_info": kit.B64(mlstest.Commit{Group: r.ID}.Message())}},
			"a GroupInfo of another group":  {"body.group_info", info(mlstest.GroupInfo{Group: other.ID, Epoch: 1})},
			"a GroupInfo of this epoch":     {"body.group_info", info(mlstest.GroupInfo{Group: r.ID, Epoch: 0})},
			"a GroupInfo of a later epoch":  {"body.group_info", info(mlstest.GroupInfo{Group: r.ID, Epoch: 2})},
			"a GroupInfo without a tree":    {"body.group_info", info(mlstest.GroupInfo{Group: r.ID, Epoch: 1, WithoutTree: true})},
			"a GroupInfo without a key":     {"body.group_info", info(mlstest.GroupInfo{Group: r.ID, Epoch: 1, WithoutPub: true})},
			"a GroupInfo of another suite":  {"body.welcome", info(mlstest.GroupInfo{Group: r.ID, Epoch: 1, Suite: 3})},
			"no Welcome":                    {"body.welcome", obj{"welcome": kit.B64([]byte("hello"))}},
			"a Welcome of another suite":    {"body.welcome", obj{"welcome": kit.B64(mlstest.Welcome(3, 0))}},
			"a missing Welcome":             {"body.welcome", obj{"welcome": nil}},
			"a Welcome for nobody":          {"body.welcome", obj{"added": nil}},
			"an added stranger":             {"body.added", obj{"added": []any{kit.Nobody}}},
			"an added committer":            {"body.added", obj{"added": grouptest.IDsOf([]*kit.Agent{b, a})}},
			"a removed stranger":            {"body.removed", obj{"removed": []any{kit.Nobody}}},
		} {
			r.TryCommit(a, kit.Merged(r.AddBody(0, b), c.more)).As("%s", name).Invalid(c.loc, "")
		}
		for _, missing := range []string{"epoch", "commit", "group_info"} {
			r.TryCommit(a, kit.Without(r.AddBody(0, b), missing)).As("without %s", missing).Invalid("body."+missing, "missing")
		}
		r.TryCommit(a, kit.Merged(r.AddBody(0, b), obj{"epoch": -1})).Invalid("body.epoch", "greater_than_equal")
		r.TryCommit(a, kit.Merged(r.AddBody(0, b), obj{"removed": grouptest.IDsOf([]*kit.Agent{a})})).As("its own removal").RefusedByRule("last_admin")
		r.Committed(a, r.AddBody(0, b))
		r.TryCommit(b, r.CommitBody(1, info(mlstest.GroupInfo{Group: r.ID, Epoch: 2, Suite: 3}))).As("another suite").Invalid("body.group_info", "value_error")
		r.Committed(b, r.CommitBody(1, commit(mlstest.Commit{Group: r.ID, Epoch: 1, Public: true})))
		bare, _ := base64.RawURLEncoding.DecodeString(kit.Text(r.CommitBody(2), "group_info"))
		r.Committed(b, r.CommitBody(2, obj{"group_info": kit.B64(bare[4:])}))
	})
}

// TestMLSIsForMembers: strangers learn nothing of a private group, and non-members may do
// nothing.
func TestMLSIsForMembers(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, c, second := trio(t, s)
		private, public := grouptest.NewMLS(a, b), grouptest.New(a, obj{"enrollment_policy": "open"})
		s.Call(t, "", "GET", "/directory/groups/"+public.ID, nil).Want(200).Is("mls_enabled", false)
		public.Committed(a, public.CommitBody(0))
		s.Call(t, "", "GET", "/directory/groups/"+public.ID, nil).Want(200).Is("mls_enabled", true)
		kit.Eventually(t, "a search shows the MLS group", func() bool {
			rows := s.Call(t, "", "GET", "/directory/groups?q="+public.Name, nil).Want(200).Items()
			return len(rows) == 1 && rows[0]["mls_enabled"] == true
		})
		welcome := kit.Text(private.Welcomes(b)[0], "id")
		for _, r := range []*grouptest.Group{private, public} {
			code, status := "not_member", 403
			if r == private {
				code, status = "not_found", 404
			}
			for _, ask := range []struct {
				method, path string
				body         any
			}{
				{"POST", "/mls/commits", r.CommitBody(1)},
				{"POST", "/mls/commits", obj{"epoch": 1, "commit": "AAAA", "group_info": "AAAA"}},
				{"GET", "/mls/commits", nil},
				{"GET", "/mls/group-info", nil},
				{"GET", "/mls/welcomes", nil},
				{"DELETE", "/mls/welcomes/" + welcome, nil},
			} {
				c.Request(ask.method, r.Path(ask.path), ask.body).As("a stranger: %s %s", ask.method, ask.path).Refused(status, code)
				second.Request(ask.method, r.Path(ask.path), ask.body).As("no member of the owner's: %s %s", ask.method, ask.path).Refused(403, "not_member")
				c.Request(ask.method, "/groups/"+kit.Nobody+ask.path, ask.body).As("an unknown group").Refused(404, "not_found")
				s.Call(t, a.Token, ask.method, r.Path(ask.path), ask.body).As("unnamed: %s %s", ask.method, ask.path).Refused(400, "agent_required")
				s.Call(t, a.Token, ask.method, r.Path(ask.path), ask.body, "X-Svc-Agent", c.ID).As("another's agent").Refused(403, "not_owner")
			}
		}
		b.Request("DELETE", private.Path("/mls/welcomes/"+kit.Nobody), nil).Refused(404, "not_found")
		a.Request("DELETE", private.Path("/mls/welcomes/"+welcome), nil).As("another's Welcome").Refused(404, "not_found")
		b.Request("DELETE", private.Path("/mls/welcomes/"+welcome), nil).Want(204)
		b.Request("DELETE", private.Path("/mls/welcomes/"+welcome), nil).As("the same again").Want(204)
		if rows := private.Welcomes(b); len(rows) != 0 {
			t.Errorf("after the acknowledgment: %v", rows)
		}
		a.Request("DELETE", private.Path(""), nil).Want(204)
		a.Request("GET", private.Path("/mls/commits"), nil).Refused(410, "gone")
		c.Request("GET", private.Path("/mls/commits"), nil).Refused(404, "not_found")
	})
}

// TestMLSBodies: a commit may have 8 MiB, and no other route takes as much.
func TestMLSBodies(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b, _, _ := trio(t, s)
		r := grouptest.NewMLS(a, b)
		// Base64 has four characters for three bytes; the rest of the body is short.
		large := r.CommitBody(1, obj{"commit": kit.B64(mlstest.Commit{Group: r.ID, Epoch: 1, Padding: 6<<20 - 3000}.Message())})
		r.Committed(a, large)
		tooLarge := r.CommitBody(2, obj{"commit": kit.B64(mlstest.Commit{Group: r.ID, Epoch: 2, Padding: 6 << 20}.Message())})
		r.TryCommit(a, tooLarge).Refused(413, "payload_too_large")
		a.Request("POST", r.Path("/join"), tooLarge).As("another route").Refused(413, "payload_too_large")
		s.Call(t, "", "POST", r.Path("/mls/commits"), large).As("no token").Refused(401, "not_authenticated")
		middle := r.CommitBody(2, obj{"commit": kit.B64(mlstest.Commit{Group: r.ID, Epoch: 2, Padding: 500 << 10}.Message())})
		r.Committed(b, middle)
		r.Committed(a, r.CommitBody(3))

		// Pages end before the commit with which they would have more than 1 MiB.
		var sizes []int
		cursor := ""
		for range 10 {
			page := b.Request("GET", r.Path("/mls/commits?since_epoch=1")+cursor, nil).Want(200)
			sizes = append(sizes, len(page.Items()))
			if page.At("has_more") == false {
				break
			}
			cursor = "&cursor=" + page.Str("next_cursor")
		}
		if len(sizes) != 2 || sizes[0] != 1 || sizes[1] != 2 {
			t.Errorf("pages of %v commits, want 1 and 2", sizes)
		}
		got := commits(r, b, "?since_epoch=1&limit=1")
		for i, want := range []obj{large, middle} {
			if !bytes.Equal([]byte(kit.Text(got[i], "commit")), []byte(kit.Text(want, "commit"))) {
				t.Errorf("commit %d is not what was sent", i)
			}
		}
		for _, query := range []string{"limit=0", "limit=101", "since_epoch=-1", "since_epoch=x"} {
			a.Request("GET", r.Path("/mls/commits?"+query), nil).Invalid("query."+strings.SplitN(query, "=", 2)[0], "")
		}
		a.Request("GET", r.Path("/mls/commits?cursor=x"), nil).Refused(400, "invalid_cursor")
	})
}
