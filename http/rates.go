package http

import (
	"time"

	"github.com/valyala/fasthttp"

	"parley"
	"parley/http/auth"
	"parley/http/limit"
)

// rates hold callers to a pace: organizations on what they write and read,
// addresses on what is public, clients on tokens. A nil limiter lets all pass.
// The poll endpoint has limits of its own, in every profile.
type rates struct {
	register, token, writes, reads, open *limit.Limiter
}

func newRates(clock parley.Clock) rates {
	a := func(n int, window time.Duration) *limit.Limiter { return limit.New(n, window, n, clock) }
	return rates{
		register: a(10, time.Hour), token: a(60, time.Minute), writes: a(600, time.Minute),
		reads: a(1200, time.Minute), open: a(120, time.Minute),
	}
}

// Admit refuses a request whose caller is over its rate, or that would write
// where there is no room, before anything of it is looked at. // spec: Errors
func (s *Service) Admit(c *Call) error {
	r := c.Route()
	reading := r.Method == fasthttp.MethodGet
	if !reading && r.Access != basic { // tokens write nothing
		if crowded := s.Node.Crowded(); crowded != nil {
			return crowded
		}
	}
	switch {
	case r.Path == "/health" || r.Path == "/poll/{token}":
		return nil
	case r.Path == "/auth/register":
		return take(c, s.rates.register, source(c))
	case r.Access == basic:
		return take(c, s.rates.token, clientOf(c))
	case r.Access == public:
		return take(c, s.rates.open, source(c))
	case reading:
		return take(c, s.rates.reads, string(c.Caller.Org[:]))
	}
	return take(c, s.rates.writes, string(c.Caller.Org[:]))
}

// clientOf is the client that asks for a token, or its address where it does
// not say so in the header.
func clientOf(c *Call) string {
	if id, _, ok := auth.ParseBasic([]byte(c.Header(fasthttp.HeaderAuthorization))); ok {
		return id
	}
	return source(c)
}
