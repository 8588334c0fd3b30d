package api

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// scopesFile is the matrix of scopes: one line per route of the server's own OpenAPI description
// that needs a token, one column per kind of credential, the answer in each cell.
const scopesFile = "testdata/scopes.golden"

// scopeCallers are the columns. Those but the last two are credentials of the owner: the one of the
// registration; some that are limited to the agents that the request concerns, and some that are
// limited to another agent of the owner. The last ones are limited to an agent of an uninvolved
// organization.
var scopeCallers = []string{"org", "agents", "agents-sibling", "read", "read-agents", "read-sibling", "agents-other", "read-other"}

// askScoped makes the request of one cell, with a credential of its own.
func (c accessScene) askScoped(t *testing.T, route, caller string, sibling *kit.Agent) string {
	ask := accessAsks[route](&c)
	if c.spare != "" {
		defer c.alice.Delete("/org/credentials/" + c.spare)
	}
	scope, of, _ := strings.Cut(caller, "-")
	who, in := c.alice, obj{"scope": scope}
	switch {
	case of == "sibling":
		in["agent_ids"] = []string{sibling.ID}
	case of == "other":
		who, in["agent_ids"] = c.carol, []string{c.carol.ID}
	case scope == "agents" || of == "agents":
		in["agent_ids"] = append([]string{c.alice.ID}, c.victims...)
	}
	if caller == "org" {
		return ask.summary(t, c.s, route, who.Token)
	}
	made := who.Post("/org/credentials", in).Want(201).Is("scope", scope)
	defer who.Delete("/org/credentials/" + made.Str("client_id"))
	token := c.s.Grant(t, made.Str("client_id"), made.Str("client_secret")).Want(200).Is("scope", scope).Str("access_token")
	return ask.summary(t, c.s, route, token)
}

// TestScopes requests every route of the server's own description with every kind of credential,
// and compares the answers with the description and with the golden file.
func TestScopes(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		c := newAccessScene(t, journals)
		sibling := c.alice.Org.Agent("sibling")
		scopes := describedScopes(t, c.s)
		routes, secured := describedRoutes(t, c.s)
		routes = slices.DeleteFunc(routes, func(route string) bool { return !secured[route] })
		matrix := map[string]map[string]string{}
		for _, route := range routes {
			matrix[route] = map[string]string{}
		}
		cells := kit.ConcurrentlyBounded(len(routes)*len(scopeCallers), func(i int) string {
			return c.askScoped(t, routes[i/len(scopeCallers)], scopeCallers[i%len(scopeCallers)], sibling)
		})
		for i, cell := range cells {
			matrix[routes[i/len(scopeCallers)]][scopeCallers[i%len(scopeCallers)]] = cell
		}
		for _, complaint := range scopeLeaks(matrix, scopes) {
			t.Error(complaint)
		}
		actual := accessTable(routes, scopeCallers, matrix)
		if *update && journals == kit.Variants[0].Journals {
			if err := os.WriteFile(scopesFile, []byte(actual), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(scopesFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range differences(string(golden), actual) {
			t.Error(complaint)
		}
	})
}

// describedScopes returns the scopes that each route of the server's description admits.
func describedScopes(t testing.TB, s *kit.Server) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	paths, _ := s.Call(t, "", "GET", "/openapi.json", nil).Want(200).At("paths").(obj)
	for path, methods := range paths {
		for method, operation := range methods.(obj) {
			route := strings.ToUpper(method) + " " + path
			schemes, _ := operation.(obj)["security"].([]any)
			for _, scheme := range schemes {
				of, _ := scheme.(obj)["oauth2"].([]any)
				for _, scope := range of {
					all[route] = append(all[route], scope.(string))
				}
			}
		}
	}
	return all
}

// scopeLeaks checks a matrix against rules that hold whatever the golden file says.
func scopeLeaks(matrix map[string]map[string]string, scopes map[string][]string) (complaints []string) {
	const refused = "403:insufficient_scope"
	for route, cells := range matrix {
		complain := func(caller, want string) {
			complaints = append(complaints, fmt.Sprintf("%s: %s is told %s, want %s", route, caller, cells[caller], want))
		}
		if !slices.Contains(scopes[route], "org") {
			complaints = append(complaints, route+" names no scope")
		}
		for caller, cell := range cells {
			scope, _, _ := strings.Cut(caller, "-")
			admitted := slices.Contains(scopes[route], scope)
			if admitted == strings.HasPrefix(cell, refused) {
				complain(caller, map[bool]string{true: "another answer", false: refused}[admitted])
			}
		}
		if !strings.Contains(route, "{") {
			continue
		}
		for _, scope := range []string{"agents", "read"} {
			if stranger := cells[scope+"-other"]; cells[scope+"-sibling"] != stranger {
				complain(scope+"-sibling", "what a stranger is told: "+stranger)
			}
		}
	}
	slices.Sort(complaints)
	return complaints
}
