package http

import (
	"context"
	"encoding/json"
	"io"
	"net"
	stdhttp "net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/registration"
	"parley/client/parley"
	"parley/http/auth"
)

// tenant is an organization in a harness that uses HTTP.
type tenant struct {
	t     testing.TB
	h     *harness
	slug  string
	owner parley.OrgID
	token string
	http  stdhttp.Client
}

// tenant registers an organization.
func (h *harness) tenant(slug string) *tenant {
	h.t.Helper()
	ctx := context.Background()
	challenge := &registration.Challenge{
		Text: slug, Email: slug + "@example.org", Slug: slug, OrgName: slug, ExpiresMs: time.Now().Add(time.Hour).UnixMilli(),
	}
	made, err := h.node.Orgs.Register(ctx, actors.Solution{Challenge: challenge, ChallengeID: "challenge of " + slug, Nonce: "n", Tier: 1, SecretHash: make([]byte, 32)})
	if err != nil {
		h.t.Fatal(err)
	}
	token, _, err := h.service.Issuer.Mint(auth.Grant{Org: made.Org.OrgID(), Slug: slug, Client: made.ClientID})
	if err != nil {
		h.t.Fatal(err)
	}
	transport := &stdhttp.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return h.dial() }}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &tenant{t: h.t, h: h, slug: slug, owner: made.Org.OrgID(), token: token, http: stdhttp.Client{Transport: transport}}
}

// agent makes an agent of the organization and returns its id.
func (p *tenant) agent(name string) string {
	p.t.Helper()
	raw := append([]byte(p.slug+name), make([]byte, 32)...)[:32]
	a, err := p.h.node.Agents.Create(context.Background(), actors.NewAgent{Create: agent.Create{
		OrgID: p.owner, Name: name, SigningKey: raw, EncryptionKey: raw, PollTokenHash: raw,
	}})
	if err != nil {
		p.t.Fatal(err)
	}
	return a.AgentID().String()
}

// handle returns the handle of one of its agents.
func (p *tenant) handle(name string) string { return name + "@" + p.slug + ".home.example" }

// response is an answer.
type response struct {
	t      testing.TB
	what   string
	status int
	head   stdhttp.Header
	raw    []byte
	body   any
}

// ask sends a request. body is JSON, or "" for none; head is lines of headers.
func (p *tenant) ask(method, path, body string, head ...string) *response {
	p.t.Helper()
	r, err := stdhttp.NewRequest(method, "http://home"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	for _, line := range head {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	answer, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	a := &response{t: p.t, what: method + " " + path + " " + body, status: answer.StatusCode, head: answer.Header}
	if a.raw, err = io.ReadAll(answer.Body); err != nil {
		p.t.Fatal(err)
	}
	if len(a.raw) > 0 {
		if err := json.Unmarshal(a.raw, &a.body); err != nil {
			p.t.Fatalf("%s: %s: %v", a.what, a.raw, err)
		}
	}
	return a
}

func as(agent string) string { return "X-Svc-Agent: " + agent }

// want checks the status and, if given, the code of the answer.
func (a *response) want(status int, code ...string) *response {
	a.t.Helper()
	if a.status != status || len(code) > 0 && a.at("code") != code[0] {
		a.t.Fatalf("%s: answered %d %s, want %d %v", a.what, a.status, a.raw, status, code)
	}
	return a
}

// at returns a value of the answer, by names and indices separated by dots.
func (a *response) at(path string) any {
	a.t.Helper()
	node := a.body
	for _, step := range strings.Split(path, ".") {
		switch n := node.(type) {
		case map[string]any:
			there := false
			if node, there = n[step]; !there {
				a.t.Fatalf("%s: no %s in %s", a.what, path, a.raw)
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(n) {
				a.t.Fatalf("%s: no %s in %s", a.what, path, a.raw)
			}
			node = n[i]
		default:
			a.t.Fatalf("%s: no %s in %s", a.what, path, a.raw)
		}
	}
	return node
}

func (a *response) text(path string) string {
	a.t.Helper()
	text, ok := a.at(path).(string)
	if !ok {
		a.t.Fatalf("%s: %s is not a string in %s", a.what, path, a.raw)
	}
	return text
}

// len returns the number of items in a list.
func (a *response) len(path string) int {
	a.t.Helper()
	node := a.body
	if path != "" {
		node = a.at(path)
	}
	list, ok := node.([]any)
	if !ok {
		a.t.Fatalf("%s: %s is not a list in %s", a.what, path, a.raw)
	}
	return len(list)
}

// is checks members of the answer, in the spelling of JSON.
func (a *response) is(members map[string]any) *response {
	a.t.Helper()
	for path, want := range members {
		wanted, _ := json.Marshal(want)
		if got, _ := json.Marshal(a.at(path)); string(got) != string(wanted) {
			a.t.Errorf("%s: %s is %s, want %s in %s", a.what, path, got, wanted, a.raw)
		}
	}
	return a
}
