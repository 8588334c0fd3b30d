package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	stdhttp "net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
)

// The toy table uses every constructor and every access level.

const toyID = "0190a6b0-0000-7000-8000-000000000001"

type toyMessage struct {
	ID    parley.AgentID `json:"-" path:"id" required:"true"`
	Key   string         `json:"-" header:"Idempotency-Key" maxLength:"8"`
	Agent string         `json:"-" header:"X-Svc-Agent"`
	Type  string         `json:"type" required:"true"`
}

type toyClosed struct {
	_    struct{} `additionalProperties:"false"`
	Name string   `json:"name" required:"true"`
	Note *string  `json:"note" aliases:"remark"`
}

type toyForm struct {
	_     struct{} `form:"true"`
	Grant string   `json:"grant_type" default:"client_credentials"`
	Size  int      `json:"size" maximum:"9"`
	Tags  []string `json:"tags"`
}

type toyThing struct {
	ID   parley.AgentID `json:"id" path:"id"`
	Name string         `json:"name,omitzero"`
}

type toyAnswer struct {
	ID     parley.AgentID `json:"id"`
	Caller string         `json:"caller"`
	Limit  int            `json:"limit"`
	Note   *string        `json:"note"`
	code   int
}

func (a toyAnswer) Status() int { return max(a.code, 200) }

var errToy = parley.Refuse(parley.Conflict, "invalid_transition", "That move is not in the table.")

type toyAuth struct{}

func (toyAuth) Bearer(header []byte) (rest.Caller, error) {
	switch string(header) {
	case "":
		return rest.Caller{}, parley.Refuse(parley.Unauthenticated, "not_authenticated", "A valid bearer token is required.")
	case "Bearer zero":
		return rest.Caller{Slug: "acme", Scope: parley.ScopeOrg}, nil
	case "Bearer one":
		return rest.Caller{Slug: "acme", Scope: parley.ScopeOrg, Tier: 1}, nil
	case "Bearer reader":
		return rest.Caller{Slug: "acme", Scope: parley.ScopeRead, Tier: 1}, nil
	default:
		return rest.Caller{}, parley.Refuse(parley.BadToken, "invalid_token", "The bearer token is \"malformed\".")
	}
}

func toyRoutes() []rest.Route {
	return []rest.Route{
		rest.Typed("GET", "/things/{id}", rest.Read, 200, "Show a thing.", func(c *rest.Call, in *struct {
			ID    parley.AgentID `path:"id"`
			Limit int            `query:"limit" default:"5"`
		},
		) (toyAnswer, error) {
			return toyAnswer{ID: in.ID, Caller: c.Caller.Slug, Limit: in.Limit}, nil
		}),
		rest.Typed("GET", "/readyz", rest.Public, 200, "Say that it is ready.", func(*rest.Call, *struct {
			Leads bool `json:"-" query:"leads" default:"false"`
		},
		) (map[string]int, error) {
			return map[string]int{"ready": 1}, nil
		}),
		rest.Typed("GET", "/things/public", rest.Public, 200, "Show what is public.", func(c *rest.Call, in *struct{}) (map[string]int, error) {
			return map[string]int{"a": 1}, nil
		}),
		rest.Typed("PATCH", "/things/{id}", rest.Act, 200, "Change a thing.", func(c *rest.Call, in *toyThing) (*toyThing, error) { return in, nil }),
		rest.Typed("DELETE", "/things/{id}", rest.Act, 204, "Remove a thing.", func(*rest.Call, *toyThing) (rest.NoContent, error) { return rest.NoContent{}, nil }),
		rest.RenderedAs[toyThing]("POST", "/things", rest.Tier1, 201, "Make a thing.", func(c *rest.Call, in *toyClosed) (rest.Rendered, error) {
			return rest.Rendered{JSON: []byte(`{"name":"` + in.Name + `"}`)}, nil
		}),
		rest.Typed("POST", "/bind/{id}", rest.Public, 200, "Take a message.", func(c *rest.Call, in *toyMessage) (api.Nothing, error) { return api.Nothing{}, nil }),
		rest.Typed("POST", "/token", rest.Basic, 200, "Give a token.", toyToken),
		rest.Typed("GET", "/fail/{how}", rest.Public, 200, "Fail.", toyFail),
		rest.Stream("GET", "/stream/{id}", rest.Read, "Stream.", func(c *rest.Call, in *toyThing) error {
			c.RequestCtx().HijackSetNoResponse(true)
			c.RequestCtx().Hijack(func(conn net.Conn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nlive")
				_ = conn.Close()
			})
			return nil
		}),
		rest.Raw("GET", "/slow", rest.Public, "text/plain", "Wait.", func(c *rest.Call, _ *struct{}) error {
			<-c.Draining()
			c.RequestCtx().SetBodyString("done")
			return nil
		}),
	}
}

func toyToken(c *rest.Call, in *toyForm) (*toyForm, error) {
	switch c.Header("Authorization") {
	case "Basic good":
		return in, nil
	case "Basic bad":
		return nil, parley.Refuse(parley.Unauthenticated, "invalid_client", "The client credentials are not valid.")
	default:
		return nil, parley.Refuse(parley.Invalid, "unsupported_grant_type", "Only client_credentials.")
	}
}

func toyFail(c *rest.Call, in *struct {
	How string `path:"how"`
},
) (toyAnswer, error) {
	switch in.How {
	case "panic":
		c.RequestCtx().Hijack(func(net.Conn) {})
		c.SetHeader("X-Half", "done")
		panic("the secret of the panic")
	case "defect":
		return toyAnswer{}, io.ErrUnexpectedEOF
	case "missing":
		return toyAnswer{}, parley.ErrNotFound
	case "conflict":
		return toyAnswer{}, errToy.With("current_status", "open").With("allowed", []string{"paused"})
	case "rule":
		return toyAnswer{}, parley.Refuse(parley.Unprocessable, "self_message", "You cannot write to yourself.").With("loc", "to_handle")
	case "ssrf":
		return toyAnswer{}, parley.Refuse(parley.Unprocessable, "ssrf_blocked", "The target is not public.")
	case "rate":
		return toyAnswer{}, parley.Refuse(parley.RateLimited, "rate_limited", "Too many requests.").With("retry_after", 1500*time.Millisecond)
	case "busy":
		return toyAnswer{}, parley.ErrOverloaded
	case "created":
		c.SetHeader("Cache-Control", "private")
		return toyAnswer{code: 201}, nil
	case "override":
		c.SetStatus(202)
		return toyAnswer{}, nil
	default:
		return toyAnswer{}, parley.ErrGone
	}
}

// toy is a running toy server.
type toy struct {
	*Server
	dial func() (net.Conn, error)
	log  *bytes.Buffer
}

func newToy(t *testing.T, change func(*Options)) *toy {
	t.Helper()
	ln := fasthttputil.NewInmemoryListener()
	return serveToy(t, change, ln, ln.Dial)
}

// newToyTCP is a toy server behind a real socket.
func newToyTCP(t *testing.T, change ...func(*Options)) *toy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := func(o *Options) {
		for _, c := range change {
			c(o)
		}
	}
	return serveToy(t, all, ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) })
}

func serveToy(t *testing.T, change func(*Options), ln net.Listener, dial func() (net.Conn, error)) *toy {
	t.Helper()
	var ids atomic.Int64
	log := &bytes.Buffer{}
	o := Options{
		Routes: toyRoutes(), Authenticator: toyAuth{}, Clock: time.Now, Version: "0.0",
		Logger:       slog.New(slog.NewTextHandler(log, nil)),
		NewRequestID: func() string { return "made-" + strconv.FormatInt(ids.Add(1), 10) },
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &toy{s, dial, log}
}

// say sends raw bytes. It reads until the server closes the connection or one second
// has passed.
func (s *toy) say(t *testing.T, text string) string {
	t.Helper()
	conn, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }()
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	all, _ := io.ReadAll(conn)
	return string(all)
}

// answered is a parsed answer.
type answered struct {
	*stdhttp.Response
	body string
	json map[string]any
}

// ask sends one request. The lines of head precede the blank line.
func (s *toy) ask(t *testing.T, method, target, body string, head ...string) answered {
	t.Helper()
	conn, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := method + " " + target + " HTTP/1.1\r\nHost: toy\r\n"
	if body != "" {
		request += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	for _, h := range head {
		request += h + "\r\n"
	}
	go func() { _, _ = io.WriteString(conn, request+"\r\n"+body) }()
	return parse(t, bufio.NewReader(conn), method)
}

func parse(t *testing.T, r *bufio.Reader, method string) answered {
	t.Helper()
	response, err := stdhttp.ReadResponse(r, &stdhttp.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answered{Response: response, body: string(body)}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") && response.Header.Get("Content-Encoding") == "" && len(body) > 0 {
		if err := json.Unmarshal(body, &a.json); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	return a
}
