package server

import (
	"context"
	"net"
	"net/http"
	"time"

	"parley/cmd/parley/admin"
	"parley/http/connlimit"
)

const (
	// operatorsMax is how many connections a listener for operators has open at most. Beyond it the
	// one is closed that has waited longest for a request, or for its client to read an answer.
	operatorsMax = 64
	// stallMax is how long a client may accept nothing of an answer, or take to send a body.
	stallMax = 30 * time.Second
)

// connKey is the context key of a request's connection.
type connKey struct{}

// followed tells the connection's listener when a request is served, so that it closes connections
// at which nothing happens before others, and gives each write some time.
func followed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &stallingWriter{ResponseWriter: w, deadline: http.NewResponseController(w)}
		if r.ContentLength != 0 {
			_ = answer.deadline.SetReadDeadline(time.Now().Add(stallMax))
		}
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && !connlimit.Serve(conn) {
			panic(http.ErrAbortHandler) // its place was given to another
		}
		defer answer.extend() // for what is written after the handler
		h.ServeHTTP(answer, r)
	})
}

// stallingWriter gives each write of an answer the time that its client may stall.
type stallingWriter struct {
	http.ResponseWriter
	deadline *http.ResponseController
}

func (w *stallingWriter) extend() { _ = w.deadline.SetWriteDeadline(time.Now().Add(stallMax)) }

func (w *stallingWriter) Write(b []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController the writer below.
func (w *stallingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serveOperators accepts connections until the server is closed.
func serveOperators(s *http.Server, ln net.Listener) error {
	s.Handler = followed(s.Handler)
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	return admin.Serve(s, connlimit.Limit(ln, connlimit.Bounds{
		Total: operatorsMax, Served: operatorsMax, PerAddress: operatorsMax,
	}, time.Now, noRoom))
}

// noRoom answers a connection for which there is no place.
func noRoom() []byte {
	return []byte("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
