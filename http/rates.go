package http

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"parley"
	"parley/http/limit"
	"parley/http/rest"
)

// Rates are how many requests one caller may make: organizations of what they
// write and read, addresses of what is public, clients of tokens. 0 is any
// number. See docs/limits.md.
type Rates struct {
	// Register is per address and hour.
	Register int
	// Token is per client, TokenFailures per address, Writes and Reads per
	// organization, Public per address, each a minute. A client's tokens are
	// counted when its secret was right, an address's failures when one was not.
	Token, TokenFailures, Writes, Reads, Public int
}

// tokenBurst is how many tokens a client may have at once.
const tokenBurst = 20

// RatesOf gives the rates of a profile: none for "open".
func RatesOf(profile string) Rates {
	if profile == "public" {
		return Rates{Register: 10, Token: 60, TokenFailures: 20, Writes: 600, Reads: 1200, Public: 120}
	}
	return Rates{}
}

// With is the rates with another one of that name; 0 lifts it.
func (r Rates) With(name string, rate int) (Rates, error) {
	known := map[string]*int{
		"register": &r.Register, "token": &r.Token, "token_failures": &r.TokenFailures,
		"writes": &r.Writes, "reads": &r.Reads, "public": &r.Public,
	}
	switch {
	case known[name] == nil:
		return r, fmt.Errorf("there is no rate %q; there are register, token, token_failures, writes, reads and public", name)
	case rate < 0:
		return r, fmt.Errorf("%d is less than none", rate)
	}
	*known[name] = rate
	return r, nil
}

// rates hold callers to a pace. A nil limiter lets all pass. The poll endpoint
// has limits of its own, in every profile.
type rates struct {
	register, token, tokenFailures, writes, reads, public *limit.Limiter
}

func newRates(r Rates, clock parley.Clock) rates {
	a := func(n int, window time.Duration) *limit.Limiter { return limit.New(n, window, n, clock) }
	return rates{
		register: a(r.Register, time.Hour), token: limit.New(r.Token, time.Minute, min(r.Token, tokenBurst), clock),
		tokenFailures: a(r.TokenFailures, time.Minute), writes: a(r.Writes, time.Minute),
		reads: a(r.Reads, time.Minute), public: a(r.Public, time.Minute),
	}
}

// Admit refuses a request whose caller is over its rate, or that would write
// where there is no room, before anything of it is looked at. // spec: Errors
func (s admission) Admit(c *rest.Call) error {
	r := c.Route()
	reading := r.Method == fasthttp.MethodGet
	if !reading && r.Access != rest.Basic { // tokens write nothing
		if overloaded := s.Node.Overloaded(); overloaded != nil {
			return overloaded
		}
	}
	switch {
	case r.Operation.Probe || r.Path == "/poll/{token}":
		return nil
	case r.Path == "/auth/register":
		return s.takeBySource(c, s.rates.register)
	case r.Access == rest.Basic:
		return s.openToGuesses(c)
	case r.Access == rest.Public:
		return s.takeBySource(c, s.rates.public)
	case reading:
		return take(c, s.rates.reads, string(c.Caller.Org[:]))
	}
	return take(c, s.rates.writes, string(c.Caller.Org[:]))
}

// takeBySource is take for the address that a request comes from.
func (s admission) takeBySource(c *rest.Call, l *limit.Limiter) error {
	if l == nil {
		return nil
	}
	return take(c, l, s.Source(c))
}

// openToGuesses refuses an address that has been wrong about secrets too often,
// before another one is looked at. It takes nothing: whether this is a failure is
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

// take counts one request of a key against a rate and refuses it beyond.
func take(c *rest.Call, l *limit.Limiter, key string) error {
	ok, remaining, retry, reset := l.Take(key)
	return c.SetRate(limit.Standing{OK: ok, Limit: l.Limit(), Remaining: remaining, RetryAfter: retry, Reset: reset})
}

// Source is the address that limits count by: the client's, also behind our
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
	// forwardedMax bounds the addresses that are read of one request, forwardedBytes
	// each of them, with the spaces around it.
	forwardedMax   = 32
	forwardedBytes = 256
)

// behind is who stands before our proxies. Each proxy has added the address that
// it was called from, so the last that is none of ours is the client's; what
// stands before it anybody may have written, and is not looked at. Something that
// is no address ends the search: the proxy that passed it on is the client.
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

// parseForwarded reads an address with or without brackets and port, as proxies
// write them.
func parseForwarded(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	with, err := netip.ParseAddrPort(text)
	return with.Addr().Unmap().WithZone(""), err == nil
}
