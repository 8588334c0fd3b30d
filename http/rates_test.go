package http

import (
	"net/netip"
	"strconv"
	"testing"

	"parley"
	"parley/actors/org"
)

// TestRatesAreToldAndHeld: every answer of a limited route says how the caller
// stands, and the one beyond the rate is refused.
func TestRatesAreToldAndHeld(t *testing.T) {
	h := hallInMemory(t, 1)
	defer h.close()
	h.server.judge = h.service.Admit
	h.service.rates = newRates(Rates{Writes: 2, Reads: 3, Public: 4}, h.service.Clock)
	p, other := h.party("acme"), h.party("globex")
	for _, c := range []struct {
		method, path string
		status, rate int
	}{{"GET", "/org", 200, 3}, {"POST", "/groups", 422, 2}, {"GET", "/version", 200, 4}} {
		for left := c.rate - 1; left >= 0; left-- {
			a := p.ask(c.method, c.path, "").want(c.status)
			if a.head.Get("RateLimit-Limit") != strconv.Itoa(c.rate) || a.head.Get("RateLimit-Remaining") != strconv.Itoa(left) || a.head.Get("RateLimit-Reset") == "" {
				t.Errorf("%s: headers %v, %d left", c.path, a.head, left)
			}
		}
		a := p.ask(c.method, c.path, "").want(429, "rate_limited")
		if wait, err := strconv.Atoi(a.head.Get("Retry-After")); err != nil || wait < 1 || a.head.Get("RateLimit-Remaining") != "0" {
			t.Errorf("%s: headers %v", c.path, a.head)
		}
	}
	other.ask("GET", "/org", "").want(200)
	if a := p.ask("GET", "/health", "").want(200); a.head.Get("RateLimit-Limit") != "" {
		t.Error("the health check is limited")
	}
}

// TestForwardedAddresses: only our proxies are believed, and of what they pass on
// only what they have added themselves.
func TestForwardedAddresses(t *testing.T) {
	s := &Service{ServiceOptions: ServiceOptions{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}
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
	} {
		var lines [][]byte
		for _, l := range c.lines {
			lines = append(lines, []byte(l))
		}
		if got := s.behind(netip.MustParseAddr("10.0.0.1"), lines); got.String() != c.want {
			t.Errorf("%q: %s, want %s", c.lines, got, c.want)
		}
	}
	if s.proxy(netip.MustParseAddr("192.0.2.7")) {
		t.Error("a stranger is a proxy")
	}
}

// TestTermsAtTheDoor: what the operator sets is shown and held from the next
// request on.
func TestTermsAtTheDoor(t *testing.T) {
	h := hallInMemory(t, 1)
	defer h.close()
	p := h.party("acme")
	two := 2
	for _, c := range []org.Command{org.SetAllowance{Quota: "groups", Limit: new(0)}, org.SetAllowance{Quota: "messages_per_day", Limit: &two}} {
		if _, err := h.node.SetTerms(t.Context(), p.owner, c); err != nil {
			t.Fatal(err)
		}
	}
	p.ask("GET", "/org/quotas", "").want(200).is(map[string]any{"quotas.groups.limit": 0, "quotas.messages_per_day.limit": 2})
	p.agent("a")
	p.ask("POST", "/groups", `{"name":"club","enrollment_policy":"open"}`).want(403, "quota_exceeded")
	if _, err := h.node.SetTerms(t.Context(), p.owner, org.GrantTier{Tier: 0}); err != nil {
		t.Fatal(err)
	}
	p.ask("POST", "/messages", "{}").want(403, "trust_tier_required")
}

// TestMailedTokens: the token clears the organization it was made for, in its
// time, and no other text does.
func TestMailedTokens(t *testing.T) {
	h := hallInMemory(t, 1)
	defer h.close()
	p := h.party("acme")
	now := h.service.Clock()
	good, late := h.service.mailToken(p.owner, now.Add(mailTokenLifetime)), h.service.mailToken(p.owner, now.Add(-mailTokenLifetime))
	hand := func(token string) *told { return p.ask("POST", "/auth/verify-email", `{"token":"`+token+`"}`) }
	hand(good).want(404)
	h.service.Mail = func(string, string) {}
	hand(good).want(200).is(map[string]any{"org_slug": "acme", "trust_tier": 1})
	hand(good).want(200)
	hand(late).want(410, "gone")
	hand(good[1:]).want(404)
	hand(h.service.Cursors.Seal("another list", p.owner.Bytes())).want(404)
	hand(h.service.mailToken(parley.OrgID{}, now.Add(mailTokenLifetime))).want(404)
}

// TestQuotaProfileWith leaves what it is taken from alone.
func TestQuotaProfileWith(t *testing.T) {
	before := Quotas("public")
	five := 5
	after, err := before.With(1, "agents", &five)
	if err != nil || *after.limit(1, "agents") != 5 || *before.limit(1, "agents") != 3 || *after.limit(2, "agents") != 10 {
		t.Errorf("%v, %v, %v", before, after, err)
	}
	if after, err = after.With(1, "agents", nil); err != nil || after.limit(1, "agents") != nil {
		t.Errorf("%v, %v", after, err)
	}
	less := -1
	for _, err := range []error{
		func() error { _, err := before.With(4, "agents", &five); return err }(),
		func() error { _, err := before.With(-1, "agents", &five); return err }(),
		func() error { _, err := before.With(1, "cakes", &five); return err }(),
		func() error { _, err := before.With(1, "agents", &less); return err }(),
	} {
		if err == nil {
			t.Error("taken")
		}
	}
}
