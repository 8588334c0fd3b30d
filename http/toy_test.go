package http

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

	"parley"
	"parley/http/api"
)

// The toy table exercises every constructor, access and kind of field.

type toyKey struct {
	Curve string `json:"crv" required:"true" enum:"Ed25519,X25519"`
	X     string `json:"x" required:"true" minLength:"3" maxLength:"3"`
}

type toyMember struct {
	Handle string `json:"handle" required:"true" maxLength:"5"`
	Note   string `json:"note"`
}

type toyTarget struct {
	ToAgentID *parley.AgentID `json:"to_agent_id"`
	ToHandle  *string         `json:"to_handle" description:"The recipient's handle."`
}

type toyIn struct {
	toyTarget
	ID      parley.AgentID         `json:"-" path:"id" required:"true"`
	Limit   int                    `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	Deep    *bool                  `json:"-" query:"deep"`
	Tags    []string               `json:"-" query:"tag" maxLength:"4"`
	IDs     []parley.OrgID         `json:"-" query:"ids" split:"true" maxItems:"3"`
	Since   *api.Time              `json:"-" query:"since"`
	At      *time.Time             `json:"-" query:"at"`
	Order   string                 `json:"-" query:"order" default:"asc" enum:"asc,desc"`
	Key     string                 `json:"-" header:"Idempotency-Key" maxLength:"8"`
	Agent   string                 `json:"-" header:"X-Svc-Agent"`
	Type    string                 `json:"type" required:"true" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+){2,}$" words:"three segments or more" maxLength:"30"`
	Payload string                 `json:"payload" maxLength:"16" pattern:"^[A-Za-z0-9_-]+={0,2}$"`
	Title   *string                `json:"title" minLength:"2" maxLength:"4"`
	Version string                 `json:"version" default:"hpke-v1" enum:"hpke-v1,sender-key-v1,none"`
	Hours   *int                   `json:"hours" minimum:"1" maximum:"72"`
	Count   int64                  `json:"count"`
	Human   *bool                  `json:"human" default:"true"`
	Parent  *parley.ConversationID `json:"parent"`
	Meta    api.Object             `json:"meta" maxBytes:"16"`
	Proofs  api.Array              `json:"proofs"`
	Curve   *toyKey                `json:"signing_public_key"`
	JWK     *api.JWK               `json:"jwk"`
	Members []toyMember            `json:"members" maxItems:"3"`
	Words   []string               `json:"words" minLength:"2"`
	Email   api.Clearable[string]  `json:"email" format:"email" maxLength:"20"`
	When    *string                `json:"when" format:"date-time"`
	Vote    *string                `json:"vote" aliases:"choice,decision" enum:"approve,deny"`
}

func (in *toyIn) Check() []FieldError {
	if in.ToAgentID != nil && in.ToHandle != nil {
		return []FieldError{{Loc: []any{"body", "to_handle"}, Msg: "Value error, exactly one of to_agent_id and to_handle", Type: "value_error"}}
	}
	return nil
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

func (toyAuth) Bearer(header []byte) (Caller, error) {
	switch string(header) {
	case "":
		return Caller{}, parley.Refuse(parley.Unauthenticated, "not_authenticated", "A valid bearer token is required.")
	case "Bearer zero":
		return Caller{Slug: "acme"}, nil
	case "Bearer one":
		return Caller{Slug: "acme", Tier: 1}, nil
	default:
		return Caller{}, parley.Refuse(parley.BadToken, "invalid_token", "The bearer token is \"malformed\".")
	}
}

func toyRoutes() []Route {
	return []Route{
		route("GET", "/things/{id}", bearer, 200, "Show a thing.", func(c *Call, in *struct {
			ID    parley.AgentID `path:"id"`
			Limit int            `query:"limit" default:"5"`
		},
		) (toyAnswer, error) {
			return toyAnswer{ID: in.ID, Caller: c.Caller.Slug, Limit: in.Limit}, nil
		}),
		route("GET", "/things/public", public, 200, "Show what is public.", func(c *Call, in *struct{}) (map[string]int, error) {
			return map[string]int{"a": 1}, nil
		}),
		route("PATCH", "/things/{id}", bearer, 200, "Change a thing.", func(c *Call, in *toyThing) (*toyThing, error) { return in, nil }),
		route("DELETE", "/things/{id}", bearer, 204, "Remove a thing.", func(*Call, *toyThing) (NoContent, error) { return NoContent{}, nil }),
		rendered[toyThing]("POST", "/things", tier1, 201, "Make a thing.", func(c *Call, in *toyClosed) (Rendered, error) {
			return Rendered{JSON: []byte(`{"name":"` + in.Name + `"}`)}, nil
		}),
		route("POST", "/bind/{id}", public, 200, "Take everything.", func(c *Call, in *toyIn) (api.Nothing, error) { return api.Nothing{}, nil }),
		route("POST", "/token", basic, 200, "Give a token.", toyToken),
		route("GET", "/fail/{how}", public, 200, "Fail.", toyFail),
		stream("GET", "/stream/{id}", bearer, "Stream.", func(c *Call, in *toyThing) error {
			c.ctx.HijackSetNoResponse(true)
			c.ctx.Hijack(func(conn net.Conn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nlive")
				_ = conn.Close()
			})
			return nil
		}),
		raw("GET", "/slow", public, "text/plain", "Wait.", func(c *Call, _ *struct{}) error {
			<-c.Draining()
			c.ctx.SetBodyString("done")
			return nil
		}),
	}
}

func toyToken(c *Call, in *toyForm) (*toyForm, error) {
	switch c.Header("Authorization") {
	case "Basic good":
		return in, nil
	case "Basic bad":
		return nil, parley.Refuse(parley.Unauthenticated, "invalid_client", "The client credentials are not valid.")
	default:
		return nil, parley.Refuse(parley.Invalid, "unsupported_grant_type", "Only client_credentials.")
	}
}

func toyFail(c *Call, in *struct {
	How string `path:"how"`
},
) (toyAnswer, error) {
	switch in.How {
	case "panic":
		c.ctx.Hijack(func(net.Conn) {})
		c.SetHeader("X-Half", "done")
		panic("the secret of the panic")
	case "defect":
		return toyAnswer{}, io.ErrUnexpectedEOF
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

// say sends raw bytes and reads everything until the server closes or one
// second has passed.
func (s *toy) say(t *testing.T, text string) string {
	t.Helper()
	conn, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	all, _ := io.ReadAll(conn)
	return string(all)
}

// answered is one parsed answer.
type answered struct {
	*stdhttp.Response
	body string
	json map[string]any
}

// ask sends one request; the lines of head come before the blank line.
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
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") && len(body) > 0 {
		if err := json.Unmarshal(body, &a.json); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	return a
}
