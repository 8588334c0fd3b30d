package keys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/http/svid/svidtest"
)

// challengeSVID asks for a challenge to prove a workload identity.
func challengeSVID(g *kit.Agent) *kit.Answer {
	g.T.Helper()
	return g.Post(g.Path("/verify-svid/challenge"), obj{}).Want(201)
}

// provesBy proves a workload identity with a JWT-SVID.
func provesBy(g *kit.Agent, a *svidtest.Authority, workload string) (obj, *kit.Answer) {
	g.T.Helper()
	c := challengeSVID(g)
	body := obj{"challenge_id": c.Str("challenge_id"), "jwt_svid": a.JWT(workload, c.Str("audience"))}
	return body, g.Post(g.Path("/verify-svid"), body)
}

// TestWorkloadIdentity: an agent proves workload identities by both documents, for tier 2.
// Proofs and claims outlast the process, and a new bundle counts without a restart.
func TestWorkloadIdentity(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		const domain = "workloads.example"
		first, second := svidtest.New(domain, time.Now()), svidtest.New(domain, time.Now())
		bundle := filepath.Join(t.TempDir(), "bundle.json")
		replace := func(content []byte) {
			t.Helper()
			if err := os.WriteFile(bundle+".new", content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(bundle+".new", bundle); err != nil {
				t.Fatal(err)
			}
		}
		replace(first.Bundle())
		s := kit.Start(t, "--journals", journals, "--trust-bundle", domain+"="+bundle, "--quota-profile", "public", "--rate", "public=none")
		alice, bob := kit.Pair(t, s)
		alice.Put(alice.Path("/card"), kit.Merged(kit.PlainCard(), obj{"is_public": true})).Want(200).Is("svc.trust_tier", 1.0)

		c := challengeSVID(alice)
		if want := s.Base + alice.Path("/verify-svid#") + c.Str("nonce"); c.Str("audience") != want || len(c.Body) != 5 {
			t.Errorf("the challenge is %v, want the audience %s", c.Body, want)
		}
		c.Is("methods", []any{"jwt-svid", "x509-svid"})
		proven, got := provesBy(alice, first, "/ns/prod/sa/web")
		got.Want(200).Is("verified", true, "spiffe_id", "spiffe://"+domain+"/ns/prod/sa/web", "trust_domain", domain, "trust_tier", 2.0)
		if len(got.Body) != 5 || got.Str("verified_at") == "" {
			t.Errorf("the answer is %v", got.Body)
		}
		alice.Get("/org").Want(200).Is("trust_tier", 2.0)
		alice.Get("/org/quotas").Want(200).Is("tier", 2.0, "quotas.agents.limit", 10.0)
		s.Call(t, "", "GET", alice.Path("/card"), nil).Want(200).Is("svc.trust_tier", 2.0, "svc.verified", true)
		kit.Eventually(t, "the directory shows the tier", func() bool {
			row := s.Call(t, "", "GET", "/directory/agents/"+alice.ID, nil)
			return row.Status == 200 && row.At("trust_tier") == 2.0
		})

		s.Kill()
		s.Restart(t)
		alice.Post(alice.Path("/verify-svid"), proven).Refused(409, "challenge_used")
		alice.Get("/org").Want(200).Is("trust_tier", 2.0)
		_, got = provesBy(bob, first, "/ns/prod/sa/web")
		got.Refused(403, "svid_invalid")
		bob.Get("/org").Want(200).Is("trust_tier", 1.0)

		key := svidtest.NewKey()
		c = challengeSVID(bob)
		certified := obj{
			"challenge_id": c.Str("challenge_id"), "x509_svid": first.X509("/ns/prod/sa/db", key.Public()), // in base64
			"signature": svidtest.Sign(key, []byte("svc-svid-v1\x00"+bob.ID+"\x00"+c.Str("nonce"))),
		}
		bob.Post(bob.Path("/verify-svid"), certified).Want(200).Is("spiffe_id", "spiffe://"+domain+"/ns/prod/sa/db", "trust_tier", 2.0)

		replace(second.Bundle())
		_, got = provesBy(alice, first, "/ns/prod/sa/web")
		got.Refused(403, "svid_invalid")
		_, got = provesBy(alice, second, "/ns/prod/sa/web")
		got.Want(200)
		replace([]byte("not a bundle"))
		_, got = provesBy(alice, second, "/ns/prod/sa/web")
		got.As("with a damaged file the former bundle counts").Want(200)
		kit.Eventually(t, "the log says both", func() bool {
			said := s.Log.Text()
			return strings.Contains(said, "a trust bundle cannot be read") && strings.Contains(said, "a trust bundle was read again")
		})
	})
}

// TestWorkloadIdentityWithoutBundles: a server without trust bundles says so.
func TestWorkloadIdentityWithoutBundles(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("alice")
		g.Post(g.Path("/verify-svid/challenge"), obj{}).Refused(403, "svid_not_configured")
		g.Post(g.Path("/verify-svid"), obj{"challenge_id": "x", "jwt_svid": "x"}).Refused(403, "svid_not_configured")
		g.Get("/org").Want(200).Is("trust_tier", 1.0)
	})
}
