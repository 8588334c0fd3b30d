package api

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"parley/cmd/parley/blackbox/kit"
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
	s                  *kit.Server
	alice, bob, carol  *kit.Agent // of the owner, the counterpart and the uninvolved organization
	revoked            *kit.Agent // of the owner
	tierZero           *kit.Org
	revokedCredentials string   // a token
	spare              string   // a credential of the owner, to delete
	victims            []string // agents that were made for a cell
}

func newAccessScene(t *testing.T, journals string) *accessScene {
	t.Helper()
	s := kit.Start(t, "--journals", journals, "--poll-limit", "0/0", "--tier1", "pow")
	c := &accessScene{s: s, alice: s.Org(t).Agent("alice"), bob: s.Org(t).Agent("bob"), carol: s.Org(t).Agent("carol")}
	c.revoked = c.alice.Org.Agent("revoked")
	c.alice.Delete(c.revoked.Path("")).Want(204)
	for _, g := range []*kit.Agent{c.alice, c.bob, c.carol} { // no cell may be the first to make a second agent
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

func (c *accessScene) victim() *kit.Agent {
	g := c.alice.Org.Agent("v" + kit.RandomHex(6))
	c.victims = append(c.victims, g.ID)
	return g
}

// newRecipient returns a new recipient that none of the callers controls.
func (c *accessScene) newRecipient() *kit.Agent { return c.bob.Org.Agent("r" + kit.RandomHex(6)) }

func (c *accessScene) message() obj { return c.alice.Send(c.bob) }

// ask makes the request of one cell, which has a scene of its own.
func (c accessScene) ask(t *testing.T, route, caller string) string {
	ask := accessAsks[route](&c)
	if c.spare != "" { // an organization has at most ten
		defer c.alice.Delete("/org/credentials/" + c.spare)
	}
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
	return ask.summary(t, c.s, route, token, headers...)
}

// summary makes a request and returns the status and the code of the answer.
func (ask accessAsk) summary(t *testing.T, s *kit.Server, route, token string, headers ...string) string {
	method, _, _ := strings.Cut(route, " ")
	var a *kit.Answer
	if strings.HasSuffix(route, "/stream") || strings.HasSuffix(route, "/export") {
		a = openPath(t, s, token, ask.path, headers...)
	} else {
		a = s.Call(t, token, method, ask.path, ask.body, headers...)
	}
	if a.Err != nil {
		return a.Err.Error()
	}
	return strings.ReplaceAll(kit.SummaryOf(a.Status, a.Raw), " ", ":")
}

// withoutID replaces the first id in a path with an unknown one, and a poll token with
// another.
func withoutID(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if kit.UUIDForm.MatchString(part) {
			parts[i] = kit.Nobody
			return strings.Join(parts, "/")
		}
	}
	if strings.HasPrefix(path, "/poll/") {
		return "/poll/" + strings.Repeat("A", 27)
	}
	return path
}

// openPath requests a stream and closes it as soon as the answer begins.
func openPath(t *testing.T, s *kit.Server, token, path string, headers ...string) *kit.Answer {
	a := &kit.Answer{T: t, Asked: "GET " + path}
	req, err := s.Request(token, "GET", path, nil, headers...)
	if err != nil {
		a.Err = err
		return a
	}
	resp, err := kit.Streaming.Do(req)
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
	kit.Seen.Note("GET", path, a)
	return a
}

// describedRoutes returns the routes in the server's own description, and which of them
// require a token.
func describedRoutes(t testing.TB, s *kit.Server) (routes []string, secured map[string]bool) {
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
	kit.Own(t, func(t *testing.T, journals string) {
		c := newAccessScene(t, journals)
		routes, secured := describedRoutes(t, c.s)
		matrix := map[string]map[string]string{}
		for _, route := range routes {
			if accessAsks[route] == nil {
				t.Fatalf("%s has no row: add a request for it", route)
			}
			matrix[route] = map[string]string{}
		}
		cells := kit.ConcurrentlyBounded(len(routes)*len(accessCallers), func(i int) string {
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
		actual := accessTable(routes, accessCallers, matrix)
		if *update && journals == kit.Variants[0].Journals {
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

func accessTable(routes, callers []string, matrix map[string]map[string]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "route\t"+strings.Join(callers, "\t"))
	for _, route := range routes {
		row := []string{route}
		for _, caller := range callers {
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
