package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/http/svid/svidtest"
)

// challengeSVID asks for a challenge to prove a workload identity.
func (g *agent) challengeSVID() *answer {
	g.t.Helper()
	return g.post(g.path("/verify-svid/challenge"), obj{}).want(201)
}

// provesBy proves a workload identity with a JWT-SVID.
func (g *agent) provesBy(a *svidtest.Authority, workload string) (obj, *answer) {
	g.t.Helper()
	c := g.challengeSVID()
	body := obj{"challenge_id": c.str("challenge_id"), "jwt_svid": a.JWT(workload, c.str("audience"))}
	return body, g.post(g.path("/verify-svid"), body)
}

// TestWorkloadIdentity: an agent proves workload identities by both documents, for tier 2.
// Proofs and claims outlast the process, and a new bundle counts without a restart.
func TestWorkloadIdentity(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
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
		s := start(t, "--journals", journals, "--trust-bundle", domain+"="+bundle, "--quota-profile", "public", "--rate", "public=none")
		alice, bob := pair(t, s)
		alice.put(alice.path("/card"), merged(plainCard(), obj{"is_public": true})).want(200).is("svc.trust_tier", 1.0)

		c := alice.challengeSVID()
		if want := s.base + alice.path("/verify-svid#") + c.str("nonce"); c.str("audience") != want || len(c.body) != 5 {
			t.Errorf("the challenge is %v, want the audience %s", c.body, want)
		}
		c.is("methods", []any{"jwt-svid", "x509-svid"})
		proven, got := alice.provesBy(first, "/ns/prod/sa/web")
		got.want(200).is("verified", true, "spiffe_id", "spiffe://"+domain+"/ns/prod/sa/web", "trust_domain", domain, "trust_tier", 2.0)
		if len(got.body) != 5 || got.str("verified_at") == "" {
			t.Errorf("the answer is %v", got.body)
		}
		alice.get("/org").want(200).is("trust_tier", 2.0)
		alice.get("/org/quotas").want(200).is("tier", 2.0, "quotas.agents.limit", 10.0)
		s.call(t, "", "GET", alice.path("/card"), nil).want(200).is("svc.trust_tier", 2.0, "svc.verified", true)
		eventually(t, "the directory shows the tier", func() bool {
			row := s.call(t, "", "GET", "/directory/agents/"+alice.id, nil)
			return row.status == 200 && row.at("trust_tier") == 2.0
		})

		s.kill()
		s.restart(t)
		alice.post(alice.path("/verify-svid"), proven).refused(409, "challenge_used")
		alice.get("/org").want(200).is("trust_tier", 2.0)
		_, got = bob.provesBy(first, "/ns/prod/sa/web")
		got.refused(403, "svid_invalid")
		bob.get("/org").want(200).is("trust_tier", 1.0)

		key := svidtest.NewKey()
		c = bob.challengeSVID()
		certified := obj{
			"challenge_id": c.str("challenge_id"), "x509_svid": first.X509("/ns/prod/sa/db", key.Public()), // in base64
			"signature": svidtest.Sign(key, []byte("svc-svid-v1\x00"+bob.id+"\x00"+c.str("nonce"))),
		}
		bob.post(bob.path("/verify-svid"), certified).want(200).is("spiffe_id", "spiffe://"+domain+"/ns/prod/sa/db", "trust_tier", 2.0)

		replace(second.Bundle())
		_, got = alice.provesBy(first, "/ns/prod/sa/web")
		got.refused(403, "svid_invalid")
		_, got = alice.provesBy(second, "/ns/prod/sa/web")
		got.want(200)
		replace([]byte("not a bundle"))
		_, got = alice.provesBy(second, "/ns/prod/sa/web")
		got.as("with a damaged file the former bundle counts").want(200)
		eventually(t, "the log says both", func() bool {
			said := s.log.text()
			return strings.Contains(said, "a trust bundle cannot be read") && strings.Contains(said, "a trust bundle was read again")
		})
	})
}

// TestWorkloadIdentityWithoutBundles: a server without trust bundles says so.
func TestWorkloadIdentityWithoutBundles(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("alice")
		g.post(g.path("/verify-svid/challenge"), obj{}).refused(403, "svid_not_configured")
		g.post(g.path("/verify-svid"), obj{"challenge_id": "x", "jwt_svid": "x"}).refused(403, "svid_not_configured")
		g.get("/org").want(200).is("trust_tier", 1.0)
	})
}
