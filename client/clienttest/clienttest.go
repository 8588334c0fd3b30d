// Package clienttest is a server for tests of the client, which answers as the test says.
package clienttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// Server is a server whose answers the test writes. It issues the tokens token-1, token-2,
// …, each of which lives for Life seconds.
type Server struct {
	*httptest.Server
	Mux    *http.ServeMux
	Tokens atomic.Int64
	Life   int
}

// New starts a server.
func New(t *testing.T) *Server {
	t.Helper()
	s := &Server{Mux: http.NewServeMux(), Life: 900}
	s.Server = httptest.NewServer(s.Mux)
	t.Cleanup(s.Close)
	s.Mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		if id, secret, ok := r.BasicAuth(); !ok || id != ClientID.String() || secret != "a%2Bb" || r.FormValue("grant_type") != "client_credentials" {
			Answer(w, 401, api.TokenError{Error: "invalid_client", Description: "No.", Detail: "No.", Code: "invalid_client"})
			return
		}
		Answer(w, 200, api.Token{AccessToken: fmt.Sprintf("token-%d", s.Tokens.Add(1)), TokenType: "Bearer", ExpiresIn: s.Life, Scope: "org"})
	})
	return s
}

// ClientID and ClientSecret are the credentials that the server accepts.
var ClientID = parley.NextID(parley.ClientID{}, time.UnixMilli(1), [10]byte{})

const ClientSecret = "a+b"

// Answer writes an answer as JSON.
func Answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// Refuse writes an error.
func Refuse(w http.ResponseWriter, status int, code string, extra map[string]any) {
	Answer(w, status, api.Error{Detail: "No.", Error: "SomeError", Code: code, RequestID: "req-1", Extra: extra})
}

// OpenStream begins an event stream with the lines that the service sends first.
func OpenStream(w http.ResponseWriter, first string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, "retry: 1\n: welcome\n\n"+first)
	_ = http.NewResponseController(w).Flush()
}
