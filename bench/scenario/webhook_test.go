package scenario

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
)

// webhooks makes the fake deliver messages to targets, at once and concurrently.
func (s *fake) webhooks(t *testing.T, mux *http.ServeMux) {
	mux.HandleFunc("POST /webhooks", func(w http.ResponseWriter, r *http.Request) {
		body := hear(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		agent, _ := body["agent_id"].(string)
		s.targets[agent], _ = body["url"].(string)
		tell(w, 201, map[string]any{"id": agent, "agent_id": agent, "url": s.targets[agent]})
	})
	mux.HandleFunc("GET /webhooks", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		agent := r.URL.Query().Get("agent_id")
		tell(w, 200, []map[string]any{{"id": agent, "agent_id": agent, "url": s.targets[agent]}})
	})
	mux.HandleFunc("DELETE /webhooks/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.targets, r.PathValue("id"))
		w.WriteHeader(204)
	})
	t.Cleanup(func() { http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
}

// announce is called with the lock held.
func (s *fake) announce(to *owner, m *row) {
	target, notified := s.targets[to.id]
	if !notified {
		return
	}
	if s.told++; s.told == 1 && s.fault == forgetsDelivery {
		return
	}
	times := 1
	if s.fault == tellsTwice {
		times = 2
	}
	for range times {
		go func() {
			if answer, err := http.Post(target, "application/json", strings.NewReader(deliveryOf(m.ID, to.id))); err == nil {
				_ = answer.Body.Close()
			}
		}()
	}
}

func deliveryOf(message, agent string) string {
	return fmt.Sprintf(`{"message_id":%q,"agent_id":%q,"event":"message.received","timestamp":"2026-03-14T09:26:53.589793Z"}`, message, agent)
}

func openedSink(t *testing.T) *sink {
	t.Helper()
	s, err := openSink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// someAgent receives the deliveries of these tests.
const someAgent = "01900000-0000-7000-8000-00000000beef"

// take posts a body to a sink and returns the status.
func take(t *testing.T, s *sink, path, body string) int {
	t.Helper()
	answer, err := http.Post(s.base+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestASinkKnowsWhatCame: deliveries arrive before the acknowledgement, after it, twice
// or never, and one is of a message that no sender sent.
func TestASinkKnowsWhatCame(t *testing.T) {
	s := openedSink(t)
	id := func(n byte) host.UUID { return host.UUID{6: 0x70, 15: n} }
	tell := func(n byte) {
		if status := take(t, s, taking+someAgent, deliveryOf(id(n).String(), someAgent)); status != 204 {
			t.Errorf("a delivery is answered with %d", status)
		}
	}
	tell(1)
	if s.accepted(id(1)); s.waiting() != 0 {
		t.Error("the sink waits for a delivery that arrived before its acknowledgement")
	}
	if s.accepted(id(2)); s.waiting() != 1 {
		t.Error("the sink does not wait for a delivery that has not arrived")
	}
	s.opened = s.opened.Add(-time.Second) // a second passes
	tell(2)
	tell(2)
	tell(3)
	s.accepted(id(4))
	s.accepted(id(4))
	if s.waiting() != 1 {
		t.Errorf("the sink waits for %d messages, want one", s.waiting())
	}
	c := s.summarize()
	if c.accepted != 3 || c.came != 2 || c.again != 1 || len(c.waits) != 2 || c.after != 0 {
		t.Errorf("of three messages one did not arrive and one arrived twice: %+v", c)
	}
	if least, most := min(c.waits[0], c.waits[1]), max(c.waits[0], c.waits[1]); least != 0 || most < time.Second || most > time.Minute {
		t.Errorf("the deliveries took %v", c.waits)
	}
	if c.firstAnswer == 0 || c.lastAnswer < c.firstAnswer+time.Second || c.last > c.lastAnswer {
		t.Errorf("answers from %v to %v, the last delivery at %v", c.firstAnswer, c.lastAnswer, c.last)
	}
	if tell(4); s.waiting() != 0 {
		t.Error("all deliveries arrived, but the sink waits for one")
	}
	if c = s.summarize(); c.after != 1 || c.last <= c.lastAnswer {
		t.Errorf("one arrived after the last answer: %+v", c)
	}
	if s.forget(); s.summarize().accepted != 0 || s.waiting() != 0 || s.due != 0 || s.summarize().lastAnswer != 0 {
		t.Error("after a restart the sink still knows messages")
	}
}

// TestASinkTakesDeliveriesOnly: a delivery that is wrong in any part is refused and not
// counted.
func TestASinkTakesDeliveriesOnly(t *testing.T) {
	s := openedSink(t)
	id := host.UUID{6: 0x70, 15: 1}
	good := deliveryOf(id.String(), someAgent)
	s.accepted(id)
	for what, bad := range map[string]string{
		"nothing":             "",
		"no members":          "{}",
		"no message":          strings.Replace(good, `"`+id.String()+`"`, "null", 1),
		"no id":               strings.Replace(good, id.String(), "1", 1),
		"another agent":       deliveryOf(id.String(), id.String()),
		"another event":       strings.Replace(good, deliveryEvent, "message.read", 1),
		"no event":            strings.Replace(good, `"event"`, `"occasion"`, 1),
		"cut off":             good[:len(good)-1],
		"something behind it": good + "{}",
		"all of it too deep":  `{"news":` + good + `}`,
		"too long":            good + strings.Repeat(" ", sinkBodyMax),
	} {
		if status := take(t, s, taking+someAgent, bad); status < 400 || s.waiting() != 1 {
			t.Errorf("%s: answered with %d, %d waited for", what, status, s.waiting())
		}
	}
	if status := take(t, s, "/elsewhere/"+someAgent, good); status != 400 || s.waiting() != 1 {
		t.Errorf("a path without a target: %d, %d waited for", status, s.waiting())
	}
	if status := take(t, s, taking+someAgent, good); status != 204 || s.waiting() != 0 { // the control
		t.Errorf("a delivery: %d, %d waited for", status, s.waiting())
	}
}

// hung posts to a target that hangs and returns the connection.
func hung(t *testing.T, s *sink) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s%s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", hanging, someAgent); err != nil {
		t.Fatal(err)
	}
	return conn
}

// until waits for a condition that soon becomes true.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s: not %s", what)
		}
	}
}

// TestTargetsThatHang: targets that hang never answer, and end with the sink.
func TestTargetsThatHang(t *testing.T) {
	s := openedSink(t)
	const many = 300
	conns := make([]net.Conn, many)
	for i := range conns {
		conns[i] = hung(t, s)
	}
	until(t, "all connected", func() bool { return s.server.GetOpenConnectionsCount() == many })
	id := host.UUID{6: 0x70, 15: 1}
	s.accepted(id)
	if status := take(t, s, taking+someAgent, deliveryOf(id.String(), someAgent)); status != 204 {
		t.Errorf("with %d deliveries that hang, another is answered with %d", many, status)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := conns[many-1].Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("a target that hangs answered or ended: %v", err)
	default:
	}
	s.close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a target that hangs answers at the end")
		}
	case <-time.After(30 * time.Second):
		t.Error("a target that hangs outlives the sink")
	}
	until(t, "rid of all connections", func() bool { return s.server.GetOpenConnectionsCount() <= 0 })
}

// newHooks is a host with few webhooks.
func newHooks(t *testing.T, f fault) *Set {
	t.Helper()
	_, endpoint := newFake(t, f)
	h, err := NewSet(t.Context(), "fake", endpoint, host.Params{Seed: 7, Payload: 64, Agents: 2, Senders: 1, Hooks: 5, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func runWebhook(t *testing.T, h *Set) (run result.Run, w window, err error) {
	t.Helper()
	run, err = runOnce(t, h, Webhook, load.Plan{Clients: 2, Duration: 40 * time.Millisecond}, around{meter: blindMeter{}, window: &w})
	return run, w, err
}

func TestWebhook(t *testing.T) {
	h := newHooks(t, sound)
	for range 2 { // the second run has targets that hung in the first
		run, w, err := runWebhook(t, h)
		if err != nil || run.Failures != 0 || run.Operations == 0 || w != (window{1, 1}) {
			t.Fatalf("%v, %d operations, failures %v, window %+v", err, run.Operations, run.Reasons, w)
		}
		for _, figure := range []string{FigureWithout, FigureWith, FigureWithOfWithout, FigureDelivered, FigureDrained, FigureHangingP99} {
			if run.Figures[figure] <= 0 {
				t.Errorf("%s is %v", figure, run.Figures[figure])
			}
		}
		if run.Figures[FigureAgain] != 0 || run.Figures[FigureDrainTime] < 0 {
			t.Errorf("figures %v", run.Figures)
		}
		for _, part := range []string{PartDelivery, PartHanging} {
			if run.Parts[part].Count == 0 {
				t.Errorf("part %q is missing", part)
			}
		}
		if n := len(webhookOf(h).answering); n != 4 {
			t.Errorf("%d of 5 targets answer at the end", n)
		}
	}
}

// TestMissingDeliveriesFailTheRun: the control of the test above.
func TestMissingDeliveriesFailTheRun(t *testing.T) {
	h := newHooks(t, forgetsDelivery)
	h.Scenario(Webhook).(*webhook).patience = 100 * time.Millisecond
	if _, _, err := runWebhook(t, h); err == nil || !strings.Contains(err.Error(), "were not delivered within") {
		t.Errorf("a delivery that never arrived passes: %v", err)
	}
	if run, _, err := runWebhook(t, newHooks(t, tellsTwice)); err != nil || run.Figures[FigureAgain] == 0 {
		t.Errorf("deliveries made twice: %v, figures %v", err, run.Figures)
	}
}

// TestDeliveriesAfterTheLastAnswer: deliveries after the last 201 have a figure of their own only if there were
// many.
func TestDeliveriesAfterTheLastAnswer(t *testing.T) {
	much := summary{accepted: 20_000, came: 20_000, again: 3, firstAnswer: time.Second, lastAnswer: 6 * time.Second, last: 8 * time.Second, after: 12_000}
	little := summary{accepted: 500, came: 500, firstAnswer: time.Second, lastAnswer: 2 * time.Second, last: 2*time.Second + time.Second/4, after: drainLeast - 1}
	early := summary{accepted: 100, came: 100, firstAnswer: time.Second, lastAnswer: 3 * time.Second, last: 2 * time.Second}
	for name, c := range map[string]struct {
		turns []summary
		want  map[string]float64
	}{
		"much":            {[]summary{much}, map[string]float64{FigureDelivered: 20_000. / 7, FigureDrained: 6000, FigureDeliveryCPU: 100, FigureDrainTime: 2000, FigureAgain: 3}},
		"little":          {[]summary{little}, map[string]float64{FigureDelivered: 400, FigureDrained: 400, FigureDrainTime: 250, FigureAgain: 0}},
		"both":            {[]summary{much, little}, map[string]float64{FigureDelivered: 20_500 / 8.25, FigureDeliveryCPU: 100, FigureDrained: 6000, FigureDrainTime: 2000, FigureAgain: 3}},
		"before the 201":  {[]summary{early}, map[string]float64{FigureDelivered: 100, FigureDrained: 100, FigureDrainTime: 0, FigureAgain: 0}},
		"nothing at all":  {[]summary{{}}, map[string]float64{FigureDrainTime: 0, FigureAgain: 0}},
		"exactly as much": {[]summary{{came: 2000, firstAnswer: 1, lastAnswer: time.Second, last: 2 * time.Second, after: drainLeast}}, map[string]float64{FigureDrained: drainLeast}},
	} {
		var deliveries deliveries
		for _, turn := range c.turns {
			deliveries.add(turn, 1200*time.Millisecond)
		}
		got := deliveries.figures()
		for figure, want := range c.want {
			if diff := got[figure] - want; diff > 1e-6 || diff < -1e-6 {
				t.Errorf("%s: %s is %v, not %v", name, figure, got[figure], want)
			}
		}
		if name == "nothing at all" && len(got) != 2 {
			t.Errorf("a rate of nothing: %v", got)
		}
	}
}

// TestVerifyFindsUndelivered: the server or the sink forgets one delivery, and the
// verdict says exactly that. A delivery made twice, or of a message that was not
// acknowledged, is no violation.
func TestVerifyFindsUndelivered(t *testing.T) {
	forget := func(s *sink) { // as if it had never received it
		for id, n := range s.seen {
			if n.accepted != 0 && n.came != 0 {
				n.came = 0
				s.seen[id] = n
				s.landed--
				return
			}
		}
	}
	for name, c := range map[string]struct {
		fault fault
		spoil func(*sink)
		lost  int
	}{
		"sound":                   {fault: sound},
		"the sink forgets one":    {spoil: forget, lost: 1},
		"the server forgets one":  {fault: forgetsDelivery, lost: 1},
		"each twice":              {fault: tellsTwice},
		"every third without 201": {fault: unknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHooks(t, c.fault)
			hooks := h.Scenario(Webhook).(*webhook)
			if err := hooks.createAgents(t.Context()); err != nil {
				t.Fatal(err)
			}
			dial, err := PrepareMixedLoad(t.Context(), h, 8)
			if err != nil {
				t.Fatal(err)
			}
			// A number of operations and not a time, so that there are deliveries.
			if err := perform(t.Context(), dial, 8, 24); err != nil {
				t.Fatal(err)
			}
			h.Settle(&result.Run{})
			s := hooks.sink
			server := c.lost
			if c.spoil != nil {
				server = 0
			}
			until(t, "all delivered but what is forgotten", func() bool { return s.waiting() == server })
			if c.spoil != nil {
				c.spoil(s)
			}
			if c.fault == tellsTwice {
				until(t, "each told twice", func() bool { x := s.summarize(); return x.again == x.accepted })
			}
			if c.lost > 0 {
				hooks.patience = time.Millisecond
			}
			v, err := h.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if v.DeliveriesLost != int64(c.lost) || v.Clean() != (c.lost == 0) || v.Deliveries < 10 || v.Missing+v.Altered+v.Stray != 0 {
				t.Errorf("want %d lost: %+v", c.lost, v)
			}
			if again := v.DeliveredAgain == v.Deliveries; again != (c.fault == tellsTwice) {
				t.Errorf("%d of %d were delivered again", v.DeliveredAgain, v.Deliveries)
			}
		})
	}
}

// perform makes several clients do some operations each. Refusals are ignored.
func perform(ctx context.Context, dial load.Dial, clients, each int) error {
	var mu sync.Mutex
	var trouble error
	var group sync.WaitGroup
	for worker := range clients {
		group.Go(func() {
			client, err := dial(ctx, worker)
			if err == nil {
				for n := range each {
					_ = client.Do(ctx, n, nil)
				}
				err = client.Close()
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				trouble = err
			}
		})
	}
	group.Wait()
	return trouble
}

// BenchmarkSink: the generator's cost of a delivery, without its connection.
func BenchmarkSink(b *testing.B) {
	s := &sink{opened: time.Now(), seen: map[host.UUID]delivery{}}
	id := host.UUID{6: 0x70, 15: 1}
	body, agent := []byte(deliveryOf(id.String(), someAgent)), bytes.Clone([]byte(someAgent))
	b.ReportAllocs()
	for b.Loop() {
		if got, ok := readDelivery(body, agent); ok {
			s.came(got)
		}
	}
}
