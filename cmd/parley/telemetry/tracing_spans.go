package telemetry

import (
	"context"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"parley/actors/delivery"
	"parley/client/parley"
	"parley/http/egress"
	"parley/http/httpserver"
	"parley/http/messages"
	"parley/http/webhooks"
	"parley/journal"
)

// rootOf returns the first span of a message's trace: the request that made it.
func rootOf(id parley.MessageID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(id), SpanID: trace.SpanID(id[8:]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// rootWith returns a context in which the next span begins a trace with these ids.
func rootWith(c trace.SpanContext) context.Context {
	return context.WithValue(context.Background(), chosenKey{}, chosenIDs{c.TraceID(), c.SpanID()})
}

// childOf returns a context in which the next span is a child.
func childOf(parent trace.SpanContext) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), parent)
}

// SetBaseURL sets the address at which clients reach the server.
func (t *Traces) SetBaseURL(base string) {
	u, err := url.Parse(base)
	if t == nil || err != nil {
		return
	}
	t.serverAttributes = []attribute.KeyValue{attribute.String("url.scheme", u.Scheme), attribute.String("server.address", u.Hostname())}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		t.serverAttributes = append(t.serverAttributes, attribute.Int("server.port", port))
	}
}

// callerOf returns the span that a traceparent header names; it is not valid if there
// is none.
func callerOf(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// answeredMessage is the message that an answer is about.
type answeredMessage struct {
	id parley.MessageID
	// made reports whether this request created the message.
	made bool
}

// Answered observes an answer.
func (t *Traces) Answered(a httpserver.Answer) {
	if a.Began.IsZero() {
		return // no request was read
	}
	var about *answeredMessage
	if id, repeated, posted := messages.Posted(&a); posted {
		about = &answeredMessage{id, !repeated}
	}
	t.record(&a, callerOf(a.Traceparent()), about)
}

// record makes the span of a request and, if the request created a message, the span of
// the journal. If the caller has a trace, the request is part of it. Otherwise it begins
// the trace of the message that it created, or a new trace.
func (t *Traces) record(a *httpserver.Answer, caller trace.SpanContext, about *answeredMessage) {
	made := about != nil && about.made
	var around context.Context
	var taken bool
	var links []trace.Link
	switch {
	case caller.IsValid():
		around, taken = childOf(caller), t.samples(caller.TraceID())
		if t.byCaller {
			taken = caller.IsSampled()
		}
	case made:
		around, taken = rootWith(rootOf(about.id)), t.samples(trace.TraceID(about.id))
	default:
		own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: newTraceID(), SpanID: newSpanID()})
		around, taken = rootWith(own), t.samples(own.TraceID())
	}
	if about != nil && (!made || caller.IsValid()) {
		links = []trace.Link{{SpanContext: rootOf(about.id)}}
	}
	var request trace.SpanContext
	if taken {
		request = t.request(around, a, links)
	}
	if made {
		t.appended(about.id, caller.IsValid(), request)
	}
}

func (t *Traces) request(around context.Context, a *httpserver.Answer, links []trace.Link) trace.SpanContext {
	name, method := "HTTP", "_OTHER"
	about := append(make([]attribute.KeyValue, 0, 8), t.serverAttributes...)
	if a.Route != nil {
		name, method = a.Route.Method+" "+a.Route.Label(), a.Route.Method
		about = append(about, attribute.String("http.route", a.Route.Label()))
	}
	about = append(about,
		attribute.String("http.request.method", method), attribute.Int("http.response.status_code", a.Status),
		attribute.String("parley.request.id", a.RequestID))
	if a.Code != "" {
		about = append(about, attribute.String("parley.problem", a.Code))
	}
	if a.Status >= 500 {
		about = append(about, attribute.String("error.type", strconv.Itoa(a.Status)))
	}
	_, span := t.tracer.Start(around, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(a.Began),
		trace.WithAttributes(about...), trace.WithLinks(links...))
	if a.Status >= 500 {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(a.Began.Add(a.Took)))
	return span.SpanContext()
}

// appended makes the span of the journal's part in a message. It is a child of the
// request. If the request is part of the caller's trace, the span begins the message's
// trace and is linked to the request. request is not valid if it was not sampled.
func (t *Traces) appended(id parley.MessageID, called bool, request trace.SpanContext) {
	var caller trace.SpanContext
	if called {
		caller = request
	}
	p, known := t.recent.answer(id, caller)
	if !known || !request.IsValid() && !(called && t.samples(trace.TraceID(id))) {
		return
	}
	around := childOf(rootOf(id))
	var links []trace.Link
	if called {
		around = rootWith(rootOf(id))
		if request.IsValid() {
			links = []trace.Link{{SpanContext: request}}
		}
	}
	_, span := t.tracer.Start(around, "parley.journal append", trace.WithTimestamp(p.began),
		trace.WithAttributes(attribute.String("parley.message.id", id.String())), trace.WithLinks(links...))
	span.End(trace.WithTimestamp(p.ended))
}

// tracedWriter records when messages were passed to the journal and when they became
// durable, which is when their entries are released.
type tracedWriter struct {
	journal.Writer
	traces *Traces
}

// Append appends an entry and records its times.
func (w tracedWriter) Append(e *journal.Entry) {
	if len(e.Records) > 0 {
		w.traces.follow(e)
	}
	w.Writer.Append(e)
}

// follow records the times of an entry.
func (t *Traces) follow(e *journal.Entry) {
	ids := make([]parley.MessageID, 0, len(e.Records))
	for i := range e.Records {
		ids = append(ids, e.Records[i].ID)
	}
	began, release := t.clock(), e.Release
	e.Release = func(err error) {
		if err == nil {
			t.recent.append(ids, began, t.clock())
		}
		if release != nil {
			release(err)
		}
	}
}

// WrapJournal returns a journal that records the times of messages.
func (t *Traces) WrapJournal(j journal.Journal) journal.Journal {
	if t == nil {
		return j
	}
	t.isCopy = func(reader parley.Slot, id parley.MessageID) bool {
		v := j.Latest()
		defer v.Close()
		found, err := v.Broadcast(reader, id.Broadcast(), func([]byte) error { return nil })
		return err == nil && found
	}
	j.Writer = tracedWriter{j.Writer, t}
	return j
}

// WatchDeliveries records the attempts of webhook deliveries.
func (t *Traces) WatchDeliveries(courier *webhooks.Courier) {
	if t != nil {
		courier.Watch = t.attempt
	}
}

// attempt returns the traceparent of a delivery attempt, and a function that makes the
// attempt's span when it has ended. The span is in the trace of the message that the
// delivery is about, or else in a new trace.
func (t *Traces) attempt(d delivery.Delivery, to egress.Target) (traceparent string, ended func(egress.Result)) {
	own := newTraceID()
	if !d.Message.Zero() {
		own = trace.TraceID(d.Message)
	}
	if !t.samples(own) && !t.recent.caller(parley.MessageID(own)).IsValid() && !t.recent.caller(parley.MessageID(own).Broadcast()).IsValid() {
		return traceparentOf(own, newSpanID(), false), func(egress.Result) {}
	}
	about := []attribute.KeyValue{
		attribute.String("http.request.method", "POST"),
		attribute.String("server.address", to.Host()), attribute.Int("server.port", int(to.Port())),
		attribute.String("parley.webhook.id", d.Webhook.String()), attribute.String("parley.webhook.job", d.Job.String()),
		attribute.String("parley.webhook.event", d.Event.Word()),
	}
	around := context.Background()
	var message parley.MessageID
	if !d.Message.Zero() {
		about = append(about, attribute.String("parley.message.id", d.Message.String()))
		message = t.original(d)
		own, around = trace.TraceID(message), childOf(rootOf(message))
	}
	span := newSpanID()
	around = context.WithValue(around, chosenKey{}, chosenIDs{own, span})
	return traceparentOf(own, span, true), func(r egress.Result) {
		if r.Held {
			return // nothing was sent
		}
		var links []trace.Link
		if caller := t.recent.caller(message); caller.IsValid() {
			links = []trace.Link{{SpanContext: caller}}
		}
		t.attempted(around, r, about, links)
	}
}

// traceparentOf returns the traceparent header for a span.
func traceparentOf(id trace.TraceID, span trace.SpanID, sampled bool) string {
	flags := "-00"
	if sampled {
		flags = "-01"
	}
	return "00-" + id.String() + "-" + span.String() + flags
}

// original returns the message that a delivery is about; for a copy, the broadcast.
func (t *Traces) original(d delivery.Delivery) parley.MessageID {
	if broadcast := d.Message.Broadcast(); d.Message.Seat() != 0 && (t.recent.knows(broadcast) || t.isCopy(d.Agent.Slot(), d.Message)) {
		return broadcast
	}
	return d.Message
}

func (t *Traces) attempted(around context.Context, r egress.Result, about []attribute.KeyValue, links []trace.Link) {
	now := t.clock()
	outcome := "delivered"
	if !r.Delivered() {
		outcome = "failed"
	}
	about = append(about, attribute.String("parley.webhook.outcome", outcome))
	fault := "_OTHER"
	if r.Status != 0 {
		fault = strconv.Itoa(r.Status)
		about = append(about, attribute.Int("http.response.status_code", r.Status))
	}
	if !r.Delivered() {
		about = append(about, attribute.String("error.type", fault))
	}
	_, span := t.tracer.Start(around, "POST", trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(now.Add(-r.Duration)),
		trace.WithAttributes(about...), trace.WithLinks(links...))
	if !r.Delivered() {
		span.SetStatus(codes.Error, r.Error)
	}
	span.End(trace.WithTimestamp(now))
}

// recentMax is the number of messages that recent remembers.
const recentMax = 8192

// recent remembers the times and callers of the newest messages. A message that it has
// dropped loses a link or, after a request that waited long, the journal's span.
type recent struct {
	mu   sync.Mutex
	most int
	byID map[parley.MessageID]*messageSpan
	// order is a ring; the oldest message is at next.
	order []parley.MessageID
	next  int
}

// messageSpan is when the journal received a message and when it was durable, and the
// request that created the message if that request is part of its caller's trace.
type messageSpan struct {
	began, ended time.Time
	caller       trace.SpanContext
}

// of returns the entry of a message. It makes room for a new one by dropping the oldest.
// The caller holds mu.
func (r *recent) of(id parley.MessageID) *messageSpan {
	if p := r.byID[id]; p != nil {
		return p
	}
	if len(r.order) < r.most {
		r.order = append(r.order, id)
	} else {
		delete(r.byID, r.order[r.next])
		r.order[r.next] = id
		r.next = (r.next + 1) % r.most
	}
	p := &messageSpan{}
	r.byID[id] = p
	return p
}

// append records the times of messages that are durable.
func (r *recent) append(ids []parley.MessageID, began, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		p := r.of(id)
		p.began, p.ended = began, ended
	}
}

// answer returns a message's times for the request that created it, and records that
// request if it is sampled in its caller's trace.
func (r *recent) answer(id parley.MessageID, caller trace.SpanContext) (p messageSpan, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.byID[id]; found != nil {
		p = *found
	}
	if caller.IsValid() {
		r.of(id).caller = caller
	}
	return p, !p.began.IsZero()
}

// caller returns the request that created a message. It is not valid if there is none to
// link to.
func (r *recent) caller(id parley.MessageID) trace.SpanContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.byID[id]; p != nil {
		return p.caller
	}
	return trace.SpanContext{}
}

func (r *recent) knows(id parley.MessageID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id] != nil
}
