package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"

	"parley/http/client"
)

// Exit codes, stable for scripts and told by `parley --help`.
const (
	exitOK = iota
	exitUnexpected
	exitUsage
	exitRefused
	exitForbidden
	exitNotFound
	exitConflict
	exitUnavailable
	exitNetwork
	exitTimeout
	exitKeys
)

// exitError is an error that already knows its exit code.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// toldError is an error that the log has told already.
type toldError struct{ error }

func (e toldError) Unwrap() error { return e.error }

// failure is an error as `--json` tells it.
type failure struct {
	Error     string `json:"error"`
	Exit      int    `json:"exit"`
	Status    int    `json:"status,omitzero"`
	Code      string `json:"code,omitzero"`
	RequestID string `json:"request_id,omitzero"`
	// Accept are the keys that --accept-key has to name to go on.
	Accept []string `json:"accept,omitzero"`
}

// keysChanged is the code of a failure that no server answered with.
const keysChanged = "keys_changed"

// exitCode classes an error for scripts.
func exitCode(err error) int {
	var known exitError
	var refused *client.Error
	var changed *client.KeyChangedError
	switch {
	case errors.As(err, &known):
		return known.code
	case errors.As(err, &changed):
		return exitKeys
	case errors.As(err, &refused):
		return refusalCode(refused.Status)
	case errors.Is(err, client.ErrNoCredentials):
		return exitForbidden
	case errors.Is(err, client.ErrPayloadTooLong), errors.Is(err, client.ErrBaseURL):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitUnexpected
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case networkFailure(err):
		return exitNetwork
	}
	return exitUnexpected
}

func refusalCode(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitForbidden
	case http.StatusNotFound, http.StatusGone:
		return exitNotFound
	case http.StatusConflict:
		return exitConflict
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return exitUnavailable
	}
	if status < 500 {
		return exitRefused
	}
	return exitUnexpected
}

// networkFailure reports whether no answer came, rather than a refusal. That an
// address cannot be listened on is no such failure.
func networkFailure(err error) bool {
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

// explained adds to an error what the command knows of its circumstances, such
// as which server and which profile it used.
func explained(err error, selected *kong.Context) error {
	if command := selected.Selected(); command != nil && command.Target.CanAddr() {
		if c, ok := command.Target.Addr().Interface().(interface{ explain(error) error }); ok {
			return c.explain(err)
		}
	}
	return err
}

// fail tells the error on standard error and gives the exit code.
func (s *streams) fail(err error) int {
	f := failure{Error: err.Error(), Exit: exitCode(err)}
	var refused *client.Error
	if errors.As(err, &refused) {
		f.Status, f.Code, f.RequestID = refused.Status, string(refused.Code), refused.RequestID
	}
	var changed *client.KeyChangedError
	if errors.As(err, &changed) {
		f.Code, f.Accept = keysChanged, changed.Accept
	}
	var told toldError
	if errors.As(err, &told) {
		return f.Exit
	}
	if s.json {
		if text, err := json.Marshal(f); err == nil {
			s.note("%s", text)
			return f.Exit
		}
	}
	s.note("parley: %s", printable(f.Error))
	return f.Exit
}
