package main

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

	"parley"
	"parley/actors"
	parleyhttp "parley/http"
	"parley/http/egress"
	"parley/http/httpserver"
	"parley/journal"
)

// rootOf is the first span of a message's trace: what made the message.
func rootOf(id parley.MessageID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(id), SpanID: trace.SpanID(id[8:]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// as has the next span begin a trace under chosen ids.
func as(c trace.SpanContext) context.Context {
	return context.WithValue(context.Background(), chosenKey{}, chosen{c.TraceID(), c.SpanID()})
}

// below has the next span be a child.
func below(parent trace.SpanContext) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), parent)
}

// at says where clients reach the server.
func (t *traces) at(base string) {
	u, err := url.Parse(base)
	if t == nil || err != nil {
		return
	}
	t.place = []attribute.KeyValue{attribute.String("url.scheme", u.Scheme), attribute.String("server.address", u.Hostname())}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		t.place = append(t.place, attribute.Int("server.port", port))
	}
}

// callerOf is the span that a traceparent names; not valid if it names none.
func callerOf(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// post is the message that an answer is about.
type post struct {
	id parley.MessageID
	// made: this very request did it.
	made bool
}

// answered is told of every answer.
func (t *traces) answered(a httpserver.Answer) {
	if a.Began.IsZero() {
		return // no request was read
	}
	var about *post
	if id, repeated, posted := parleyhttp.Posted(&a); posted {
		about = &post{id, !repeated}
	}
	t.tell(&a, callerOf(a.Traceparent()), about)
}

// tell makes the span of a request and, where it made a message, that of the
// journal. A request whose caller has a trace is part of that; else it begins the
// trace of the message that it made, or one of its own.
func (t *traces) tell(a *httpserver.Answer, caller trace.SpanContext, about *post) {
	made := about != nil && about.made
	var around context.Context
	var taken bool
	var links []trace.Link
	switch {
	case caller.IsValid():
		around, taken = below(caller), t.takes(caller.TraceID())
		if t.byCaller {
			taken = caller.IsSampled()
		}
	case made:
		around, taken = as(rootOf(about.id)), t.takes(trace.TraceID(about.id))
	default:
		own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: newTraceID(), SpanID: newSpanID()})
		around, taken = as(own), t.takes(own.TraceID())
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

func (t *traces) request(around context.Context, a *httpserver.Answer, links []trace.Link) trace.SpanContext {
	name, method := "HTTP", "_OTHER"
	about := append(make([]attribute.KeyValue, 0, 8), t.place...)
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

// appended makes the span of a message's way into the journal. It is below the
// request; where that is part of the caller's trace, it begins the message's and
// is linked with the request. request is not valid if it was not sampled.
func (t *traces) appended(id parley.MessageID, called bool, request trace.SpanContext) {
	var caller trace.SpanContext
	if called {
		caller = request
	}
	p, known := t.recent.answer(id, caller)
	if !known || !request.IsValid() && !(called && t.takes(trace.TraceID(id))) {
		return
	}
	around := below(rootOf(id))
	var links []trace.Link
	if called {
		around = as(rootOf(id))
		if request.IsValid() {
			links = []trace.Link{{SpanContext: request}}
		}
	}
	_, span := t.tracer.Start(around, "parley.journal append", trace.WithTimestamp(p.began),
		trace.WithAttributes(attribute.String("parley.message.id", id.String())), trace.WithLinks(links...))
	span.End(trace.WithTimestamp(p.ended))
}

// tracedJournal notes when messages were handed to the journal and when they were
// durable, which is when their entries are released.
type tracedJournal struct {
	journal.Journal
	traces *traces
}

// Append takes an entry.
func (j tracedJournal) Append(e *journal.Entry) {
	if len(e.Records) > 0 {
		j.traces.follow(e)
	}
	j.Journal.Append(e)
}

// follow notes an entry's time before it is answered for.
func (t *traces) follow(e *journal.Entry) {
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

// keeping is the journal as the actors are to see it.
func (t *traces) keeping(j journal.Journal) journal.Journal {
	if t == nil {
		return j
	}
	t.copied = func(reader parley.Slot, id parley.MessageID) bool {
		v := j.Latest()
		defer v.Close()
		found, err := v.Broadcast(reader, id.Broadcast(), func([]byte) error { return nil })
		return err == nil && found
	}
	return tracedJournal{j, t}
}

// watching has the courier tell of attempts.
func (t *traces) watching(o *outbound) {
	if t != nil {
		o.courier.Watch = t.attempt
	}
}

// attempt gives the traceparent of an attempt to deliver, and makes its span when
// it has ended: in the trace of the message that it tells of, else in one of its
// own.
func (t *traces) attempt(d actors.Delivery, to egress.Target) (traceparent string, ended func(egress.Result)) {
	own := newTraceID()
	if !d.Message.Zero() {
		own = trace.TraceID(d.Message)
	}
	if !t.takes(own) && !t.recent.caller(parley.MessageID(own)).IsValid() && !t.recent.caller(parley.MessageID(own).Broadcast()).IsValid() {
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
		own, around = trace.TraceID(message), below(rootOf(message))
	}
	span := newSpanID()
	around = context.WithValue(around, chosenKey{}, chosen{own, span})
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

// traceparentOf names a span to whoever takes part in its trace.
func traceparentOf(id trace.TraceID, span trace.SpanID, sampled bool) string {
	flags := "-00"
	if sampled {
		flags = "-01"
	}
	return "00-" + id.String() + "-" + span.String() + flags
}

// original is the message that a delivery tells of, the broadcast of a copy.
func (t *traces) original(d actors.Delivery) parley.MessageID {
	if broadcast := d.Message.Broadcast(); d.Message.Seat() != 0 && (t.recent.knows(broadcast) || t.copied(d.Agent.Slot(), d.Message)) {
		return broadcast
	}
	return d.Message
}

func (t *traces) attempted(around context.Context, r egress.Result, about []attribute.KeyValue, links []trace.Link) {
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

// recentMax is how many messages are remembered for what comes after them.
const recentMax = 8192

// recent remembers what hooks told of the last messages, for those that tell of
// them later. What is forgotten costs a link, or the journal's span of a request
// that waited long.
type recent struct {
	mu   sync.Mutex
	most int
	byID map[parley.MessageID]*passage
	// order is a ring, the oldest at next.
	order []parley.MessageID
	next  int
}

// passage is a message's way into the journal, and the request that made it,
// where that is part of its caller's trace.
type passage struct {
	began, ended time.Time
	caller       trace.SpanContext
}

// of is the passage of a message, the oldest one making room. mu is held.
func (r *recent) of(id parley.MessageID) *passage {
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
	p := &passage{}
	r.byID[id] = p
	return p
}

// append notes messages that are durable.
func (r *recent) append(ids []parley.MessageID, began, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		p := r.of(id)
		p.began, p.ended = began, ended
	}
}

// answer gives a message's passage to the request that made it, and notes that
// request where it is sampled in its caller's trace.
func (r *recent) answer(id parley.MessageID, caller trace.SpanContext) (p passage, known bool) {
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

// caller is the request that made a message, not valid if none is to be linked.
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
