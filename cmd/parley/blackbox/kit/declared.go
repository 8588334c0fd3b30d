package kit

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// seenAnswer is the part of an answer that the description must declare.
type seenAnswer struct {
	method, path string
	status       int
	code         string
	headers      string // those of checkedHeaders that it had
}

// seenAnswers collects the distinct answers of the whole run. At the end they are
// compared with the server's own description: a route may return only the statuses, codes
// and headers that it declares.
type seenAnswers struct {
	mu  sync.Mutex
	all map[seenAnswer]bool
}

// Seen are the answers of this run.
var Seen seenAnswers

// checkedHeaders are headers that a route must declare if it sends them.
var checkedHeaders = []string{"ETag", "Idempotency-Replayed", "Last-Modified", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After", "WWW-Authenticate", "X-Request-ID"}

// Note adds an answer.
func (h *seenAnswers) Note(method, path string, a *Answer) {
	path, _, _ = strings.Cut(path, "?")
	one := seenAnswer{method: method, path: path, status: a.Status}
	one.code, _ = a.Body["code"].(string)
	for _, name := range checkedHeaders {
		if a.Header.Get(name) != "" {
			one.headers += name + " "
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[seenAnswer]bool{}
	}
	h.all[one] = true
}

// undeclared returns the answers that the description of a newly started server does not
// declare.
func (h *seenAnswers) undeclared() ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return nil, nil
	}
	s, err := Launch("127.0.0.1:0", filepath.Join(Scratch, "described"))
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	resp, err := Client.Get(s.Base + "/openapi.json")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var document Obj
	if err := json.NewDecoder(resp.Body).Decode(&document); err != nil {
		return nil, err
	}
	return undeclaredIn(document, maps.Keys(h.all)), nil
}

// outside are statuses that belong to no route: the HTTP server itself returns them, or
// something is broken.
var outside = []int{405, 408, 431, 500}

// undeclaredIn compares answers with a description. It skips answers of paths that no
// route describes.
func undeclaredIn(document Obj, answers func(func(seenAnswer) bool)) (complaints []string) {
	operations := described(document)
	for one := range answers {
		route, operation := operations.find(one.method, one.path)
		if operation == nil || slices.Contains(outside, one.status) {
			continue
		}
		responses, _ := operation["responses"].(Obj)
		response, _ := responses[strconv.Itoa(one.status)].(Obj)
		response = Resolved(document, response)
		if response == nil {
			complaints = append(complaints, fmt.Sprintf("%s answered %d %s, a status that it does not declare", route, one.status, one.code))
			continue
		}
		if codes := codesOf(response); one.code != "" && codes != nil && !slices.Contains(codes, one.code) {
			complaints = append(complaints, fmt.Sprintf("%s answered %d %s, a code that it does not declare", route, one.status, one.code))
		}
		headers, _ := response["headers"].(Obj)
		for name := range strings.FieldsSeq(one.headers) {
			if headers[name] == nil {
				complaints = append(complaints, fmt.Sprintf("%s answered %d with the header %s, which it does not declare", route, one.status, name))
			}
		}
	}
	slices.Sort(complaints)
	return slices.Compact(complaints)
}

// codesOf returns the error codes that a described response may have, or nil if it lists
// none.
func codesOf(response Obj) (codes []string) {
	choices, _ := At(response, "content.application/json.schema.allOf").([]any)
	for _, choice := range choices {
		words, _ := At(choice.(Obj), "properties.code.enum").([]any)
		for _, word := range words {
			codes = append(codes, word.(string))
		}
	}
	return codes
}

// describedOperation is an operation with the segments of its path.
type describedOperation struct {
	method    string
	segments  []string
	operation Obj
}

type describedOperations []describedOperation

func described(document Obj) (all describedOperations) {
	paths, _ := document["paths"].(Obj)
	for path, methods := range paths {
		for method, operation := range methods.(Obj) {
			all = append(all, describedOperation{strings.ToUpper(method), strings.Split(path, "/"), operation.(Obj)})
		}
	}
	return all
}

// find returns the operation that serves a path. A literal path takes precedence over one
// with parameters. HEAD is looked up as GET.
func (all describedOperations) find(method, path string) (route string, found Obj) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments, fewest := strings.Split(path, "/"), -1
	for _, o := range all {
		if o.method != method || len(o.segments) != len(segments) {
			continue
		}
		parameters, fits := 0, true
		for i, s := range o.segments {
			if strings.HasPrefix(s, "{") {
				parameters++
				fits = fits && segments[i] != ""
			} else {
				fits = fits && s == segments[i]
			}
		}
		if fits && (fewest < 0 || parameters < fewest) {
			fewest, route, found = parameters, method+" "+strings.Join(o.segments, "/"), o.operation
		}
	}
	return route, found
}

// checkSeenAnswers returns the exit code of the run: 1 if it saw an undeclared answer.
func checkSeenAnswers() int {
	complaints, err := Seen.undeclared()
	if err != nil {
		complaints = append(complaints, err.Error())
	}
	for _, complaint := range complaints {
		fmt.Fprintln(os.Stderr, "openapi:", complaint)
	}
	return min(len(complaints), 1)
}
