package api

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestStrangers requests everything that has an owner as the sender, as the recipient and
// as a stranger, and requests unknown ids.
func TestStrangers(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		stranger := s.Org(t).Agent("stranger")
		m := a.Send(b)
		reply := obj{"type": "a.b.c", "encrypted_payload": "QQ"}
		for _, r := range []struct {
			method, of, rest string
			body             any
			ok               int
		}{
			{"GET", "messages", "", nil, 200},
			{"POST", "messages", "/reply", reply, 201},
			{"GET", "conversations", "", nil, 200},
			{"GET", "conversations", "/participants", nil, 200},
			{"GET", "conversations", "/messages", nil, 200},
			{"PATCH", "conversations", "/status", obj{"status": "paused"}, 200},
		} {
			id := kit.Text(m, "id")
			if r.of == "conversations" {
				id = kit.Text(m, "conversation_id")
			}
			ask := func(token, id string) *kit.Answer { return s.Call(t, token, r.method, "/"+r.of+"/"+id+r.rest, r.body) }
			ask(stranger.Token, id).As("stranger").Refused(403, "not_owner")
			ask(a.Token, kit.Nobody).As("unknown").Refused(404, "not_found")
			ask(a.Token, kit.NilUUID).As("nil id").Refused(404, "not_found")
			ask(a.Token, stranger.ID).As("the id of another kind").Refused(404, "not_found")
			ask(a.Token, "not-an-id").As("malformed").Invalid("path", "uuid_parsing")
			ask("", id).As("nobody").Refused(401, "not_authenticated")
			ask(a.Token, id).As("sender").Want(r.ok)
			if r.method != "PATCH" {
				ask(b.Token, id).As("recipient").Want(r.ok)
			}
		}
	})
}

func TestOrderOfChecksOfAReply(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		stranger := s.Org(t).Agent("stranger")
		m := a.Send(b)
		stranger.TryReply(m, obj{"type": "x"}).As("schema before access").Invalid("body.type", "")
		stranger.TryReply(m, obj{"type": "x"}, "X-Svc-Agent", kit.Nobody).As("schema before acting agent").Invalid("body.type", "")
		stranger.TryReply(m, nil, "X-Svc-Agent", kit.Nobody).As("acting agent").Refused(403, "not_owner")
		b.TryReply(obj{"id": kit.Nobody}, nil, "X-Svc-Agent", kit.Nobody).As("acting agent before existence").Refused(403, "not_owner")
		b.TryReply(obj{"id": kit.Nobody}, nil).As("existence").Refused(404, "not_found")
		a.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": "canceled"}).Want(200)
		stranger.TryReply(m, nil).As("access before state").Refused(403, "not_owner")
		b.TryReply(m, nil).As("state").Refused(409, "conversation_closed")
		stranger.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": "nonsense"}).As("schema before access").Invalid("body.status", "enum")
		stranger.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": "open"}).As("access before state").Refused(403, "not_owner")
	})
}

func TestTierZeroNeitherSendsNorCreates(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--tier1", "approval")
		o := s.Org(t)
		o.Get("/org").Want(200).Is("trust_tier", 0)
		o.Get("/org/quotas").Want(200).Is("tier", 0)
		for _, path := range []string{"/agents", "/messages", "/messages/sync", "/messages/" + kit.Nobody + "/reply"} {
			o.Post(path, obj{}).As("tier before schema").Refused(403, "trust_tier_required")
		}
		o.Post("/agents", kit.NewAgent("a")).Refused(403, "trust_tier_required")
		if n := len(o.Get("/agents").Want(200).List); n != 0 {
			t.Errorf("%d agents", n)
		}
	})
}

// TestTierZeroOnlyReads: an organization lowered to tier 0 cannot send or reply;
// everything else works as before.
func TestTierZeroOnlyReads(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		r := grouptest.New(b)
		kit.Succeeds(t, "org", "tier", b.Org.Slug, "0", "--admin", "http://"+admin, "--data", s.Dir)
		b.TryReply(m, nil).Refused(403, "trust_tier_required")
		b.Post("/messages/"+kit.Text(m, "id")+"/reply", obj{}).As("tier before schema").Refused(403, "trust_tier_required")
		r.TryBroadcast(b, nil).Refused(403, "trust_tier_required")
		kit.Marked(t, a, m, "new")
		a.Conversation(m).Is("status", "submitted")

		b.Post("/messages/"+kit.Text(m, "id")+"/read", nil).Want(200)
		b.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": "open"}).Want(200)
		grouptest.TryCreate(b, nil).Want(201)
		r.Invited(b, a, "invited")
		r.Joined(a)
		grouptest.New(a, obj{"enrollment_policy": "open"}).Joined(b)
		kit.Succeeds(t, "org", "tier", b.Org.Slug, "1", "--admin", "http://"+admin, "--data", s.Dir)
		b.TryReply(m, nil).Want(201)
	})
}

func TestBrandAndDomain(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--brand", "acme", "--domain", "agents.example:8443", "--base-url", "https://api.agents.example")
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		if a.Handle != "a@"+o.Slug+".agents.example:8443" {
			t.Errorf("handle %s", a.Handle)
		}
		if want := "https://api.agents.example/poll/"; len(a.PollURL) <= len(want) || a.PollURL[:len(want)] != want {
			t.Errorf("poll_url %s", a.PollURL)
		}
		send := func(kind string, headers ...string) *kit.Answer {
			return o.Post("/messages", kit.Message(a, obj{"type": kind}), headers...)
		}
		send("acme.v1.dm", "X-Acme-Agent", "b").Want(201).Is("from_agent_id", b.ID)
		send("acme.v1.dm", "X-Svc-Agent", "b").As("the neutral header means nothing").RefusedByRule("self_message")
		send("acme.v1.unheard_of", "X-Acme-Agent", "b").Invalid("body.type", "")
		send("svc.v1.unheard_of", "X-Acme-Agent", "b").As("somebody else's namespace").Want(201)
		o.Post("/messages", kit.ToHandle(b.Handle)).Want(201).Is("to_agent_id", b.ID)
		o.Post("/messages", kit.ToHandle("b@"+o.Slug+".localhost")).Refused(404, "not_found")
		s.Call(t, "", "GET", "/.well-known/oauth-authorization-server", nil).Want(200).Is("token_endpoint", "https://api.agents.example/oauth/token")
	})
}
