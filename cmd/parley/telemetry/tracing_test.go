package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"parley/actors/delivery"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/http/egress"
	"parley/http/httpserver"
	"parley/http/rest"
	"parley/http/webhooks"
	"parley/journal"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// traced returns traces whose spans are exported immediately.
func traced(share float64) (*Traces, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	return newTraces(newSampling(share, true), func() time.Time { return noon.Add(time.Second) }, sdktrace.WithSyncer(spans)), spans
}

func messageIDs(n int) (all []parley.MessageID) {
	entropy := parley.CountingEntropy()
	for i := range n {
		all = append(all, parley.NewID[parley.MessageID](parley.Slot(i), noon.Add(time.Duration(i)*time.Millisecond), entropy()))
	}
	return all
}

// shareTaken returns the share of messages that a sampling decision accepts.
func shareTaken(ids []parley.MessageID, takes func(trace.TraceID) bool) float64 {
	taken := 0
	for _, id := range ids {
		if takes(trace.TraceID(id)) {
			taken++
		}
	}
	return float64(taken) / float64(len(ids))
}

// TestShare: the share holds for message ids, although they are not random where samplers
// that use the last bytes of a trace id expect it.
func TestShare(t *testing.T) {
	ids := messageIDs(100_000)
	near := func(got, want float64) bool {
		return math.Abs(got-want) <= 5*math.Sqrt(want*(1-want)/float64(len(ids)))
	}
	for _, share := range []float64{0, 0.01, 0.1, 0.5, 0.9, 1} {
		if got := shareTaken(ids, newSampling(share, true).samples); !near(got, share) {
			t.Errorf("a share of %v samples %v", share, got)
		}
	}
	usual := sdktrace.TraceIDRatioBased(0.1)
	if got := shareTaken(ids, func(id trace.TraceID) bool {
		return usual.ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: id}).Decision == sdktrace.RecordAndSample
	}); near(got, 0.1) {
		t.Errorf("control: the usual sampler takes %v where it should take 0.1, and need not be replaced", got)
	}
	half := newSampling(0.5, true)
	for _, id := range ids[:1000] {
		if half.samples(trace.TraceID(id.Broadcast())) != half.samples(trace.TraceID(parley.Copy(id, 77))) {
			t.Fatalf("a broadcast and its copy are sampled differently: %v", id)
		}
	}
}

func TestSamplingByEnvironment(t *testing.T) {
	for _, c := range []struct {
		flag, sampler, arg string
		share              float64
		byCaller           bool
	}{
		{"", "", "", 1, true},
		{"0.25", "always_off", "", 0.25, true},
		{"", "always_on", "", 1, false},
		{"", "always_off", "", 0, false},
		{"", "traceidratio", "0.5", 0.5, false},
		{"", "parentbased_traceidratio", "0.125", 0.125, true},
		{"", "parentbased_traceidratio", "", 1, true},
		{"", "parentbased_traceidratio", "many", 1, true},
		{"", "parentbased_always_on", "", 1, true},
		{"", "parentbased_always_off", "", 0, true},
		{"", "xray", "", 1, true},
	} {
		t.Setenv(samplerVariable, c.sampler)
		t.Setenv(samplerArgVariable, c.arg)
		if got, want := (&Tracing{TraceShare: c.flag}).sampling(), newSampling(c.share, c.byCaller); got != want {
			t.Errorf("%+v: %+v, want %+v", c, got, want)
		}
	}
}

// TestTracesOff: without traces the actors use the journal without a wrapper, and the
// webhook sender has no hooks.
func TestTracesOff(t *testing.T) {
	var off *Traces
	courier := webhooks.NewCourier(webhooks.CourierOptions{})
	off.WatchDeliveries(courier)
	if j := off.WrapJournal(journal.Journal{}); j != (journal.Journal{}) || courier.Watch != nil {
		t.Errorf("the journal is %v, the hooks of the webhook sender are %v", j, courier.Watch != nil)
	}
	off.SetBaseURL("http://x")
	off.Close()
}

func spanNamed(t *testing.T, from *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range from.GetSpans() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span %q among %v", name, from.GetSpans())
	return tracetest.SpanStub{}
}

var answer = httpserver.Answer{
	Route: &rest.Route{Method: "POST", Path: "/messages"}, Status: 201, RequestID: "r", Began: noon, Took: 20 * time.Millisecond,
}

// TestSpansOfAMessage calls the hooks for one message and checks the times of its spans.
func TestSpansOfAMessage(t *testing.T) {
	tr, spans := traced(1)
	id := messageIDs(1)[0]
	released := false
	e := &journal.Entry{Records: []journal.Record{{ID: id}}, Release: func(error) { released = true }}
	tr.follow(e)
	e.Release(nil)
	if !released {
		t.Fatal("the entry's own release was not called")
	}
	tr.record(&answer, trace.SpanContext{}, &answeredMessage{id, true})
	door, kept := spanNamed(t, spans, "POST /messages"), spanNamed(t, spans, "parley.journal append")
	if !door.StartTime.Equal(noon) || !door.EndTime.Equal(noon.Add(20*time.Millisecond)) || !kept.StartTime.Equal(noon.Add(time.Second)) {
		t.Errorf("the request lasts from %v to %v, the journal from %v", door.StartTime, door.EndTime, kept.StartTime)
	}
	if door.SpanContext.TraceID() != trace.TraceID(id) || kept.Parent.SpanID() != door.SpanContext.SpanID() || kept.SpanContext.TraceID() != trace.TraceID(id) {
		t.Errorf("trace %v, and %v with parent %v", door.SpanContext.TraceID(), kept.SpanContext.TraceID(), kept.Parent.SpanID())
	}

	// A rejected entry makes no span.
	spans.Reset()
	refused := messageIDs(2)[1]
	e = &journal.Entry{Records: []journal.Record{{ID: refused}}}
	tr.follow(e)
	e.Release(errors.New("refused"))
	tr.record(&answer, trace.SpanContext{}, &answeredMessage{refused, true})
	if n := len(spans.GetSpans()); n != 1 {
		t.Errorf("%d spans for a rejected entry, want that of the request", n)
	}
}

// TestCallersSamplingIsFollowed: if the caller's trace is sampled, the message is traced whatever
// the share; if not, it gets no spans.
func TestCallersSamplingIsFollowed(t *testing.T) {
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	tr, spans := traced(0)
	id := messageIDs(1)[0]
	follow := func() {
		e := &journal.Entry{Records: []journal.Record{{ID: id}}}
		tr.follow(e)
		e.Release(nil)
	}
	attempt := func() {
		_, ended := tr.attempt(delivery.Delivery{Message: id, Event: webhook.MessageReceived}, egress.Target{})
		ended(egress.Result{Status: 200, Duration: time.Millisecond})
	}
	follow()
	tr.record(&answer, callerOf(traceparent+"00"), &answeredMessage{id, true})
	attempt()
	tr.record(&answer, callerOf("00-nonsense"), nil)
	if got := spans.GetSpans(); len(got) != 0 {
		t.Errorf("unexpected spans %v", got)
	}
	tr.record(&answer, callerOf(traceparent+"01"), &answeredMessage{id, true})
	attempt()
	door, kept, out := spanNamed(t, spans, "POST /messages"), spanNamed(t, spans, "parley.journal append"), spanNamed(t, spans, "POST")
	if door.Parent.SpanID().String() != "b7ad6b7169203331" || len(door.Links) != 1 || door.Links[0].SpanContext.SpanID() != kept.SpanContext.SpanID() {
		t.Errorf("the parent of the request is %v with links %v", door.Parent.SpanID(), door.Links)
	}
	for _, s := range []tracetest.SpanStub{kept, out} {
		if s.SpanContext.TraceID() != trace.TraceID(id) || len(s.Links) != 1 || !s.Links[0].SpanContext.Equal(door.SpanContext) {
			t.Errorf("%s is in trace %v with links %v", s.Name, s.SpanContext.TraceID(), s.Links)
		}
	}
	if out.Parent.SpanID() != kept.SpanContext.SpanID() || !out.EndTime.Equal(noon.Add(time.Second)) || out.EndTime.Sub(out.StartTime) != time.Millisecond {
		t.Errorf("the parent of the attempt is %v, from %v to %v", out.Parent.SpanID(), out.StartTime, out.EndTime)
	}
}

// TestAttemptsOfCopies: the copies of a broadcast have its trace, even if only the
// journal knows that they are copies. Copies that were not sent have no spans.
func TestAttemptsOfCopies(t *testing.T) {
	tr, spans := traced(1)
	broadcast := messageIDs(1)[0].Broadcast()
	d := delivery.Delivery{Message: parley.Copy(broadcast, 3), Event: webhook.MessageReceived}
	traceOf := func() trace.TraceID {
		spans.Reset()
		traceparent, ended := tr.attempt(d, egress.Target{})
		ended(egress.Result{Error: "no answer"})
		span := spanNamed(t, spans, "POST").SpanContext
		if told := callerOf(traceparent); !told.IsSampled() || told.TraceID() != span.TraceID() || told.SpanID() != span.SpanID() {
			t.Errorf("the target received %q of span %v in trace %v", traceparent, span.SpanID(), span.TraceID())
		}
		return span.TraceID()
	}
	if got := traceOf(); got != trace.TraceID(d.Message) {
		t.Errorf("control: a message not known to be a copy is in %v", got)
	}
	tr.isCopy = func(parley.Slot, parley.MessageID) bool { return true }
	if got := traceOf(); got != trace.TraceID(broadcast) {
		t.Errorf("a copy known to the journal is in %v", got)
	}
	tr.isCopy = func(parley.Slot, parley.MessageID) bool { return false }
	tr.recent.append([]parley.MessageID{broadcast}, noon, noon)
	if got := traceOf(); got != trace.TraceID(broadcast) {
		t.Errorf("a copy of a recent broadcast is in %v", got)
	}
	spans.Reset()
	_, ended := tr.attempt(d, egress.Target{})
	ended(egress.Result{Held: true})
	if got := spans.GetSpans(); len(got) != 0 {
		t.Errorf("a delivery that was not attempted has %v", got)
	}
}

// TestTargetsOfUnsampledTraces: a request to a target carries the trace id and the
// unsampled flag.
func TestTargetsOfUnsampledTraces(t *testing.T) {
	tr, spans := traced(0)
	id := messageIDs(1)[0]
	traceparent, ended := tr.attempt(delivery.Delivery{Message: id, Event: webhook.MessageReceived}, egress.Target{})
	ended(egress.Result{Status: 200})
	if told := callerOf(traceparent); told.IsSampled() || told.TraceID() != trace.TraceID(id) || len(spans.GetSpans()) != 0 {
		t.Errorf("the target received %q, and %d spans were sent", traceparent, len(spans.GetSpans()))
	}
}

func TestRecentIsBounded(t *testing.T) {
	r := recent{most: 4, byID: map[parley.MessageID]*messageSpan{}}
	ids := messageIDs(11)
	for _, id := range ids {
		r.append([]parley.MessageID{id, id}, noon, noon)
	}
	if len(r.byID) != 4 || len(r.order) != 4 {
		t.Errorf("%d are remembered, want 4", len(r.byID))
	}
	for i, id := range ids {
		if r.knows(id) != (i >= 7) {
			t.Errorf("message %d of 11 is remembered: %v", i, r.knows(id))
		}
	}
}

func TestComplaintsAreFew(t *testing.T) {
	var said bytes.Buffer
	now := noon
	h := exportErrors(slog.New(slog.NewTextHandler(&said, nil)), func() time.Time { return now })
	for range 10 {
		h.Handle(errors.New("nobody listens"))
	}
	now = now.Add(2 * exportErrorsEvery)
	h.Handle(errors.New("nobody listens"))
	if n := strings.Count(said.String(), "nobody listens"); n != 2 {
		t.Errorf("%d lines, want 2", n)
	}
}

func TestCollectorAddress(t *testing.T) {
	if tr, err := OpenTraces(t.Context(), &Tracing{}, false); tr != nil || err != nil {
		t.Errorf("traces are off; there are %v, %v", tr, err)
	}
	settings := Tracing{OTLPEndpoint: "https://collector.example/in/"}
	if address, wanted := settings.collector(true); address != "https://collector.example/in/v1/traces" || !wanted {
		t.Errorf("traces go to %q (%v)", address, wanted)
	}
}
