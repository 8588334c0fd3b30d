package judges

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var tckDir = flag.String("tck", "", "run the a2a-tck in this directory (a checkout of its branch 1.0-dev)")

// tckWait bounds a run of the TCK, which takes 40 s.
const tckWait = 5 * time.Minute

// tckPackages are what the TCK imports, beside gRPC.
const tckPackages = "import httpx, pytest, pytest_asyncio, jsonschema, grpc"

// TestTCK runs the Technology Compatibility Kit of the A2A project, if its directory is
// given, and holds docs/a2a-conformance.md to the result.
func TestTCK(t *testing.T) {
	if *tckDir == "" {
		t.Skip("no -tck: make conformance-a2a TCK=DIR")
	}
	if _, err := os.Stat(filepath.Join(*tckDir, "tests/compatibility/conftest.py")); err != nil {
		t.Fatalf("%s is no checkout of a2a-tck, branch 1.0-dev: %v", *tckDir, err)
	}
	python := pythonWith(t, tckPackages)
	front := newTCKFront(t)
	base := serve(t, "--base-url", front.URL)
	front.target.Store(base)
	handle := respond(t, base)
	callers := member(t, base, "callers")
	newAgent(t, callers, "caller")
	front.token.Store(tokenOf(t, callers))

	endpoint := front.URL + "/a2a/" + handle
	runs := make([]map[string]tckRequirement, len(tckMends))
	var reports string
	for i := range tckMends {
		front.mends.Store(int32(i))
		reports = runTCK(t, python, endpoint)
		runs[i] = readTCK(t, reports)
	}
	findings := judgeTCK(runs, skipsOf(t, reports), titlesOf(t, python))
	for _, f := range findings {
		t.Logf("%-9s %-6s %s %s", f.verdict, f.level, f.id, f.why)
		if f.verdict == failed && f.level == "MUST" {
			t.Errorf("%s (%s): %s", f.id, f.name, f.why)
		}
	}
	writePage(t, "a2a-tck", tckIntroduction, findings)
}

// pythonWith returns a Python that can run an import.
func pythonWith(t *testing.T, imports string) string {
	t.Helper()
	for _, name := range []string{os.Getenv("PYTHON"), "/usr/bin/python3", "python3"} {
		if name != "" && exec.Command(name, "-c", imports).Run() == nil {
			return name
		}
	}
	t.Fatalf("no Python can run %q: apt-get install python3-httpx python3-pytest python3-pytest-asyncio python3-grpcio python3-jsonschema, or name one in PYTHON", imports)
	return ""
}

// tckMends are what is changed in the TCK's requests, one more in each run, because it
// contradicts A2A: a sentence of A2A's, and what was changed. In the first run nothing is.
var tckMends = []string{
	"",
	"a2a.proto, on `message_id`: “The unique identifier (e.g. UUID) of the message.” A2A 1.0 section 3.3.1: “Agents may utilize the messageId to detect duplicate messages.” The TCK gives many messages one id and gets the task of the first. With an id for each it passes.",
	"A2A 1.0 section 5.5: “All JSON serializations of the A2A protocol data model **MUST** use **camelCase** naming for field names, not the snake_case convention used in Protocol Buffer definitions.” The TCK sends `task_id`, `context_id` and `history_length`. With `taskId`, `contextId` and `historyLength` it passes.",
}

// tckFront stands before the server and adds a token, which the TCK of 1.0 does not send. It
// mends requests in the first so many ways of tckMends.
type tckFront struct {
	*httptest.Server
	target, token atomic.Value
	mends         atomic.Int32
	messages      atomic.Int64
}

func newTCKFront(t *testing.T) *tckFront {
	f := &tckFront{}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		target, err := url.Parse(f.target.Load().(string))
		if err != nil {
			t.Error(err)
			return
		}
		r.SetURL(target)
		if token, ok := f.token.Load().(string); ok && r.In.Header.Get("Authorization") == "" {
			r.Out.Header.Set("Authorization", "Bearer "+token)
		}
	}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		body = f.mend(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// mend gives the message in a request an id of its own, which begins as the former, and
// parameters names in camel case.
func (f *tckFront) mend(body []byte) []byte {
	var request map[string]any
	mends := f.mends.Load()
	if mends == 0 || json.Unmarshal(body, &request) != nil {
		return body
	}
	params, _ := request["params"].(map[string]any)
	if message, ok := params["message"].(map[string]any); ok && message["messageId"] != nil {
		message["messageId"] = fmt.Sprintf("%v-%d", message["messageId"], f.messages.Add(1))
	}
	if mends > 1 {
		for name, value := range maps.Clone(params) {
			delete(params, name)
			params[camelCase(name)] = value
		}
	}
	changed, err := json.Marshal(request)
	if err != nil {
		return body
	}
	return changed
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words {
		if i > 0 && word != "" {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}

// runTCK runs the TCK against an endpoint and returns the directory of its reports. It
// writes nothing into its own directory.
func runTCK(t *testing.T, python, endpoint string) (reports string) {
	t.Helper()
	reports = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), tckWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-m", "pytest", "tests/compatibility", "-q", "--tb=short",
		"-p", "parley_tck", "-p", "no:cacheprovider", "-c", filepath.Join(ours(t), "pytest.ini"), "--rootdir=.",
		"--sut-host="+endpoint, "--transport=jsonrpc",
		"--compatibility-report="+filepath.Join(reports, "report"), "--junitxml="+filepath.Join(reports, "junit.xml"))
	cmd.Dir, cmd.Env = *tckDir, tckEnvironment(t)
	out, err := cmd.CombinedOutput()
	t.Logf("%s\n%v", out, err) // it fails if any check does
	return reports
}

// ours is the directory of what we add to the TCK.
func ours(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("tck")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// tckEnvironment has Python find our plugin, and write nothing into the TCK's directory.
func tckEnvironment(t *testing.T) []string {
	return append(os.Environ(), "PYTHONPATH="+ours(t), "PYTHONDONTWRITEBYTECODE=1")
}

// tckRequirement is what the TCK says about a requirement.
type tckRequirement struct {
	Level   string   `json:"level"`
	Status  string   `json:"status"`
	Errors  []string `json:"errors"`
	TestIDs []string `json:"test_ids"`
}

// readTCK returns what a run of the TCK says about its requirements.
func readTCK(t *testing.T, reports string) map[string]tckRequirement {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(reports, "report.json"))
	if err != nil {
		t.Fatalf("the TCK made no report: %v", err)
	}
	var report struct {
		Requirements map[string]tckRequirement `json:"per_requirement"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report.Requirements
}

// judgeTCK returns a finding for each requirement, from runs that were mended more and more.
func judgeTCK(runs []map[string]tckRequirement, skips, titles map[string]string) (findings []finding) {
	last := runs[len(runs)-1]
	for _, id := range slices.Sorted(maps.Keys(last)) {
		r := last[id]
		f := finding{id: id, level: r.Level, name: titles[id]}
		against, contradicts := tckContradictions[id]
		switch {
		case r.Status == "PASS":
			f.verdict = passed
			// The mend after the last run in which it did not pass is what it needs.
			for i, run := range runs {
				if run[id].Status != "PASS" {
					f.verdict, f.why = contradictory, tckMends[i+1]
				}
			}
		case r.Status == "FAIL" && contradicts && !slices.ContainsFunc(r.Errors, func(e string) bool { return !strings.Contains(e, against.fault) }):
			f.verdict, f.why = contradictory, fmt.Sprintf("The TCK: %s. %s.", against.fault, against.sentence)
		case r.Status == "FAIL":
			f.verdict, f.why = failed, strings.Join(r.Errors, "; ")
			if gap := tckGaps[id]; gap != "" {
				f.why += ". " + gap
			}
		default:
			f.verdict, f.why = inapplicable, tckInapplicable(id, r, skips)
		}
		findings = append(findings, f)
	}
	return findings
}

// tckContradictions are checks that contradict A2A whatever is mended, with what the TCK says
// of them.
var tckContradictions = map[string]struct{ fault, sentence string }{
	"CORE-SEND-003": {
		`the agent accepts no "application/x-unsupported-tck-type"`,
		"It takes the refusal that it asks for (-32005) as a failure. A2A 1.0 section 3.1.1: “ContentTypeNotSupportedError: A Media Type provided in the request's message parts is not supported by the agent”",
	},
	"CORE-MULTI-002a": {
		"message.contextId: is no context of yours",
		"It takes the refusal that it asks for as a failure. A2A 1.0 section 3.4.1: “If an agent cannot accept a client-provided `contextId`, it **MUST** reject the request with an error and **MUST NOT** generate a new `contextId` for the response”",
	},
	"JSONRPC-SSE-002": {
		"expected ContentTypeNotSupportedError (-32005), got Unknown (-32000)",
		"It sends a wrong header `Content-Type`, which is answered with HTTP 415. A2A 1.0 section 3.3.2 has -32005 for the parts of messages: “A Media Type provided in the request's message parts or implied for an artifact is not supported by the agent or the specific skill being invoked.”",
	},
	"CARD-EXT-001": {
		"'svc' does not match any of the regexes",
		"The extended card has the extension as a member beside A2A's. A2A 1.0 section 5.7: “Implementations **SHOULD** ignore unrecognized fields in messages, allowing for forward compatibility as the protocol evolves.” The member holds what the specification of the service asks for",
	},
}

// tckGaps say why the server does not do what a SHOULD or a MAY asks for.
var tckGaps = map[string]string{
	"CORE-MULTI-002": "The server makes contexts itself. A2A 1.0 section 3.4.1: “Agents **MAY** accept and preserve client-provided `contextId` values”",
}

// tckInapplicable returns why a requirement was not checked.
func tckInapplicable(id string, r tckRequirement, skips map[string]string) string {
	for prefix, binding := range map[string]string{"GRPC-": "GRPC", "HTTP_JSON-": "HTTP+JSON"} {
		if strings.HasPrefix(id, prefix) {
			return "it is of the binding " + binding + "; the card declares JSONRPC only"
		}
	}
	if r.Status == "NOT TESTED" {
		return "the TCK has no test of it"
	}
	for _, test := range r.TestIDs {
		name := strings.NewReplacer("/", ".", ".py::", ".", "::", ".").Replace(test)
		if why := skips[name]; why != "" && !strings.HasPrefix(why, "Transport ") {
			return why
		}
	}
	return "skipped"
}

// titlesOf returns the titles of the TCK's requirements.
func titlesOf(t *testing.T, python string) map[string]string {
	t.Helper()
	cmd := exec.Command(python, "-c", "import json, parley_tck; from tck.requirements.registry import ALL_REQUIREMENTS as all; print(json.dumps({r.id: r.title for r in all}))")
	cmd.Dir, cmd.Env = *tckDir, tckEnvironment(t)
	out, err := cmd.Output()
	titles := map[string]string{}
	if err != nil || json.Unmarshal(out, &titles) != nil {
		t.Errorf("the titles of the TCK cannot be read: %v", err)
	}
	return titles
}

// skipsOf returns why tests were skipped.
func skipsOf(t *testing.T, reports string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(reports, "junit.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var junit struct {
		Cases []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &junit); err != nil {
		t.Fatal(err)
	}
	skips := map[string]string{}
	for _, c := range junit.Cases {
		if c.Skipped != nil {
			skips[c.Class+"."+c.Name] = c.Skipped.Message
		}
	}
	return skips
}
