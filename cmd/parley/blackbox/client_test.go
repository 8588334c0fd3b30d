package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

type obj = map[string]any

// verbatim is a body that is sent unchanged.
type verbatim string

// client never follows redirects and never repeats a request that has a body.
var client = &http.Client{
	Timeout: 40 * time.Second,
	Transport: &http.Transport{
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     3 * time.Second,
		DisableCompression:  true,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// answer is a response, with the request for failure messages.
type answer struct {
	t      testing.TB
	asked  string
	status int
	header http.Header
	raw    []byte
	body   obj   // when the answer is a JSON object
	list   []any // when it is a JSON array
	began  time.Time
	took   time.Duration
	err    error
}

// diskPatience is how long a write is repeated while the disk of this machine stalls.
const diskPatience = 20 * time.Second

// diskStalled reports whether a write was refused because the disk of this machine
// stalled, which no test can prevent: nothing was done, and the write is to be repeated.
func diskStalled(status int, body []byte) bool {
	return status == http.StatusServiceUnavailable && bytes.Contains(body, []byte("The disk takes no writes at present"))
}

// call makes one request, and repeats a write while the disk stalls. Headers are pairs of
// name and value; an empty Content-Type omits the header. It checks nothing, so that
// goroutines may call it.
func (s *server) call(t testing.TB, token, method, path string, body any, headers ...string) *answer {
	a := s.callOnce(t, token, method, path, body, headers...)
	for until := time.Now().Add(diskPatience); method != "GET" && diskStalled(a.status, a.raw) && time.Now().Before(until); {
		time.Sleep(250 * time.Millisecond)
		a = s.callOnce(t, token, method, path, body, headers...)
	}
	return a
}

func (s *server) callOnce(t testing.TB, token, method, path string, body any, headers ...string) *answer {
	a := &answer{t: t, asked: method + " " + path}
	req, err := s.request(token, method, path, body, headers...)
	if err != nil {
		a.err = err
		return a
	}
	a.began = time.Now()
	resp, err := client.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	a.status, a.header = resp.StatusCode, resp.Header
	a.raw, a.err = io.ReadAll(resp.Body)
	a.took = time.Since(a.began)
	a.decode()
	seen.note(method, path, a)
	return a
}

func (s *server) request(token, method, path string, body any, headers ...string) (*http.Request, error) {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case verbatim:
		reader = strings.NewReader(string(b))
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, s.base+path, reader)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil
	req.Close = s.nodes != nil // the next request goes to the next node
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
		if pair[0] == "Host" {
			req.Host = pair[1]
		}
		if pair[1] == "" {
			req.Header.Del(pair[0])
		}
	}
	return req, nil
}

var jsonMedia = regexp.MustCompile(`^application/(?:\w+\+)?json`)

func (a *answer) decode() {
	var v any
	if !jsonMedia.MatchString(a.header.Get("Content-Type")) || json.Unmarshal(a.raw, &v) != nil {
		return
	}
	switch v := v.(type) {
	case obj:
		a.body = v
	case []any:
		a.list = v
	}
}

// as names the table case that the answer belongs to in failures.
func (a *answer) as(format string, args ...any) *answer {
	a.asked = fmt.Sprintf(format, args...) + ": " + a.asked
	return a
}

func (a *answer) dump(problem string) string {
	if a.err != nil {
		return fmt.Sprintf("%s: %s: %v", a.asked, problem, a.err)
	}
	body := string(a.raw)
	if len(body) > 700 {
		body = body[:700] + "…"
	}
	return fmt.Sprintf("%s: %s\n  answered %d, request %s\n  %s", a.asked, problem, a.status, a.header.Get("X-Request-ID"), body)
}

func (a *answer) errorf(format string, args ...any) {
	a.t.Helper()
	a.t.Error(a.dump(fmt.Sprintf(format, args...)))
}

func (a *answer) fatalf(format string, args ...any) {
	a.t.Helper()
	a.t.Fatal(a.dump(fmt.Sprintf(format, args...)))
}

// want ends the test unless the answer has the status.
func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.err != nil || a.status != status {
		a.fatalf("want %d", status)
	}
	if a.header.Get("X-Request-ID") == "" {
		a.errorf("no X-Request-ID")
	}
	if status == http.StatusNoContent && len(a.raw) != 0 {
		a.errorf("204 with a body")
	}
	return a
}

var errorClass = map[int]string{
	400: "validation_error", 401: "AuthenticationError", 403: "AuthorizationError", 404: "NotFoundError",
	409: "ConflictError", 410: "GoneError", 429: "RateLimitError", 500: "InternalError",
}

var errorClassOfCode = map[string]string{
	"signature_invalid": "SignatureVerificationError",
	"invalid_token":     "InvalidTokenError",
}

// refused checks an error in the shape that all errors except a 422 have.
func (a *answer) refused(status int, code string) *answer {
	a.t.Helper()
	if a.err != nil || a.status != status || a.body["code"] != code {
		a.errorf("want %d %s", status, code)
		return a
	}
	class := errorClass[status]
	if c := errorClassOfCode[code]; c != "" {
		class = c
	}
	if class != "" && a.body["error"] != class {
		a.errorf("want error %s", class)
	}
	if s, _ := a.body["error"].(string); s == "" {
		a.errorf("no error class")
	}
	if s, _ := a.body["detail"].(string); s == "" {
		a.errorf("detail is not a sentence")
	}
	if _, told := a.body["resets_at"]; code == "quota_exceeded" && !told {
		a.errorf("quota_exceeded without resets_at (which may be null)")
	}
	a.identified()
	return a
}

// identified checks that the request id in an error equals the one in the header.
func (a *answer) identified() {
	a.t.Helper()
	if id, _ := a.body["request_id"].(string); id == "" || id != a.header.Get("X-Request-ID") {
		a.errorf("request_id is not the X-Request-ID %q", a.header.Get("X-Request-ID"))
	}
	if a.status == http.StatusUnauthorized && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
		a.errorf("WWW-Authenticate is %q", a.header.Get("WWW-Authenticate"))
	}
}

// invalid checks a 422 from schema validation: one of its complaints is at loc (dotted)
// and, unless kind is empty, of that kind.
func (a *answer) invalid(loc, kind string) *answer {
	a.t.Helper()
	complaints := a.complaints("validation_error")
	if complaints == nil {
		return a
	}
	for _, c := range complaints {
		at := fmt.Sprint(c["loc"])
		at = strings.ReplaceAll(strings.Trim(at, "[]"), " ", ".")
		if (strings.EqualFold(at, loc) || strings.HasPrefix(strings.ToLower(at), strings.ToLower(loc)+".")) && (kind == "" || c["type"] == kind) {
			return a
		}
	}
	a.errorf("want a 422 at %s of type %q", loc, kind)
	return a
}

// refusedByRule checks a 422 from a rule beyond the schema.
func (a *answer) refusedByRule(code string) *answer {
	a.t.Helper()
	for _, c := range a.complaints(code) {
		if c["type"] != "value_error" {
			a.errorf("want type value_error")
		}
	}
	return a
}

func (a *answer) complaints(code string) []obj {
	a.t.Helper()
	if a.err != nil || a.status != 422 || a.body["code"] != code {
		a.errorf("want 422 %s", code)
		return nil
	}
	if a.body["error"] != "validation_error" {
		a.errorf("want error validation_error")
	}
	a.identified()
	details, _ := a.body["detail"].([]any)
	var found []obj
	for _, d := range details {
		c, _ := d.(obj)
		loc, _ := c["loc"].([]any)
		msg, _ := c["msg"].(string)
		kind, _ := c["type"].(string)
		if len(loc) == 0 || msg == "" || kind == "" || !slices.Contains([]any{"body", "query", "path", "header"}, loc[0]) {
			a.errorf("a complaint is not {loc,msg,type}")
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		a.errorf("detail is not an array of complaints")
	}
	return found
}

// value returns the JSON value of the answer, of any type.
func (a *answer) value() any {
	if a.list != nil {
		return a.list
	}
	return a.body
}

// at returns the value at a dotted path of the answer.
func (a *answer) at(path string) any { return at(a.body, path) }

func (a *answer) str(path string) string {
	a.t.Helper()
	s, ok := a.at(path).(string)
	if !ok {
		a.fatalf("no text at %s", path)
	}
	return s
}

// is checks values at dotted paths, given in pairs.
func (a *answer) is(pairs ...any) *answer {
	a.t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if got := a.at(pair[0].(string)); !same(got, pair[1]) {
			a.errorf("%s is %v, want %v", pair[0], got, pair[1])
		}
	}
	return a
}

// items returns the rows of a page after it has checked the envelope.
func (a *answer) items() []obj {
	a.t.Helper()
	rows, ok := a.body["items"].([]any)
	more, isBool := a.body["has_more"].(bool)
	cursor, present := a.body["next_cursor"]
	if !ok || !isBool || !present {
		a.fatalf("not a page of items, next_cursor, has_more")
	}
	if s, _ := cursor.(string); more && s == "" {
		a.errorf("has_more without next_cursor")
	}
	return objects(rows)
}

func objects(rows []any) []obj {
	out := make([]obj, 0, len(rows))
	for _, r := range rows {
		o, _ := r.(obj)
		out = append(out, o)
	}
	return out
}

func at(o obj, path string) any {
	var v any = o
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(obj)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// same compares as JSON does: 1 and 1.0 are the same number.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func text(o obj, path string) string {
	s, _ := at(o, path).(string)
	return s
}
