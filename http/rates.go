package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"parley/actors/org"
	"parley/client/parley"
	"parley/http/limit"
	"parley/http/rest"
)

// Rates are the request rates of one caller: writes and reads per organization, public
// requests per address, tokens per client. 0 means no limit. See docs/limits.md.
type Rates struct {
	// Register is per address and hour.
	Register int
	// Token is per client, TokenFailures per address, Writes and Reads per organization,
	// and Public per address, each per minute. A request for a token counts for the
	// client if its secret was right, and as a failure of the address if it was wrong.
	Token, TokenFailures, Writes, Reads, Public int
	// A2A counts requests over the A2A bridge, per organization and minute.
	A2A int
	// Pair counts messages that two agents exchange, per minute. An organization of the highest
	// tier is exempt. The actors count it.
	Pair int
}

// pair returns the rate of the caller's agents, 0 for none.
func (r Rates) pair(who rest.Caller) int {
	if who.Tier >= org.TierMax {
		return 0
	}
	return r.Pair
}

// tokenBurst is how many tokens a client may request at once.
const tokenBurst = 20

// RatesOf returns the rates of a profile: no limits for "open".
func RatesOf(profile string) Rates {
	if profile == "public" {
		return Rates{Register: 10, Token: 60, TokenFailures: 20, Writes: 600, Reads: 1200, Public: 120, A2A: 120, Pair: 120}
	}
	return Rates{}
}

// named returns the rates by name.
func (r *Rates) named() map[string]*int {
	return map[string]*int{
		"register": &r.Register, "token": &r.Token, "token_failures": &r.TokenFailures,
		"writes": &r.Writes, "reads": &r.Reads, "public": &r.Public, "a2a": &r.A2A, "pair": &r.Pair,
	}
}

// RateNames returns the names of all rates, sorted.
func RateNames() []string { return slices.Sorted(maps.Keys(new(Rates).named())) }

// With returns the rates with the one of that name replaced. 0 means no limit.
func (r Rates) With(name string, rate int) (Rates, error) {
	known := r.named()
	switch {
	case known[name] == nil:
		return r, fmt.Errorf("there is no rate %q; there are register, token, token_failures, writes, reads, public, a2a and pair", name)
	case rate < 0:
		return r, fmt.Errorf("%d is less than none", rate)
	}
	*known[name] = rate
	return r, nil
}

// rates are the rate limiters of callers. A nil limiter admits all requests. The poll
// endpoint has limits of its own, in every profile.
type rates struct {
	register, token, tokenFailures, writes, reads, public, a2a *limit.Limiter
}

func newRates(r Rates, clock parley.Clock) rates {
	a := func(n int, window time.Duration) *limit.Limiter { return limit.New(n, window, n, clock) }
	return rates{
		register: a(r.Register, time.Hour), token: limit.New(r.Token, time.Minute, min(r.Token, tokenBurst), clock),
		tokenFailures: a(r.TokenFailures, time.Minute), writes: a(r.Writes, time.Minute),
		reads: a(r.Reads, time.Minute), public: a(r.Public, time.Minute), a2a: a(r.A2A, time.Minute),
	}
}

// share returns the limits of a service that count with those of other nodes.
func (s *core) share() *limit.Shared {
	all, r := limit.NewShared(s.Clock, s.Entropy), &s.rates
	for name, l := range map[string]*limit.Limiter{
		"register": r.register, "token": r.token, "token_failures": r.tokenFailures,
		"writes": r.writes, "reads": r.reads, "public": r.public, "a2a": r.a2a,
	} {
		all.Add(name, l)
	}
	for name, w := range s.ofAgents.Windows() {
		all.Add(name, w)
	}
	all.Add("tries", s.tries)
	all.Add("difficulty", s.Difficulty)
	all.Add("exports", s.exports)
	all.Add("endings", s.endings)
	s.streams.OnNodes, s.taskStreams = all.Concurrency("streams"), all.Concurrency("task_streams")
	return all
}

// Spent returns what callers have spent of their rates here since the last call, and how many
// streams agents have here, for the other nodes of the cluster; nil if nothing.
func (s *Service) Spent() ([]byte, error) {
	all := s.shared.Take()
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

var errSpent = errors.New("what another node reports as spent rates is no list")

// SpentElsewhere counts what callers have spent of their rates on another node: what Spent
// returned there.
func (s *Service) SpentElsewhere(spent []byte) error {
	all := json.NewDecoder(bytes.NewReader(spent))
	if begin, _ := all.Token(); begin != json.Delim('[') {
		return errSpent
	}
	for all.More() { // one at a time: a list of empty ones would take much memory
		var one limit.Spent
		err := all.Decode(&one)
		if other := new(json.UnmarshalTypeError); errors.As(err, &other) {
			continue // of another version
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errSpent, err)
		}
		s.shared.Spend([]limit.Spent{one})
	}
	return nil
}

// Admit rejects a request, before anything of it is read, if its caller is over its rate,
// or if it would write while the server is overloaded. // spec: Errors
func (s admission) Admit(c *rest.Call) error {
	r := c.Route()
	if !r.Access.NeedsToken() && !r.Probe { // Bearer has done it
		if err := s.Node.Fence(c.Context()); err != nil {
			return err
		}
	}
	reading := r.Method == fasthttp.MethodGet
	if !reading && r.Access != rest.Basic { // token requests write nothing
		if overloaded := s.Node.Overloaded(); overloaded != nil {
			return overloaded
		}
	}
	switch {
	case r.Probe || r.Path == "/poll/{token}":
		return nil
	case r.Path == "/auth/register":
		return s.takeBySource(c, s.rates.register)
	case r.Access == rest.Basic:
		return s.openToGuesses(c)
	case r.Access == rest.Public:
		return s.takeBySource(c, s.rates.public)
	case r.OwnRefusals(): // only the A2A bridge
		return take(c, s.rates.a2a, string(c.Caller.Org[:]))
	case reading:
		return take(c, s.rates.reads, string(c.Caller.Org[:]))
	}
	return take(c, s.rates.writes, string(c.Caller.Org[:]))
}

// takeBySource is take with the address of the request as the key.
func (s admission) takeBySource(c *rest.Call, l *limit.Limiter) error {
	if l == nil {
		return nil
	}
	return take(c, l, s.Source(c))
}

// openToGuesses rejects a request of an address that has presented too many wrong
// secrets, before its secret is checked. It counts nothing: whether this request fails is
// not known yet.
func (s admission) openToGuesses(c *rest.Call) error {
	l := s.rates.tokenFailures
	if l == nil {
		return nil
	}
	if wait, reset := l.Wait(s.Source(c)); wait > 0 {
		return c.SetRate(limit.Standing{Limit: l.Limit(), RetryAfter: wait, Reset: reset})
	}
	return nil
}

// takeFailure counts a wrong secret of an address before it is checked; giveBack undoes that.
func (s admission) takeFailure(c *rest.Call) (giveBack func(), err error) {
	l := s.rates.tokenFailures
	return func() { l.GiveBack(s.Source(c)) }, s.takeBySource(c, l)
}

// take counts one request of a key against a rate and rejects it if it is over.
func take(c *rest.Call, l *limit.Limiter, key string) error {
	ok, remaining, retry, reset := l.Take(key)
	return c.SetRate(limit.Standing{OK: ok, Limit: l.Limit(), Remaining: remaining, RetryAfter: retry, Reset: reset})
}

// Source returns the address that limits count by: the client's, also behind trusted
// proxies.
func (s admission) Source(c *rest.Call) string {
	addr := c.Peer()
	if !addr.IsValid() {
		return limit.AddressKey(netip.IPv4Unspecified())
	}
	if len(s.Proxies) > 0 && s.Proxy(addr) {
		addr = s.behind(addr, c.RequestCtx().Request.Header.PeekAll(fasthttp.HeaderXForwardedFor))
	}
	return limit.AddressKey(addr)
}

// Proxy reports whether an address is that of a proxy in front of the service.
func (s admission) Proxy(addr netip.Addr) bool {
	for _, network := range s.Proxies {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

const (
	// forwardedMax bounds how many addresses of a request's X-Forwarded-For are read,
	// forwardedBytes the length of each, with the spaces around it.
	forwardedMax   = 32
	forwardedBytes = 256
)

// behind returns the client address behind trusted proxies. Each proxy appends the
// address of its caller, so the client is the right-most X-Forwarded-For entry that is
// not a trusted proxy. Entries before it may be forged and are not read. An entry that is
// not an address ends the search: the proxy that passed it on counts as the client.
func (s admission) behind(peer netip.Addr, forwarded [][]byte) netip.Addr {
	for read, n := 0, len(forwarded)-1; n >= 0; n-- {
		for line, more := forwarded[n], true; more; read++ {
			entry := line
			at := bytes.LastIndexByte(line, ',')
			if more = at >= 0; more {
				line, entry = line[:at], line[at+1:]
			}
			if read == forwardedMax || len(entry) > forwardedBytes {
				return peer
			}
			addr, ok := parseForwarded(string(bytes.TrimSpace(entry)))
			if !ok {
				return peer
			}
			if peer = addr; !s.Proxy(peer) {
				return peer
			}
		}
	}
	return peer
}

// parseForwarded parses an address with or without brackets and port, as proxies write
// them.
func parseForwarded(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	with, err := netip.ParseAddrPort(text)
	return with.Addr().Unmap().WithZone(""), err == nil
}
