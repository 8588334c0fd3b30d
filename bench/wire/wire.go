// Package wire holds raw connections to systems under test: HTTP/1.1 and
// server-sent events over one TCP connection, and the text protocol of NATS.
//
// A generator that shares two cores with the server it measures must cost
// little: a connection keeps one read buffer and one body buffer, reuses both,
// and allocates nothing per request once they have grown. It does what a load
// needs and no more: no pipelining, no redirects, no proxies, no TLS.
//
// Everything that comes from the other end is bounded, and every operation has
// a deadline, so that a broken server shows as an error and never as a
// generator that hangs or grows.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// HeadBytesMax bounds the status line and the fields of one answer together,
	// and one line of the NATS protocol.
	HeadBytesMax = 64 << 10
	// BodyBytesMax bounds the body of one answer, one event of a stream and one
	// NATS message.
	BodyBytesMax = 64 << 20
	// Patience is how long one operation may take, from its first byte out to
	// its last byte in.
	Patience = 30 * time.Second
	// Silence is how long a stream may say nothing, two heartbeats of 30 s and a
	// half.
	Silence = 75 * time.Second
)

var (
	// ErrTooLarge is an answer beyond HeadBytesMax or BodyBytesMax.
	ErrTooLarge = errors.New("wire: the answer is larger than a measurement allows")
	// ErrClosing is a request on a connection whose other end said in its last
	// answer that it would close it.
	ErrClosing = errors.New("wire: the other end announced that it closes this connection")
)

// MalformedError is an answer that breaks the protocol it should follow.
type MalformedError struct {
	// What names the rule that was broken, and Got shows the beginning of what
	// came.
	What, Got string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("wire: %s, got %q", e.What, e.Got)
}

// malformed copies what came: the buffer it lies in will be reused.
func malformed(what string, got []byte) error {
	return &MalformedError{What: what, Got: string(got[:min(len(got), 64)])}
}

// StatusError is a stream that was answered with something other than a stream.
type StatusError struct {
	Status      int
	ContentType string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("wire: no stream: status %d, content type %q", e.Status, e.ContentType)
}

// dial opens one TCP connection. Go sets TCP_NODELAY on it: a request leaves in
// one write and nothing waits to be joined.
func dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: Patience}
	return dialer.DialContext(ctx, "tcp", address)
}
