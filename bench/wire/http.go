package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// HTTP is one HTTP/1.1 connection, used by one goroutine at a time. After an error it
// stays broken and returns the same error again; dial a new one.
type HTTP struct {
	conn     net.Conn
	in       *bufio.Reader
	patience time.Duration
	// answer is reused for each answer.
	answer fasthttp.Response
	// request is the buffer of Call.
	request []byte
	broken  error
}

// Answer is the answer to a request. Body is valid until the next Do.
type Answer struct {
	Status int
	Body   []byte

	header *fasthttp.ResponseHeader
}

// Header returns a field of the head; it is empty if the answer has none.
func (a *Answer) Header(name string) string { return string(a.header.Peek(name)) }

// DialHTTP connects to address, host:port.
func DialHTTP(ctx context.Context, address string) (*HTTP, error) {
	return DialHTTPFrom(ctx, nil, address)
}

// DialHTTPFrom is DialHTTP from an address of this machine, nil for any.
func DialHTTPFrom(ctx context.Context, from net.IP, address string) (*HTTP, error) {
	conn, err := dial(ctx, from, address)
	if err != nil {
		return nil, err
	}
	c := &HTTP{conn: conn, in: bufio.NewReaderSize(conn, headBytesMax), patience: Patience}
	c.answer.KeepBodyBuffer = true
	return c, nil
}

// SetPatience sets the time limit of one Do.
func (c *HTTP) SetPatience(d time.Duration) { c.patience = d }

// Do writes one request, made by Request, waits for the complete answer and returns it.
// An answer of any status is not an error. Errors are broken connections, exceeded
// deadlines and answers that are not HTTP.
//
// An answer that announces the end of the connection is returned as usual; the next Do
// sends nothing and returns ErrClosing.
func (c *HTTP) Do(request []byte) (Answer, error) {
	if c.broken != nil {
		return Answer{}, c.broken
	}
	answer, err := c.exchange(request)
	if err != nil {
		c.broken = err
	}
	return answer, err
}

// Call is Do with a request that it composes as Request does.
func (c *HTTP) Call(method, path, token string, headers [][2]string, body []byte) (Answer, error) {
	c.request = AppendRequest(c.request[:0], method, path, token, headers, body)
	return c.Do(c.request)
}

func (c *HTTP) exchange(request []byte) (Answer, error) {
	if c.in.Buffered() > 0 {
		return Answer{}, errors.New("wire: an answer that nobody asked for")
	}
	if err := c.conn.SetDeadline(time.Now().Add(c.patience)); err != nil {
		return Answer{}, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return Answer{}, fmt.Errorf("wire: sending the request: %w", err)
	}
	if err := c.answer.ReadLimitBody(c.in, BodyBytesMax); err != nil {
		return Answer{}, fmt.Errorf("wire: reading the answer: %w", cause(err))
	}
	if c.answer.ConnectionClose() {
		c.broken = ErrClosing
	}
	return Answer{Status: c.answer.StatusCode(), Body: c.answer.Body(), header: &c.answer.Header}, nil
}

// Ended reports whether the last answer announced the end of the connection.
func (c *HTTP) Ended() bool { return errors.Is(c.broken, ErrClosing) }

// cause replaces the errors of fasthttp for a deadline and for an early end.
func cause(err error) error {
	switch {
	case errors.Is(err, fasthttp.ErrTimeout):
		return os.ErrDeadlineExceeded
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close closes the connection. It may be called during Do, which then fails.
func (c *HTTP) Close() error { return c.conn.Close() }

// Request returns the bytes of one request, to be built once and sent often. token is a
// bearer token, or empty. A body is application/json, and the host is localhost.
func Request(method, path, token string, headers [][2]string, body []byte) []byte {
	return AppendRequest(nil, method, path, token, headers, body)
}

// AppendRequest appends what Request returns to a reused buffer, for requests that differ
// from each other. Line breaks in values for the head are a programming error and panic.
func AppendRequest(to []byte, method, path, token string, headers [][2]string, body []byte) []byte {
	to = append(to, clean(method)...)
	to = append(append(to, ' '), clean(path)...)
	to = append(to, " HTTP/1.1\r\n"...)
	to = appendField(to, "Host", "localhost")
	if token != "" {
		to = append(to, "Authorization: Bearer "...)
		to = append(append(to, clean(token)...), "\r\n"...)
	}
	for _, h := range headers {
		to = appendField(to, h[0], h[1])
	}
	if len(body) > 0 {
		to = appendField(to, "Content-Type", "application/json")
	}
	if len(body) > 0 || method == "POST" || method == "PUT" || method == "PATCH" {
		to = append(to, "Content-Length: "...)
		to = append(strconv.AppendInt(to, int64(len(body)), 10), "\r\n"...)
	}
	return append(append(to, "\r\n"...), body...)
}

func appendField(to []byte, name, value string) []byte {
	to = append(append(to, clean(name)...), ": "...)
	return append(append(to, clean(value)...), "\r\n"...)
}

func clean(s string) string {
	if strings.ContainsAny(s, "\r\n") {
		panic("wire: a line break in the head of a request: " + strconv.Quote(s))
	}
	return s
}
