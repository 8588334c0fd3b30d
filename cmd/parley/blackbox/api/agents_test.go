package api

import (
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

func TestAgentCreation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		body := kit.NewAgent("first-1")
		a := o.Post("/agents", body).Want(201).Shaped(kit.AgentShape + " poll_url:str")
		a.Is("agent_id", a.At("id"), "org_id", o.ID, "name", "first-1", "human_oversight", true, "unlisted", false,
			"incoming_policy", "accept_all", "outgoing_policy", "send_all", "revoked_at", nil, "warnings", []any{},
			"handle", "first-1@"+o.Slug+".localhost",
			"signing_public_key.x", kit.At(body, "signing_public_key.x"), "signing_public_key.crv", "Ed25519",
			"encryption_public_key.x", kit.At(body, "encryption_public_key.x"), "encryption_public_key.crv", "X25519")
		if !strings.HasPrefix(a.Str("poll_url"), s.Base+"/poll/") {
			a.Errorf("poll_url is not below the base address")
		}
		if words := strings.Fields(a.Str("verification_words")); len(words) != 5 {
			a.Errorf("%d verification words", len(words))
		}
		got := o.Get("/agents/" + a.Str("id")).Want(200).Shaped(kit.AgentShape)
		if _, shown := got.Body["poll_url"]; shown {
			got.Errorf("poll_url is shown again")
		}
		for name, v := range got.Body {
			a.Is(name, v)
		}
		b := o.Post("/agents", kit.Merged(kit.NewAgent("second"), obj{"human_oversight": false, "unlisted": true})).Want(201)
		b.Is("human_oversight", false, "unlisted", true)
		o.Get("/agents/"+b.Str("id")).Want(200).Is("human_oversight", false, "unlisted", true)
	})
}

func TestAgentNames(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		for _, name := range []string{"a", "7", "a-b", "a--b", strings.Repeat("n", 200)} {
			o.Post("/agents", kit.NewAgent(name)).As("%.20s", name).Want(201).Is("name", name)
		}
		for _, name := range []string{"", "A", "a_b", "-a", "a-", "a.b", "a@b", "ä", "a b", "a\n", strings.Repeat("n", 201)} {
			o.Post("/agents", kit.NewAgent(name)).As("%.20q", name).Invalid("body.name", "")
		}
		o.Post("/agents", kit.NewAgent("a")).As("taken").Refused(409, "name_taken")
		s.Org(t).Post("/agents", kit.NewAgent("a")).As("taken elsewhere").Want(201)
		if n := len(o.Get("/agents").Want(200).List); n != 5 {
			t.Errorf("%d agents, want 5", n)
		}
	})
}

func TestAgentFields(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		for _, name := range []string{"name", "signing_public_key", "encryption_public_key"} {
			o.Post("/agents", kit.Without(kit.NewAgent("x"), name)).As("without %s", name).Invalid("body."+name, "missing")
			o.Post("/agents", kit.Merged(kit.NewAgent("x"), obj{name: nil})).As("null %s", name).Invalid("body."+name, "")
			o.Post("/agents", kit.Merged(kit.NewAgent("x"), obj{name: 7})).As("number %s", name).Invalid("body."+name, "")
		}
		for _, extra := range []string{"incoming_policy", "outgoing_policy", "id", "org_id", "poll_url", "Name", "unheard_of"} {
			o.Post("/agents", kit.Merged(kit.NewAgent("x"), obj{extra: "accept_all"})).As("extra %s", extra).Invalid("body."+extra, "extra_forbidden")
		}
		for _, name := range []string{"human_oversight", "unlisted"} {
			o.Post("/agents", kit.Merged(kit.NewAgent("x"), obj{name: "perhaps"})).As("%s", name).Invalid("body."+name, "bool_parsing")
		}
		o.Post("/agents", kit.Merged(kit.NewAgent("nulls"), obj{"human_oversight": nil, "unlisted": nil})).Want(201).Is("human_oversight", true, "unlisted", false)
		if n := len(o.Get("/agents").Want(200).List); n != 1 {
			t.Errorf("%d agents, want 1", n)
		}
	})
}

func TestAgentNamesRace(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		made := 0
		for _, a := range kit.Concurrently(8, func(int) *kit.Answer { return o.Post("/agents", kit.NewAgent("wanted")) }) {
			if a.Status == 201 {
				made++
				continue
			}
			a.Refused(409, "name_taken")
		}
		if made != 1 || len(o.Get("/agents").Want(200).List) != 1 {
			t.Errorf("%d agents have the same name", made)
		}
		o.Get("/org").Want(200).Is("agent_count", 1)
	})
}

func TestAgentList(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		if a := o.Get("/agents").Want(200); a.List == nil || len(a.List) != 0 {
			a.Errorf("want an empty array")
		}
		var made []string
		for _, name := range []string{"c", "a", "b"} {
			made = append(made, o.Agent(name).ID)
		}
		o.Delete("/agents/" + made[1]).Want(204)
		list := func(query string, want ...string) {
			t.Helper()
			a := o.Get("/agents" + query).Want(200)
			rows := kit.Objects(a.List)
			for _, r := range rows {
				kit.Shaped(t, query, r, kit.AgentShape)
			}
			if !kit.Same(kit.IDs(rows), want) {
				a.Errorf("oldest first: want %v", want)
			}
		}
		list("", made[0], made[2])
		list("?include_revoked=false", made[0], made[2])
		list("?include_revoked=true", made...)
		o.Get("/agents?include_revoked=perhaps").Invalid("query.include_revoked", "bool_parsing")
		if n := len(s.Org(t).Get("/agents").Want(200).List); n != 0 {
			t.Errorf("another organization sees %d agents", n)
		}
	})
}

func TestAgentPatch(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("patched")
		patch := func(body any) *kit.Answer { return g.Patch(g.Path(""), body) }
		patch(obj{}).Want(200).Shaped(kit.AgentShape).Is("human_oversight", true)
		patch(nil).As("empty body").Want(200)
		patch(obj{"human_oversight": false, "unlisted": true}).Want(200).Is("human_oversight", false, "unlisted", true)
		patch(obj{"human_oversight": nil, "unlisted": nil, "name": nil, "incoming_policy": nil}).As("null ignored").Want(200).
			Is("human_oversight", false, "unlisted", true, "name", "patched", "incoming_policy", "accept_all")
		patch(obj{"name": "patched"}).As("own name").Want(200)
		patch(obj{"name": "other"}).As("another name").Refused(409, "name_immutable")
		patch(obj{"incoming_policy": "nobody"}).Invalid("body.incoming_policy", "enum")
		patch(obj{"outgoing_policy": "accept_all"}).Invalid("body.outgoing_policy", "enum")
		patch(obj{"human_oversight": "perhaps"}).Invalid("body.human_oversight", "bool_parsing")
		for _, policy := range []obj{{"incoming_policy": "groups_only"}, {"outgoing_policy": "groups_only"}} {
			a := patch(policy).Want(200)
			if w, _ := a.At("warnings").([]any); len(w) == 0 {
				a.Errorf("no warning though the agent is in no group")
			}
		}
		a := g.Get(g.Path("")).Want(200).Shaped(kit.AgentShape).Is("incoming_policy", "groups_only", "outgoing_policy", "groups_only")
		if w, _ := a.At("warnings").([]any); len(w) == 0 {
			a.Errorf("the warning is not kept")
		}
		patch(obj{"incoming_policy": "accept_all", "outgoing_policy": "send_all"}).Want(200).Is("warnings", []any{})
	})
}

func TestAgentRevocation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, peer := o.Agent("leaver"), s.Org(t).Agent("peer")
		m := peer.Send(g)
		g.Delete(g.Path("")).Want(204)
		g.Delete(g.Path("")).As("twice").Want(204)
		gone := g.Get(g.Path("")).Want(200).Shaped(strings.ReplaceAll(kit.AgentShape, "revoked_at:time?", "revoked_at:time"))
		gone.Is("id", g.ID, "handle", g.Handle)
		g.Delete(g.Path("")).Want(204)
		g.Get(g.Path("")).Want(200).Is("revoked_at", gone.At("revoked_at"))

		g.Patch(g.Path(""), obj{"human_oversight": false}).As("patch").Refused(410, "gone")
		g.Post(g.Path("/keys"), obj{"signing_public_key": g.Record["signing_public_key"]}).As("keys").Refused(410, "gone")
		g.Post(g.Path("/poll-token"), nil).As("poll token").Refused(410, "gone")
		_, st := g.Listen("")
		if st.Status != 410 {
			st.Errorf("want 410")
		}
		s.Call(t, "", "GET", g.Path("/keys"), nil).As("public keys").Refused(404, "not_found")
		s.Call(t, "", "GET", "/agents/keys?ids="+g.ID, nil).Want(200).Is("keys", obj{})
		s.Call(t, "", "GET", strings.TrimPrefix(g.PollURL, s.Base), nil).As("poll").Refused(404, "not_found")

		if rows := g.Everything(); len(rows) != 1 || kit.Text(rows[0], "id") != kit.Text(m, "id") {
			t.Errorf("the inbox of a revoked agent: %v", rows)
		}
		o.Get("/messages/" + kit.Text(m, "id")).Want(200)
		o.Get("/conversations/" + kit.Text(m, "conversation_id") + "/messages").Want(200)

		peer.TrySend(g, nil).As("send").Refused(410, "gone")
		peer.Post("/messages", kit.Without(kit.Merged(kit.Message(g), obj{"to_handle": g.Handle}), "to_agent_id")).As("send by handle").Refused(410, "gone")
		o.Post("/messages", kit.Message(peer), "X-Svc-Agent", g.ID).As("send as").Refused(403, "not_owner")
		o.Post("/messages", kit.Merged(kit.Message(peer), obj{"from_handle": g.Handle})).As("send from").Refused(403, "not_owner")
		o.Post("/agents", kit.NewAgent("leaver")).As("the name again").Refused(409, "name_taken")
	})
}

func TestRevocationEndsTheStream(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("streamer")
		st := g.Stream("")
		st.Opening()
		g.Delete(g.Path("")).Want(204)
		st.Ends(time.Minute)
	})
}

func TestForeignAgents(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, stranger := s.Org(t).Agent("mine"), s.Org(t)
		keys := obj{"signing_public_key": g.Record["signing_public_key"]}
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
			s.Call(t, stranger.Token, r.method, g.Path(r.path), r.body).Refused(403, "not_owner")
			s.Call(t, stranger.Token, r.method, "/agents/"+kit.Nobody+r.path, r.body).Refused(404, "not_found")
			s.Call(t, stranger.Token, r.method, "/agents/not-an-id"+r.path, r.body).Invalid("path", "uuid_parsing")
		}
		g.Get(g.Path("")).Want(200).Is("human_oversight", true, "revoked_at", nil)
	})
}
