package blackbox

import "testing"

// TestStrangers requests everything that has an owner as the sender, as the recipient and
// as a stranger, and requests unknown ids.
func TestStrangers(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		stranger := s.org(t).agent("stranger")
		m := a.send(b)
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
			id := text(m, "id")
			if r.of == "conversations" {
				id = text(m, "conversation_id")
			}
			ask := func(token, id string) *answer { return s.call(t, token, r.method, "/"+r.of+"/"+id+r.rest, r.body) }
			ask(stranger.token, id).as("stranger").refused(403, "not_owner")
			ask(a.token, nobody).as("unknown").refused(404, "not_found")
			ask(a.token, nilUUID).as("nil id").refused(404, "not_found")
			ask(a.token, stranger.id).as("the id of another kind").refused(404, "not_found")
			ask(a.token, "not-an-id").as("malformed").invalid("path", "uuid_parsing")
			ask("", id).as("nobody").refused(401, "not_authenticated")
			ask(a.token, id).as("sender").want(r.ok)
			if r.method != "PATCH" {
				ask(b.token, id).as("recipient").want(r.ok)
			}
		}
	})
}

func TestOrderOfChecksOfAReply(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		stranger := s.org(t).agent("stranger")
		m := a.send(b)
		stranger.tryReply(m, obj{"type": "x"}).as("schema before access").invalid("body.type", "")
		stranger.tryReply(m, obj{"type": "x"}, "X-Svc-Agent", nobody).as("schema before acting agent").invalid("body.type", "")
		stranger.tryReply(m, nil, "X-Svc-Agent", nobody).as("acting agent").refused(403, "not_owner")
		b.tryReply(obj{"id": nobody}, nil, "X-Svc-Agent", nobody).as("acting agent before existence").refused(403, "not_owner")
		b.tryReply(obj{"id": nobody}, nil).as("existence").refused(404, "not_found")
		a.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": "canceled"}).want(200)
		stranger.tryReply(m, nil).as("access before state").refused(403, "not_owner")
		b.tryReply(m, nil).as("state").refused(409, "conversation_closed")
		stranger.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": "nonsense"}).as("schema before access").invalid("body.status", "enum")
		stranger.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": "open"}).as("access before state").refused(403, "not_owner")
	})
}

func TestTierZeroNeitherSendsNorCreates(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--tier1", "approval")
		o := s.org(t)
		o.get("/org").want(200).is("trust_tier", 0)
		o.get("/org/quotas").want(200).is("tier", 0)
		for _, path := range []string{"/agents", "/messages", "/messages/sync", "/messages/" + nobody + "/reply"} {
			o.post(path, obj{}).as("tier before schema").refused(403, "trust_tier_required")
		}
		o.post("/agents", newAgent("a")).refused(403, "trust_tier_required")
		if n := len(o.get("/agents").want(200).list); n != 0 {
			t.Errorf("%d agents", n)
		}
	})
}

// TestTierZeroOnlyReads: an organization lowered to tier 0 cannot send or reply;
// everything else works as before.
func TestTierZeroOnlyReads(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin)
		a, b := pair(t, s)
		m := a.send(b)
		r := b.group()
		succeeds(t, "org", "tier", b.org.slug, "0", "--admin", "http://"+admin, "--data", s.dir)
		b.tryReply(m, nil).refused(403, "trust_tier_required")
		b.post("/messages/"+text(m, "id")+"/reply", obj{}).as("tier before schema").refused(403, "trust_tier_required")
		r.tryBroadcast(b, nil).refused(403, "trust_tier_required")
		marked(t, a, m, "new")
		a.talk(m).is("status", "submitted")

		b.post("/messages/"+text(m, "id")+"/read", nil).want(200)
		b.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": "open"}).want(200)
		b.tryCreateGroup(nil).want(201)
		r.invited(b, a, "invited")
		r.joined(a)
		a.group(obj{"enrollment_policy": "open"}).joined(b)
		succeeds(t, "org", "tier", b.org.slug, "1", "--admin", "http://"+admin, "--data", s.dir)
		b.tryReply(m, nil).want(201)
	})
}

func TestBrandAndDomain(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--brand", "acme", "--domain", "agents.example:8443", "--base-url", "https://api.agents.example")
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		if a.handle != "a@"+o.slug+".agents.example:8443" {
			t.Errorf("handle %s", a.handle)
		}
		if want := "https://api.agents.example/poll/"; len(a.pollURL) <= len(want) || a.pollURL[:len(want)] != want {
			t.Errorf("poll_url %s", a.pollURL)
		}
		send := func(kind string, headers ...string) *answer {
			return o.post("/messages", message(a, obj{"type": kind}), headers...)
		}
		send("acme.v1.dm", "X-Acme-Agent", "b").want(201).is("from_agent_id", b.id)
		send("acme.v1.dm", "X-Svc-Agent", "b").as("the neutral header means nothing").refusedByRule("self_message")
		send("acme.v1.unheard_of", "X-Acme-Agent", "b").invalid("body.type", "")
		send("svc.v1.unheard_of", "X-Acme-Agent", "b").as("somebody else's namespace").want(201)
		o.post("/messages", toHandle(b.handle)).want(201).is("to_agent_id", b.id)
		o.post("/messages", toHandle("b@"+o.slug+".localhost")).refused(404, "not_found")
		s.call(t, "", "GET", "/.well-known/oauth-authorization-server", nil).want(200).is("token_endpoint", "https://api.agents.example/oauth/token")
	})
}
