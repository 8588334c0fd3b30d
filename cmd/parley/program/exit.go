package program

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"parley/client"
	"parley/client/e2ee"
)

// The exit codes. `parley --help` lists them, and scripts depend on them.
const (
	ExitOK = iota
	ExitUnexpected
	ExitUsage
	ExitRefused
	ExitForbidden
	ExitNotFound
	ExitConflict
	ExitUnavailable
	ExitNetwork
	ExitTimeout
	ExitKeys
)

// ExitError is an error with a fixed exit code, which takes precedence over the
// one that its kind would have.
type ExitError struct {
	Code int
	Err  error
}

func (e ExitError) Error() string { return e.Err.Error() }
func (e ExitError) Unwrap() error { return e.Err }

// LoggedError wraps an error that the user has already seen, in the log or from
// a child process. Fail does not print it again.
type LoggedError struct{ Err error }

func (e LoggedError) Error() string { return e.Err.Error() }
func (e LoggedError) Unwrap() error { return e.Err }

// failure is the JSON object that --json prints for an error.
type failure struct {
	Error     string `json:"error"`
	Exit      int    `json:"exit"`
	Status    int    `json:"status,omitzero"`
	Code      string `json:"code,omitzero"`
	RequestID string `json:"request_id,omitzero"`
	// Accept lists the keys to pass to --accept-key.
	Accept []string `json:"accept,omitzero"`
}

// keysChanged is the code when the client itself refused an agent's keys; all
// other codes come from the server.
const keysChanged = "keys_changed"

// ExitCode returns the exit code for an error, by its kind.
func ExitCode(err error) int {
	var known ExitError
	var refused *client.Error
	var changed *e2ee.KeyChangedError
	var bridged *client.A2AError
	switch {
	case errors.As(err, &known):
		return known.Code
	case errors.As(err, &bridged):
		return bridgeCode(bridged.Code)
	case errors.As(err, &changed):
		return ExitKeys
	case errors.As(err, &refused):
		return RefusalCode(refused.Status)
	case errors.Is(err, client.ErrNoCredentials):
		return ExitForbidden
	case errors.Is(err, e2ee.ErrPayloadTooLong), errors.Is(err, client.ErrBaseURL):
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitUnexpected
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	case NetworkFailure(err):
		return ExitNetwork
	}
	return ExitUnexpected
}

// bridgeCode returns the exit code for an error of the A2A bridge.
func bridgeCode(code int) int {
	switch code {
	case -32001: // TaskNotFoundError
		return ExitNotFound
	case -32002, -32004: // the task has ended
		return ExitConflict
	}
	return ExitRefused
}

// RefusalCode returns the exit code for an HTTP status that is not a success.
func RefusalCode(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitForbidden
	case http.StatusNotFound, http.StatusGone:
		return ExitNotFound
	case http.StatusConflict:
		return ExitConflict
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ExitUnavailable
	}
	if status < 500 {
		return ExitRefused
	}
	return ExitUnexpected
}

// NetworkFailure reports whether a request got no answer. A failure to listen on
// an address is not a network failure.
func NetworkFailure(err error) bool {
	var operation *net.OpError
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &operation):
		return operation.Op != "listen"
	case errors.As(err, &name), errors.As(err, &certificate):
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Fail prints the error on standard error and returns its exit code.
func (s *Streams) Fail(err error) int {
	f := failure{Error: err.Error(), Exit: ExitCode(err)}
	var refused *client.Error
	if errors.As(err, &refused) {
		f.Status, f.Code, f.RequestID = refused.Status, string(refused.Code), refused.RequestID
	}
	var bridged *client.A2AError
	if errors.As(err, &bridged) {
		f.Code = strings.ToLower(bridged.Reason)
	}
	var changed *e2ee.KeyChangedError
	if errors.As(err, &changed) {
		f.Code, f.Accept = keysChanged, changed.Accept
	}
	var logged LoggedError
	if errors.As(err, &logged) {
		return f.Exit
	}
	if s.JSON && writeJSON(s.RawErr, f) == nil {
		return f.Exit
	}
	s.Note("parley: %s", Paragraph(f.Error, "  "))
	return f.Exit
}
