// Package wire holds raw connections to systems under test: HTTP/1.1 and server-sent
// events over one TCP connection.
//
// A generator that shares two cores with the server it measures must be cheap: a
// connection has one read buffer and one body buffer, reuses both, and allocates nothing
// per request once they have grown. The package implements only what a load test needs:
// no pipelining, no redirects, no proxies, no TLS.
//
// Everything received is bounded and every operation has a deadline, so that a broken
// server causes an error and never a generator that hangs or grows.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// headBytesMax bounds the status line and all fields of one answer together.
	headBytesMax = 16 << 10
	// BodyBytesMax bounds the body of one answer, and one event of a stream.
	BodyBytesMax = 64 << 20
	// Patience bounds the time of one operation, from the first byte sent to the last
	// byte received.
	Patience = 30 * time.Second
	// Silence bounds the time that a stream may send nothing: two and a half heartbeats
	// of 30 s.
	Silence = 75 * time.Second
)

var (
	// ErrTooLarge is returned for an event beyond BodyBytesMax.
	ErrTooLarge = errors.New("wire: the event is larger than a measurement allows")
	// ErrClosing is returned for a request on a connection whose peer announced in its
	// last answer that it would close the connection.
	ErrClosing = errors.New("wire: the other end announced that it closes this connection")
)

// StatusError is returned if the answer to a request for a stream is not a stream.
type StatusError struct {
	Status      int
	ContentType string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("wire: no stream: status %d, content type %q", e.Status, e.ContentType)
}

// dial opens one TCP connection. Go sets TCP_NODELAY on it, so a request is sent at once
// in one write. from is the address to connect from, nil for any.
func dial(ctx context.Context, from net.IP, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: Patience}
	if from != nil {
		dialer.LocalAddr = &net.TCPAddr{IP: from}
	}
	return dialer.DialContext(ctx, "tcp", address)
}
