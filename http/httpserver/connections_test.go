package httpserver

import (
	"bufio"
	"io"
	"net"
	stdhttp "net/http"
	"strconv"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"parley/http/connlimit"
	"parley/http/rest"
)

// TestRefusedConnectionsAreAnswered: a refused connection receives a complete answer in
// the format of errors.
func TestRefusedConnectionsAreAnswered(t *testing.T) {
	s := &answers{newRequestID: func() string { return "r1" }}
	client, server := net.Pipe()
	go func() { _, _ = server.Write(s.noRoom()) }()
	answer, err := stdhttp.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, answer.ContentLength)
	_, err = io.ReadFull(answer.Body, body)
	seconds, badly := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || badly != nil || seconds < 1 || answer.StatusCode != 503 || !answer.Close || answer.Header.Get("X-Request-Id") != "r1" {
		t.Errorf("%v %v", err, answer)
	}
	want := `{"detail":"The server is at capacity; nothing was done. Try again shortly.","error":"UnavailableError","code":"overloaded","request_id":"r1","retry_after":1}`
	if string(body) != want {
		t.Errorf("%s", body)
	}
}

// TestSilentConnectionsAreEvicted: silent connections over real sockets fill the limit,
// and every request of other clients is served. In the control silent connections keep
// their places, and each request is rejected.
func TestSilentConnectionsAreEvicted(t *testing.T) {
	const places = 8
	for name, want := range map[string]int{"bounded": 200, "control": 503} {
		t.Run(name, func(t *testing.T) {
			s := newToyTCP(t, func(o *Options) {
				o.Connections = connlimit.Bounds{Total: places, PerAddress: places, Fixed: name == "control"}
			})
			for n := range places {
				conn, err := s.dial()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				await(t, "a connection is not counted", func() bool { return s.Load().Connections == n+1 })
			}
			for range 4 {
				if a := s.ask(t, "GET", "/things/public", "", "Connection: close"); a.StatusCode != want {
					t.Errorf("a request among silent connections: %s", a.Status)
				}
			}
		})
	}
}

func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after 20 s: %s", what)
		}
	}
}

// TestAnswerWithoutRequest: an Answer created without a request has no request data.
func TestAnswerWithoutRequest(t *testing.T) {
	a := Answer{Route: &rest.Route{Method: "POST", Path: "/messages"}, Status: 201}
	if a.Noted() != nil || a.Traceparent() != "" {
		t.Error("an answer without a request has a note or a traceparent")
	}
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.Header.Set("traceparent", "00-x")
	if a = (Answer{ctx: ctx}); a.Traceparent() != "00-x" {
		t.Errorf("the traceparent is %q", a.Traceparent())
	}
}
