package webhooks

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// targetBehavior is a target's behavior and the expected outcome of a delivery to it.
type targetBehavior struct {
	name   string
	script []hooktest.Reaction
	status string // of the job after its first attempt
	code   any    // last_status_code
	says   string // in last_error
	wait   time.Duration
}

const (
	firstWait = 5 * time.Second
	overHTTP2 = "over HTTP/2"
)

var strains = []targetBehavior{
	{"201", []hooktest.Reaction{hooktest.Says(201)}, "delivered", 201, "", 0},
	{"204", []hooktest.Reaction{hooktest.Says(204)}, "delivered", 204, "", 0},
	{overHTTP2, []hooktest.Reaction{hooktest.Says(200)}, "delivered", 200, "", 0},
	{"endless body", []hooktest.Reaction{answersEndlessly}, "delivered", 200, "", 0},
	{"100 before", []hooktest.Reaction{func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	}}, "delivered", 200, "", 0},
	{"300", []hooktest.Reaction{hooktest.Says(300)}, "failed", 300, "redirect", firstWait},
	{"304", []hooktest.Reaction{hooktest.Says(304)}, "failed", 304, "redirect", firstWait},
	{"400", []hooktest.Reaction{hooktest.Says(400)}, "failed", 400, "400", firstWait},
	{"401", []hooktest.Reaction{hooktest.Says(401)}, "failed", 401, "401", firstWait},
	{"404", []hooktest.Reaction{hooktest.Says(404)}, "failed", 404, "404", firstWait},
	{"409", []hooktest.Reaction{hooktest.Says(409)}, "failed", 409, "409", firstWait},
	{"429", []hooktest.Reaction{hooktest.Says(429, "Retry-After", "120")}, "failed", 429, "429", 2 * time.Minute},
	{"429 for ever", []hooktest.Reaction{hooktest.Says(429, "Retry-After", "99999999")}, "failed", 429, "429", 24 * time.Hour},
	{"429 by a date", []hooktest.Reaction{func(w http.ResponseWriter, r *http.Request) {
		hooktest.Says(429, "Retry-After", time.Now().Add(30*time.Minute).UTC().Format(http.TimeFormat))(w, r)
	}}, "failed", 429, "429", 0},
	{"429 nonsense", []hooktest.Reaction{hooktest.Says(429, "Retry-After", "soon")}, "failed", 429, "429", firstWait},
	{"429 at once", []hooktest.Reaction{hooktest.Says(429, "Retry-After", "0")}, "failed", 429, "429", firstWait},
	{"500", []hooktest.Reaction{hooktest.Says(500)}, "failed", 500, "500", firstWait},
	{"503", []hooktest.Reaction{hooktest.Says(503, "Retry-After", "60")}, "failed", 503, "503", time.Minute},
	{"410", []hooktest.Reaction{hooktest.Says(410)}, "dead", 410, "410", 0},
	{"closed connection", []hooktest.Reaction{closesConnection}, "failed", nil, "broke", firstWait},
	{"not HTTP", []hooktest.Reaction{answersGarbage}, "failed", nil, "HTTP", firstWait},
	{"endless head", []hooktest.Reaction{answersHugeHead}, "failed", nil, "", firstWait},
}

// TestSinkChaos: whatever a target does, the job states the outcome and the time of the
// next attempt. Hanging targets that receive deliveries at the same time delay nothing.
func TestSinkChaos(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		from, o := s.Org(t).Agent("from"), s.Org(t)
		hanging := map[string]*hooktest.Hook{"hangs": hooktest.Listening(o.Agent("hangs"), hangs), "drips": hooktest.Listening(o.Agent("drips"), answersByteByByte)}
		held := map[string]obj{}
		for name, h := range hanging {
			held[name] = from.Send(h.Agent)
			h.To.WaitForDelivery(t, 1)
		}
		began := time.Now()
		all := slices.Concat(strains, brokenTLS(), redirects(t))
		recipients := o.NewAgents(len(all), "s")
		hs := kit.ConcurrentlyBounded(len(all), func(i int) *hooktest.Hook { return hooktest.New(recipients[i], all[i].target(t)) })
		sent := kit.ConcurrentlyBounded(len(all), func(i int) obj { return from.TrySend(recipients[i], nil).Want(201).Body })
		for i, c := range all {
			c.holds(t, hs[i], sent[i])
		}
		if took := time.Since(began); took > 14*time.Second {
			t.Errorf("with two hanging targets the other deliveries took %v", took)
		}
		for name, h := range hanging {
			h.WaitForStatus(held[name], "processing")
		}
		nobodyAsked(t)
	})
}

// target returns the target with the behavior: a path of the sink, or one of its faulty
// TLS listeners.
func (c targetBehavior) target(t testing.TB) *hooktest.Target {
	if c.name == overHTTP2 {
		return hooktest.SharedSink(t).TargetAt(hooktest.SharedSink(t).H2, c.script...)
	}
	if address, bad := hooktest.SharedSink(t).Bad[c.name]; bad {
		return hooktest.SharedSink(t).TargetAt(address)
	}
	if c.name == "nobody listens" {
		return &hooktest.Target{URL: "https://" + kit.ClosedAddress(t) + "/hook"}
	}
	return hooktest.SharedSink(t).Target(c.script...)
}

// holds checks the outcome of the first attempt.
func (c targetBehavior) holds(t *testing.T, h *hooktest.Hook, m obj) {
	t.Helper()
	j := h.WaitForStatus(m, c.status)
	if !kit.Same(j["last_status_code"], c.code) || !kit.Same(j["attempts"], 1) || !strings.Contains(kit.Text(j, "last_error"), c.says) {
		t.Errorf("%s: the job is %v", c.name, j)
	}
	if said := kit.Text(j, "last_error"); strings.Contains(said, "127.0.0.1") || strings.Contains(said, "dial") || strings.Contains(said, "169.254") {
		t.Errorf("%s: the error names addresses of this network: %s", c.name, said)
	}
	if c.wait > 0 {
		ceiling := c.wait * 11 / 10
		if got := between(t, j, "last_attempt_at", "next_attempt_at"); got < c.wait*9/10 || got > ceiling+2*time.Second {
			t.Errorf("%s: the next attempt is due after %v, want %v", c.name, got, c.wait)
		}
	}
	if c.name == "429 by a date" {
		if got := between(t, j, "last_attempt_at", "next_attempt_at"); got < 29*time.Minute || got > 31*time.Minute {
			t.Errorf("%s: the next attempt is due after %v", c.name, got)
		}
	}
	for _, d := range h.To.Deliveries() {
		if d.Judged(t, h); (c.name == overHTTP2) != (d.Proto == "HTTP/2.0") {
			t.Errorf("%s: delivered by %s", c.name, d.Proto)
		}
	}
}

// brokenTLS are targets that must never receive a request.
func brokenTLS() []targetBehavior {
	return []targetBehavior{
		{"of an unknown authority", nil, "failed", nil, "not trusted", firstWait},
		{"expired", nil, "failed", nil, "expired", firstWait},
		{"for another host", nil, "failed", nil, "another host", firstWait},
		{"not TLS", nil, "failed", nil, "TLS", firstWait},
		{"nobody listens", nil, "failed", nil, "refused", firstWait},
	}
}

// redirects lead to forbidden and to permitted targets.
func redirects(t *testing.T) []targetBehavior {
	var all []targetBehavior
	for _, to := range []string{"https://169.254.169.254/latest/meta-data/", "http://169.254.169.254/", "http://127.0.0.1:1/", "file:///etc/passwd", hooktest.SharedSink(t).Base + "/forbidden-fruit", "/forbidden-fruit"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			if status != 302 && status != 307 && !strings.HasPrefix(to, "/") {
				continue
			}
			all = append(all, targetBehavior{"redirect", []hooktest.Reaction{hooktest.Says(status, "Location", to)}, "failed", status, "redirect", firstWait})
		}
	}
	return all
}

// nobodyAsked checks that no redirect was followed.
func nobodyAsked(t *testing.T) {
	t.Helper()
	if strays := hooktest.SharedSink(t).StrayRequests(); len(strays) > 0 {
		t.Errorf("a redirect was followed to %v", strays)
	}
}

// TestOneTargetDelaysNoOther: while many targets with queues hang, others receive their
// deliveries at once.
func TestOneTargetDelaysNoOther(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		from, o := s.Org(t).Agent("from"), s.Org(t)
		stuck, well := o.NewAgents(20, "stuck"), o.NewAgents(10, "well")
		hung := kit.ConcurrentlyBounded(len(stuck), func(i int) *hooktest.Hook { return hooktest.Listening(stuck[i], hangs) })
		hs := kit.ConcurrentlyBounded(len(well), func(i int) *hooktest.Hook { return hooktest.Listening(well[i]) })
		kit.ForEachBounded(len(stuck)*3, func(i int) { from.TrySend(stuck[i%len(stuck)], nil).Want(201) })
		hung[0].To.WaitForDelivery(t, 1)
		var times []time.Duration
		for n := range 10 {
			for i, g := range well {
				from.Send(g)
				accepted := time.Now()
				times = append(times, hs[i].To.WaitForDelivery(t, n+1).At.Sub(accepted))
			}
		}
		slices.Sort(times)
		t.Logf("from accept to delivery, with %d hanging targets: median %v, worst %v", len(stuck), times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
		if median := times[len(times)/2]; median > 250*time.Millisecond {
			t.Errorf("with %d hanging targets a delivery took %v", len(stuck), median)
		}
		if worst := times[len(times)-1]; worst > 3*time.Second {
			t.Errorf("with %d hanging targets the slowest delivery took %v", len(stuck), worst)
		}
		for _, h := range hung {
			if most := h.To.MostAtOnce(); most > 2 {
				t.Errorf("a hanging target received %d concurrent requests", most)
			}
		}
	})
}
