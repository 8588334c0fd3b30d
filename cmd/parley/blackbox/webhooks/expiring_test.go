package webhooks

import (
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// day is how long before its end a credential is announced for the last time.
const day = 24 * time.Hour

// ending adds a credential of which an instant of its announcement comes soon.
func ending(o *kit.Org, scope string, ends time.Time, more ...obj) *kit.Answer {
	o.T.Helper()
	return o.Post("/org/credentials", kit.Merged(obj{"scope": scope, "expires_at": ends.UTC().Format(time.RFC3339Nano)}, more...)).Want(201)
}

// TestCredentialExpiring: a credential is announced seven days and one day before it ends, by one job
// for each webhook of the organization that asks for it, also if the server is killed before, at
// and after that instant. A revoked one is not announced.
func TestCredentialExpiring(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile)
		o, other := s.Org(t), s.Org(t).Agent("other")
		one, two := o.Agent("one"), o.Agent("two")
		hooks := []*hooktest.Hook{
			hooktest.Wanting(one, "credential.expiring"), hooktest.Wanting(one, "credential.expiring", "message.received"), hooktest.Wanting(two, "credential.expiring"),
		}
		without := []*hooktest.Hook{hooktest.Listening(one), hooktest.Wanting(other, "credential.expiring"), hooktest.Wanting(two, "credential.expiring")}
		without[2].SetActive(false)
		at := time.Now().Add(4 * time.Second).Truncate(time.Microsecond)
		first, last := ending(o, "read", at.Add(7*day)), ending(o, "org", at.Add(day))
		revoked := ending(o, "org", at.Add(day)).Str("client_id")
		o.Delete("/org/credentials/" + revoked).Want(204)
		s.Kill()
		s.Restart(t)
		for _, h := range hooks {
			h.To.CheckNoMore(t, 0)
		}
		time.Sleep(time.Until(at))
		s.Kill()
		s.Restart(t)
		for _, h := range hooks {
			h.To.WaitForDelivery(t, 2)
		}
		s.Kill()
		s.Restart(t)
		for _, h := range hooks {
			h.WaitForCounts(2, 0, 0, 0)
			heard := map[string]bool{}
			for _, d := range h.To.Deliveries() {
				kit.Exactly(t, "the payload", d.Body, "message_id agent_id event timestamp client_id expires_at")
				want := map[string]string{first.Str("client_id"): first.Str("expires_at"), last.Str("client_id"): last.Str("expires_at")}
				heard[kit.Text(d.Body, "client_id")] = true
				if d.Body["message_id"] != nil || d.Body["agent_id"] != h.Agent.ID || d.Body["expires_at"] != want[kit.Text(d.Body, "client_id")] {
					t.Errorf("the payload is %s", d.Raw)
				}
			}
			if jobs := h.Jobs(""); len(jobs) != 2 || len(heard) != 2 || h.CheckJob(jobs[0])["message_id"] != nil {
				t.Errorf("the jobs are %v", jobs)
			}
		}
		late := hooktest.Wanting(two, "credential.expiring")
		for _, h := range append(without, late) {
			h.To.CheckNoMore(t, 0)
		}
		kit.VerifyDirectory(t, s)
	})
}

// TestCredentialExpiringNeedsOrg: a caller without the scope org neither makes a webhook that asks for
// the ends of credentials nor switches one on.
func TestCredentialExpiringNeedsOrg(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("one")
		made := ending(g.Org, "agents", time.Now().Add(time.Hour), obj{"agent_ids": []string{g.ID}})
		limited := *g.Org
		limited.Token = s.Grant(t, made.Str("client_id"), made.Str("client_secret")).Want(200).Str("access_token")
		as := *g
		as.Org = &limited
		h := hooktest.Wanting(g, "credential.expiring")
		for _, events := range [][]string{{"credential.expiring"}, {"message.received", "credential.expiring"}} {
			hooktest.TryNew(&as, hooktest.SharedSink(t).Target().URL, obj{"events": events}).Refused(403, "insufficient_scope")
		}
		hooktest.Wanting(&as, "message.received").SetActive(false).Is("active", false)
		as.Patch(h.Path(""), obj{"active": false}).Want(200)
		as.Patch(h.Path(""), obj{"active": true}).Refused(403, "insufficient_scope")
		h.SetActive(true)
	})
}
