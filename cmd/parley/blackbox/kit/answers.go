package kit

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

// Obj is a JSON object.
type Obj = map[string]any

// Verbatim is a body that is sent unchanged.
type Verbatim string

// Client never follows redirects and never repeats a request that has a body.
var Client = &http.Client{
	Timeout: 40 * time.Second,
	Transport: &http.Transport{
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     3 * time.Second,
		DisableCompression:  true,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Answer is a response, with the request for failure messages.
type Answer struct {
	T      testing.TB
	Asked  string
	Status int
	Header http.Header
	Raw    []byte
	Body   Obj   // when the answer is a JSON object
	List   []any // when it is a JSON array
	Began  time.Time
	Took   time.Duration
	Err    error
}

// DiskPatience is how long a write is repeated while the disk of this machine stalls.
const DiskPatience = 20 * time.Second

// DiskStalled reports whether a write was refused because the disk of this machine
// stalled, which no test can prevent: nothing was done, and the write is to be repeated.
func DiskStalled(status int, body []byte) bool {
	return status == http.StatusServiceUnavailable && bytes.Contains(body, []byte("The disk takes no writes at present"))
}

// Call makes one request, and repeats a write while the disk stalls. Headers are pairs of
// name and value; an empty Content-Type omits the header. It checks nothing, so that
// goroutines may call it.
func (s *Server) Call(t testing.TB, token, method, path string, body any, headers ...string) *Answer {
	a := s.callOnce(t, token, method, path, body, headers...)
	for until := time.Now().Add(DiskPatience); method != "GET" && DiskStalled(a.Status, a.Raw) && time.Now().Before(until); {
		time.Sleep(250 * time.Millisecond)
		a = s.callOnce(t, token, method, path, body, headers...)
	}
	return a
}

func (s *Server) callOnce(t testing.TB, token, method, path string, body any, headers ...string) *Answer {
	a := &Answer{T: t, Asked: method + " " + path}
	req, err := s.Request(token, method, path, body, headers...)
	if err != nil {
		a.Err = err
		return a
	}
	a.Began = time.Now()
	resp, err := Client.Do(req)
	if err != nil {
		a.Err = err
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	a.Status, a.Header = resp.StatusCode, resp.Header
	a.Raw, a.Err = io.ReadAll(resp.Body)
	a.Took = time.Since(a.Began)
	a.Decode()
	Seen.Note(method, path, a)
	return a
}

// Request returns the request that Call makes.
func (s *Server) Request(token, method, path string, body any, headers ...string) (*http.Request, error) {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case Verbatim:
		reader = strings.NewReader(string(b))
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, s.Base+path, reader)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil
	req.Close = s.Nodes != nil // the next request goes to the next node
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

// Decode reads a body of JSON.
func (a *Answer) Decode() {
	var v any
	if !jsonMedia.MatchString(a.Header.Get("Content-Type")) || json.Unmarshal(a.Raw, &v) != nil {
		return
	}
	switch v := v.(type) {
	case Obj:
		a.Body = v
	case []any:
		a.List = v
	}
}

// As names the table case that the answer belongs to in failures.
func (a *Answer) As(format string, args ...any) *Answer {
	a.Asked = fmt.Sprintf(format, args...) + ": " + a.Asked
	return a
}

// Dump describes a problem with the request and its answer.
func (a *Answer) Dump(problem string) string {
	if a.Err != nil {
		return fmt.Sprintf("%s: %s: %v", a.Asked, problem, a.Err)
	}
	body := string(a.Raw)
	if len(body) > 700 {
		body = body[:700] + "…"
	}
	return fmt.Sprintf("%s: %s\n  answered %d, request %s\n  %s", a.Asked, problem, a.Status, a.Header.Get("X-Request-ID"), body)
}

// Errorf reports a problem with the answer; the test goes on.
func (a *Answer) Errorf(format string, args ...any) {
	a.T.Helper()
	a.T.Error(a.Dump(fmt.Sprintf(format, args...)))
}

// Fatalf reports a problem with the answer and ends the test.
func (a *Answer) Fatalf(format string, args ...any) {
	a.T.Helper()
	a.T.Fatal(a.Dump(fmt.Sprintf(format, args...)))
}

// Want ends the test unless the answer has the status.
func (a *Answer) Want(status int) *Answer {
	a.T.Helper()
	if a.Err != nil || a.Status != status {
		a.Fatalf("want %d", status)
	}
	if a.Header.Get("X-Request-ID") == "" {
		a.Errorf("no X-Request-ID")
	}
	if status == http.StatusNoContent && len(a.Raw) != 0 {
		a.Errorf("204 with a body")
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

// Refused checks an error in the shape that all errors except a 422 have.
func (a *Answer) Refused(status int, code string) *Answer {
	a.T.Helper()
	if a.Err != nil || a.Status != status || a.Body["code"] != code {
		a.Errorf("want %d %s", status, code)
		return a
	}
	class := errorClass[status]
	if c := errorClassOfCode[code]; c != "" {
		class = c
	}
	if class != "" && a.Body["error"] != class {
		a.Errorf("want error %s", class)
	}
	if s, _ := a.Body["error"].(string); s == "" {
		a.Errorf("no error class")
	}
	if s, _ := a.Body["detail"].(string); s == "" {
		a.Errorf("detail is not a sentence")
	}
	if _, told := a.Body["resets_at"]; code == "quota_exceeded" && !told {
		a.Errorf("quota_exceeded without resets_at (which may be null)")
	}
	a.Identified()
	return a
}

// Identified checks that the request id in an error equals the one in the header.
func (a *Answer) Identified() {
	a.T.Helper()
	if id, _ := a.Body["request_id"].(string); id == "" || id != a.Header.Get("X-Request-ID") {
		a.Errorf("request_id is not the X-Request-ID %q", a.Header.Get("X-Request-ID"))
	}
	if a.Status == http.StatusUnauthorized && !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") {
		a.Errorf("WWW-Authenticate is %q", a.Header.Get("WWW-Authenticate"))
	}
}

// Invalid checks a 422 from schema validation: one of its complaints is at loc (dotted)
// and, unless kind is empty, of that kind.
func (a *Answer) Invalid(loc, kind string) *Answer {
	a.T.Helper()
	complaints := a.Complaints("validation_error")
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
	a.Errorf("want a 422 at %s of type %q", loc, kind)
	return a
}

// RefusedByRule checks a 422 from a rule beyond the schema.
func (a *Answer) RefusedByRule(code string) *Answer {
	a.T.Helper()
	for _, c := range a.Complaints(code) {
		if c["type"] != "value_error" {
			a.Errorf("want type value_error")
		}
	}
	return a
}

// Complaints returns the complaints of a 422 with a code.
func (a *Answer) Complaints(code string) []Obj {
	a.T.Helper()
	if a.Err != nil || a.Status != 422 || a.Body["code"] != code {
		a.Errorf("want 422 %s", code)
		return nil
	}
	if a.Body["error"] != "validation_error" {
		a.Errorf("want error validation_error")
	}
	a.Identified()
	details, _ := a.Body["detail"].([]any)
	var found []Obj
	for _, d := range details {
		c, _ := d.(Obj)
		loc, _ := c["loc"].([]any)
		msg, _ := c["msg"].(string)
		kind, _ := c["type"].(string)
		if len(loc) == 0 || msg == "" || kind == "" || !slices.Contains([]any{"body", "query", "path", "header"}, loc[0]) {
			a.Errorf("a complaint is not {loc,msg,type}")
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		a.Errorf("detail is not an array of complaints")
	}
	return found
}

// Value returns the JSON value of the answer, of any type.
func (a *Answer) Value() any {
	if a.List != nil {
		return a.List
	}
	return a.Body
}

// At returns the value at a dotted path of the answer.
func (a *Answer) At(path string) any { return At(a.Body, path) }

// Str returns the text at a dotted path, which must be there.
func (a *Answer) Str(path string) string {
	a.T.Helper()
	s, ok := a.At(path).(string)
	if !ok {
		a.Fatalf("no text at %s", path)
	}
	return s
}

// Is checks values at dotted paths, given in pairs.
func (a *Answer) Is(pairs ...any) *Answer {
	a.T.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if got := a.At(pair[0].(string)); !Same(got, pair[1]) {
			a.Errorf("%s is %v, want %v", pair[0], got, pair[1])
		}
	}
	return a
}

// Items returns the rows of a page after it has checked the envelope.
func (a *Answer) Items() []Obj {
	a.T.Helper()
	rows, ok := a.Body["items"].([]any)
	more, isBool := a.Body["has_more"].(bool)
	cursor, present := a.Body["next_cursor"]
	if !ok || !isBool || !present {
		a.Fatalf("not a page of items, next_cursor, has_more")
	}
	if s, _ := cursor.(string); more && s == "" {
		a.Errorf("has_more without next_cursor")
	}
	return Objects(rows)
}

// Objects returns the objects of a list.
func Objects(rows []any) []Obj {
	out := make([]Obj, 0, len(rows))
	for _, r := range rows {
		o, _ := r.(Obj)
		out = append(out, o)
	}
	return out
}

// At returns the value at a dotted path, or nil.
func At(o Obj, path string) any {
	var v any = o
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(Obj)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// Same compares as JSON does: 1 and 1.0 are the same number.
func Same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Text returns the text at a dotted path, or "".
func Text(o Obj, path string) string {
	s, _ := At(o, path).(string)
	return s
}
