package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// streamBuffer is small because a measurement of idle streams has ten thousand of them. A
// larger event grows the buffers of its stream.
const streamBuffer = 4 << 10

// Stream is one open text/event-stream, read by one goroutine at a time. After an error
// it stays broken and returns the same error again.
type Stream struct {
	conn    net.Conn
	lines   reader
	silence time.Duration
	// begun is false before the first line, which may have a byte order mark.
	begun    bool
	id, name string
	data     []byte
	broken   error
}

// Event is one event. Data is valid until the next Next.
type Event struct {
	// ID is the last id that the stream named, in this event or an earlier one.
	ID string
	// Name is the event's type; "message" if the stream names none.
	Name string
	// Data is the event's lines of data with a line feed between them.
	Data []byte
}

// DialStream requests path and returns when the head of a stream has arrived: the server
// has then registered the subscriber. If the answer is not 200 with text/event-stream,
// the error is a *StatusError. token and lastEventID may be empty. The context applies to
// the opening, not to the stream.
func DialStream(ctx context.Context, address, path, token, lastEventID string) (*Stream, error) {
	return DialStreamFrom(ctx, nil, address, path, token, lastEventID)
}

// DialStreamFrom is DialStream from an address of this machine, nil for any.
func DialStreamFrom(ctx context.Context, from net.IP, address, path, token, lastEventID string) (*Stream, error) {
	headers := [][2]string{{"Accept", "text/event-stream"}, {"Cache-Control", "no-cache"}}
	if lastEventID != "" {
		headers = append(headers, [2]string{"Last-Event-ID", lastEventID})
	}
	return OpenStream(ctx, from, address, Request("GET", path, token, headers, nil))
}

// OpenStream is DialStreamFrom with a request made by Request, which the other end should
// answer with a stream.
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
		return nil, reading("asking for a stream", err)
	}
	lines := reader{in: bufio.NewReaderSize(conn, streamBuffer)}
	h, _, err := lines.head(nil)
	if err != nil {
		return nil, reading("reading the head of a stream", cutOff(err))
	}
	kind, _, _ := bytes.Cut(h.contentType, []byte{';'})
	if h.status != 200 || !fold(bytes.TrimRight(kind, " \t"), "text/event-stream") {
		return nil, &StatusError{Status: h.status, ContentType: string(h.contentType)}
	}
	s := &Stream{conn: conn, lines: lines, silence: Silence}
	if h.chunked {
		s.lines = reader{in: bufio.NewReaderSize(&chunks{from: lines}, streamBuffer)}
	}
	return s, nil
}

// SetSilence sets how long the other end may send nothing at all. Comments and heartbeats
// reset this time.
func (s *Stream) SetSilence(d time.Duration) { s.silence = d }

// LastEventID returns the last id that the stream named, with or without an event; a new
// stream resumes after it. It is empty before the first id.
func (s *Stream) LastEventID() string { return s.id }

// Next waits for the next event. It skips comments, events without data and events named
// "heartbeat". io.EOF means that the other end closed the stream between two lines; an
// incomplete event is dropped.
func (s *Stream) Next() (Event, error) {
	if s.broken != nil {
		return Event{}, s.broken
	}
	event, err := s.next()
	if err != nil && !errors.Is(err, io.EOF) {
		err = reading("reading a stream", err)
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
			return Event{ID: s.id, Name: s.name, Data: s.data[:len(s.data)-1]}, nil
		}
	}
}

// block reads up to the next empty line or comment: an event, or a sign of life. A
// comment within an event does not end the block, because it would cut the event in two.
func (s *Stream) block() error {
	name := false
	s.data = s.data[:0]
	for begun := false; ; begun = true {
		line, err := s.line()
		switch {
		case err != nil:
			return err
		case len(line) == 0, line[0] == ':' && !begun:
			if !name {
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
			if name = len(value) > 0; string(value) != s.name {
				s.name = string(value)
			}
		case "id":
			if string(value) != s.id {
				s.id = string(value)
			}
		}
	}
}

// line returns the next line of the stream. Lines end in LF or CR LF: no measured server
// ends them with a lone CR.
func (s *Stream) line() ([]byte, error) {
	line, err := s.lines.line(BodyBytesMax)
	if !s.begun && err == nil {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return line, err
}

// Close closes the stream. It may be called during Next, which then fails.
func (s *Stream) Close() error { return s.conn.Close() }

// chunks reads the body of a chunked answer as it arrives, for streams that do not end.
type chunks struct {
	from reader
	left int
	// begun means that the line end of an earlier chunk must still be read: it may arrive
	// later than the chunk, which must not wait for it.
	begun, ended bool
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.left == 0 && !c.ended {
		if c.begun {
			if err := c.from.end(); err != nil {
				return 0, err
			}
		}
		n, err := c.from.chunk()
		if err != nil {
			return 0, err
		}
		c.left, c.begun, c.ended = n, true, n == 0
	}
	if c.ended {
		return 0, io.EOF
	}
	n, err := c.from.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, cutOff(err)
}
