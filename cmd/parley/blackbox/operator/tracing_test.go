package operator

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// tracesPath is the path to which OTLP exporters post traces.
const tracesPath = "/v1/traces"

// collecting is a minimal OpenTelemetry collector.
type collecting struct {
	url string

	mu      sync.Mutex
	raw     []byte
	spans   []*otlp.Span
	header  http.Header
	service string
	faults  []string
}

func collect(t *testing.T) *collecting {
	t.Helper()
	kit.OneServerOnly(t, "it waits for the spans of one process")
	c := &collecting{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collecting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var said collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &said)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || r.Method != http.MethodPost || r.URL.Path != tracesPath || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.faults = append(c.faults, fmt.Sprintf("%s %s of %s: %v", r.Method, r.URL.Path, r.Header.Get("Content-Type"), err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.raw, c.header = append(c.raw, body...), r.Header
	for _, from := range said.GetResourceSpans() {
		for _, a := range from.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				c.service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range from.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

// after shuts the server down, which flushes its spans, and returns all spans.
func (c *collecting) after(t *testing.T, s *kit.Server) []*otlp.Span {
	t.Helper()
	if err := s.Drain(15 * time.Second); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range c.faults {
		t.Error(fault)
	}
	return c.spans
}

// traceOf returns the trace id of a message.
func traceOf(m obj) string { return strings.ReplaceAll(kit.Text(m, "id"), "-", "") }

// inTrace returns the spans of a trace by name; names must be unique.
func inTrace(t *testing.T, spans []*otlp.Span, id string) map[string]*otlp.Span {
	t.Helper()
	found := map[string]*otlp.Span{}
	for _, s := range spans {
		if hex.EncodeToString(s.GetTraceId()) != id {
			continue
		}
		if found[s.GetName()] != nil {
			t.Errorf("trace %s has %q twice", id, s.GetName())
		}
		found[s.GetName()] = s
		if s.GetStartTimeUnixNano() == 0 || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("%s lasts from %d to %d", s.GetName(), s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano())
		}
	}
	return found
}

// named checks that a trace has spans of exactly these names.
func named(t *testing.T, what string, found map[string]*otlp.Span, names ...string) bool {
	t.Helper()
	var got []string
	for name := range found {
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("%s: the trace has %q, want %q", what, got, names)
		return false
	}
	return true
}

// attribute returns an attribute of a span as text.
func attribute(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() != key {
			continue
		}
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *common.AnyValue_StringValue:
			return v.StringValue
		}
	}
	return ""
}

func bears(t *testing.T, s *otlp.Span, pairs ...string) {
	t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if got := attribute(s, pair[0]); got != pair[1] {
			t.Errorf("%s: %s is %q, want %q", s.GetName(), pair[0], got, pair[1])
		}
	}
}

func under(t *testing.T, s, parent *otlp.Span) {
	t.Helper()
	if !bytes.Equal(s.GetParentSpanId(), parent.GetSpanId()) {
		t.Errorf("the parent of %s is %x, not %s (%x)", s.GetName(), s.GetParentSpanId(), parent.GetName(), parent.GetSpanId())
	}
}

func linked(t *testing.T, s, to *otlp.Span) {
	t.Helper()
	if !slices.Contains(linksTo([]*otlp.Span{s}, to), s) {
		t.Errorf("%s has no link to %s of trace %x, only %v", s.GetName(), to.GetName(), to.GetTraceId(), s.GetLinks())
	}
}

// linksTo returns the spans with a link to another.
func linksTo(spans []*otlp.Span, to *otlp.Span) (all []*otlp.Span) {
	for _, s := range spans {
		if slices.ContainsFunc(s.GetLinks(), func(l *otlp.Span_Link) bool {
			return bytes.Equal(l.GetTraceId(), to.GetTraceId()) && bytes.Equal(l.GetSpanId(), to.GetSpanId())
		}) {
			all = append(all, s)
		}
	}
	return all
}

// waits answers after let is closed.
func waits(let <-chan struct{}) hooktest.Reaction {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-let:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusOK)
	}
}

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	quietTrace   = "4bf92f3577b34da6a3ce929d0e0e4736"

	sendSpan, replySpan, syncSpan = "POST /messages", "POST /messages/{id}/reply", "POST /messages/sync"
	appendSpan, attemptSpan       = "parley.journal append", "POST"
)

// tracedMessages holds the messages whose traces the test checks.
type tracedMessages struct {
	hook                                         *hooktest.Hook
	job                                          obj
	plain, called, quiet, repeated, reply, asked obj
}

// sendTracedMessages sends messages in every way that can begin a trace.
func sendTracedMessages(t *testing.T, a, b *kit.Agent) (x tracedMessages) {
	t.Helper()
	as := func(headers ...string) []string { return append([]string{"X-Svc-Agent", a.ID}, headers...) }
	x.hook = hooktest.Listening(b)
	x.plain = a.Send(b)
	x.job = x.hook.WaitForStatus(x.plain, "delivered")

	// The target answers only after the send was answered, so that the test knows the
	// message.
	let := make(chan struct{})
	x.hook.To.Answers(waits(let))
	x.called = a.Post("/messages", kit.Message(b), as("Traceparent", "00-"+callersTrace+"-"+callersSpan+"-01")...).Want(201).Body
	close(let)
	x.hook.WaitForStatus(x.called, "delivered")

	x.quiet = a.Post("/messages", kit.Message(b), as("Traceparent", "00-"+quietTrace+"-"+callersSpan+"-00")...).Want(201).Body
	x.hook.WaitForStatus(x.quiet, "delivered")

	x.hook.To.Answers(hooktest.Says(500))
	x.repeated = a.Post("/messages", kit.Message(b), as("Idempotency-Key", "k")...).Want(201).Body
	a.Post("/messages", kit.Message(b), as("Idempotency-Key", "k")...).Want(200)
	x.hook.WaitForStatus(x.repeated, "failed")
	x.hook.SetActive(false)

	x.reply = b.Reply(x.plain)
	x.asked, _ = kit.Judged(<-a.Ask(b, "?timeout_ms=1000", nil), "timeout").Body["message"].(obj)
	return x
}

// TestTraces follows messages from the request through the journal to the target of a
// webhook, in the spans that a collector receives.
func TestTraces(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		c := collect(t)
		s := kit.StartThrough(t, []string{"/usr/bin/env", "OTEL_SERVICE_NAME=mine", "OTEL_EXPORTER_OTLP_HEADERS=x-key=abc"},
			"--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile, "--otlp-endpoint", c.url)
		a, b := kit.Pair(t, s)
		x := sendTracedMessages(t, a, b)
		spans := c.after(t, s)
		x.checkPlain(t, s, spans)
		x.checkCalled(t, spans)
		x.checkRepeated(t, spans)
		if found := inTrace(t, spans, quietTrace); len(found) != 0 {
			t.Errorf("spans of a caller that is not sampled were sent: %v", found)
		}
		named(t, "a send whose caller wants no trace", inTrace(t, spans, traceOf(x.quiet)), appendSpan, attemptSpan)
		named(t, "a reply", inTrace(t, spans, traceOf(x.reply)), replySpan, appendSpan)
		named(t, "a sync", inTrace(t, spans, traceOf(x.asked)), syncSpan, appendSpan)
		if c.service != "mine" || c.header.Get("X-Key") != "abc" {
			t.Errorf("the service name is %q, the collector's key is %q", c.service, c.header.Get("X-Key"))
		}
	})
}

func (x *tracedMessages) checkPlain(t *testing.T, s *kit.Server, spans []*otlp.Span) {
	t.Helper()
	found := inTrace(t, spans, traceOf(x.plain))
	if !named(t, "a send", found, sendSpan, appendSpan, attemptSpan) {
		return
	}
	door, kept, attempt := found[sendSpan], found[appendSpan], found[attemptSpan]
	if len(door.GetParentSpanId()) != 0 || door.GetKind() != otlp.Span_SPAN_KIND_SERVER || attempt.GetKind() != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("the parent of the first span is %x; kinds are %v and %v", door.GetParentSpanId(), door.GetKind(), attempt.GetKind())
	}
	under(t, kept, door)
	under(t, attempt, door)
	if kept.GetStartTimeUnixNano() < door.GetStartTimeUnixNano() || kept.GetEndTimeUnixNano() > door.GetEndTimeUnixNano() {
		t.Errorf("the journal span is not within the request: %v, %v", kept, door)
	}
	host, port, _ := strings.Cut(s.Addr, ":")
	bears(t, door, "http.request.method", "POST", "http.route", "/messages", "http.response.status_code", "201",
		"url.scheme", "http", "server.address", host, "server.port", port)
	bears(t, kept, "parley.message.id", kit.Text(x.plain, "id"))
	bears(t, attempt, "http.request.method", "POST", "server.address", "127.0.0.1", "http.response.status_code", "200",
		"parley.webhook.id", x.hook.ID, "parley.webhook.job", kit.Text(x.job, "id"), "parley.webhook.event", "message.received",
		"parley.webhook.outcome", "delivered", "parley.message.id", kit.Text(x.plain, "id"))
	want := fmt.Sprintf("00-%x-%x-01", attempt.GetTraceId(), attempt.GetSpanId())
	if got := x.hook.To.Deliveries()[0].Header.Get("Traceparent"); got != want {
		t.Errorf("the target received %q, want %q", got, want)
	}
}

// checkCalled: the request belongs to its caller's trace, the remaining spans to the
// message's trace, and the two are linked.
func (x *tracedMessages) checkCalled(t *testing.T, spans []*otlp.Span) {
	t.Helper()
	theirs, ours := inTrace(t, spans, callersTrace), inTrace(t, spans, traceOf(x.called))
	if !named(t, "the caller's trace", theirs, sendSpan) || !named(t, "the trace of what was called for", ours, appendSpan, attemptSpan) {
		return
	}
	door, kept, attempt := theirs[sendSpan], ours[appendSpan], ours[attemptSpan]
	if hex.EncodeToString(door.GetParentSpanId()) != callersSpan || len(kept.GetParentSpanId()) != 0 {
		t.Errorf("the parent of the request is %x, that of the journal %x", door.GetParentSpanId(), kept.GetParentSpanId())
	}
	under(t, attempt, kept)
	linked(t, door, kept)
	linked(t, kept, door)
	linked(t, attempt, door)
}

// checkRepeated: a repeat has a trace of its own, with a link to the original.
func (x *tracedMessages) checkRepeated(t *testing.T, spans []*otlp.Span) {
	t.Helper()
	found := inTrace(t, spans, traceOf(x.repeated))
	if !named(t, "a send that is repeated", found, sendSpan, appendSpan, attemptSpan) {
		return
	}
	bears(t, found[attemptSpan], "parley.webhook.outcome", "failed", "http.response.status_code", "500", "error.type", "500")
	if again := linksTo(spans, found[sendSpan]); len(again) != 1 || again[0].GetName() != sendSpan {
		t.Errorf("a repeated request has links: %v", again)
	}
}

// TestTracesOfBroadcasts: the copies of a broadcast are in its trace, including those
// that another process delivers.
func TestTracesOfBroadcasts(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		c := collect(t)
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile, "--otlp-endpoint", c.url)
		g, b, d := s.Org(t).Agent("g"), s.Org(t).Agent("b"), s.Org(t).Agent("d")
		r := grouptest.NewWithPolicy(g, "closed", b, d)
		good, bad := hooktest.Listening(b), hooktest.Listening(d, hooktest.Says(500))
		sent := r.Broadcast(g, obj{})
		good.WaitForStatus(grouptest.CopiesOf(b)[0], "delivered")
		lost := grouptest.CopiesOf(d)[0]
		job := bad.WaitForStatus(lost, "failed")
		if err := s.Drain(15 * time.Second); err != nil {
			t.Fatal(err)
		}
		s.Restart(t)
		bad.To.Answers(hooktest.Says(200))
		bad.Retry(job) // which may come too late, after the scheduled attempt
		bad.WaitForStatus(lost, "delivered")
		spans := c.after(t, s)
		root, outcomes := "", []string{}
		for _, span := range spans {
			if hex.EncodeToString(span.GetTraceId()) == strings.ReplaceAll(kit.Text(sent, "broadcast_id"), "-", "") {
				if span.GetName() == sendSpan {
					root = hex.EncodeToString(span.GetSpanId())
				} else {
					outcomes = append(outcomes, span.GetName()+" "+attribute(span, "parley.webhook.outcome")+" "+hex.EncodeToString(span.GetParentSpanId()))
				}
			}
		}
		slices.Sort(outcomes)
		failed := len(bad.To.Deliveries()) - 1
		want := append([]string{attemptSpan + " delivered " + root, attemptSpan + " delivered " + root}, slices.Repeat([]string{attemptSpan + " failed " + root}, failed)...)
		if want = append(want, appendSpan+"  "+root); root == "" || !slices.Equal(outcomes, want) {
			t.Errorf("the trace has %q with parent %q, want %q", outcomes, root, want)
		}
	})
}

// TestTracesKeepSecrets searches all that a collector receives for secret and private
// data.
func TestTracesKeepSecrets(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		c := collect(t)
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile, "--otlp-endpoint", c.url, "--log-level", "debug")
		a, b := kit.Pair(t, s)
		x := kit.PlantCanaries().Only("encrypted_payload", "metadata", "idempotency-key", "wrong-token")
		for _, what := range []string{"query", "path", "state", "baggage", "agent", "target"} {
			x[what] = "Canary" + what + kit.RandomHex(9)
		}
		h := hooktest.Listening(b)
		far := hooktest.TryNew(b, h.To.URL+"?secret="+x["target"]).Want(201)
		x["hook secret"] = strings.TrimPrefix(h.Secret, "whsec_")
		x["other hook secret"] = strings.TrimPrefix(far.Str("secret"), "whsec_")
		x["token"], x["client secret"] = a.Token, a.Secret
		poll := strings.TrimPrefix(b.PollURL, s.Base)
		x["poll token"] = poll[strings.LastIndex(poll, "/")+1:]
		m := a.Post("/messages", kit.Message(b, obj{"encrypted_payload": x["encrypted_payload"], "metadata": obj{"k": x["metadata"]}}),
			"X-Svc-Agent", a.ID, "Idempotency-Key", x["idempotency-key"], "User-Agent", x["agent"],
			"Traceparent", "00-"+callersTrace+"-"+callersSpan+"-01", "Tracestate", "k="+x["state"], "Baggage", "k="+x["baggage"]).Want(201)
		h.WaitForStatus(m.Body, "delivered")
		s.Call(t, "", "GET", poll, nil).Want(200)
		s.Call(t, "", "GET", "/"+x["path"], nil)
		s.Call(t, x["wrong-token"], "GET", "/org", nil).Want(401)
		a.Get("/agents?x=" + x["query"])
		spans := c.after(t, s)
		for _, name := range []string{"GET /poll/{token}", "GET /org", "GET /agents", "HTTP", sendSpan, attemptSpan} {
			if !slices.ContainsFunc(spans, func(s *otlp.Span) bool { return s.GetName() == name }) {
				t.Errorf("no span %q", name)
			}
		}
		if names := x.Found(c.raw); len(names) > 0 {
			t.Errorf("leaked: %v", names)
		}
		x.Control(t, c.raw)
	})
}

// TestTracesByEnvironment: the OpenTelemetry variables turn traces on and set their
// target.
func TestTracesByEnvironment(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		variables func(url string) []string
		flags     []string
		sent      bool
	}{
		"a collector":    {func(url string) []string { return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url} }, nil, true},
		"one for traces": {func(url string) []string { return []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + url + tracesPath} }, nil, true},
		"no exporter": {func(url string) []string {
			return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_TRACES_EXPORTER=none"}
		}, nil, false},
		"switched off": {func(url string) []string {
			return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_SDK_DISABLED=true"}
		}, nil, false},
		"a sampler of nothing": {func(url string) []string {
			return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_TRACES_SAMPLER=always_off"}
		}, nil, false},
		"a share beside it": {func(url string) []string {
			return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_TRACES_SAMPLER=always_off"}
		}, []string{"--trace-share", "1"}, true},
		"a share of nothing":     {func(url string) []string { return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url} }, []string{"--trace-share", "0"}, false},
		"an empty flag above it": {func(url string) []string { return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url} }, []string{"--otlp-endpoint", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := collect(t)
			s := kit.StartThrough(t, append([]string{"/usr/bin/env"}, x.variables(c.url)...), x.flags...)
			s.Call(t, "", "GET", "/health", nil).Want(200)
			if spans := c.after(t, s); len(spans) > 0 != x.sent || c.header != nil != x.sent {
				t.Errorf("%d spans were sent", len(spans))
			}
		})
	}
}

// TestTracesDelayNoRequest: with a collector that never answers, rejects or is unreachable,
// requests are still answered and the server still exits in time.
func TestTracesDelayNoRequest(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(end) })
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(refusing.Close)
	for name, url := range map[string]string{"hangs": hanging.URL, "refuses": refusing.URL, "is not there": "http://" + kit.ClosedAddress(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartThrough(t, []string{"/usr/bin/env", "OTEL_BSP_SCHEDULE_DELAY=1"}, "--otlp-endpoint", url)
			a, b := kit.Pair(t, s)
			for range 20 {
				a.Send(b)
			}
			if err := s.Drain(20 * time.Second); err != nil { // with an error, if the exporter gave up
				t.Errorf("%v\n%s", err, s.Log.Tail())
			}
		})
	}
}
