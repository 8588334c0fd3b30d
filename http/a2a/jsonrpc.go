package a2a

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/http/rest"
)

// Error codes of JSON-RPC and of A2A. // source: A2A 1.0 section 9.5
const (
	codeParse           = -32700
	codeInvalidRequest  = -32600
	codeNoMethod        = -32601
	codeInvalidParams   = -32602
	codeInternal        = -32603
	codeRefused         = -32000 // the service's own refusals
	codeTaskNotFound    = -32001
	codeNotCancelable   = -32002
	codePushUnsupported = -32003
	codeUnsupported     = -32004
	codeContentType     = -32005
	codeVersion         = -32009
)

// errorDomain is the domain of reasons that A2A defines.
const errorDomain = "a2a-protocol.org"

// rpcError is an error of the protocol.
type rpcError struct {
	code    int
	message string
	details []any
}

func (e *rpcError) Error() string { return e.message }

// errorInfo is google.rpc.ErrorInfo, which every error of A2A has.
type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata,omitzero"`
}

// badRequest is google.rpc.BadRequest.
type badRequest struct {
	Type       string           `json:"@type"`
	Violations []fieldViolation `json:"fieldViolations"`
}

type fieldViolation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// fail returns an error with a reason that A2A defines.
func fail(code int, reason, message string) *rpcError {
	return &rpcError{code, message, []any{errorInfo{Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: reason, Domain: errorDomain}}}
}

// invalid returns the error of parameters that are wrong in one field.
func invalid(field, message string) *rpcError {
	e := fail(codeInvalidParams, "INVALID_PARAMS", field+": "+message)
	e.details = append(e.details, badRequest{"type.googleapis.com/google.rpc.BadRequest", []fieldViolation{{field, message}}})
	return e
}

var (
	errParse       = fail(codeParse, "PARSE_ERROR", "The body is not valid JSON.")
	errBatch       = fail(codeInvalidRequest, "INVALID_REQUEST", "Batches are not supported: send one request.")
	errNotFound    = fail(codeTaskNotFound, "TASK_NOT_FOUND", "There is no such task.")
	errCancelable  = fail(codeNotCancelable, "TASK_NOT_CANCELABLE", "The task has ended.")
	errEnded       = fail(codeUnsupported, "UNSUPPORTED_OPERATION", "The task has ended.")
	errCleartext   = fail(codeContentType, "CONTENT_TYPE_NOT_SUPPORTED", "The agent accepts sealed parts only.")
	errReused      = invalid("message.messageId", "was used for a message with other parts: choose another one")
	errDefect      = fail(codeInternal, "INTERNAL_ERROR", "The request failed. Its request_id helps the operator to find the reason.")
	errNotFinite   = fail(codeInvalidParams, "INVALID_PARAMS", "A number of the request is not finite.")
	errParamsShape = fail(codeInvalidParams, "INVALID_PARAMS", "params must be an object.")
)

func invalidRequest(message string) *rpcError {
	return fail(codeInvalidRequest, "INVALID_REQUEST", message)
}

// request is a JSON-RPC request. id is a string or a whole number as the caller wrote it, or
// null.
type request struct {
	id     jsontext.Value
	method string
	params jsontext.Value
}

var null = jsontext.Value("null")

// parse reads a request. On an error, the request has the id as far as it is known.
func parse(body []byte) (request, error) {
	r := request{id: null}
	body = bytes.TrimSpace(body)
	if err := checkShape(body); err != nil {
		return r, err
	}
	if body[0] == '[' {
		return r, errBatch
	}
	members := map[string]jsontext.Value{}
	if body[0] != '{' || json.Unmarshal(body, &members) != nil {
		return r, invalidRequest("The body must be a JSON-RPC request.")
	}
	id, given := members["id"]
	switch {
	case !given:
		return r, invalidRequest("The request has no id: notifications are not supported.")
	case id.Kind() == '"', id.Kind() == 'n', id.Kind() == '0' && !bytes.ContainsAny(id, ".eE"):
		r.id = id
	default:
		return r, invalidRequest("The id must be a string or a whole number.")
	}
	if method := members["method"]; string(members["jsonrpc"]) != `"2.0"` {
		return r, invalidRequest(`The member jsonrpc must be "2.0".`)
	} else if method.Kind() != '"' || json.Unmarshal(method, &r.method) != nil {
		return r, invalidRequest("The member method must be a string.")
	}
	if r.params = members["params"]; len(r.params) > 0 && r.params.Kind() != '{' && r.params.Kind() != 'n' {
		return r, errParamsShape
	}
	return r, nil
}

const (
	// depthMax bounds how deep values of a request nest, valuesMax how many there are.
	depthMax  = 100
	valuesMax = 10_000
)

// checkShape refuses what is not JSON, and JSON that would take much more memory than its
// text.
func checkShape(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		ended := n > 0 && d.StackDepth() == 0
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			return nil
		case err != nil, ended: // by a second text
			return errParse
		case token.Kind() == '0' && !finite(token.String()):
			return errNotFinite
		case n == valuesMax:
			return invalidRequest(fmt.Sprintf("The request has more than %d values.", valuesMax))
		case d.StackDepth() > depthMax:
			return invalidRequest(fmt.Sprintf("The request nests deeper than %d levels.", depthMax))
		}
	}
}

// finite reports whether a number of JSON is a finite one of 64 bits. Readers that know no
// others would reject the whole page that it is on.
func finite(number string) bool {
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}

// response is an answer. A success has no member error, not even null.
type response struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  any            `json:"result,omitzero"`
	Error   *wireError     `json:"error,omitzero"`
}

type wireError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    []any  `json:"data,omitzero"`
}

func failure(id jsontext.Value, e *rpcError) response {
	return response{Version: "2.0", ID: id, Error: &wireError{e.code, e.message, e.details}}
}

// onHTTP are the statuses of refusals that are answered as such, because generic clients and
// proxies act on them. All others are answered with 200.
var onHTTP = map[int]bool{
	http.StatusUnauthorized: true, http.StatusNotFound: true, http.StatusRequestEntityTooLarge: true, http.StatusUnsupportedMediaType: true,
	http.StatusTooManyRequests: true, http.StatusServiceUnavailable: true,
}

// refusal is a response of a request that was refused with an HTTP status, with the members
// by which other endpoints describe errors.
type refusal struct {
	response
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	RequestID string `json:"request_id"`
}

// Refuse gives a problem the form of JSON-RPC.
func Refuse(p rest.Problem, requestID string) (status int, body []byte) {
	if onHTTP[p.Status] || p.Code == rest.ErrScope.Code {
		body, _ = json.Marshal(refusal{failure(null, ofProblem(p)), p.Detail(), p.Code, requestID})
		return p.Status, body
	}
	body, _ = json.Marshal(failure(null, ofProblem(p)))
	return http.StatusOK, body
}

// ofProblem translates a problem of the service.
func ofProblem(p rest.Problem) *rpcError {
	switch {
	case p.Status == http.StatusInternalServerError:
		return errDefect
	case len(p.Faults()) > 0:
		e := fail(codeInvalidParams, "INVALID_PARAMS", p.Detail())
		violations := badRequest{Type: "type.googleapis.com/google.rpc.BadRequest"}
		for _, fault := range p.Faults() {
			violations.Violations = append(violations.Violations, fieldViolation{fault.Path(), fault.Msg})
		}
		e.details = append(e.details, violations)
		return e
	}
	e := fail(codeRefused, strings.ToUpper(p.Code), p.Detail())
	return e
}
