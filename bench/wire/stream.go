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

// streamBuffer is small because a measurement of idle streams has ten thousand
// of them; an event that is larger grows the buffers of its stream.
const streamBuffer = 4 << 10

// Stream is one open text/event-stream, read by one goroutine at a time. After
// an error it stays broken and says the same again.
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
	// Name is the event's type, "message" where the stream names none.
	Name string
	// Data is the event's lines of data with a line feed between them.
	Data []byte
}

// DialStream asks for path and returns when the head of a stream has come: the
// server then knows of the subscriber. Anything but 200 with text/event-stream
// is a *StatusError. token and lastEventID may be empty. The context ends the
// opening, not the stream.
func DialStream(ctx context.Context, address, path, token, lastEventID string) (*Stream, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	abandon := context.AfterFunc(ctx, func() { conn.Close() })
	s, err := openStream(conn, path, token, lastEventID)
	if !abandon() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func openStream(conn net.Conn, path, token, lastEventID string) (*Stream, error) {
	headers := [][2]string{{"Accept", "text/event-stream"}, {"Cache-Control", "no-cache"}}
	if lastEventID != "" {
		headers = append(headers, [2]string{"Last-Event-ID", lastEventID})
	}
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(Request("GET", path, token, headers, nil)); err != nil {
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

// SetSilence changes how long the other end may say nothing at all. Comments and
// heartbeats count as a sign of life.
func (s *Stream) SetSilence(d time.Duration) { s.silence = d }

// LastEventID is the last id that the stream named, with or without an event:
// where to resume. It is empty before the first.
func (s *Stream) LastEventID() string { return s.id }

// Next waits for the next event, passing over comments, events without data and
// events named "heartbeat". io.EOF means that the other end closed the stream
// between two lines; an event that was not complete by then does not count.
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

// block reads up to the next empty line or comment: an event, or a sign of life.
// A comment in the middle of an event would cut it in two, so it only counts
// before one.
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
			// Streams say the same few names again and again: a string is made only
			// where it differs from the last.
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

// line is the next line of the stream. Lines end in LF or CR LF: no server that
// is measured here ends them with a lone CR.
func (s *Stream) line() ([]byte, error) {
	line, err := s.lines.line(BodyBytesMax)
	if !s.begun && err == nil {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return line, err
}

// Close closes the stream. It may be called while Next waits, which then fails.
func (s *Stream) Close() error { return s.conn.Close() }

// chunks is the body of a chunked answer as it comes, for streams that have no
// end to wait for.
type chunks struct {
	from reader
	left int
	// begun means that the line end of an earlier chunk is still to be read: it
	// may come later than the chunk, which should not wait for it.
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
