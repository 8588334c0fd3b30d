package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"parley/cmd/parley/admin"
	"parley/http/connlimit"
)

const (
	// operatorsMax is how many connections a listener for operators has open at most. The listener
	// then closes the one that has waited longest for a request, or for its client to read an answer.
	operatorsMax = 64
	// stallMax is how long a client may accept nothing of an answer, or take to send a body.
	stallMax = 30 * time.Second
)

// connKey is the context key of a request's connection.
type connKey struct{}

// followed tells the connection's listener when a request has arrived with its body, so that it
// closes idle connections before those at work, and gives each write some time.
func followed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &stallingWriter{ResponseWriter: w, deadline: http.NewResponseController(w)}
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		if r.ContentLength != 0 {
			_ = answer.deadline.SetReadDeadline(time.Now().Add(stallMax))
			arriving := *r // the server looks at the Body of its own request
			arriving.Body = &arrivingBody{r.Body, conn}
			r = &arriving
		} else if !connlimit.Serve(conn) {
			panic(http.ErrAbortHandler) // its place was given to another
		}
		defer answer.extend() // for what is written after the handler
		h.ServeHTTP(answer, r)
	})
}

// arrivingBody is the body of a request that counts as idle until the body has arrived.
type arrivingBody struct {
	io.ReadCloser
	conn net.Conn
}

func (b *arrivingBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); errors.Is(err, io.EOF) {
		connlimit.Serve(b.conn)
	}
	return n, err
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
