package blackbox

import (
	"strings"
	"testing"
	"time"
)

func TestAgentCreation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		body := newAgent("first-1")
		a := o.post("/agents", body).want(201).shaped(agentShape + " poll_url:str")
		a.is("agent_id", a.at("id"), "org_id", o.id, "name", "first-1", "human_oversight", true, "unlisted", false,
			"incoming_policy", "accept_all", "outgoing_policy", "send_all", "revoked_at", nil, "warnings", []any{},
			"handle", "first-1@"+o.slug+".localhost",
			"signing_public_key.x", at(body, "signing_public_key.x"), "signing_public_key.crv", "Ed25519",
			"encryption_public_key.x", at(body, "encryption_public_key.x"), "encryption_public_key.crv", "X25519")
		if !strings.HasPrefix(a.str("poll_url"), s.base+"/poll/") {
			a.errorf("poll_url is not below the base address")
		}
		if words := strings.Fields(a.str("verification_words")); len(words) != 5 {
			a.errorf("%d verification words", len(words))
		}
		got := o.get("/agents/" + a.str("id")).want(200).shaped(agentShape)
		if _, shown := got.body["poll_url"]; shown {
			got.errorf("poll_url is shown again")
		}
		for name, v := range got.body {
			a.is(name, v)
		}
		b := o.post("/agents", merged(newAgent("second"), obj{"human_oversight": false, "unlisted": true})).want(201)
		b.is("human_oversight", false, "unlisted", true)
		o.get("/agents/"+b.str("id")).want(200).is("human_oversight", false, "unlisted", true)
	})
}

func TestAgentNames(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		for _, name := range []string{"a", "7", "a-b", "a--b", strings.Repeat("n", 200)} {
			o.post("/agents", newAgent(name)).as("%.20s", name).want(201).is("name", name)
		}
		for _, name := range []string{"", "A", "a_b", "-a", "a-", "a.b", "a@b", "ä", "a b", "a\n", strings.Repeat("n", 201)} {
			o.post("/agents", newAgent(name)).as("%.20q", name).invalid("body.name", "")
		}
		o.post("/agents", newAgent("a")).as("taken").refused(409, "name_taken")
		s.org(t).post("/agents", newAgent("a")).as("taken elsewhere").want(201)
		if n := len(o.get("/agents").want(200).list); n != 5 {
			t.Errorf("%d agents, want 5", n)
		}
	})
}

func TestAgentFields(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		for _, name := range []string{"name", "signing_public_key", "encryption_public_key"} {
			o.post("/agents", without(newAgent("x"), name)).as("without %s", name).invalid("body."+name, "missing")
			o.post("/agents", merged(newAgent("x"), obj{name: nil})).as("null %s", name).invalid("body."+name, "")
			o.post("/agents", merged(newAgent("x"), obj{name: 7})).as("number %s", name).invalid("body."+name, "")
		}
		for _, extra := range []string{"incoming_policy", "outgoing_policy", "id", "org_id", "poll_url", "Name", "unheard_of"} {
			o.post("/agents", merged(newAgent("x"), obj{extra: "accept_all"})).as("extra %s", extra).invalid("body."+extra, "extra_forbidden")
		}
		for _, name := range []string{"human_oversight", "unlisted"} {
			o.post("/agents", merged(newAgent("x"), obj{name: "perhaps"})).as("%s", name).invalid("body."+name, "bool_parsing")
		}
		o.post("/agents", merged(newAgent("nulls"), obj{"human_oversight": nil, "unlisted": nil})).want(201).is("human_oversight", true, "unlisted", false)
		if n := len(o.get("/agents").want(200).list); n != 1 {
			t.Errorf("%d agents, want 1", n)
		}
	})
}

func TestAgentNamesRace(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		made := 0
		for _, a := range concurrently(8, func(int) *answer { return o.post("/agents", newAgent("wanted")) }) {
			if a.status == 201 {
				made++
				continue
			}
			a.refused(409, "name_taken")
		}
		if made != 1 || len(o.get("/agents").want(200).list) != 1 {
			t.Errorf("%d agents have the same name", made)
		}
		o.get("/org").want(200).is("agent_count", 1)
	})
}

func TestAgentList(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		if a := o.get("/agents").want(200); a.list == nil || len(a.list) != 0 {
			a.errorf("want an empty array")
		}
		var made []string
		for _, name := range []string{"c", "a", "b"} {
			made = append(made, o.agent(name).id)
		}
		o.delete("/agents/" + made[1]).want(204)
		list := func(query string, want ...string) {
			t.Helper()
			a := o.get("/agents" + query).want(200)
			rows := objects(a.list)
			for _, r := range rows {
				shaped(t, query, r, agentShape)
			}
			if !same(ids(rows), want) {
				a.errorf("oldest first: want %v", want)
			}
		}
		list("", made[0], made[2])
		list("?include_revoked=false", made[0], made[2])
		list("?include_revoked=true", made...)
		o.get("/agents?include_revoked=perhaps").invalid("query.include_revoked", "bool_parsing")
		if n := len(s.org(t).get("/agents").want(200).list); n != 0 {
			t.Errorf("another organization sees %d agents", n)
		}
	})
}

func TestAgentPatch(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("patched")
		patch := func(body any) *answer { return g.patch(g.path(""), body) }
		patch(obj{}).want(200).shaped(agentShape).is("human_oversight", true)
		patch(nil).as("empty body").want(200)
		patch(obj{"human_oversight": false, "unlisted": true}).want(200).is("human_oversight", false, "unlisted", true)
		patch(obj{"human_oversight": nil, "unlisted": nil, "name": nil, "incoming_policy": nil}).as("null ignored").want(200).
			is("human_oversight", false, "unlisted", true, "name", "patched", "incoming_policy", "accept_all")
		patch(obj{"name": "patched"}).as("own name").want(200)
		patch(obj{"name": "other"}).as("another name").refused(409, "name_immutable")
		patch(obj{"incoming_policy": "nobody"}).invalid("body.incoming_policy", "enum")
		patch(obj{"outgoing_policy": "accept_all"}).invalid("body.outgoing_policy", "enum")
		patch(obj{"human_oversight": "perhaps"}).invalid("body.human_oversight", "bool_parsing")
		for _, policy := range []obj{{"incoming_policy": "groups_only"}, {"outgoing_policy": "groups_only"}} {
			a := patch(policy).want(200)
			if w, _ := a.at("warnings").([]any); len(w) == 0 {
				a.errorf("no warning though the agent is in no group")
			}
		}
		a := g.get(g.path("")).want(200).shaped(agentShape).is("incoming_policy", "groups_only", "outgoing_policy", "groups_only")
		if w, _ := a.at("warnings").([]any); len(w) == 0 {
			a.errorf("the warning is not kept")
		}
		patch(obj{"incoming_policy": "accept_all", "outgoing_policy": "send_all"}).want(200).is("warnings", []any{})
	})
}

func TestAgentRevocation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, peer := o.agent("leaver"), s.org(t).agent("peer")
		m := peer.send(g)
		g.delete(g.path("")).want(204)
		g.delete(g.path("")).as("twice").want(204)
		gone := g.get(g.path("")).want(200).shaped(strings.ReplaceAll(agentShape, "revoked_at:time?", "revoked_at:time"))
		gone.is("id", g.id, "handle", g.handle)
		g.delete(g.path("")).want(204)
		g.get(g.path("")).want(200).is("revoked_at", gone.at("revoked_at"))

		g.patch(g.path(""), obj{"human_oversight": false}).as("patch").refused(410, "gone")
		g.post(g.path("/keys"), obj{"signing_public_key": g.record["signing_public_key"]}).as("keys").refused(410, "gone")
		g.post(g.path("/poll-token"), nil).as("poll token").refused(410, "gone")
		_, st := g.listen("")
		if st.status != 410 {
			st.errorf("want 410")
		}
		s.call(t, "", "GET", g.path("/keys"), nil).as("public keys").refused(404, "not_found")
		s.call(t, "", "GET", "/agents/keys?ids="+g.id, nil).want(200).is("keys", obj{})
		s.call(t, "", "GET", strings.TrimPrefix(g.pollURL, s.base), nil).as("poll").refused(404, "not_found")

		if rows := g.everything(); len(rows) != 1 || text(rows[0], "id") != text(m, "id") {
			t.Errorf("the inbox of a revoked agent: %v", rows)
		}
		o.get("/messages/" + text(m, "id")).want(200)
		o.get("/conversations/" + text(m, "conversation_id") + "/messages").want(200)

		peer.trySend(g, nil).as("send").refused(410, "gone")
		peer.post("/messages", without(merged(message(g), obj{"to_handle": g.handle}), "to_agent_id")).as("send by handle").refused(410, "gone")
		o.post("/messages", message(peer), "X-Svc-Agent", g.id).as("send as").refused(403, "not_owner")
		o.post("/messages", merged(message(peer), obj{"from_handle": g.handle})).as("send from").refused(403, "not_owner")
		o.post("/agents", newAgent("leaver")).as("the name again").refused(409, "name_taken")
	})
}

func TestRevocationEndsTheStream(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("streamer")
		st := g.stream("")
		st.opening()
		g.delete(g.path("")).want(204)
		st.ends(time.Minute)
	})
}

func TestForeignAgents(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, stranger := s.org(t).agent("mine"), s.org(t)
		keys := obj{"signing_public_key": g.record["signing_public_key"]}
		for _, r := range []struct {
			method, path string
			body         any
		}{
			{"GET", "", nil},
			{"PATCH", "", obj{"human_oversight": false}},
			{"DELETE", "", nil},
			{"POST", "/keys", keys},
			{"POST", "/poll-token", nil},
			{"DELETE", "/poll-token", nil},
			{"GET", "/messages", nil},
			{"GET", "/conversations", nil},
			{"GET", "/stream", nil},
		} {
			s.call(t, stranger.token, r.method, g.path(r.path), r.body).refused(403, "not_owner")
			s.call(t, stranger.token, r.method, "/agents/"+nobody+r.path, r.body).refused(404, "not_found")
			s.call(t, stranger.token, r.method, "/agents/not-an-id"+r.path, r.body).invalid("path", "uuid_parsing")
		}
		g.get(g.path("")).want(200).is("human_oversight", true, "revoked_at", nil)
	})
}
