package blackbox

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"parley/http/mls/mlstest"
)

// TestMLSBegins: the first commit turns MLS on for good. Members that it does not add await
// their Add, and are members in everything but broadcasts.
func TestMLSBegins(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b, c, _ := trio(t, s)
		r := a.groupWithPolicy("open", b, c)
		for _, g := range []*agent{a, b} {
			g.request("GET", r.path("/mls/group-info"), nil).refused(404, "not_found")
		}
		r.tryCommit(b, r.mlsCommit(0)).as("not an admin").refused(403, "not_admin")
		r.tryCommit(a, r.mlsEnter(0, a)).as("external").invalid("body.commit", "value_error")
		r.tryCommit(a, r.mlsCommit(1)).as("another epoch").refused(409, "epoch_conflict").is("current_epoch", 0.0)
		first := r.mlsAdd(0, b)
		r.committed(a, first)
		r.tryCommit(a, first).as("again").want(200).is("epoch", 1.0)
		r.tryCommit(a, r.mlsAdd(0, b)).as("another one in epoch 0").refused(409, "epoch_conflict").is("current_epoch", 1.0)
		r.checkMLS("after the first commit", true, a, b)
		for _, g := range []*agent{a, b, c} {
			r.epochOf(g, 1)
			if rows := r.commits(g, "?since_epoch=0"); len(rows) != 1 || rows[0]["epoch"] != 0.0 || rows[0]["commit"] != first["commit"] || rows[0]["committed_by"] != a.id {
				t.Errorf("%s sees commits %v", g.name, rows)
			}
		}
		if rows := r.welcomes(b); len(rows) != 1 || rows[0]["epoch"] != 1.0 || rows[0]["welcome"] != first["welcome"] {
			t.Errorf("the Welcomes of the added member: %v", rows)
		}
		if rows := append(r.welcomes(a), r.welcomes(c)...); len(rows) != 0 {
			t.Errorf("the Welcomes of others: %v", rows)
		}
		r.tryMLS(c, 1).as("of a pending member").refused(409, "mls_pending")
		r.tryMLS(a, 1).want(201).is("recipient_count", 1.0)
		r.tryCommit(c, r.mlsCommit(1)).as("a pending member's commit").refused(409, "mls_pending")
		if rows := copiesOf(c); len(rows) != 0 {
			t.Errorf("the pending member got %v", rows)
		}
		r.tryCommit(c, merged(r.mlsEnter(1, c), obj{"added": idsOf([]*agent{c, a})})).as("external for others").invalid("body.added", "value_error")
		r.tryCommit(c, merged(r.mlsEnter(1, c), obj{"welcome": b64(mlstest.Welcome(1, 0))})).as("external with a Welcome").invalid("body.added", "value_error")
		r.tryCommit(b, r.mlsEnter(1, b)).as("external with a leaf").invalid("body.commit", "value_error")
		r.committed(c, r.mlsEnter(1, c))
		r.checkMLS("after the external commit", false, a, b, c)
		r.tryMLS(c, 2).want(201).is("recipient_count", 2.0)
	})
}

// TestMLSCommitIsChecked: one fault of what a committer sends, one refusal. The same commit
// without it is accepted.
func TestMLSCommitIsChecked(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b, _, _ := trio(t, s)
		r := a.groupWithPolicy("open", b)
		other := a.group()
		commit := func(c mlstest.Commit) obj { return obj{"commit": b64(c.Message())} }
		info := func(g mlstest.GroupInfo) obj { return obj{"group_info": b64(g.Message())} }
		for name, c := range map[string]struct {
			loc  string
			more obj
		}{
			"no base64url":                  {"body.commit", obj{"commit": "a+b/"}},
			"a cut base64url":               {"body.commit", obj{"commit": "A"}},
			"an empty commit":               {"body.commit", obj{"commit": ""}},
			"no MLSMessage":                 {"body.commit", obj{"commit": b64([]byte("hello"))}},
			"a Welcome for a commit":        {"body.commit", obj{"commit": b64(mlstest.Welcome(1, 0))}},
			"a GroupInfo for a commit":      {"body.commit", obj{"commit": b64(mlstest.GroupInfo{Group: r.id, Epoch: 1}.Message())}},
			"a commit with a byte too many": {"body.commit", obj{"commit": b64(append(mlstest.Commit{Group: r.id}.Message(), 0))}},
			"an application message":        {"body.commit", obj{"commit": b64(mlstest.Application(r.id, 0))}},
			"a proposal":                    {"body.commit", obj{"commit": b64(mlstest.Proposal(r.id, 0))}},
			"a commit of another group":     {"body.commit", commit(mlstest.Commit{Group: other.id})},
			"a group_id of 16 bytes":        {"body.commit", commit(mlstest.Commit{Group: strings.ReplaceAll(r.id, "-", "")[:16]})},
			"a group_id in upper case":      {"body.commit", commit(mlstest.Commit{Group: strings.ToUpper(r.id)})},
			"a commit of another epoch":     {"body.commit", commit(mlstest.Commit{Group: r.id, Epoch: 1})},
			"no GroupInfo":                  {"body.group_info", obj{"group_info": b64([]byte("hello"))}},
			"a commit for a GroupInfo":      {"body.group_info", obj{"group_info": b64(mlstest.Commit{Group: r.id}.Message())}},
			"a GroupInfo of another group":  {"body.group_info", info(mlstest.GroupInfo{Group: other.id, Epoch: 1})},
			"a GroupInfo of this epoch":     {"body.group_info", info(mlstest.GroupInfo{Group: r.id, Epoch: 0})},
			"a GroupInfo of a later epoch":  {"body.group_info", info(mlstest.GroupInfo{Group: r.id, Epoch: 2})},
			"a GroupInfo without a tree":    {"body.group_info", info(mlstest.GroupInfo{Group: r.id, Epoch: 1, WithoutTree: true})},
			"a GroupInfo without a key":     {"body.group_info", info(mlstest.GroupInfo{Group: r.id, Epoch: 1, WithoutPub: true})},
			"a GroupInfo of another suite":  {"body.welcome", info(mlstest.GroupInfo{Group: r.id, Epoch: 1, Suite: 3})},
			"no Welcome":                    {"body.welcome", obj{"welcome": b64([]byte("hello"))}},
			"a Welcome of another suite":    {"body.welcome", obj{"welcome": b64(mlstest.Welcome(3, 0))}},
			"a missing Welcome":             {"body.welcome", obj{"welcome": nil}},
			"a Welcome for nobody":          {"body.welcome", obj{"added": nil}},
			"an added stranger":             {"body.added", obj{"added": []any{nobody}}},
			"an added committer":            {"body.added", obj{"added": idsOf([]*agent{b, a})}},
			"a removed stranger":            {"body.removed", obj{"removed": []any{nobody}}},
		} {
			r.tryCommit(a, merged(r.mlsAdd(0, b), c.more)).as("%s", name).invalid(c.loc, "")
		}
		for _, missing := range []string{"epoch", "commit", "group_info"} {
			r.tryCommit(a, without(r.mlsAdd(0, b), missing)).as("without %s", missing).invalid("body."+missing, "missing")
		}
		r.tryCommit(a, merged(r.mlsAdd(0, b), obj{"epoch": -1})).invalid("body.epoch", "greater_than_equal")
		r.tryCommit(a, merged(r.mlsAdd(0, b), obj{"removed": idsOf([]*agent{a})})).as("its own removal").refusedByRule("last_admin")
		r.committed(a, r.mlsAdd(0, b))
		r.tryCommit(b, r.mlsCommit(1, info(mlstest.GroupInfo{Group: r.id, Epoch: 2, Suite: 3}))).as("another suite").invalid("body.group_info", "value_error")
		r.committed(b, r.mlsCommit(1, commit(mlstest.Commit{Group: r.id, Epoch: 1, Public: true})))
		bare, _ := base64.RawURLEncoding.DecodeString(text(r.mlsCommit(2), "group_info"))
		r.committed(b, r.mlsCommit(2, obj{"group_info": b64(bare[4:])}))
	})
}

// TestMLSIsForMembers: strangers learn nothing of a private group, and non-members may do
// nothing.
func TestMLSIsForMembers(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b, c, second := trio(t, s)
		private, public := a.mlsGroup(b), a.group(obj{"enrollment_policy": "open"})
		s.call(t, "", "GET", "/directory/groups/"+public.id, nil).want(200).is("mls_enabled", false)
		public.committed(a, public.mlsCommit(0))
		s.call(t, "", "GET", "/directory/groups/"+public.id, nil).want(200).is("mls_enabled", true)
		eventually(t, "a search shows the MLS group", func() bool {
			rows := s.call(t, "", "GET", "/directory/groups?q="+public.name, nil).want(200).items()
			return len(rows) == 1 && rows[0]["mls_enabled"] == true
		})
		welcome := text(private.welcomes(b)[0], "id")
		for _, r := range []*group{private, public} {
			code, status := "not_member", 403
			if r == private {
				code, status = "not_found", 404
			}
			for _, ask := range []struct {
				method, path string
				body         any
			}{
				{"POST", "/mls/commits", r.mlsCommit(1)},
				{"POST", "/mls/commits", obj{"epoch": 1, "commit": "AAAA", "group_info": "AAAA"}},
				{"GET", "/mls/commits", nil},
				{"GET", "/mls/group-info", nil},
				{"GET", "/mls/welcomes", nil},
				{"DELETE", "/mls/welcomes/" + welcome, nil},
			} {
				c.request(ask.method, r.path(ask.path), ask.body).as("a stranger: %s %s", ask.method, ask.path).refused(status, code)
				second.request(ask.method, r.path(ask.path), ask.body).as("no member of the owner's: %s %s", ask.method, ask.path).refused(403, "not_member")
				c.request(ask.method, "/groups/"+nobody+ask.path, ask.body).as("an unknown group").refused(404, "not_found")
				s.call(t, a.token, ask.method, r.path(ask.path), ask.body).as("unnamed: %s %s", ask.method, ask.path).refused(400, "agent_required")
				s.call(t, a.token, ask.method, r.path(ask.path), ask.body, "X-Svc-Agent", c.id).as("another's agent").refused(403, "not_owner")
			}
		}
		b.request("DELETE", private.path("/mls/welcomes/"+nobody), nil).refused(404, "not_found")
		a.request("DELETE", private.path("/mls/welcomes/"+welcome), nil).as("another's Welcome").refused(404, "not_found")
		b.request("DELETE", private.path("/mls/welcomes/"+welcome), nil).want(204)
		b.request("DELETE", private.path("/mls/welcomes/"+welcome), nil).refused(404, "not_found")
		if rows := private.welcomes(b); len(rows) != 0 {
			t.Errorf("after the acknowledgment: %v", rows)
		}
		a.request("DELETE", private.path(""), nil).want(204)
		a.request("GET", private.path("/mls/commits"), nil).refused(410, "gone")
		c.request("GET", private.path("/mls/commits"), nil).refused(404, "not_found")
	})
}

// TestMLSBodies: a commit may have 8 MiB, and no other route takes as much.
func TestMLSBodies(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b, _, _ := trio(t, s)
		r := a.mlsGroup(b)
		// Base64 has four characters for three bytes; the rest of the body is short.
		large := r.mlsCommit(1, obj{"commit": b64(mlstest.Commit{Group: r.id, Epoch: 1, Padding: 6<<20 - 3000}.Message())})
		r.committed(a, large)
		tooLarge := r.mlsCommit(2, obj{"commit": b64(mlstest.Commit{Group: r.id, Epoch: 2, Padding: 6 << 20}.Message())})
		r.tryCommit(a, tooLarge).refused(413, "payload_too_large")
		a.request("POST", r.path("/join"), tooLarge).as("another route").refused(413, "payload_too_large")
		s.call(t, "", "POST", r.path("/mls/commits"), large).as("no token").refused(401, "not_authenticated")
		middle := r.mlsCommit(2, obj{"commit": b64(mlstest.Commit{Group: r.id, Epoch: 2, Padding: 500 << 10}.Message())})
		r.committed(b, middle)
		r.committed(a, r.mlsCommit(3))

		// Pages end before the commit with which they would have more than 1 MiB.
		var sizes []int
		cursor := ""
		for range 10 {
			page := b.request("GET", r.path("/mls/commits?since_epoch=1")+cursor, nil).want(200)
			sizes = append(sizes, len(page.items()))
			if page.at("has_more") == false {
				break
			}
			cursor = "&cursor=" + page.str("next_cursor")
		}
		if len(sizes) != 2 || sizes[0] != 1 || sizes[1] != 2 {
			t.Errorf("pages of %v commits, want 1 and 2", sizes)
		}
		got := r.commits(b, "?since_epoch=1&limit=1")
		for i, want := range []obj{large, middle} {
			if !bytes.Equal([]byte(text(got[i], "commit")), []byte(text(want, "commit"))) {
				t.Errorf("commit %d is not what was sent", i)
			}
		}
		for _, query := range []string{"limit=0", "limit=101", "since_epoch=-1", "since_epoch=x"} {
			a.request("GET", r.path("/mls/commits?"+query), nil).invalid("query."+strings.SplitN(query, "=", 2)[0], "")
		}
		a.request("GET", r.path("/mls/commits?cursor=x"), nil).refused(400, "invalid_cursor")
	})
}
