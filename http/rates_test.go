package http

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/actors/org"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/httpserver"
	"parley/http/limit"
	"parley/http/orgs"
	"parley/http/rest"
)

// rateFaults sends as many requests as the rate allows and one more, and then a request
// of another caller. Every answer has the caller's rate headers, and only the request
// beyond the rate is refused. All of this must take less time than the interval of one
// request.
func rateFaults(rate, status int, ask, other func() *response) (faults []string) {
	fault := func(a *response, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: answered %d, headers %v: ", a.what, a.status, a.head)+fmt.Sprintf(format, args...))
	}
	for left := rate - 1; left >= 0; left-- {
		a := ask()
		if a.status != status {
			fault(a, "%d left", left)
		}
		if a.head.Get("RateLimit-Limit") != strconv.Itoa(rate) || a.head.Get("RateLimit-Remaining") != strconv.Itoa(left) || a.head.Get("RateLimit-Reset") == "" {
			fault(a, "%d left", left)
		}
	}
	a := ask()
	body, _ := a.body.(map[string]any)
	wait, err := strconv.Atoi(a.head.Get("Retry-After"))
	if a.status != 429 || body["code"] != "rate_limited" || err != nil || wait < 1 || body["retry_after"] != float64(wait) || a.head.Get("RateLimit-Remaining") != "0" {
		fault(a, "beyond the rate: %s", a.raw)
	}
	if a := other(); a.status != status {
		fault(a, "somebody else is refused")
	}
	return faults
}

// TestRatesAreReportedAndEnforced: every answer of a limited route has the caller's
// rate headers, and the request beyond the rate is refused.
func TestRatesAreReportedAndEnforced(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	*inside[func(*rest.Call) error](h.server, "judge") = h.service.Admit
	h.service.rates = newRates(Rates{Writes: 2, Reads: 3, Public: 4}, h.service.Clock)
	p, other := h.tenant("acme"), h.tenant("globex")
	for _, c := range []struct {
		method, path string
		status, rate int
	}{{"GET", "/org", 200, 3}, {"POST", "/groups", 422, 2}} {
		ask := func(p *tenant) func() *response { return func() *response { return p.ask(c.method, c.path, "") } }
		for _, fault := range rateFaults(c.rate, c.status, ask(p), ask(other)) {
			t.Error(fault)
		}
	}
	version := func() *response { return p.ask("GET", "/version", "") }
	for _, fault := range rateFaults(4, 200, version, func() *response { return other.ask("GET", "/health", "") }) {
		t.Error(fault)
	}
	if a := p.ask("GET", "/health", "").want(200); a.head.Get("RateLimit-Limit") != "" {
		t.Error("the health check is limited")
	}
}

// TestRatesAreReportedAndEnforcedControl: limits requests in a wrong way before they
// reach the service.
func TestRatesAreReportedAndEnforcedControl(t *testing.T) {
	for defect, judge := range map[string]func(s *Service, c *rest.Call) error{
		"":             func(s *Service, c *rest.Call) error { return s.Admit(c) },
		"never counts": func(*Service, *rest.Call) error { return nil },
		"counts twice": func(s *Service, c *rest.Call) error { return errors.Join(s.Admit(c), s.Admit(c)) },
		"tells and does not hold": func(s *Service, c *rest.Call) error {
			_ = s.Admit(c)
			return nil
		},
		"holds and does not tell": func(s *Service, c *rest.Call) error {
			err := s.Admit(c)
			for _, name := range rest.RateHeaders {
				c.RequestCtx().Response.Header.Del(name)
			}
			return err
		},
		"takes all for one": func(s *Service, c *rest.Call) error { return take(c, s.rates.reads, "all") },
		"refuses with another error": func(s *Service, c *rest.Call) error {
			if s.Admit(c) != nil {
				return parley.ErrOverloaded
			}
			return nil
		},
	} {
		t.Run(defect, func(t *testing.T) {
			h := harnessInMemory(t, 1)
			defer h.close()
			h.service.rates = newRates(Rates{Reads: 3}, h.service.Clock)
			*inside[func(*rest.Call) error](h.server, "judge") = func(c *rest.Call) error { return judge(h.service, c) }
			p, other := h.tenant("acme"), h.tenant("globex")
			faults := rateFaults(3, 200, func() *response { return p.ask("GET", "/org", "") }, func() *response { return other.ask("GET", "/org", "") })
			if (len(faults) == 0) != (defect == "") {
				t.Errorf("%q", faults)
			}
		})
	}
}

// guessFaults guesses secrets of many clients from one address, and secrets of one
// client from other addresses. That client then requests tokens itself.
func guessFaults(t *testing.T, h *harness) (faults []string) {
	t.Helper()
	*inside[func(*rest.Call) error](h.server, "judge") = h.service.Admit
	p, secret := h.tenant("acme"), "a secret"
	hash := auth.HashSecret(secret)
	made, err := h.node.Orgs.AddCredential(t.Context(), p.owner, org.AddCredential{SecretHash: hash[:]})
	if err != nil {
		t.Fatal(err)
	}
	victim := made.Client()
	p.token = ""
	h.service.Proxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	ask := func(from, client, secret string) int {
		basic := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(client+":"+secret))
		return p.ask("POST", "/oauth/token", grantRequest, basic, "X-Forwarded-For: "+from).status
	}
	judged := 0
	for i := range 60 {
		if ask("2001:db8::1", fmt.Sprintf("%08d-0000-7000-8000-000000000000", i), "guess") == 401 {
			judged++
		}
	}
	if judged < 20 || judged > 21 {
		faults = append(faults, fmt.Sprintf("%d guesses of an address were judged", judged))
	}
	for i := range 70 {
		ask(fmt.Sprintf("2001:db8:%x::1", i/10+1), victim.String(), "guess")
	}
	if status := ask("2001:db8:ff::1", victim.String(), secret); status != 200 {
		faults = append(faults, fmt.Sprintf("the client that others guessed at is answered %d", status))
	}
	return faults
}

const grantRequest = `{"grant_type":"client_credentials"}`

// TestGuessesAreLimitedByAddress: guesses at secrets are limited by address and lock no
// client out.
func TestGuessesAreLimitedByAddress(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	h.service.rates = newRates(RatesOf("public"), h.service.Clock)
	for _, fault := range guessFaults(t, h) {
		t.Error(fault)
	}
}

// TestGuessesAreLimitedByAddressControl: removes the protection.
func TestGuessesAreLimitedByAddressControl(t *testing.T) {
	for defect, take := range map[string]func(*rates){
		"no count by address": func(r *rates) { r.tokenFailures = nil },
		"a count too small":   func(r *rates) { r.tokenFailures = limit.New(1, time.Minute, 1, time.Now) },
	} {
		t.Run(defect, func(t *testing.T) {
			h := harnessInMemory(t, 1)
			defer h.close()
			h.service.rates = newRates(RatesOf("public"), h.service.Clock)
			take(&h.service.rates)
			if faults := guessFaults(t, h); len(faults) == 0 {
				t.Error("no fault is found")
			}
		})
	}
}

// TestForwardedAddresses: only trusted proxies are believed, and only for the entries
// that they added themselves.
func TestForwardedAddresses(t *testing.T) {
	s := admission{&core{ServiceOptions: ServiceOptions{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}}
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, "10.0.0.1"},
		{[]string{"192.0.2.7"}, "192.0.2.7"},
		{[]string{"198.51.100.1, 192.0.2.7"}, "192.0.2.7"},
		{[]string{"198.51.100.1", "192.0.2.7"}, "192.0.2.7"},
		{[]string{"198.51.100.1, 192.0.2.7, 10.9.9.9"}, "192.0.2.7"},
		{[]string{"198.51.100.1, nonsense, 10.9.9.9"}, "10.9.9.9"},
		{[]string{""}, "10.0.0.1"},
		{[]string{"10.2.2.2, fd00::1"}, "10.2.2.2"},
		{[]string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{[]string{"192.0.2.7:99"}, "192.0.2.7"},
		{[]string{"::ffff:192.0.2.7"}, "192.0.2.7"},
		{[]string{"198.51.100.1,\t 192.0.2.7 \t"}, "192.0.2.7"},
		{[]string{"192.0.2.7, "}, "10.0.0.1"},
		{[]string{`"192.0.2.7"`}, "10.0.0.1"},
		{[]string{"2001:db8::1%eth0"}, "2001:db8::1"},
		{[]string{"192.0.2.7, fd00::1%eth0"}, "192.0.2.7"},
		{[]string{"192.0.2.7, 10.2.2.2", "[fd00::1]:80 , 10.3.3.3:1"}, "192.0.2.7"},
		{[]string{strings.Repeat("198.51.100.1,", 1200) + "192.0.2.7"}, "192.0.2.7"},
		{[]string{"192.0.2.7" + strings.Repeat(", 10.2.2.2", forwardedMax-1)}, "192.0.2.7"},
		{[]string{"192.0.2.7" + strings.Repeat(", 10.2.2.2", forwardedMax)}, "10.2.2.2"}, // too many to read
		{[]string{"192.0.2.7," + strings.Repeat(" ", 9000) + "10.2.2.2"}, "10.0.0.1"},
	} {
		var lines [][]byte
		for _, l := range c.lines {
			lines = append(lines, []byte(l))
		}
		if got := s.behind(netip.MustParseAddr("10.0.0.1"), lines); got.String() != c.want {
			t.Errorf("%q: %s, want %s", c.lines, got, c.want)
		}
	}
	if s.Proxy(netip.MustParseAddr("192.0.2.7")) {
		t.Error("a stranger is a proxy")
	}
}

// TestForwardedAddressesCostLittle: in a header of 16 KB, the entries that strangers
// wrote are not read and take no memory.
func TestForwardedAddressesCostLittle(t *testing.T) {
	s := admission{&core{ServiceOptions: ServiceOptions{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}}
	header := [][]byte{[]byte(strings.Repeat(",", 16<<10) + "192.0.2.7")}
	takes := func(read func()) uint64 {
		const times = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			read()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / times
	}
	if n := takes(func() { s.behind(netip.MustParseAddr("10.0.0.1"), header) }); n > 1<<10 {
		t.Errorf("reading the address takes %d bytes", n)
	}
	var all []string // control: reads the whole header
	if n := takes(func() { all = strings.Split(string(header[0]), ",") }); n < 100<<10 || len(all) != 16<<10+1 {
		t.Errorf("control: reading all of it takes %d bytes", n)
	}
}

// termsFaults sets limits and changes the tier, as the operator. Both are returned and
// enforced from the next request on, and other limits do not change.
func termsFaults(t *testing.T, h *harness, p *tenant) (faults []string) {
	t.Helper()
	hold := func(a *response, status int, code any) {
		if body, _ := a.body.(map[string]any); a.status != status || body["code"] != code {
			faults = append(faults, fmt.Sprintf("%s: answered %d %s, want %d %v", a.what, a.status, a.raw, status, code))
		}
	}
	set := func(c org.Command) {
		t.Helper()
		if _, err := h.node.Orgs.SetTerms(t.Context(), p.owner, c); err != nil {
			t.Fatal(err)
		}
	}
	group := func(name string) *response {
		return p.ask("POST", "/groups", `{"name":"`+name+`","enrollment_policy":"open"}`)
	}
	p.agent("a")
	hold(group("first"), 201, nil)
	set(org.SetAllowance{Quota: "groups", Limit: new(1)})
	set(org.SetAllowance{Quota: "messages_per_day", Limit: new(2)})
	shown := p.ask("GET", "/org/quotas", "")
	if limits := fmt.Sprint(shown.at("quotas.groups.limit"), shown.at("quotas.messages_per_day.limit"), shown.at("quotas.agents.limit")); limits != "1 2 <nil>" {
		faults = append(faults, "shown are "+limits)
	}
	hold(group("second"), 403, "quota_exceeded")
	set(org.SetAllowance{Quota: "groups", Limit: new(2)})
	hold(group("second"), 201, nil)
	hold(group("third"), 403, "quota_exceeded")
	set(org.LiftAllowance{Quota: "groups"})
	hold(group("third"), 201, nil)
	set(org.GrantTier{Tier: 0})
	hold(p.ask("POST", "/messages", "{}"), 403, "trust_tier_required")
	set(org.GrantTier{Tier: 1})
	hold(p.ask("POST", "/messages", "{}"), 422, "validation_error")
	return faults
}

// TestTermsAreEnforcedAtOnce: limits set by the operator are returned and enforced from
// the next request on.
func TestTermsAreEnforcedAtOnce(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	for _, fault := range termsFaults(t, h, h.tenant("acme")) {
		t.Error(fault)
	}
}

// recollection returns callers as it saw them first.
type recollection struct {
	httpserver.Authenticator
	seen map[string]rest.Caller
	// but changes the caller that is returned.
	but func(now, then rest.Caller) rest.Caller
}

func (m *recollection) Bearer(header []byte) (rest.Caller, error) {
	now, err := m.Authenticator.Bearer(header)
	if err != nil {
		return now, err
	}
	then, known := m.seen[string(header)]
	if !known {
		m.seen[string(header)], then = now, now
	}
	return m.but(now, then), nil
}

// TestTermsAreEnforcedAtOnceControl: the server uses an earlier state of its callers.
func TestTermsAreEnforcedAtOnceControl(t *testing.T) {
	for defect, but := range map[string]func(now, then rest.Caller) rest.Caller{
		"":              func(now, _ rest.Caller) rest.Caller { return now },
		"all as it was": func(_, then rest.Caller) rest.Caller { return then },
		"the tier as it was": func(now, then rest.Caller) rest.Caller {
			now.Tier = then.Tier
			return now
		},
		"the limits as they were": func(now, then rest.Caller) rest.Caller {
			now.Record = then.Record
			return now
		},
		"another's limits": func(now, _ rest.Caller) rest.Caller {
			now.Record = &org.State{}
			return now
		},
	} {
		t.Run(defect, func(t *testing.T) {
			h := harnessInMemory(t, 1)
			defer h.close()
			*inside[httpserver.Authenticator](h.server, "auth") = &recollection{Authenticator: *inside[httpserver.Authenticator](h.server, "auth"), seen: map[string]rest.Caller{}, but: but}
			if faults := termsFaults(t, h, h.tenant("acme")); (len(faults) == 0) != (defect == "") {
				t.Errorf("%q", faults)
			}
		})
	}
}

// TestMailedTokens: a mailed token confirms its own organization before it expires.
// Every other text confirms none.
func TestMailedTokens(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	p := h.tenant("acme")
	now := h.service.Clock()
	registration := orgs.Registration{Options: h.service.ofOrgs}
	good, late := registration.MailToken(p.owner, now.Add(orgs.MailTokenLifetime)), registration.MailToken(p.owner, now.Add(-orgs.MailTokenLifetime))
	hand := func(token string) *response { return p.ask("POST", "/auth/verify-email", `{"token":"`+token+`"}`) }
	hand(good).want(404)
	h.service.ofOrgs.Mail = func(string, string) {}
	hand(good).want(200).is(map[string]any{"org_slug": "acme", "trust_tier": 1})
	hand(good).want(200)
	hand(late).want(410, "gone")
	hand(good[1:]).want(404)
	hand(h.service.Cursors.Seal("another list", p.owner.Bytes())).want(404)
	hand(registration.MailToken(parley.OrgID{}, now.Add(orgs.MailTokenLifetime))).want(404)
}

// TestConcurrentGuessesAreLimited: however many guesses arrive at once, no more of them
// are checked than the rate allows. Granted tokens do not count.
func TestConcurrentGuessesAreLimited(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	*inside[func(*rest.Call) error](h.server, "judge") = h.service.Admit
	h.service.rates = newRates(Rates{TokenFailures: 5}, h.service.Clock)
	p, secret := h.tenant("acme"), "a secret"
	hash := auth.HashSecret(secret)
	made, err := h.node.Orgs.AddCredential(t.Context(), p.owner, org.AddCredential{SecretHash: hash[:]})
	if err != nil {
		t.Fatal(err)
	}
	client := made.Client()
	p.token = ""
	ask := func(secret string) int {
		basic := base64.StdEncoding.EncodeToString([]byte(client.String() + ":" + secret))
		return p.ask("POST", "/oauth/token", grantRequest, "Authorization: Basic "+basic).status
	}
	for range 20 {
		if status := ask(secret); status != 200 {
			t.Fatalf("the right secret is answered %d", status)
		}
	}
	// All of them have passed the first check, which takes nothing.
	*inside[func(*rest.Call) error](h.server, "judge") = func(*rest.Call) error { return nil }
	// A guess that is being checked holds its place, so there is none for the next one.
	for range 5 {
		if ok, _, _, _ := h.service.rates.tokenFailures.Take(limit.AddressKey(netip.IPv4Unspecified())); !ok {
			t.Fatal("granted tokens count as failures")
		}
	}
	if status := ask(secret); status != 429 {
		t.Errorf("with five guesses being checked, another is answered %d", status)
	}
	h.service.rates.tokenFailures.GiveBack(limit.AddressKey(netip.IPv4Unspecified()))
	if status := ask(secret); status != 200 {
		t.Errorf("after a correct one, another is answered %d", status)
	}
}
