package blackbox

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// report reports the faults that a check found.
func report(t testing.TB, what string, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Errorf("%s: %s", what, fault)
	}
}

// rateCase is a kind of request and its rate.
type rateCase struct {
	what string
	rateLimit
	ask func() *answer
}

// TestRates: each kind of request has its own rate, which is enforced and stated on every
// answer, whatever the status.
func TestRates(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--trusted-proxies", "127.0.0.0/8")
		o, other := s.org(t), s.org(t)
		g, h := o.agent("g"), other.agent("h")
		s.kill()
		s.flags = append(s.flags, "--rate", "register=2", "--rate", "token=3", "--rate", "token_failures=3", "--rate", "writes=3", "--rate", "reads=4", "--rate", "public=2")
		s.restart(t)
		from := func(address, method, path string, body any) func() *answer {
			return func() *answer { return s.call(t, "", method, path, body, "X-Forwarded-For", address) }
		}
		head := g.stream("").resp.Header
		if head.Get("RateLimit-Limit") != "4" || head.Get("RateLimit-Remaining") != "3" || head.Get("RateLimit-Reset") != "15" {
			t.Errorf("a stream opened with %v", head)
		}
		for _, c := range []rateCase{
			{"writes", rateLimit{rate: 3, window: time.Minute}, func() *answer { return other.post("/groups", obj{}) }},
			{"public", rateLimit{rate: 2, window: time.Minute}, from("192.0.2.1", "GET", "/version", nil)},
			{"WebFinger", rateLimit{rate: 2, window: time.Minute}, from("192.0.2.5", "GET", webFinger(g), nil)},
			{"DID document", rateLimit{rate: 2, window: time.Minute}, from("192.0.2.6", "GET", g.path("/did.json"), nil)},
			{"solve", rateLimit{rate: 2, window: time.Minute}, from("192.0.2.2", "POST", "/auth/register/solve", obj{})},
			{"register", rateLimit{rate: 2, window: time.Hour}, from("192.0.2.3", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": freshSlug()})},
			{"token", rateLimit{rate: 3, window: time.Minute}, func() *answer { return s.grant(t, o.client, o.secret) }},
			{"token, guessed", rateLimit{rate: 3, window: time.Minute}, func() *answer { return s.grant(t, other.client, "guess") }},
			{"token, guessed elsewhere", rateLimit{rate: 3, window: time.Minute}, from("192.0.2.4", "POST", "/oauth/token", nil)},
			{"reads", rateLimit{rate: 4, window: time.Minute}, func() *answer { return other.get("/org") }},
		} {
			report(t, c.what, rateFaults(c.rateLimit, c.ask))
		}
		began := time.Now()
		if st, a := h.listen(""); st != nil {
			st.close()
			if time.Since(began) < 15*time.Second {
				t.Error("a stream opened beyond the rate")
			}
		} else if a.status != 429 || a.header.Get("Retry-After") == "" {
			a.errorf("a stream beyond the rate: %v", a.header)
		}
		// The rates of other callers, and of other kinds of requests, are unaffected.
		o.get("/org").want(200)
		o.patch("/org", obj{}).want(200)
		from("192.0.2.9", "GET", "/version", nil)().want(200)
		for range 20 {
			if a := s.call(t, "", "GET", "/health", nil).want(200); a.header.Get("RateLimit-Limit") != "" {
				a.errorf("the health check is limited")
			}
		}
	})
}

// TestRatesOfTheProfiles: the defaults of docs/limits.md, and the values that flags set
// instead.
func TestRatesOfTheProfiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags                                            string
		register, token, failures, writes, reads, public int
	}{
		"public":       {"--quota-profile public", 10, 60, 20, 600, 1200, 120},
		"public, set":  {"--quota-profile public --rate writes=7 --rate reads=none", 10, 60, 20, 7, 0, 120},
		"open":         {"", 0, 0, 0, 0, 0, 0},
		"open, set":    {"--rate token=5 --rate token_failures=4 --rate public=6", 0, 5, 4, 0, 0, 6},
		"set, again":   {"--rate token=5 --rate token=9", 0, 9, 0, 0, 0, 0},
		"in variables": {"PARLEY_RATE=token=8,reads=9", 0, 8, 0, 0, 9, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var through, flags []string
			for _, word := range strings.Fields(c.flags) {
				if strings.HasPrefix(word, "PARLEY_") {
					through = []string{"env", word}
				} else {
					flags = append(flags, word)
				}
			}
			s := startThrough(t, through, flags...)
			o := s.org(t)
			stands := func(a *answer, want int) {
				t.Helper()
				head := ""
				if want > 0 {
					head = strconv.Itoa(want)
				}
				if got := a.header.Get("RateLimit-Limit"); got != head || (a.header.Get("RateLimit-Reset") == "") != (head == "") {
					a.errorf("RateLimit-Limit is %q, want %q", got, head)
				}
			}
			stands(s.challenge(t, freshSlug()), c.register)
			stands(s.grant(t, o.client, o.secret).want(200), c.token)
			stands(s.grant(t, o.client, "guess").want(401), c.failures)
			stands(o.patch("/org", obj{}).want(200), c.writes)
			stands(o.get("/org").want(200), c.reads)
			stands(o.get("/agents/"+nobody).want(404), c.reads)
			stands(s.call(t, "", "GET", "/version", nil).want(200), c.public)
			stands(s.polled(t, o.agent("a").pollURL, "").want(200), 20) // in every profile
		})
	}
}

// TestForwardedAddresses: the server uses X-Forwarded-For only from a configured proxy,
// and only the part that the proxy added.
func TestForwardedAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		proxies, form string
		believed      bool
	}{
		"no proxy":             {"", "%s", false},
		"another is the proxy": {"10.0.0.0/8,192.0.2.1", "%s", false},
		"the proxy":            {"127.0.0.1", "%s", true},
		"behind two":           {"127.0.0.0/8,10.0.0.0/8", "203.0.113.9, %s, 10.1.2.3", true},
		"with a made-up start": {"127.0.0.1", "127.0.0.1, %s", true},
		"with a port":          {"127.0.0.1", "%s:4711", true},
		"made up by a client":  {"127.0.0.1", "%s, 203.0.113.7", false},
		"before what is none":  {"127.0.0.1", "%s, unknown", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--rate", "public=3"}
			if c.proxies != "" {
				flags = append(flags, "--trusted-proxies", c.proxies)
			}
			s := start(t, flags...)
			report(t, name, addressFaults(rateLimit{rate: 3, window: time.Minute}, c.believed, func(address string) *answer {
				return s.call(t, "", "GET", "/version", nil, "X-Forwarded-For", fmt.Sprintf(c.form, address))
			}))
		})
	}
}

// TestPollLimitsByAddressAndToken: a token has one limit for requests from all addresses;
// an address has one limit for all its requests, including guesses.
func TestPollLimitsByAddressAndToken(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--poll-limit", "4/3", "--trusted-proxies", "127.0.0.1")
		o, asked := s.org(t), 0
		poll := func(url, from string) *answer {
			return s.call(t, "", "GET", strings.TrimPrefix(url, s.base), nil, "X-Forwarded-For", from)
		}
		first, second := o.agent("first"), o.agent("second")
		// The answer states the limit that is reached first: the token's, or the address's.
		third, fourth := o.agent("third"), o.agent("fourth")
		for i, c := range []struct{ url, left string }{{third.pollURL, "2"}, {third.pollURL, "1"}, {fourth.pollURL, "1"}} {
			if left := poll(c.url, "192.0.2.200").want(200).header.Get("RateLimit-Remaining"); left != c.left {
				t.Errorf("poll %d of an address: %s remain, want %s", i+1, left, c.left)
			}
		}
		report(t, "a token", rateFaults(rateLimit{rate: 3, window: time.Minute, exact: true}, func() *answer {
			asked++
			return poll(first.pollURL, fmt.Sprintf("192.0.2.%d", asked))
		}))
		poll(second.pollURL, "192.0.2.1").want(200)
		s.kill()
		s.setFlag("--poll-limit", "4/0")
		s.restart(t)
		report(t, "an address", rateFaults(rateLimit{rate: 4, window: time.Minute, exact: true}, func() *answer { return poll(second.pollURL, "192.0.2.1") }))
		report(t, "an address that guesses", rateFaults(rateLimit{rate: 4, window: time.Minute, exact: true}, func() *answer { return poll("/poll/"+randomHex(10), "192.0.2.2") }))
		for range 6 {
			poll(second.pollURL, fmt.Sprintf("192.0.2.%d", 100+asked)).want(200)
			asked++
		}
	})
}

// TestGuessesDoNotLockClientsOut: wrong secrets count against the address that sends them,
// whichever client they name and however it is spelled. That client can still get tokens
// from another address.
func TestGuessesDoNotLockClientsOut(t *testing.T) {
	t.Parallel()
	s := start(t, "--quota-profile", "public", "--trusted-proxies", "127.0.0.0/8")
	o := s.org(t)
	ask := func(from, client, secret string) *answer {
		return s.call(t, "", "POST", "/oauth/token", nil, "Authorization", basic(client, secret), "X-Forwarded-For", from)
	}
	wrong := ask("192.0.2.1", o.client, "wrong").want(401)
	unknown := ask("192.0.2.1", nobody, "wrong").want(401)
	for _, a := range []*answer{wrong, unknown} {
		delete(a.body, "request_id")
	}
	if !same(wrong.body, unknown.body) || wrong.header.Get("WWW-Authenticate") != unknown.header.Get("WWW-Authenticate") {
		unknown.errorf("an unknown client is told from a wrong secret: %v", wrong.body)
	}
	// Of three hundred names from one address, the server checks twenty and those that
	// became free meanwhile.
	began, judged := time.Now(), 2
	for i := range 300 {
		a := ask("192.0.2.1", []string{randomHex(16), strings.Repeat("x", 5000) + strconv.Itoa(i), o.client}[i%3], "wrong")
		if a.status == 401 {
			judged++
			continue
		}
		a.refused(429, "rate_limited")
		if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 1 || wait > 4 {
			a.errorf("Retry-After is %q", a.header.Get("Retry-After"))
		}
	}
	if free := int(time.Since(began)/(3*time.Second)) + 1; judged < 20 || judged > 20+free {
		t.Errorf("%d guesses of an address were checked, want 20", judged)
	}
	// Many addresses guess the secret of one client, each up to its limit.
	for i := range 4 {
		for range 20 {
			ask(fmt.Sprintf("198.51.100.%d", i), o.client, "wrong").want(401)
		}
	}
	began, judged = time.Now(), 1 // registration used one
	for i := 0; ; i++ {
		a := ask(fmt.Sprintf("203.0.113.%d", i), o.client, o.secret)
		if a.status == 429 {
			break
		}
		a.want(200)
		if judged++; judged > 20+int(time.Since(began)/time.Second)+1 {
			a.fatalf("a client got more than twenty tokens at once")
		}
	}
	if judged < 20 {
		t.Errorf("the client got %d tokens, want 20 at once", judged)
	}
}
