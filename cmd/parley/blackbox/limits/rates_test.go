package limits

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// rateCase is a kind of request and its rate.
type rateCase struct {
	what string
	rateLimit
	ask func() *kit.Answer
}

// TestRates: each kind of request has its own rate, which is enforced and stated on every
// answer, whatever the status.
func TestRates(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--trusted-proxies", "127.0.0.0/8")
		o, other := s.Org(t), s.Org(t)
		g, h := o.Agent("g"), other.Agent("h")
		s.Kill()
		s.Flags = append(s.Flags, "--rate", "register=2", "--rate", "token=3", "--rate", "token_failures=3", "--rate", "writes=3", "--rate", "reads=4", "--rate", "public=2")
		s.Restart(t)
		from := func(address, method, path string, body any) func() *kit.Answer {
			return func() *kit.Answer { return s.Call(t, "", method, path, body, "X-Forwarded-For", address) }
		}
		head := g.Stream("").Resp.Header
		if head.Get("RateLimit-Limit") != "4" || head.Get("RateLimit-Remaining") != "3" || head.Get("RateLimit-Reset") != "15" {
			t.Errorf("a stream opened with %v", head)
		}
		for _, c := range []rateCase{
			{"writes", rateLimit{rate: 3, window: time.Minute}, func() *kit.Answer { return other.Post("/groups", obj{}) }},
			{"public", rateLimit{rate: 2, window: time.Minute}, from("192.0.2.1", "GET", "/version", nil)},
			{"WebFinger", rateLimit{rate: 2, window: time.Minute}, from("192.0.2.5", "GET", kit.WebFinger(g), nil)},
			{"DID document", rateLimit{rate: 2, window: time.Minute}, from("192.0.2.6", "GET", g.Path("/did.json"), nil)},
			{"solve", rateLimit{rate: 2, window: time.Minute}, from("192.0.2.2", "POST", "/auth/register/solve", obj{})},
			{"register", rateLimit{rate: 2, window: time.Hour}, from("192.0.2.3", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": kit.FreshSlug()})},
			{"token", rateLimit{rate: 3, window: time.Minute}, func() *kit.Answer { return s.Grant(t, o.Client, o.Secret) }},
			{"token, guessed", rateLimit{rate: 3, window: time.Minute}, func() *kit.Answer { return s.Grant(t, other.Client, "guess") }},
			{"token, guessed elsewhere", rateLimit{rate: 3, window: time.Minute}, from("192.0.2.4", "POST", "/oauth/token", nil)},
			{"reads", rateLimit{rate: 4, window: time.Minute}, func() *kit.Answer { return other.Get("/org") }},
		} {
			kit.Report(t, c.what, rateFaults(c.rateLimit, c.ask))
		}
		began := time.Now()
		if st, a := h.Listen(""); st != nil {
			st.Close()
			if time.Since(began) < 15*time.Second {
				t.Error("a stream opened beyond the rate")
			}
		} else if a.Status != 429 || a.Header.Get("Retry-After") == "" {
			a.Errorf("a stream beyond the rate: %v", a.Header)
		}
		// The rates of other callers, and of other kinds of requests, are unaffected.
		o.Get("/org").Want(200)
		o.Patch("/org", obj{}).Want(200)
		from("192.0.2.9", "GET", "/version", nil)().Want(200)
		for range 20 {
			if a := s.Call(t, "", "GET", "/health", nil).Want(200); a.Header.Get("RateLimit-Limit") != "" {
				a.Errorf("the health check is limited")
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
			s := kit.StartThrough(t, through, flags...)
			o := s.Org(t)
			stands := func(a *kit.Answer, want int) {
				t.Helper()
				head := ""
				if want > 0 {
					head = strconv.Itoa(want)
				}
				if got := a.Header.Get("RateLimit-Limit"); got != head || (a.Header.Get("RateLimit-Reset") == "") != (head == "") {
					a.Errorf("RateLimit-Limit is %q, want %q", got, head)
				}
			}
			stands(s.Challenge(t, kit.FreshSlug()), c.register)
			stands(s.Grant(t, o.Client, o.Secret).Want(200), c.token)
			stands(s.Grant(t, o.Client, "guess").Want(401), c.failures)
			stands(o.Patch("/org", obj{}).Want(200), c.writes)
			stands(o.Get("/org").Want(200), c.reads)
			stands(o.Get("/agents/"+kit.Nobody).Want(404), c.reads)
			stands(s.Call(t, "", "GET", "/version", nil).Want(200), c.public)
			stands(s.Polled(t, o.Agent("a").PollURL, "").Want(200), 20) // in every profile
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
			s := kit.Start(t, flags...)
			kit.Report(t, name, addressFaults(rateLimit{rate: 3, window: time.Minute}, c.believed, func(address string) *kit.Answer {
				return s.Call(t, "", "GET", "/version", nil, "X-Forwarded-For", fmt.Sprintf(c.form, address))
			}))
		})
	}
}

// TestPollLimitsByAddressAndToken: a token has one limit for requests from all addresses;
// an address has one limit for all its requests, including guesses.
func TestPollLimitsByAddressAndToken(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--poll-limit", "4/3", "--trusted-proxies", "127.0.0.1")
		o, asked := s.Org(t), 0
		poll := func(url, from string) *kit.Answer {
			return s.Call(t, "", "GET", strings.TrimPrefix(url, s.Base), nil, "X-Forwarded-For", from)
		}
		first, second := o.Agent("first"), o.Agent("second")
		// The answer states the limit that is reached first: the token's, or the address's.
		third, fourth := o.Agent("third"), o.Agent("fourth")
		for i, c := range []struct{ url, left string }{{third.PollURL, "2"}, {third.PollURL, "1"}, {fourth.PollURL, "1"}} {
			if left := poll(c.url, "192.0.2.200").Want(200).Header.Get("RateLimit-Remaining"); left != c.left {
				t.Errorf("poll %d of an address: %s remain, want %s", i+1, left, c.left)
			}
		}
		kit.Report(t, "a token", rateFaults(rateLimit{rate: 3, window: time.Minute, exact: true}, func() *kit.Answer {
			asked++
			return poll(first.PollURL, fmt.Sprintf("192.0.2.%d", asked))
		}))
		poll(second.PollURL, "192.0.2.1").Want(200)
		s.Kill()
		s.SetFlag("--poll-limit", "4/0")
		s.Restart(t)
		kit.Report(t, "an address", rateFaults(rateLimit{rate: 4, window: time.Minute, exact: true}, func() *kit.Answer { return poll(second.PollURL, "192.0.2.1") }))
		kit.Report(t, "an address that guesses", rateFaults(rateLimit{rate: 4, window: time.Minute, exact: true}, func() *kit.Answer { return poll("/poll/"+kit.RandomHex(10), "192.0.2.2") }))
		for range 6 {
			poll(second.PollURL, fmt.Sprintf("192.0.2.%d", 100+asked)).Want(200)
			asked++
		}
	})
}

// TestGuessesDoNotLockClientsOut: wrong secrets count against the address that sends them,
// whichever client they name and however it is spelled. That client can still get tokens
// from another address.
func TestGuessesDoNotLockClientsOut(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, "--quota-profile", "public", "--trusted-proxies", "127.0.0.0/8")
	o := s.Org(t)
	ask := func(from, client, secret string) *kit.Answer {
		return s.Call(t, "", "POST", "/oauth/token", obj{"grant_type": "client_credentials"}, "Authorization", kit.Basic(client, secret), "X-Forwarded-For", from)
	}
	wrong := ask("192.0.2.1", o.Client, "wrong").Want(401)
	unknown := ask("192.0.2.1", kit.Nobody, "wrong").Want(401)
	for _, a := range []*kit.Answer{wrong, unknown} {
		delete(a.Body, "request_id")
	}
	if !kit.Same(wrong.Body, unknown.Body) || wrong.Header.Get("WWW-Authenticate") != unknown.Header.Get("WWW-Authenticate") {
		unknown.Errorf("an unknown client is told from a wrong secret: %v", wrong.Body)
	}
	// Of three hundred names from one address, the server checks twenty and those that
	// became free meanwhile.
	began, judged := time.Now(), 2
	for i := range 300 {
		a := ask("192.0.2.1", []string{kit.RandomHex(16), strings.Repeat("x", 5000) + strconv.Itoa(i), o.Client}[i%3], "wrong")
		if a.Status == 401 {
			judged++
			continue
		}
		a.Refused(429, "rate_limited")
		if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 4 {
			a.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
		}
	}
	if free := int(time.Since(began)/(3*time.Second)) + 1; judged < 20 || judged > 20+free {
		t.Errorf("%d guesses of an address were checked, want 20", judged)
	}
	// Many addresses guess the secret of one client, each up to its limit.
	for i := range 4 {
		for range 20 {
			ask(fmt.Sprintf("198.51.100.%d", i), o.Client, "wrong").Want(401)
		}
	}
	began, judged = time.Now(), 1 // registration used one
	for i := 0; ; i++ {
		a := ask(fmt.Sprintf("203.0.113.%d", i), o.Client, o.Secret)
		if a.Status == 429 {
			break
		}
		a.Want(200)
		if judged++; judged > 20+int(time.Since(began)/time.Second)+1 {
			a.Fatalf("a client got more than twenty tokens at once")
		}
	}
	if judged < 20 {
		t.Errorf("the client got %d tokens, want 20 at once", judged)
	}
}
