package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HTTP is one HTTP/1.1 connection, used by one goroutine at a time. After an error it
// stays broken and returns the same error again; dial a new one.
type HTTP struct {
	conn     net.Conn
	reader   reader
	patience time.Duration
	// kept and body are reused for each answer.
	kept, body []byte
	retryAfter string
	broken     error
}

// Answer is the answer to a request. Body is valid until the next Do.
type Answer struct {
	Status int
	Body   []byte
	// RetryAfter is the field of that name, empty if the answer has none.
	RetryAfter string
	// Closing reports that the other end closes the connection after this answer.
	Closing bool
}

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
	return &HTTP{conn: conn, reader: reader{in: bufio.NewReaderSize(conn, 16<<10)}, patience: Patience}, nil
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

func (c *HTTP) exchange(request []byte) (Answer, error) {
	if c.reader.in.Buffered() > 0 {
		rest, _ := c.reader.in.Peek(c.reader.in.Buffered())
		return Answer{}, malformed("an answer that nobody asked for", rest)
	}
	if err := c.conn.SetDeadline(time.Now().Add(c.patience)); err != nil {
		return Answer{}, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return Answer{}, reading("sending the request", err)
	}
	answer, err := c.receive(request)
	if err == nil && answer.Closing {
		c.broken = ErrClosing
	}
	return answer, err
}

// receive reads the answer to a request.
func (c *HTTP) receive(request []byte) (Answer, error) {
	h, kept, err := c.reader.head(c.kept)
	c.kept = kept
	if err != nil {
		return Answer{}, reading("reading the head", cutOff(err))
	}
	if err := c.readBody(&h, request); err != nil {
		return Answer{}, reading("reading the body", err)
	}
	// Most answers of a server that throttles have the same value, so one string serves
	// for all of them.
	if string(h.retryAfter) != c.retryAfter {
		c.retryAfter = string(h.retryAfter)
	}
	return Answer{Status: h.status, Body: c.body, RetryAfter: c.retryAfter, Closing: h.closing}, nil
}

// readBody fills c.body by the rules of RFC 9112, section 6.3.
func (c *HTTP) readBody(h *head, request []byte) (err error) {
	c.body = c.body[:0]
	switch {
	case h.status == 204 || h.status == 304 || len(request) > 5 && string(request[:5]) == "HEAD ":
		return nil
	case h.chunked:
		return c.readChunks()
	case h.length >= 0:
		c.body, err = c.reader.take(c.body, h.length)
		return err
	default:
		h.closing = true
		return c.readToEnd()
	}
}

func (c *HTTP) readChunks() error {
	for {
		n, err := c.reader.chunk()
		if err != nil || n == 0 {
			return err
		}
		if c.body, err = c.reader.take(c.body, n); err != nil {
			return err
		}
		if err := c.reader.end(); err != nil {
			return err
		}
	}
}

// readToEnd reads until the other end closes the connection.
func (c *HTTP) readToEnd() error {
	for {
		if len(c.body) > BodyBytesMax {
			return ErrTooLarge
		}
		c.body = slices.Grow(c.body, 4<<10)
		n, err := c.reader.in.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Close closes the connection. It may be called during Do, which then fails.
func (c *HTTP) Close() error { return c.conn.Close() }

// Request returns the bytes of one request, to be built once and sent often. token is a
// bearer token, or empty. A body is application/json unless headers say otherwise, and
// the host is localhost unless headers name one.
func Request(method, path, token string, headers [][2]string, body []byte) []byte {
	return AppendRequest(nil, method, path, token, headers, body)
}

// AppendRequest appends what Request returns to a reused buffer, for requests that differ
// from each other. Line breaks in values for the head are a programming error and panic.
func AppendRequest(to []byte, method, path, token string, headers [][2]string, body []byte) []byte {
	to = append(to, clean(method)...)
	to = append(append(to, ' '), clean(path)...)
	to = append(to, " HTTP/1.1\r\n"...)
	if !names(headers, "Host") {
		to = appendField(to, "Host", "localhost")
	}
	if token != "" {
		to = append(to, "Authorization: Bearer "...)
		to = append(append(to, clean(token)...), "\r\n"...)
	}
	for _, h := range headers {
		to = appendField(to, h[0], h[1])
	}
	if len(body) > 0 && !names(headers, "Content-Type") {
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

func names(headers [][2]string, name string) bool {
	for _, h := range headers {
		if strings.EqualFold(h[0], name) {
			return true
		}
	}
	return false
}

func clean(s string) string {
	if strings.ContainsAny(s, "\r\n") {
		panic("wire: a line break in the head of a request: " + strconv.Quote(s))
	}
	return s
}
