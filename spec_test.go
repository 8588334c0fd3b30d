package parley_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// specSHA256 is the hash of the specification as it was received. docs/spec.md is a
// verbatim copy and is never edited.
const specSHA256 = "572c9fbc9427f738726e6d7bad834a5cbd54c3829df1e8e8e0898856a7e8dddb"

// specEndpoints is the number of endpoints in the specification's tables and headings.
// It detects a parser that misses one.
const specEndpoints = 66

// beyondSpec lists the endpoints that the specification does not have, with what
// they are for.
var beyondSpec = map[string]string{
	"GET /":                      "name and version of the service, for people and programs",
	"POST /groups/{}/admins":     "names an admin of a group that has none of its owner",
	"POST /org/credentials":      "a second secret, to rotate the first without downtime",
	"DELETE /org/credentials/{}": "revokes a secret",
	"GET /.well-known/oauth-authorization-server": "RFC 8414",
	"PUT /agents/{}/blocks/{}":                    "blocks an agent or an organization",
	"DELETE /agents/{}/blocks/{}":                 "ends a block",
	"GET /org/credentials":                        "lists the credentials, with scopes",
	"POST /reports":                               "reports a message, an agent or a group",
	"GET /agents/{}/blocks":                       "lists what an agent blocks",
	"PUT /agents/{}/key-binding":                  "stores the agent's signature over its keys",
	"GET /agents/{}/key-bindings":                 "returns the signatures that connect former keys with the current one",
	"GET /agents/{}/key-log":                      "returns what the key log says of an agent",
	"GET /key-log":                                "returns the key that signs checkpoints of the key log",
	"GET /key-log/checkpoint":                     "returns size and root hash of the key log, signed",
	"GET /key-log/proofs/inclusion":               "proves that an entry is in the key log",
	"GET /key-log/proofs/consistency":             "proves that the key log has only grown",
	"POST /agents/{}/keys/retire":                 "declares a former key untrustworthy",
	"POST /agents/{}/keys/pq":                     "sets the post-quantum key, whose route the specification leaves open",
	"DELETE /agents/{}/keys/pq":                   "removes it",
	"POST /agents/{}/mls/key-packages":            "stores MLS key packages, with which others add an agent to MLS groups",
	"GET /agents/{}/mls/key-packages/count":       "counts those that are left",
	"POST /agents/{}/mls/key-packages/claim":      "hands one out to a member that will add the agent",
	"POST /groups/{}/mls/commits":                 "begins the next epoch of a group's MLS group",
	"GET /groups/{}/mls/commits":                  "returns the commits of an MLS group in order",
	"GET /groups/{}/mls/group-info":               "returns what an external commit begins with",
	"GET /groups/{}/mls/welcomes":                 "returns what an added agent joins an MLS group with",
	"DELETE /groups/{}/mls/welcomes/{}":           "acknowledges a Welcome",
	"GET /agents/{}/conversations":                "the conversations of an agent, newest first",
	"DELETE /groups/{}/requests/{}":               "withdraws or declines a join request",
	"PATCH /groups/{}/members/{}":                 "admins promote and demote",
	"POST /auth/verify-email":                     "the mailed token of --tier1 email",
	"POST /webhooks/{}/test":                      "sends a test event to the receiver",
	"POST /webhooks/{}/rotate-secret":             "rotates the secret without downtime",
	"POST /webhooks/{}/deliveries/{}/retry":       "retries a dead delivery",
	"POST /messages/{}/read":                      "records that the recipient has read the message",
	"POST /agents/{}/messages/ack":                "records the same for many messages",
	"GET /messages/{}/receipt":                    "a signed proof that the service accepted a message",
	"GET /messages/{}/trace":                      "shows why a message is not delivered yet",
	"GET /agents/{}/wait":                         "long poll, for clients that cannot keep a stream open",
	"GET /a2a/{}/.well-known/agent-card.json":     "the A2A card where A2A clients look for it",
	"GET /ext/{}/v1":                              "describes the extension that A2A cards name",
	"GET /readyz":                                 "readiness, for load balancers",
	"GET /llms.txt":                               "description for language models",
	"GET /version":                                "version and build of the server",
	"GET /openapi.json":                           "OpenAPI description",
	"GET /docs":                                   "API reference as a web page",
	"GET /docs/{}":                                "files of that page",
	"GET /find/agents":                            "search of agents, as a page for people",
	"GET /find/groups":                            "search of groups, as a page for people",
	"GET /a/{}":                                   "an agent, as a page for people",
	"GET /g/{}":                                   "a group, as a page for people",
	"GET /assets/{}":                              "files of the pages for people",
}

func readSpec(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("docs/spec.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSpecIsTheOneReceived(t *testing.T) {
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(readSpec(t)))); got != specSHA256 {
		t.Errorf("docs/spec.md has SHA-256 %s, want %s", got, specSHA256)
	}
}

func TestSpecEndpointsAreFound(t *testing.T) {
	endpoints := endpointsOf(readSpec(t))
	if len(endpoints) != specEndpoints {
		t.Errorf("found %d endpoints, want %d:\n%s", len(endpoints), specEndpoints, strings.Join(endpoints, "\n"))
	}
	for _, want := range []string{"POST /messages", "GET /agents/keys", "POST /agents/{}/verify-svid", "GET /.well-known/agent-cards/{}.json", "GET /poll/{}"} {
		if !slices.Contains(endpoints, want) {
			t.Errorf("%s is in the specification and was not found", want)
		}
	}
}

// TestSpecAnchors checks that every heading of the specification that a comment cites
// exists.
func TestSpecAnchors(t *testing.T) {
	headings, cited := headingsOf(readSpec(t)), 0
	for _, s := range sources(t, os.DirFS(".")) {
		for _, group := range s.syntax.Comments {
			for _, comment := range group.List {
				for _, anchor := range anchorsIn(comment.Text) {
					cited++
					if !resolves(anchor, headings) {
						t.Errorf("%s:%d cites spec: %q, which is not a heading of docs/spec.md", s.file, s.lines.Position(comment.Pos()).Line, anchor)
					}
				}
			}
		}
	}
	if cited == 0 {
		t.Error("no comment cites the specification: the anchors are not being read")
	}
}

func TestSpecAnchorsControl(t *testing.T) {
	headings := headingsOf(readSpec(t))
	for anchor, want := range map[string]bool{
		"Limits": true, "Conversation status": true, "Agent stream": true, "Limits (inbox)": true, "POST /messages": true, "What the service does": true,
		"Limit": false, "Conversation": true, "Voting": false, "DELETE /messages": false, "": false,
	} {
		if got := resolves(anchor, headings); got != want {
			t.Errorf("%q resolves: %v, want %v", anchor, got, want)
		}
	}
	cite := "// validated here. // sp" + "ec: Limits; POST /messages."
	if got := anchorsIn(cite); !slices.Equal(got, []string{"Limits", "POST /messages"}) {
		t.Errorf("anchors of %q: %q", cite, got)
	}
}

// compareRoutes returns the differences between the routes and the specification's
// endpoints, apart from those that beyondSpec lists.
func compareRoutes(endpoints, routes []string) []string {
	var complaints []string
	for _, endpoint := range endpoints {
		if !slices.Contains(routes, endpoint) {
			complaints = append(complaints, endpoint+" is in the specification, but has no route")
		}
	}
	for _, route := range routes {
		if beyondSpec[route] == "" && !slices.Contains(endpoints, route) {
			complaints = append(complaints, route+" has a route, but is neither in the specification nor listed as beyond it")
		}
	}
	for extension := range beyondSpec {
		if !slices.Contains(routes, extension) {
			complaints = append(complaints, extension+" is listed as beyond the specification, but has no route")
		}
	}
	return complaints
}

func TestSpecRoutesControl(t *testing.T) {
	endpoints := endpointsOf(readSpec(t))
	sound := append(slices.Collect(maps.Keys(beyondSpec)), endpoints...)
	if complaints := compareRoutes(endpoints, sound); len(complaints) != 0 {
		t.Fatalf("a correct table is rejected: %q", complaints)
	}
	for what, routes := range map[string][]string{
		"a route is missing":                       slices.DeleteFunc(slices.Clone(sound), func(r string) bool { return r == "POST /messages" }),
		"a route that is not in the specification": append(slices.Clone(sound), "GET /metrics"),
		"an extension without a route":             slices.DeleteFunc(slices.Clone(sound), func(r string) bool { return r == "GET /version" }),
	} {
		if complaints := compareRoutes(endpoints, routes); len(complaints) != 1 {
			t.Errorf("%s: %q, want one complaint", what, complaints)
		}
	}
}

var (
	tableRow    = regexp.MustCompile(`(?m)^\| (GET|POST|PUT|PATCH|DELETE) \| ([^|]+) \|`)
	boldHeading = regexp.MustCompile(`(?m)^\*\*((?:GET|POST|PUT|PATCH|DELETE) /[^*\s]*)\*\*`)
	oneEndpoint = regexp.MustCompile(`(GET|POST|PUT|PATCH|DELETE) (/[^\s,?|]*)`)
	placeholder = regexp.MustCompile(`\{[^}]*\}`)
	markdownTop = regexp.MustCompile(`(?m)^#+ (.+)$`)
	specComment = regexp.MustCompile(`\bspec: (.+)$`)
)

// endpointsOf returns the endpoints in the specification's tables and bold headings,
// normalized and sorted.
func endpointsOf(spec string) []string {
	var found []string
	add := func(text string) {
		for _, m := range oneEndpoint.FindAllStringSubmatch(text, -1) {
			found = append(found, normalEndpoint(m[1], m[2]))
		}
	}
	for _, row := range tableRow.FindAllStringSubmatch(spec, -1) {
		add(row[1] + " " + row[2]) // the path cell may name a second endpoint
	}
	for _, heading := range boldHeading.FindAllStringSubmatch(spec, -1) {
		add(heading[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// normalEndpoint removes the names of placeholders: {id} and {agent_id} at the same
// position are the same route.
func normalEndpoint(method, path string) string {
	return method + " " + placeholder.ReplaceAllString(path, "{}")
}

func headingsOf(spec string) []string {
	var found []string
	for _, m := range markdownTop.FindAllStringSubmatch(spec, -1) {
		found = append(found, m[1])
	}
	for _, m := range boldHeading.FindAllStringSubmatch(spec, -1) {
		found = append(found, m[1])
	}
	return found
}

func anchorsIn(comment string) []string {
	m := specComment.FindStringSubmatch(strings.TrimSuffix(comment, "."))
	if m == nil {
		return nil
	}
	var anchors []string
	for anchor := range strings.SplitSeq(m[1], ";") {
		anchors = append(anchors, strings.TrimSpace(anchor))
	}
	return anchors
}

// resolves reports whether anchor is a heading. A remark in parentheses may be missing
// in either.
func resolves(anchor string, headings []string) bool {
	cited, _, _ := strings.Cut(anchor, " (")
	return slices.ContainsFunc(headings, func(h string) bool {
		plain, _, _ := strings.Cut(h, " (")
		return anchor == h || cited == plain
	})
}
