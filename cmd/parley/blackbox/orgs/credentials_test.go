package orgs

import (
	"fmt"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// limited returns the organization as a new credential of a scope sees it.
func limited(o *kit.Org, scope string, more obj, agents ...*kit.Agent) *kit.Org {
	o.T.Helper()
	in := kit.Merged(obj{"scope": scope}, more)
	if agents != nil {
		ids := []string{}
		for _, g := range agents {
			ids = append(ids, g.ID)
		}
		in["agent_ids"] = ids
	}
	made := o.Post("/org/credentials", in).Want(201)
	as := *o
	as.Client, as.Secret = made.Str("client_id"), made.Str("client_secret")
	as.Token = o.S.Grant(o.T, as.Client, as.Secret).Want(200).Is("scope", scope).Str("access_token")
	return &as
}

// TestLimitedCredential: a credential for some agents owns these and no others.
func TestLimitedCredential(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, stranger := s.Org(t), s.Org(t).Agent("stranger")
		carol, alice, bob := o.Agent("carol"), o.Agent("alice"), o.Agent("bob")
		as := limited(o, "agents", nil, bob, alice)
		names := func(a *kit.Answer) (all []string) {
			for _, g := range a.Want(200).Value().([]any) {
				all = append(all, g.(obj)["name"].(string))
			}
			return all
		}
		if got := fmt.Sprint(names(as.Get("/agents"))); got != "[alice bob]" {
			t.Errorf("its agents: %s", got)
		}
		as.Post("/groups/"+kit.Nobody+"/join", nil).Refused(400, "agent_required")
		// It sends as its oldest agent, which is not the organization's.
		m := as.Post("/messages", kit.ToHandle(stranger.Handle)).Want(201).Is("from_agent_id", alice.ID)
		as.Post("/messages", kit.ToHandle(stranger.Handle), "X-Svc-Agent", "carol").Refused(403, "not_owner")
		as.Get("/messages/"+m.Str("id")).Want(200).Is("direction", "sent")
		// What another agent of the organization sends it is as a stranger's.
		from := carol.Post("/messages", kit.Merged(kit.ToHandle(alice.Handle), obj{"self_encrypted_payload": "QQ"}), "X-Svc-Agent", "carol").Want(201)
		as.Get("/messages/"+from.Str("id")).Want(200).Is("direction", "received", "self_encrypted_payload", nil)
		o.Get("/messages/"+from.Str("id")).Want(200).Is("self_encrypted_payload", "QQ")
		as.Get(carol.Path("/messages")).Refused(403, "not_owner")
		as.Get("/messages/"+carol.Send(stranger)["id"].(string)).Refused(403, "not_owner")

		owned := o.Post("/groups", obj{"name": "owned"}, "X-Svc-Agent", "carol").Want(201).Str("id")
		as.Get("/groups/"+owned).Refused(404, "not_found")
		seated := as.Post("/groups", obj{"name": "seated"}).Want(201).Str("id")
		if groups := as.Get("/groups").Want(200).Items(); len(groups) != 1 || groups[0]["id"] != seated {
			t.Errorf("groups %v", groups)
		}
		hook := o.Post("/webhooks", obj{"agent_id": carol.ID, "url": "http://127.0.0.1:1/"}).Want(201).Str("id")
		as.Delete("/webhooks/"+hook).Refused(404, "not_found")
		if hooks := as.Get("/webhooks").Want(200).Value().([]any); len(hooks) != 0 {
			t.Errorf("webhooks %v", hooks)
		}

		o.Delete(alice.Path("")).Want(204)
		if got := fmt.Sprint(names(as.Get("/agents"))); got != "[bob]" {
			t.Errorf("its agents: %s", got)
		}
		o.Delete(bob.Path("")).Want(204)
		as.Get("/agents").Refused(401, "not_authenticated")
		s.Grant(t, as.Client, as.Secret).Want(401).Is("error", "invalid_client")
	})
}

// TestReadingMarksNothing: what a credential of scope read is shown is neither delivered nor read.
func TestReadingMarksNothing(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice, bob := s.Org(t).Agent("alice"), s.Org(t).Agent("bob")
		m := bob.Send(alice)
		id := m["id"].(string)
		as := limited(alice.Org, "read", nil)
		reader := *alice
		reader.Org = as
		live := reader.Stream("")
		as.Get(alice.Path("/messages")).Want(200)
		as.Get("/messages/" + id).Want(200)
		as.Get("/conversations/" + m["conversation_id"].(string) + "/messages").Want(200)
		if waited := as.Get(alice.Path("/wait?timeout_ms=5000")).Want(200).At("items").([]any); len(waited) != 1 {
			t.Errorf("waited for %v", waited)
		}
		if got := kit.Text(live.Message(), "id"); got != id {
			t.Errorf("the stream has %s", got)
		}
		bob.Get("/messages/"+id).Want(200).Is("delivered_at", nil, "read_at", nil, "status", "new")
		as.Post("/messages/"+id+"/read", nil).Refused(403, "insufficient_scope")
		alice.Get("/messages/" + id).Want(200)
		if bob.Get("/messages/"+id).Want(200).At("read_at") == nil {
			t.Error("another credential does not mark it either")
		}
	})
}

// TestExpiringCredential: a credential ends at its time, with its tokens and its streams.
func TestExpiringCredential(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice := s.Org(t).Agent("alice")
		ends := time.Now().Add(4 * time.Second).UTC()
		as := limited(alice.Org, "org", obj{"expires_at": ends.Format(time.RFC3339Nano), "description": "for a while"})
		var listed obj
		for _, one := range alice.Get("/org/credentials").Want(200).Value().([]any) {
			if one.(obj)["client_id"] == as.Client {
				listed = one.(obj)
			}
		}
		if listed["description"] != "for a while" || listed["last_used_at"] == nil || listed["agent_ids"] != nil || listed["client_secret"] != nil {
			t.Errorf("listed as %v", listed)
		}
		if in := s.Grant(t, as.Client, as.Secret).Want(200).At("expires_in").(float64); in > 4 {
			t.Errorf("its token lives for %v s", in)
		}
		as.Get("/org").Want(200)
		// It does not keep the organization: the other one stays.
		alice.Delete("/org/credentials/"+alice.Org.Client).Refused(409, "last_credential")
		time.Sleep(time.Until(ends) + 10*time.Millisecond)
		if a := as.Get("/org").Want(401); a.Str("code") != "token_expired" && a.Str("code") != "not_authenticated" {
			t.Errorf("afterwards: %s", a.Raw)
		}
		s.Grant(t, as.Client, as.Secret).Want(401).Is("error", "invalid_client")
		if n := len(alice.Get("/org/credentials").Want(200).Value().([]any)); n != 1 {
			t.Errorf("%d credentials are listed", n)
		}
		for what, in := range map[string]obj{
			"in the past":      {"expires_at": "2020-01-01T00:00:00Z"},
			"no agents":        {"scope": "agents"},
			"agents of an org": {"agent_ids": []string{alice.ID}},
			"an unknown agent": {"scope": "read", "agent_ids": []string{kit.Nobody}},
			"another's agent":  {"scope": "agents", "agent_ids": []string{s.Org(t).Agent("bob").ID}},
			"an agent twice":   {"scope": "agents", "agent_ids": []string{alice.ID, alice.ID}},
			"an empty list":    {"scope": "agents", "agent_ids": []string{}},
			"an unknown scope": {"scope": "write"},
			"a long text":      {"description": string(make([]byte, 201))},
		} {
			alice.Post("/org/credentials", in).As("%s", what).Want(422)
		}
	})
}
