package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"time"

	"github.com/valyala/fasthttp"
)

// streamBuffer is small because a measurement of idle streams has ten thousand of them. A
// larger event grows the buffers of its stream.
const streamBuffer = 4 << 10

// Stream is one open text/event-stream, read by one goroutine at a time. After an error
// it stays broken and returns the same error again.
type Stream struct {
	conn    net.Conn
	in      *bufio.Reader
	silence time.Duration
	name    string
	data    []byte
	// long holds a line that does not fit into the buffer of in.
	long   []byte
	broken error
}

// Event is one event. Data is valid until the next Next.
type Event struct {
	// Name is the event's type; "message" if the stream names none.
	Name string
	// Data is the event's lines of data with a line feed between them.
	Data []byte
}

// DialStream requests path and returns when the head of a stream has arrived: the server
// has then registered the subscriber. If the answer is not 200 with text/event-stream,
// the error is a *StatusError. from is the address of this machine to connect from, nil for
// any; token may be empty. The context applies to the opening, not to the stream.
func DialStream(ctx context.Context, from net.IP, address, path, token string) (*Stream, error) {
	headers := [][2]string{{"Accept", "text/event-stream"}, {"Cache-Control", "no-cache"}}
	return OpenStream(ctx, from, address, Request("GET", path, token, headers, nil))
}

// OpenStream is DialStream with a request made by Request, which the other end should answer
// with a stream.
func OpenStream(ctx context.Context, from net.IP, address string, request []byte) (*Stream, error) {
	conn, err := dial(ctx, from, address)
	if err != nil {
		return nil, err
	}
	abandon := context.AfterFunc(ctx, func() { conn.Close() })
	s, err := openStream(conn, request)
	if !abandon() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func openStream(conn net.Conn, request []byte) (*Stream, error) {
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(request); err != nil {
		return nil, fmt.Errorf("wire: asking for a stream: %w", err)
	}
	in := bufio.NewReaderSize(conn, streamBuffer)
	var head fasthttp.ResponseHeader
	if err := head.Read(in); err != nil {
		return nil, fmt.Errorf("wire: reading the head of a stream: %w", cause(err))
	}
	kind, _, _ := bytes.Cut(head.ContentType(), []byte{';'})
	if head.StatusCode() != 200 || !bytes.EqualFold(bytes.TrimSpace(kind), []byte("text/event-stream")) {
		return nil, &StatusError{Status: head.StatusCode(), ContentType: string(head.ContentType())}
	}
	if head.ContentLength() == -1 { // which is how fasthttp says that the body is chunked
		in = bufio.NewReaderSize(httputil.NewChunkedReader(in), streamBuffer)
	}
	return &Stream{conn: conn, in: in, silence: Silence}, nil
}

// Next waits for the next event. It skips comments, events without data and events named
// "heartbeat". io.EOF means that the other end closed the stream between two lines; an
// incomplete event is dropped.
func (s *Stream) Next() (Event, error) {
	if s.broken != nil {
		return Event{}, s.broken
	}
	event, err := s.next()
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("wire: reading a stream: %w", err)
	}
	s.broken = err
	return event, err
}

func (s *Stream) next() (Event, error) {
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(s.silence)); err != nil {
			return Event{}, err
		}
		if err := s.block(); err != nil {
			return Event{}, err
		}
		if len(s.data) > 0 && s.name != "heartbeat" {
			return Event{Name: s.name, Data: s.data[:len(s.data)-1]}, nil
		}
	}
}

// block reads up to the next empty line or comment: an event, or a sign of life. A
// comment within an event does not end the block, because it would cut the event in two.
func (s *Stream) block() error {
	named := false
	s.data = s.data[:0]
	for begun := false; ; begun = true {
		line, err := s.line()
		switch {
		case err != nil:
			return err
		case len(line) == 0, line[0] == ':' && !begun:
			if !named {
				s.name = "message"
			}
			return nil
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "data":
			if len(value) >= BodyBytesMax-len(s.data) {
				return ErrTooLarge
			}
			s.data = append(append(s.data, value...), '\n')
		case "event":
			// Streams repeat the same few names: a string is made only if the name
			// differs from the last.
			if named = len(value) > 0; string(value) != s.name {
				s.name = string(value)
			}
		}
	}
}

// line returns the next line of the stream without its end, valid until the next call. Lines
// end in LF or CR LF: no measured server ends them with a lone CR.
func (s *Stream) line() ([]byte, error) {
	part, err := s.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		s.long = s.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) && len(s.long) <= BodyBytesMax {
			s.long = append(s.long, part...)
			part, err = s.in.ReadSlice('\n')
		}
		s.long = append(s.long, part...)
		part = s.long
	}
	switch {
	case len(part) > BodyBytesMax:
		return nil, ErrTooLarge
	case errors.Is(err, io.EOF) && len(part) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(part[:len(part)-1], []byte{'\r'}), nil
}

// Close closes the stream. It may be called during Next, which then fails.
func (s *Stream) Close() error { return s.conn.Close() }
