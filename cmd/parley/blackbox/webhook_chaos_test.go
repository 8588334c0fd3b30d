package blackbox

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// targetBehavior is a target's behavior and the expected outcome of a delivery to it.
type targetBehavior struct {
	name   string
	script []reaction
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
	{"201", []reaction{says(201)}, "delivered", 201, "", 0},
	{"204", []reaction{says(204)}, "delivered", 204, "", 0},
	{overHTTP2, []reaction{says(200)}, "delivered", 200, "", 0},
	{"endless body", []reaction{answersEndlessly}, "delivered", 200, "", 0},
	{"100 before", []reaction{func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	}}, "delivered", 200, "", 0},
	{"300", []reaction{says(300)}, "failed", 300, "redirect", firstWait},
	{"304", []reaction{says(304)}, "failed", 304, "redirect", firstWait},
	{"400", []reaction{says(400)}, "failed", 400, "400", firstWait},
	{"401", []reaction{says(401)}, "failed", 401, "401", firstWait},
	{"404", []reaction{says(404)}, "failed", 404, "404", firstWait},
	{"409", []reaction{says(409)}, "failed", 409, "409", firstWait},
	{"429", []reaction{says(429, "Retry-After", "120")}, "failed", 429, "429", 2 * time.Minute},
	{"429 for ever", []reaction{says(429, "Retry-After", "99999999")}, "failed", 429, "429", 24 * time.Hour},
	{"429 by a date", []reaction{func(w http.ResponseWriter, r *http.Request) {
		says(429, "Retry-After", time.Now().Add(30*time.Minute).UTC().Format(http.TimeFormat))(w, r)
	}}, "failed", 429, "429", 0},
	{"429 nonsense", []reaction{says(429, "Retry-After", "soon")}, "failed", 429, "429", firstWait},
	{"429 at once", []reaction{says(429, "Retry-After", "0")}, "failed", 429, "429", firstWait},
	{"500", []reaction{says(500)}, "failed", 500, "500", firstWait},
	{"503", []reaction{says(503, "Retry-After", "60")}, "failed", 503, "503", time.Minute},
	{"410", []reaction{says(410)}, "dead", 410, "410", 0},
	{"closed connection", []reaction{closesConnection}, "failed", nil, "broke", firstWait},
	{"not HTTP", []reaction{answersGarbage}, "failed", nil, "HTTP", firstWait},
	{"endless head", []reaction{answersHugeHead}, "failed", nil, "", firstWait},
}

// TestSinkChaos: whatever a target does, the job states the outcome and the time of the
// next attempt. Hanging targets that receive deliveries at the same time delay nothing.
func TestSinkChaos(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		from, o := s.Org(t).Agent("from"), s.Org(t)
		hanging := map[string]*hook{"hangs": o.Agent("hangs").listens(hangs), "drips": o.Agent("drips").listens(answersByteByByte)}
		held := map[string]obj{}
		for name, h := range hanging {
			held[name] = from.Send(h.agent)
			h.to.waitForDelivery(t, 1)
		}
		began := time.Now()
		all := slices.Concat(strains, brokenTLS(), redirects(t))
		recipients := o.NewAgents(len(all), "s")
		hs := ConcurrentlyBounded(len(all), func(i int) *hook { return recipients[i].hook(all[i].target(t)) })
		sent := ConcurrentlyBounded(len(all), func(i int) obj { return from.TrySend(recipients[i], nil).Want(201).Body })
		for i, c := range all {
			c.holds(t, hs[i], sent[i])
		}
		if took := time.Since(began); took > 14*time.Second {
			t.Errorf("with two hanging targets the other deliveries took %v", took)
		}
		for name, h := range hanging {
			h.waitForStatus(held[name], "processing")
		}
		nobodyAsked(t)
	})
}

// target returns the target with the behavior: a path of the sink, or one of its faulty
// TLS listeners.
func (c targetBehavior) target(t testing.TB) *target {
	if c.name == overHTTP2 {
		return theSink(t).targetAt(theSink(t).h2, c.script...)
	}
	if address, bad := theSink(t).bad[c.name]; bad {
		return theSink(t).targetAt(address)
	}
	if c.name == "nobody listens" {
		return &target{url: "https://" + ClosedAddress(t) + "/hook"}
	}
	return theSink(t).target(c.script...)
}

// holds checks the outcome of the first attempt.
func (c targetBehavior) holds(t *testing.T, h *hook, m obj) {
	t.Helper()
	j := h.waitForStatus(m, c.status)
	if !Same(j["last_status_code"], c.code) || !Same(j["attempts"], 1) || !strings.Contains(Text(j, "last_error"), c.says) {
		t.Errorf("%s: the job is %v", c.name, j)
	}
	if said := Text(j, "last_error"); strings.Contains(said, "127.0.0.1") || strings.Contains(said, "dial") || strings.Contains(said, "169.254") {
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
	for _, d := range h.to.deliveries() {
		if d.judged(t, h); (c.name == overHTTP2) != (d.proto == "HTTP/2.0") {
			t.Errorf("%s: delivered by %s", c.name, d.proto)
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
	for _, to := range []string{"https://169.254.169.254/latest/meta-data/", "http://169.254.169.254/", "http://127.0.0.1:1/", "file:///etc/passwd", theSink(t).base + "/forbidden-fruit", "/forbidden-fruit"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			if status != 302 && status != 307 && !strings.HasPrefix(to, "/") {
				continue
			}
			all = append(all, targetBehavior{"redirect", []reaction{says(status, "Location", to)}, "failed", status, "redirect", firstWait})
		}
	}
	return all
}

// nobodyAsked checks that no redirect was followed.
func nobodyAsked(t *testing.T) {
	t.Helper()
	if strays := theSink(t).strayRequests(); len(strays) > 0 {
		t.Errorf("a redirect was followed to %v", strays)
	}
}

func ClosedAddress(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// TestOneTargetDelaysNoOther: while many targets with queues hang, others receive their
// deliveries at once.
func TestOneTargetDelaysNoOther(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		from, o := s.Org(t).Agent("from"), s.Org(t)
		stuck, well := o.NewAgents(20, "stuck"), o.NewAgents(10, "well")
		hung := ConcurrentlyBounded(len(stuck), func(i int) *hook { return stuck[i].listens(hangs) })
		hs := ConcurrentlyBounded(len(well), func(i int) *hook { return well[i].listens() })
		ForEachBounded(len(stuck)*3, func(i int) { from.TrySend(stuck[i%len(stuck)], nil).Want(201) })
		hung[0].to.waitForDelivery(t, 1)
		var times []time.Duration
		for n := range 10 {
			for i, g := range well {
				from.Send(g)
				accepted := time.Now()
				times = append(times, hs[i].to.waitForDelivery(t, n+1).at.Sub(accepted))
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
			if most := h.to.mostAtOnce(); most > 2 {
				t.Errorf("a hanging target received %d concurrent requests", most)
			}
		}
	})
}
