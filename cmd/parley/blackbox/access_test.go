package blackbox

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// accessFile is the access matrix: one line per route of the server's own OpenAPI
// description, one column per caller, the answer in each cell.
const accessFile = "testdata/access.golden"

// accessCallers are the columns. Each caller requests what the owner owns, or acts for
// itself where a route has no owner. The callers are the other party of the message and
// its conversation, an uninvolved organization, one of trust tier 0, the owner in the
// name of an agent it has revoked, the owner with an unknown id, a token whose credential
// was revoked, a malformed token, and no token.
var accessCallers = []string{"owner", "counterpart", "other", "tier-0", "revoked-agent", "unknown-id", "revoked-credential", "malformed-token", "none"}

// accessScene holds the organizations, agents and tokens that the matrix uses.
type accessScene struct {
	s                  *Server
	alice, bob, carol  *Agent // of the owner, the counterpart and the uninvolved organization
	revoked            *Agent // of the owner
	tierZero           *Org
	revokedCredentials string // a token
	spare              string // a credential of the owner, to delete
}

func newAccessScene(t *testing.T, journals string) *accessScene {
	t.Helper()
	s := Start(t, "--journals", journals, "--poll-limit", "0/0", "--tier1", "pow")
	c := &accessScene{s: s, alice: s.Org(t).Agent("alice"), bob: s.Org(t).Agent("bob"), carol: s.Org(t).Agent("carol")}
	c.revoked = c.alice.Org.Agent("revoked")
	c.alice.Delete(c.revoked.Path("")).Want(204)
	for _, g := range []*Agent{c.alice, c.bob, c.carol} { // no cell may be the first to make a second agent
		g.Org.Agent("second")
	}
	second := c.alice.Post("/org/credentials", nil).Want(201)
	c.revokedCredentials = s.Grant(t, second.Str("client_id"), second.Str("client_secret")).Want(200).Str("access_token")
	c.alice.Delete("/org/credentials/" + second.Str("client_id")).Want(204)
	// Organizations that register from now on stay at tier 0.
	s.Kill()
	s.Flags[len(s.Flags)-1] = "approval"
	s.Restart(t)
	c.tierZero = s.Org(t)
	return c
}

// accessAsk is one request of the matrix.
type accessAsk struct {
	path string
	body any
}

// accessAsks build the request for each route. Each request has a resource of its own, so
// that no cell changes the result of another.
var accessAsks = map[string]func(c *accessScene) accessAsk{
	"POST /auth/register": func(*accessScene) accessAsk {
		return accessAsk{"/auth/register", obj{"email": "a@b.c", "org_slug": FreshSlug()}}
	},
	"POST /auth/register/solve": func(*accessScene) accessAsk {
		return accessAsk{"/auth/register/solve", obj{"challenge_id": Nobody, "nonce": "0"}}
	},
	"POST /auth/verify-email": func(*accessScene) accessAsk {
		return accessAsk{"/auth/verify-email", obj{"token": "none"}}
	},
	"POST /oauth/token":                           plainAsk("/oauth/token"),
	"GET /.well-known/oauth-authorization-server": plainAsk("/.well-known/oauth-authorization-server"),
	"GET /.well-known/jwks.json":                  plainAsk("/.well-known/jwks.json"),

	"POST /messages": func(c *accessScene) accessAsk { return accessAsk{"/messages", ToHandle(c.newRecipient().Handle)} },
	"POST /messages/sync": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/sync?timeout_ms=1000", ToHandle(c.newRecipient().Handle)}
	},
	"GET /messages/{id}": func(c *accessScene) accessAsk { return accessAsk{"/messages/" + Text(c.message(), "id"), nil} },
	"POST /messages/{id}/reply": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/" + Text(c.message(), "id") + "/reply", obj{"type": "svc.v1.dm", "encrypted_payload": "QQ"}}
	},
	"POST /messages/{id}/read": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/" + Text(c.message(), "id") + "/read", nil}
	},
	"GET /messages/{id}/receipt": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/" + Text(c.message(), "id") + "/receipt", nil}
	},
	"GET /messages/{id}/trace": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/" + Text(c.message(), "id") + "/trace", nil}
	},
	"POST /agents/{id}/messages/ack": agentAsk("/messages/ack", obj{"ids": []string{}}),
	"GET /agents/{id}/wait":          agentAsk("/wait?timeout_ms=1000", nil),

	"GET /agents/{id}/messages": agentAsk("/messages", nil),
	"GET /agents/{id}/stream":   agentAsk("/stream", nil),
	"GET /conversations/{id}/messages": func(c *accessScene) accessAsk {
		return accessAsk{"/conversations/" + Text(c.message(), "conversation_id") + "/messages", nil}
	},
	"GET /poll/{token}":              func(c *accessScene) accessAsk { return accessAsk{strings.TrimPrefix(c.alice.PollURL, c.s.Base), nil} },
	"POST /agents/{id}/poll-token":   agentAsk("/poll-token", nil),
	"DELETE /agents/{id}/poll-token": agentAsk("/poll-token", nil),

	"PUT /agents/{id}/card": agentAsk("/card", PlainCard()),
	"GET /agents/{id}/card": func(c *accessScene) accessAsk {
		g := c.victim()
		g.Put(g.Path("/card"), PlainCard()).Want(200)
		return accessAsk{g.Path("/card"), nil}
	},
	"DELETE /agents/{id}/card": agentAsk("/card", nil),

	"GET /agents":           plainAsk("/agents"),
	"POST /agents":          func(*accessScene) accessAsk { return accessAsk{"/agents", NewAgent("a" + RandomHex(6))} },
	"GET /agents/keys":      func(c *accessScene) accessAsk { return accessAsk{"/agents/keys?ids=" + c.alice.ID, nil} },
	"GET /agents/{id}":      agentAsk("", nil),
	"PATCH /agents/{id}":    agentAsk("", obj{"unlisted": true}),
	"DELETE /agents/{id}":   agentAsk("", nil),
	"GET /agents/{id}/keys": agentAsk("/keys", nil),
	"POST /agents/{id}/keys": func(c *accessScene) accessAsk {
		return accessAsk{c.victim().Path("/keys"), Without(NewAgent(""), "name")}
	},
	"POST /agents/{id}/keys/retire": func(c *accessScene) accessAsk {
		g := c.victim()
		g.Post(g.Path("/keys"), obj{"signing_public_key": SignJWK(NewPair().Sign)}).Want(200)
		return accessAsk{g.Path("/keys/retire"), obj{"kid": g.SignKid()}}
	},
	"POST /agents/{id}/keys/pq":   agentAsk("/keys/pq", obj{"pq_public_key": KEMKey()}),
	"DELETE /agents/{id}/keys/pq": agentAsk("/keys/pq", nil),
	"POST /agents/{id}/mls/key-packages": func(c *accessScene) accessAsk {
		g := c.victim()
		return accessAsk{g.Path("/mls/key-packages"), obj{"key_packages": []any{g.keyPackage()}}}
	},
	"GET /agents/{id}/mls/key-packages/count": agentAsk("/mls/key-packages/count", nil),
	"PUT /agents/{id}/key-binding": func(c *accessScene) accessAsk {
		g := c.victim()
		return accessAsk{g.Path("/key-binding"), g.Binding(g.Pair(), nil, Instant(0))}
	},
	"POST /agents/{id}/verify-svid/challenge": agentAsk("/verify-svid/challenge", nil),
	"POST /agents/{id}/verify-svid":           agentAsk("/verify-svid", obj{"challenge_id": Nobody, "jwt_svid": "x"}),
	"GET /agents/{id}/key-bindings":           agentAsk("/key-bindings", nil),
	"GET /agents/{name}/did.json":             agentAsk("/did.json", nil),
	"GET /agents/{id}/key-log":                agentAsk("/key-log", nil),
	"GET /key-log":                            plainAsk("/key-log"),
	"GET /key-log/checkpoint":                 plainAsk("/key-log/checkpoint"),
	"GET /key-log/proofs/inclusion":           plainAsk("/key-log/proofs/inclusion?index=0&size=1"),
	"GET /key-log/proofs/consistency":         plainAsk("/key-log/proofs/consistency?from=1&to=1"),
	"GET /.well-known/agent-cards/{id}.json": func(c *accessScene) accessAsk {
		g := c.victim()
		g.Put(g.Path("/card"), Merged(PlainCard(), obj{"is_public": true})).Want(200)
		return accessAsk{WellKnownCard(g), nil}
	},
	"POST /a2a/{handle}": func(c *accessScene) accessAsk {
		g := c.newRecipient()
		g.Put(g.Path("/card"), BridgedCard()).Want(200)
		task := Text(c.alice.Send(g), "conversation_id")
		return accessAsk{"/a2a/" + g.ID, obj{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": obj{"id": task}}}
	},
	"GET /a2a/{handle}/agent.json":                  bridgeAsk("/agent.json"),
	"GET /a2a/{handle}/.well-known/agent-card.json": bridgeAsk("/.well-known/agent-card.json"),
	"GET /ext/{brand}/v1":                           plainAsk("/ext/svc/v1"),

	"GET /directory/agents":        plainAsk("/directory/agents?limit=1"),
	"GET /directory/agents/stream": plainAsk("/directory/agents/stream?limit=1"),
	"GET /directory/agents/{id}": func(c *accessScene) accessAsk {
		g := c.victim()
		g.Put(g.Path("/card"), Merged(PlainCard(), obj{"is_public": true})).Want(200)
		return accessAsk{"/directory/agents/" + g.ID, nil}
	},
	"GET /directory/categories": plainAsk("/directory/categories"),
	"GET /.well-known/webfinger": func(c *accessScene) accessAsk {
		return accessAsk{"/.well-known/webfinger?resource=acct:" + c.alice.Handle, nil}
	},
	"GET /agents/{id}/conversations": agentAsk("/conversations", nil),

	"GET /org":              plainAsk("/org"),
	"PATCH /org":            func(*accessScene) accessAsk { return accessAsk{"/org", obj{"country_code": "FR"}} },
	"GET /org/quotas":       plainAsk("/org/quotas"),
	"POST /org/credentials": plainAsk("/org/credentials"),
	"DELETE /orgs/{id}": func(*accessScene) accessAsk { // of nobody in the scene, who are needed
		return accessAsk{"/orgs/01900000-0000-7000-8000-000000000000", nil}
	},
	"DELETE /org/credentials/{client_id}": func(c *accessScene) accessAsk {
		if c.spare != "" { // an organization has at most ten
			c.alice.Delete("/org/credentials/" + c.spare)
		}
		c.spare = c.alice.Post("/org/credentials", nil).Want(201).Str("client_id")
		return accessAsk{"/org/credentials/" + c.spare, nil}
	},

	"GET /conversations/{id}": func(c *accessScene) accessAsk {
		return accessAsk{"/conversations/" + Text(c.message(), "conversation_id"), nil}
	},
	"GET /conversations/{id}/participants": func(c *accessScene) accessAsk {
		return accessAsk{"/conversations/" + Text(c.message(), "conversation_id") + "/participants", nil}
	},
	"PATCH /conversations/{id}/status": func(c *accessScene) accessAsk {
		return accessAsk{"/conversations/" + Text(c.message(), "conversation_id") + "/status", obj{"status": "failed"}}
	},

	"GET /":       plainAsk("/"),
	"GET /health": plainAsk("/health"),
	"GET /readyz": plainAsk("/readyz"),
	// Of the counterpart: two exports of one organization would be one too many.
	"GET /orgs/{id}/export": func(c *accessScene) accessAsk { return accessAsk{"/orgs/" + c.bob.Org.ID + "/export", nil} },
	"GET /compliance/info":  plainAsk("/compliance/info"),
	"GET /llms.txt":         plainAsk("/llms.txt"),
	"GET /version":          plainAsk("/version"),
	"GET /openapi.json":     plainAsk("/openapi.json"),
	"GET /docs":             plainAsk("/docs"),
	"GET /docs/{file}":      plainAsk("/docs/page.css"),

	"GET /find/agents":   plainAsk("/find/agents"),
	"GET /find/groups":   plainAsk("/find/groups"),
	"GET /a/{handle}":    plainAsk("/a/nobody@nowhere.localhost"),
	"GET /g/{handle}":    plainAsk("/g/nobody@nowhere.localhost"),
	"GET /assets/{file}": plainAsk("/assets/unknown.css"),
}

func plainAsk(path string) func(*accessScene) accessAsk {
	return func(*accessScene) accessAsk { return accessAsk{path, nil} }
}

// agentAsk requests an agent of the owner that no other cell uses.
func agentAsk(rest string, body any) func(*accessScene) accessAsk {
	return func(c *accessScene) accessAsk { return accessAsk{c.victim().Path(rest), body} }
}

func (c *accessScene) victim() *Agent { return c.alice.Org.Agent("v" + RandomHex(6)) }

// newRecipient returns a new recipient that none of the callers controls.
func (c *accessScene) newRecipient() *Agent { return c.bob.Org.Agent("r" + RandomHex(6)) }

func (c *accessScene) message() obj { return c.alice.Send(c.bob) }

// ask makes the request of one cell.
func (c *accessScene) ask(t *testing.T, route, caller string) string {
	method, _, _ := strings.Cut(route, " ")
	ask := accessAsks[route](c)
	var headers []string
	token := c.alice.Token
	switch caller {
	case "counterpart":
		token = c.bob.Token
	case "other":
		token = c.carol.Token
	case "tier-0":
		token = c.tierZero.Token
	case "revoked-agent":
		headers = []string{"X-Svc-Agent", c.revoked.ID}
	case "unknown-id":
		ask.path = withoutID(ask.path)
	case "revoked-credential":
		token = c.revokedCredentials
	case "malformed-token":
		token = "not.a.token"
	case "none":
		token = ""
	}
	var a *Answer
	if strings.HasSuffix(route, "/stream") || strings.HasSuffix(route, "/export") {
		a = c.s.opens(t, token, ask.path, headers...)
	} else {
		a = c.s.Call(t, token, method, ask.path, ask.body, headers...)
	}
	if a.Err != nil {
		return a.Err.Error()
	}
	return strings.ReplaceAll(SummaryOf(a.Status, a.Raw), " ", ":")
}

// withoutID replaces the first id in a path with an unknown one, and a poll token with
// another.
func withoutID(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if UUIDForm.MatchString(part) {
			parts[i] = Nobody
			return strings.Join(parts, "/")
		}
	}
	if strings.HasPrefix(path, "/poll/") {
		return "/poll/" + strings.Repeat("A", 27)
	}
	return path
}

// opens requests a stream and closes it as soon as the answer begins.
func (s *Server) opens(t *testing.T, token, path string, headers ...string) *Answer {
	a := &Answer{T: t, Asked: "GET " + path}
	req, err := s.Request(token, "GET", path, nil, headers...)
	if err != nil {
		a.Err = err
		return a
	}
	resp, err := Streaming.Do(req)
	if err != nil {
		a.Err = err
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	if a.Status = resp.StatusCode; a.Status != http.StatusOK {
		a.Raw = make([]byte, 4096)
		n, _ := resp.Body.Read(a.Raw)
		a.Raw = a.Raw[:n]
	}
	a.Header = resp.Header
	a.Decode()
	Seen.Note("GET", path, a)
	return a
}

// describedRoutes returns the routes in the server's own description, and which of them
// require a token.
func describedRoutes(t testing.TB, s *Server) (routes []string, secured map[string]bool) {
	t.Helper()
	secured = map[string]bool{}
	paths, _ := s.Call(t, "", "GET", "/openapi.json", nil).Want(200).At("paths").(obj)
	for path, methods := range paths {
		for method, operation := range methods.(obj) {
			route := strings.ToUpper(method) + " " + path
			routes = append(routes, route)
			schemes := fmt.Sprint(operation.(obj)["security"])
			secured[route] = strings.Contains(schemes, "bearer")
		}
	}
	slices.SortFunc(routes, func(a, b string) int {
		_, pathA, _ := strings.Cut(a, " ")
		_, pathB, _ := strings.Cut(b, " ")
		return strings.Compare(pathA+a, pathB+b)
	})
	return routes, secured
}

// TestAccessMatrix requests every route of the server's own description as every caller
// and compares the answers with the golden file.
func TestAccessMatrix(t *testing.T) {
	Own(t, func(t *testing.T, journals string) {
		c := newAccessScene(t, journals)
		routes, secured := describedRoutes(t, c.s)
		matrix := map[string]map[string]string{}
		for _, route := range routes {
			if accessAsks[route] == nil {
				t.Fatalf("%s has no row: add a request for it", route)
			}
			matrix[route] = map[string]string{}
		}
		cells := ConcurrentlyBounded(len(routes)*len(accessCallers), func(i int) string {
			return c.ask(t, routes[i/len(accessCallers)], accessCallers[i%len(accessCallers)])
		})
		for i, cell := range cells {
			matrix[routes[i/len(accessCallers)]][accessCallers[i%len(accessCallers)]] = cell
		}
		for _, complaint := range accessLeaks(matrix, secured) {
			t.Error(complaint)
		}
		for _, route := range routes {
			if method, path, _ := strings.Cut(route, " "); method == "GET" && secured[route] && !strings.HasSuffix(path, "/stream") && !strings.HasSuffix(path, "/export") {
				c.s.Call(t, "", "HEAD", accessAsks[route](c).path, nil).As("HEAD for %s", route).Want(401)
			}
		}
		actual := accessTable(routes, matrix)
		if *update && journals == Variants[0].Journals {
			if err := os.WriteFile(accessFile, []byte(actual), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(accessFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range differences(string(golden), actual) {
			t.Error(complaint)
		}
	})
}

// accessLeaks checks a matrix against rules that hold whatever the golden file says.
func accessLeaks(matrix map[string]map[string]string, secured map[string]bool) (complaints []string) {
	for route, cells := range matrix {
		complain := func(caller, want string) {
			complaints = append(complaints, fmt.Sprintf("%s: %s is told %s, want %s", route, caller, cells[caller], want))
		}
		for caller, cell := range cells {
			if !strings.HasPrefix(cell, "2") && !strings.HasPrefix(cell, "4") {
				complain(caller, "2xx or 4xx")
			}
		}
		if !secured[route] {
			for _, caller := range accessCallers {
				if caller != "unknown-id" && cells[caller] != cells["none"] {
					complain(caller, "what nobody is told: "+cells["none"])
				}
			}
			continue
		}
		for caller, want := range map[string]string{"none": "401:not_authenticated", "revoked-credential": "401:not_authenticated", "malformed-token": "401:invalid_token"} {
			if cells[caller] != want {
				complain(caller, want)
			}
		}
		if strings.Contains(route, "{") {
			for _, caller := range []string{"other", "tier-0", "unknown-id"} {
				// A caller that must name an agent first cannot learn whether the
				// resource exists.
				unjudged := cells[caller] == "400:agent_required" && cells["unknown-id"] == cells[caller]
				unjudged = unjudged || cells[caller] == "200:task_not_found" // as JSON-RPC says it
				if !unjudged && !strings.HasPrefix(cells[caller], "403") && !strings.HasPrefix(cells[caller], "404") {
					complain(caller, "403 or 404")
				}
			}
		}
	}
	slices.Sort(complaints)
	return complaints
}

func accessTable(routes []string, matrix map[string]map[string]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "route\t"+strings.Join(accessCallers, "\t"))
	for _, route := range routes {
		row := []string{route}
		for _, caller := range accessCallers {
			row = append(row, matrix[route][caller])
		}
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	return b.String()
}

// differences compares two tables line by line and ignores the width of columns.
func differences(golden, actual string) (complaints []string) {
	lines := func(text string) map[string]string {
		rows := map[string]string{}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			key := strings.Join(fields[:min(2, len(fields))], " ")
			rows[key] = strings.Join(fields, " ")
		}
		return rows
	}
	want, got := lines(golden), lines(actual)
	for key, row := range got {
		if want[key] == "" {
			complaints = append(complaints, "not in the golden file: "+row)
		} else if want[key] != row {
			complaints = append(complaints, "got  "+row+"\n  want "+want[key])
		}
	}
	for key := range want {
		if got[key] == "" {
			complaints = append(complaints, "in the golden file only: "+want[key])
		}
	}
	slices.Sort(complaints)
	return complaints
}

// TestAccessMatrixControl: the checks find a changed cell, an added and a missing route,
// and a leak.
func TestAccessMatrixControl(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(accessFile)
	if err != nil {
		t.Fatal(err)
	}
	golden := string(raw)
	if complaints := differences(golden, golden); len(complaints) != 0 {
		t.Fatal(complaints)
	}
	for name, actual := range map[string]string{
		"a changed cell": strings.Replace(golden, "403:not_owner", "200", 1), "a new route": golden + "GET /secret 200\n", "a lost route": golden[:strings.LastIndex(strings.TrimSpace(golden), "\n")+1],
	} {
		if complaints := differences(golden, actual); len(complaints) != 1 {
			t.Errorf("%s: %q", name, complaints)
		}
	}
	sound := func() map[string]string {
		return map[string]string{"owner": "200", "counterpart": "200", "other": "403:not_owner", "tier-0": "403:not_owner", "revoked-agent": "403:not_owner", "unknown-id": "404:not_found", "revoked-credential": "401:not_authenticated", "malformed-token": "401:invalid_token", "none": "401:not_authenticated"}
	}
	const route = "GET /things/{id}"
	secured := map[string]bool{route: true}
	if complaints := accessLeaks(map[string]map[string]string{route: sound()}, secured); len(complaints) != 0 {
		t.Error(complaints)
	}
	for caller, cell := range map[string]string{"other": "200", "none": "200", "revoked-credential": "200", "unknown-id": "200", "owner": "500:internal", "tier-0": "204"} {
		cells := sound()
		cells[caller] = cell
		if complaints := accessLeaks(map[string]map[string]string{route: cells}, secured); len(complaints) != 1 {
			t.Errorf("the answer for %s was %s: %q", caller, cell, complaints)
		}
	}
	if complaints := accessLeaks(map[string]map[string]string{route: sound()}, nil); len(complaints) == 0 {
		t.Error("a public route that answers callers differently was not reported")
	}
}
