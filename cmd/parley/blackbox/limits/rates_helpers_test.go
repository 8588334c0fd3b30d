package limits

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// rateLimit is a rate as docs/limits.md states it: a number of requests in a window, which
// may all come at once.
type rateLimit struct {
	rate   int
	window time.Duration
	// exact: no interval of the window's length has more accepted requests. Otherwise
	// requests become free one by one.
	exact bool
}

// every returns the time after which one more request becomes free.
func (p rateLimit) every() time.Duration {
	if p.exact {
		return p.window
	}
	return p.window / time.Duration(p.rate)
}

// rateFaults makes requests until one is rejected and checks the rate headers of each
// answer. It allows for requests that became free meanwhile, however slow the machine is.
func rateFaults(p rateLimit, ask func() *kit.Answer) (faults []string) {
	fault := func(a *kit.Answer, format string, args ...any) {
		faults = append(faults, a.Dump(fmt.Sprintf(format, args...)))
	}
	began := time.Now()
	for i := 0; ; i++ {
		a := ask()
		free := int(time.Since(began) / p.every()) // an upper bound
		left, errLeft := strconv.Atoi(a.Header.Get("RateLimit-Remaining"))
		reset, errReset := strconv.Atoi(a.Header.Get("RateLimit-Reset"))
		switch {
		case a.Err != nil:
			fault(a, "no answer")
			return faults
		case a.Header.Get("RateLimit-Limit") != strconv.Itoa(p.rate):
			fault(a, "RateLimit-Limit is %q, want %d", a.Header.Get("RateLimit-Limit"), p.rate)
		case errReset != nil || reset < 1 || reset > int(p.window/time.Second):
			fault(a, "RateLimit-Reset is %q", a.Header.Get("RateLimit-Reset"))
		}
		if a.Status == http.StatusTooManyRequests {
			if i < p.rate {
				fault(a, "request %d of %d is refused", i+1, p.rate)
			}
			if wait, _ := strconv.Atoi(a.Header.Get("Retry-After")); p.exact && time.Duration(wait)*time.Second < p.window-time.Since(began) {
				fault(a, "Retry-After is %d, the first request leaves the window later", wait)
			}
			return append(faults, refusalFaults(p, a)...)
		}
		if least := p.rate - 1 - i; errLeft != nil || left < max(least, 0) || left > least+free {
			fault(a, "RateLimit-Remaining is %q after %d requests", a.Header.Get("RateLimit-Remaining"), i+1)
		}
		if a.Header.Get("Retry-After") != "" {
			fault(a, "Retry-After where nothing is refused")
		}
		if i >= p.rate+free {
			fault(a, "request %d passes, %d may", i+1, p.rate+free)
			return faults
		}
	}
}

// refusalFaults checks a 429.
func refusalFaults(p rateLimit, a *kit.Answer) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, a.Dump(fmt.Sprintf(format, args...))) }
	wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if longest := int(p.every()/time.Second) + 1; err != nil || wait < 1 || wait > longest {
		fault("Retry-After is %q, want whole seconds from 1 to %d", a.Header.Get("Retry-After"), longest)
	}
	if a.Header.Get("RateLimit-Remaining") != "0" {
		fault("RateLimit-Remaining is %q", a.Header.Get("RateLimit-Remaining"))
	}
	if a.At("code") != "rate_limited" || !kit.Same(a.At("retry_after"), wait) || kit.Text(a.Body, "detail") == "" {
		fault("not the body of a 429")
	}
	if a.At("error") != "RateLimitError" {
		fault("error is %v", a.At("error"))
	}
	if id := a.Header.Get("X-Request-ID"); id == "" || a.At("request_id") != id {
		fault("request_id is not the X-Request-ID %q", id)
	}
	return faults
}

// addressFaults makes requests with different addresses in X-Forwarded-For. If the server
// trusts the header, each address has a rate of its own; otherwise all share one.
func addressFaults(p rateLimit, believed bool, ask func(forwarded string) *kit.Answer) (faults []string) {
	began := time.Now()
	for i := range p.rate + 2 {
		a := ask(fmt.Sprintf("198.51.100.%d", i+1))
		free := int(time.Since(began) / p.every())
		refused := a.Status == http.StatusTooManyRequests
		if believed && refused || !believed && refused && i < p.rate || !believed && !refused && i >= p.rate+free {
			faults = append(faults, a.Dump(fmt.Sprintf("request %d, each from another address", i+1)))
		}
	}
	if !believed {
		return faults
	}
	for range p.rate { // one was used before
		if a := ask("198.51.100.1"); a.Status == http.StatusTooManyRequests {
			return faults
		}
	}
	if time.Since(began) < p.every() {
		faults = append(faults, "one address has no limit")
	}
	return faults
}

// fakeLimiter is a limiter for tests, with at most one defect.
type fakeLimiter struct {
	rateLimit
	defect string
	used   map[string]int
}

func (g *fakeLimiter) ask(key string) *kit.Answer {
	if g.used == nil {
		g.used = map[string]int{}
	}
	if g.defect == "takes all for one" {
		key = ""
	}
	a := &kit.Answer{Status: 200, Header: http.Header{}, Body: obj{}}
	a.Header.Set("X-Request-ID", "r")
	refused := g.used[key] >= g.rate
	switch {
	case g.defect == "never counts":
	case refused && g.defect == "lets one more pass" && g.used[key] == g.rate:
		g.used[key]++
		refused = false
	case !refused:
		g.used[key]++
		if g.defect == "counts twice" {
			g.used[key]++
		}
	}
	a.Header.Set("RateLimit-Limit", strconv.Itoa(g.rate))
	a.Header.Set("RateLimit-Remaining", strconv.Itoa(max(0, g.rate-g.used[key])))
	a.Header.Set("RateLimit-Reset", strconv.Itoa(int(g.window/time.Second)))
	if refused {
		a.Status = 429
		a.Header.Set("Retry-After", strconv.Itoa(int(g.every()/time.Second)))
		a.Body = obj{"error": "RateLimitError", "code": "rate_limited", "detail": "Wait.", "request_id": "r", "retry_after": int(g.every() / time.Second)}
	}
	g.applyDefect(a)
	return a
}

// applyDefect makes the answer differ from the limiter's state.
func (g *fakeLimiter) applyDefect(a *kit.Answer) {
	switch {
	case g.defect == "says nothing":
		a.Header.Del("RateLimit-Remaining")
	case g.defect == "says another limit":
		a.Header.Set("RateLimit-Limit", strconv.Itoa(g.rate+1))
	case g.defect == "says too many are left":
		a.Header.Set("RateLimit-Remaining", strconv.Itoa(g.rate))
	case g.defect == "resets beyond the window":
		a.Header.Set("RateLimit-Reset", strconv.Itoa(int(g.window/time.Second)+1))
	case g.defect == "asks all to wait":
		a.Header.Set("Retry-After", "1")
	case a.Status != 429:
	case g.defect == "has no Retry-After":
		a.Header.Del("Retry-After")
	case g.defect == "has half seconds":
		a.Header.Set("Retry-After", "1.5")
	case g.defect == "asks for no wait":
		a.Header.Set("Retry-After", "0")
	case g.defect == "asks for a day":
		a.Header.Set("Retry-After", "86400")
	case g.defect == "has another body":
		a.Body = obj{}
	case g.defect == "has another wait in its body":
		a.Body["retry_after"] = 1
	}
}

// TestRateFaultsControl: the checks find each defect, and nothing in a correct limiter.
func TestRateFaultsControl(t *testing.T) {
	t.Parallel()
	p := rateLimit{rate: 4, window: time.Hour} // nothing becomes free during the test
	for _, defect := range []string{
		"", "never counts", "counts twice", "lets one more pass", "says nothing", "says another limit", "says too many are left", "resets beyond the window",
		"asks all to wait", "has no Retry-After", "has half seconds", "asks for no wait", "asks for a day", "has another body", "has another wait in its body",
	} {
		g := fakeLimiter{rateLimit: p, defect: defect}
		if faults := rateFaults(p, func() *kit.Answer { return g.ask("") }); (len(faults) == 0) != (defect == "") {
			t.Errorf("a limiter that %q: %q", defect, faults)
		}
	}
	for defect, key := range map[string]func(string) string{
		"":                  func(address string) string { return address },
		"never counts":      func(address string) string { return address },
		"takes all for one": func(string) string { return "" },
	} {
		g := fakeLimiter{rateLimit: p, defect: defect}
		believes := addressFaults(p, true, func(address string) *kit.Answer { return g.ask(key(address)) })
		g = fakeLimiter{rateLimit: p, defect: defect}
		ignores := addressFaults(p, false, func(address string) *kit.Answer { return g.ask(key(address)) })
		if (len(believes) == 0) != (defect == "") || (len(ignores) == 0) != (defect == "takes all for one") {
			t.Errorf("a limiter that %q: believing %q, not believing %q", defect, believes, ignores)
		}
	}
}
