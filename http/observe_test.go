package http

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// TestPosted reads the message off answers of every form. What a sender says must
// not pass for what the server says.
func TestPosted(t *testing.T) {
	const (
		id    = "01890a5d-ac96-774b-8123-0123456789ab"
		whole = "01890a5d-ac96-774b-8123-012300000000"
		head  = `{"id":"` + id + `","conversation_id":"` + id + `","metadata":{"a":`
		tail  = `},"status":"delivered"`
		ends  = `,"broadcast_id":"` + whole + `","recipient_count":12}`
	)
	send := &Route{Method: "POST", Path: "/messages"}
	for name, c := range map[string]struct {
		route    *Route
		status   int
		body     string
		replayed bool
		want     string
	}{
		"a send":                        {send, 201, head + `1` + tail + `}`, false, id},
		"a repeat":                      {send, 200, head + `1` + tail + `}`, true, id},
		"a sync":                        {&Route{Method: "POST", Path: "/messages/sync"}, 200, `{"message":` + head + `1` + tail + `},"reply":null}`, false, id},
		"a broadcast":                   {send, 201, head + `1` + tail + ends, false, whole},
		"what looks like a broadcast":   {send, 201, head + `{"b":1` + ends + tail + `}`, false, id},
		"a refusal":                     {send, 422, head + `1` + tail + `}`, false, ""},
		"another route":                 {&Route{Method: "GET", Path: "/messages/{id}"}, 200, head + `1` + tail + `}`, false, ""},
		"no route":                      {nil, 200, head + `1` + tail + `}`, false, ""},
		"nothing":                       {send, 201, ``, false, ""},
		"what begins with no id at all": {send, 201, `{"id":"` + id[:35] + `!"}`, false, ""},
	} {
		ctx := &fasthttp.RequestCtx{}
		ctx.Response.SetBodyString(c.body)
		if c.replayed {
			ctx.Response.Header.Set("Idempotency-Replayed", "true")
		}
		a := Answer{Route: c.route, Status: c.status, ctx: ctx}
		got, repeated, posted := a.Posted()
		if posted != (c.want != "") || posted && got.String() != c.want || repeated != c.replayed {
			t.Errorf("%s: %v, repeated %v, posted %v", name, got, repeated, posted)
		}
	}
}

// TestAnswersMadeByHand tell of no request.
func TestAnswersMadeByHand(t *testing.T) {
	a := Answer{Route: &Route{Method: "POST", Path: "/messages"}, Status: 201}
	if _, _, posted := a.Posted(); posted || a.Traceparent() != "" {
		t.Error("they tell of one")
	}
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.Header.Set("traceparent", "00-x")
	if a = (Answer{ctx: ctx}); a.Traceparent() != "00-x" {
		t.Errorf("the traceparent is %q", a.Traceparent())
	}
}
