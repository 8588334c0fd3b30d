package http

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	stdhttp "net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/org"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/svid"
	"parley/http/svid/svidtest"
)

// prover is an agent that proves workload identities over HTTP.
type prover struct {
	*tenant
	id string
}

// said is an answer.
type said struct {
	status int
	Code   string
	Detail any
	api.VerifiedSVID
	header stdhttp.Header
}

func (p *prover) ask(path string, body any) (status int, header stdhttp.Header, answer []byte) {
	p.t.Helper()
	raw, _ := json.Marshal(body)
	r, _ := stdhttp.NewRequest("POST", "http://home/agents/"+p.id+path, strings.NewReader(string(raw)))
	r.Header.Set("Authorization", "Bearer "+p.token)
	r.Header.Set("Content-Type", "application/json")
	got, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer got.Body.Close()
	if answer, err = io.ReadAll(got.Body); err != nil {
		p.t.Fatal(err)
	}
	return got.StatusCode, got.Header, answer
}

func (p *prover) challenge() (c api.SVIDChallenge) {
	p.t.Helper()
	status, _, answer := p.ask("/verify-svid/challenge", map[string]any{})
	if err := json.Unmarshal(answer, &c); err != nil || status != 201 {
		p.t.Fatalf("challenge: %d %s", status, answer)
	}
	return c
}

func (p *prover) verify(body map[string]any) (s said) {
	p.t.Helper()
	var answer []byte
	s.status, s.header, answer = p.ask("/verify-svid", body)
	if err := json.Unmarshal(answer, &s); err != nil {
		p.t.Fatalf("%d %s: %v", s.status, answer, err)
	}
	return s
}

func (p *prover) org() *org.State {
	p.t.Helper()
	o, err := p.h.node.Orgs.Current(context.Background(), p.owner)
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

func proof(c api.SVIDChallenge, token string) map[string]any {
	return map[string]any{"challenge_id": c.ChallengeID, "jwt_svid": token}
}

// certified is a proof by certificate, with a signature over a text.
func certified(c api.SVIDChallenge, chain [][]byte, signature []byte) map[string]any {
	return map[string]any{"challenge_id": c.ChallengeID, "x509_svid": chain, "signature": signature} // in base64
}

// workloadHarness returns a service that trusts the domain of an authority. The clock of
// its actors is ahead by a time that the test may change.
func workloadHarness(t *testing.T, journals int) (h *harness, trusted *svidtest.Authority, ahead *atomic.Int64) {
	t.Helper()
	ahead = &atomic.Int64{}
	h = harnessInMemory(t, journals, func(o *harnessOptions) {
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	trusted = svidtest.New("home.example", time.Now())
	path := filepath.Join(t.TempDir(), "bundle.json")
	if err := os.WriteFile(path, trusted.Bundle(), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	h.service.ofAgents.Bundles, err = svid.Open(svid.Options{Files: map[string]string{"home.example": path}, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h, trusted, ahead
}

func (h *harness) prover(slug, agent string) *prover {
	h.t.Helper()
	p := h.tenant(slug)
	return &prover{p, p.agent(agent)}
}

func agentID(text string) parley.AgentID {
	id, err := parley.ParseID[parley.AgentID](text)
	if err != nil {
		panic(err)
	}
	return id
}

func signedText(p *prover, c api.SVIDChallenge) []byte {
	return parley.SVIDText("svc", agentID(p.id), c.Nonce)
}

// TestProvenWorkload: either document raises the organization to tier 2, which the
// organization, its cards and the directory show.
func TestProvenWorkload(t *testing.T) {
	h, trusted, _ := workloadHarness(t, 2)
	defer h.close()
	for _, slug := range []string{"jwt", "certificate"} {
		p := h.prover(slug, "alice")
		p.publish(t)
		h.settleTier(t, p.id, 1)
		before := h.cardOf(t, p.id)
		c := p.challenge()
		audience := "https://home.example/agents/" + p.id + "/verify-svid#" + c.Nonce
		if left := time.Until(c.ExpiresAt.Time); c.Audience != audience || len(c.Nonce) != 32 || left > 5*time.Minute || left < 4*time.Minute || strings.Join(c.Methods, " ") != "jwt-svid x509-svid" {
			t.Fatalf("the challenge is %+v", c)
		}
		body := proof(c, trusted.JWT("/"+slug, c.Audience))
		if slug == "certificate" {
			key := svidtest.NewKey()
			body = certified(c, trusted.X509("/"+slug, key.Public()), svidtest.Sign(key, signedText(p, c)))
		}
		got := p.verify(body)
		if age := time.Since(got.VerifiedAt.Time); got.status != 200 || !got.Verified || got.SPIFFEID != "spiffe://home.example/"+slug || got.TrustDomain != "home.example" || got.TrustTier != 2 || age < 0 || age > time.Minute {
			t.Fatalf("%s: %+v", slug, got)
		}
		if o := p.org(); o.GetTrustTier() != 2 {
			t.Errorf("the organization has tier %d", o.GetTrustTier())
		}
		h.settleTier(t, p.id, 2)
		after := h.cardOf(t, p.id)
		if before.tier != 1 || after.tier != 2 || before.etag == after.etag || after.changed.Before(before.changed) {
			t.Errorf("the card was %+v, and is %+v", before, after)
		}
		if again := p.verify(body); again.status != 409 || again.Code != "challenge_used" {
			t.Errorf("the same proof again: %d %s", again.status, again.Code)
		}
		c = p.challenge()
		if again := p.verify(proof(c, trusted.JWT("/"+slug, c.Audience))); again.status != 200 || again.TrustTier != 2 {
			t.Errorf("another proof: %d %s", again.status, again.Code)
		}
	}
}

// shownCard is what a card says about the tier.
type shownCard struct {
	tier    int
	etag    string
	changed time.Time
}

func (p *prover) publish(t *testing.T) {
	t.Helper()
	r, _ := stdhttp.NewRequest("PUT", "http://home/agents/"+p.id+"/card", strings.NewReader(`{"name":"Alice","description":"proves","is_public":true,"svc":{"a2a_enabled":true}}`))
	r.Header.Set("Authorization", "Bearer "+p.token)
	r.Header.Set("Content-Type", "application/json")
	got, err := p.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != 200 {
		t.Fatalf("card: %d", got.StatusCode)
	}
}

// cardOf returns the A2A card of an agent, whose extension has the tier.
func (h *harness) cardOf(t *testing.T, id string) (s shownCard) {
	t.Helper()
	text := say(t, h.dial, "GET /a2a/"+id+"/agent.json HTTP/1.1\r\nHost: home\r\nConnection: close\r\n\r\n")
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 200") {
		t.Fatalf("the A2A card: %s", text)
	}
	for line := range strings.SplitSeq(head, "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch strings.ToLower(name) {
		case "etag":
			s.etag = value
		case "last-modified":
			s.changed, _ = stdhttp.ParseTime(value)
		}
	}
	if _, rest, found := strings.Cut(body, `"trust_tier":`); found {
		s.tier = int(rest[0] - '0')
	}
	return s
}

// settleTier waits until the directory shows an agent with a tier.
func (h *harness) settleTier(t *testing.T, id string, tier int) {
	t.Helper()
	for range 1000 {
		answer := say(t, h.dial, "GET /directory/agents/"+id+" HTTP/1.1\r\nHost: home\r\nConnection: close\r\n\r\n")
		if strings.Contains(answer, fmt.Sprintf(`"trust_tier":%d`, tier)) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the directory does not show %s with tier %d", id, tier)
}

// TestWrongProofs: each proof is wrong in one way. None changes anything, and the challenge
// of each can still be answered.
func TestWrongProofs(t *testing.T) {
	h, trusted, _ := workloadHarness(t, 1)
	defer h.close()
	p, stranger := h.prover("acme", "alice"), svidtest.New("other.example", time.Now())
	key, past := svidtest.NewKey(), time.Now().Add(-time.Hour)
	earlier, other := p.challenge(), &prover{p.tenant, p.tenant.agent("bob")}
	claim := func(name string, value any) func(*svidtest.Token) {
		return func(x *svidtest.Token) { x.Claims[name] = value }
	}
	chain := func(changes ...func(*x509.Certificate)) [][]byte {
		return trusted.X509("/web", key.Public(), changes...)
	}
	for what, make := range map[string]func(c api.SVIDChallenge) map[string]any{
		"expired": func(c api.SVIDChallenge) map[string]any {
			return proof(c, trusted.JWT("/web", c.Audience, claim("exp", past.Unix())))
		},
		"not yet valid": func(c api.SVIDChallenge) map[string]any {
			return proof(c, trusted.JWT("/web", c.Audience, claim("nbf", time.Now().Add(time.Hour).Unix())))
		},
		"for the server, without the nonce": func(c api.SVIDChallenge) map[string]any {
			return proof(c, trusted.JWT("/web", "https://home.example"))
		},
		"with the nonce of another challenge": func(c api.SVIDChallenge) map[string]any { return proof(c, trusted.JWT("/web", earlier.Audience)) },
		"for another agent": func(c api.SVIDChallenge) map[string]any {
			return proof(c, trusted.JWT("/web", strings.Replace(c.Audience, p.id, other.id, 1)))
		},
		"of another trust domain": func(c api.SVIDChallenge) map[string]any { return proof(c, stranger.JWT("/web", c.Audience)) },
		"by another key": func(c api.SVIDChallenge) map[string]any {
			return proof(c, trusted.JWT("/web", c.Audience, func(x *svidtest.Token) { x.Key = key }))
		},
		"no token": func(c api.SVIDChallenge) map[string]any { return proof(c, "x") },
		"certificate expired": func(c api.SVIDChallenge) map[string]any {
			return certified(c, chain(func(x *x509.Certificate) { x.NotAfter = past }), svidtest.Sign(key, signedText(p, c)))
		},
		"chain broken": func(c api.SVIDChallenge) map[string]any {
			return certified(c, chain()[:1], svidtest.Sign(key, signedText(p, c)))
		},
		"an authority": func(c api.SVIDChallenge) map[string]any {
			return certified(c, chain(func(x *x509.Certificate) { x.IsCA = true }), svidtest.Sign(key, signedText(p, c)))
		},
		"several ids": func(c api.SVIDChallenge) map[string]any {
			return certified(c, chain(func(x *x509.Certificate) { x.URIs = append(x.URIs, x.URIs...) }), svidtest.Sign(key, signedText(p, c)))
		},
		"signed by another key": func(c api.SVIDChallenge) map[string]any {
			return certified(c, chain(), svidtest.Sign(svidtest.NewKey(), signedText(p, c)))
		},
		"signed for another agent": func(c api.SVIDChallenge) map[string]any {
			return certified(c, chain(), svidtest.Sign(key, signedText(other, c)))
		},
		"signed for another challenge": func(c api.SVIDChallenge) map[string]any {
			return certified(c, chain(), svidtest.Sign(key, signedText(p, earlier)))
		},
		"certificate of another trust domain": func(c api.SVIDChallenge) map[string]any {
			return certified(c, stranger.X509("/web", key.Public()), svidtest.Sign(key, signedText(p, c)))
		},
		"certificates that are not base64": func(c api.SVIDChallenge) map[string]any {
			return map[string]any{"challenge_id": c.ChallengeID, "x509_svid": []string{"!"}, "signature": "QQ"}
		},
		"a signature that is not base64": func(c api.SVIDChallenge) map[string]any {
			return map[string]any{"challenge_id": c.ChallengeID, "x509_svid": chain(), "signature": "!"}
		},
	} {
		c := p.challenge()
		if got := p.verify(make(c)); got.status != 403 || got.Code != "svid_invalid" {
			t.Errorf("%s: %d %s %v", what, got.status, got.Code, got.Detail)
		}
		if o := p.org(); o.GetTrustTier() != 1 || o.GetWorkloadProofs() != 0 {
			t.Fatalf("%s: %v", what, o)
		}
	}
	// The control: nothing else is wrong with them.
	c := p.challenge()
	encoding := base64.RawURLEncoding
	var loose []string
	for _, der := range chain() {
		loose = append(loose, encoding.EncodeToString(der))
	}
	if got := p.verify(map[string]any{"challenge_id": c.ChallengeID, "x509_svid": loose, "signature": encoding.EncodeToString(svidtest.Sign(key, signedText(p, c)))}); got.status != 200 {
		t.Errorf("a right proof, in base64url: %d %s %v", got.status, got.Code, got.Detail)
	}
}

// TestChallenges: a challenge is for one agent, can be used once, expires, and takes only a
// few wrong proofs. An agent can have only so many.
func TestChallenges(t *testing.T) {
	h, trusted, ahead := workloadHarness(t, 1)
	defer h.close()
	p := h.prover("acme", "alice")
	sibling, foreign := &prover{p.tenant, p.tenant.agent("bob")}, h.prover("apex", "carol")
	want := func(what string, got said, status int, code string) {
		t.Helper()
		if got.status != status || got.Code != code {
			t.Errorf("%s: %d %s %v, want %d %s", what, got.status, got.Code, got.Detail, status, code)
		}
	}
	c := p.challenge()
	right := proof(c, trusted.JWT("/web", c.Audience))
	want("the challenge of another agent", sibling.verify(right), 404, "not_found")
	want("the challenge of another organization", foreign.verify(right), 404, "not_found")
	want("no challenge", p.verify(proof(api.SVIDChallenge{ChallengeID: c.ChallengeID + "x"}, "x")), 404, "not_found")
	stranger := &prover{foreign.tenant, p.id}
	want("an agent of another organization", stranger.verify(right), 403, "not_owner")
	if status, _, answer := stranger.ask("/verify-svid/challenge", nil); status != 403 || !strings.Contains(string(answer), `"not_owner"`) {
		t.Errorf("a challenge for an agent of another organization: %d %s", status, answer)
	}
	for what, body := range map[string]map[string]any{
		"neither document": {"challenge_id": c.ChallengeID},
		"both":             {"challenge_id": c.ChallengeID, "jwt_svid": "x", "x509_svid": []string{"QQ"}, "signature": "QQ"},
		"no signature":     {"challenge_id": c.ChallengeID, "x509_svid": []string{"QQ"}},
		"no challenge":     {"jwt_svid": "x"},
		"a long token":     proof(c, strings.Repeat("x", parley.SVIDBytesMax+1)),
		"a long chain":     {"challenge_id": c.ChallengeID, "x509_svid": make([]string, parley.SVIDCertificatesMax+1), "signature": "QQ"},
	} {
		want(what, p.verify(body), 422, "validation_error")
	}
	want("the right proof after all that", p.verify(right), 200, "")

	tried := p.challenge()
	for range parley.ChallengeTriesMax {
		want("a wrong proof", p.verify(proof(tried, "x")), 403, "svid_invalid")
	}
	want("after too many", p.verify(proof(tried, trusted.JWT("/web", tried.Audience))), 410, "challenge_expired")

	late := p.challenge()
	ahead.Store(int64(parley.SVIDChallengeLifetime + time.Second))
	want("too late", p.verify(proof(late, trusted.JWT("/web", late.Audience))), 410, "challenge_expired")
	want("used, and too late", p.verify(right), 409, "challenge_used")
	ahead.Store(0)

	many := &prover{p.tenant, p.tenant.agent("dora")}
	for range parley.SVIDChallengesMax {
		many.challenge()
	}
	if status, header, answer := many.ask("/verify-svid/challenge", nil); status != 429 || header.Get("Retry-After") == "" {
		t.Errorf("one challenge too many: %d %s", status, answer)
	}
	p.challenge() // other agents have their own

	if _, err := h.node.Agents.Change(context.Background(), agentID(sibling.id), agent.Revoke{}); err != nil {
		t.Fatal(err)
	}
	want("a revoked agent", sibling.verify(right), 410, "gone")
	h.service.ofAgents.Bundles = nil
	want("a server without bundles", p.verify(right), 403, "svid_not_configured")
	if status, _, answer := p.ask("/verify-svid/challenge", nil); status != 403 || !strings.Contains(string(answer), `"svid_not_configured"`) {
		t.Errorf("a challenge without bundles: %d %s", status, answer)
	}
}

// TestOneOrganizationPerWorkload: of many organizations that prove one SPIFFE id at the same
// time, one gets it.
func TestOneOrganizationPerWorkload(t *testing.T) {
	h, trusted, _ := workloadHarness(t, 4)
	defer h.close()
	var all []*prover
	var right []map[string]any
	for _, slug := range []string{"acme", "apex", "atom", "axis"} {
		p := h.prover(slug, "alice")
		c := p.challenge()
		all, right = append(all, p), append(right, proof(c, trusted.JWT("/shared", c.Audience)))
	}
	results := make([]said, len(all))
	var done sync.WaitGroup
	for i, p := range all {
		done.Go(func() { results[i] = p.verify(right[i]) })
	}
	done.Wait()
	winner := -1
	for i, got := range results {
		switch {
		case got.status == 200 && winner < 0:
			winner = i
		case got.status != 403 || got.Code != "svid_invalid":
			t.Errorf("%d: %d %s", i, got.status, got.Code)
		}
	}
	if winner < 0 {
		t.Fatal("nobody has it")
	}
	for i, p := range all {
		if tier, want := p.org().GetTrustTier(), map[bool]int32{true: 2, false: 1}[i == winner]; tier != want {
			t.Errorf("%d has tier %d, want %d", i, tier, want)
		}
	}
	loser := all[(winner+1)%len(all)]
	c := loser.challenge()
	if got := loser.verify(proof(c, trusted.JWT("/shared", c.Audience))); got.status != 403 || got.Code != "svid_invalid" {
		t.Errorf("the SPIFFE id of another: %d %s", got.status, got.Code)
	}
	if got := loser.verify(proof(c, trusted.JWT("/own", c.Audience))); got.status != 200 {
		t.Errorf("its own, with the same challenge: %d %s", got.status, got.Code)
	}
	// Another agent of the winner may prove it too.
	second := &prover{all[winner].tenant, all[winner].tenant.agent("bob")}
	c = second.challenge()
	if got := second.verify(proof(c, trusted.JWT("/shared", c.Audience))); got.status != 200 {
		t.Errorf("another agent of the same organization: %d %s", got.status, got.Code)
	}
}

// TestOneProofPerChallenge: of many proofs of one challenge at the same time, one counts.
func TestOneProofPerChallenge(t *testing.T) {
	h, trusted, _ := workloadHarness(t, 1)
	defer h.close()
	p := h.prover("acme", "alice")
	c := p.challenge()
	var counted, used atomic.Int64
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			switch got := p.verify(proof(c, trusted.JWT("/web", c.Audience))); {
			case got.status == 200:
				counted.Add(1)
			case got.status == 409 && got.Code == "challenge_used":
				used.Add(1)
			default:
				t.Errorf("%d %s", got.status, got.Code)
			}
		})
	}
	done.Wait()
	if counted.Load() != 1 || used.Load() != 7 || p.org().GetWorkloadProofs() != 1 {
		t.Errorf("%d counted, %d were late, %d proofs", counted.Load(), used.Load(), p.org().GetWorkloadProofs())
	}
}
