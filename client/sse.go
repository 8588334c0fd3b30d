package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// ErrEventTooLong means that a stream sent a line or an event beyond eventBytesMax.
var ErrEventTooLong = errors.New("the stream sent an event that is too long")

// eventBytesMax bounds a line and the data of an event, in bytes. A message with the
// largest payload, copy and metadata stays below a third of it.
const eventBytesMax = 1 << 20

// block is the text between two blank lines of an event stream.
type block struct {
	event string
	data  []byte
	// hasData distinguishes an event from a block that only changed the last id.
	hasData bool
}

// eventReader parses an event stream by the WHATWG HTML standard, section "Server-sent
// events".
type eventReader struct {
	r *bufio.Reader
	// lastID is the last event ID buffer, which persists across blocks.
	lastID string
	// retry is the reconnection time the server asked for, 0 if it has not.
	retry time.Duration
	begun bool
	// afterCR: a line feed that follows belongs to the line that has just ended.
	afterCR bool
	line    []byte
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 4096)}
}

// next returns the next block. A block cut off by the end of the stream is discarded, as
// the standard requires; lastID changes only when a block is complete.
func (e *eventReader) next() (block, error) {
	var b block
	id := e.lastID
	for {
		line, err := e.readLine()
		if err != nil {
			return block{}, err
		}
		if len(line) == 0 {
			moved := id != e.lastID
			e.lastID = id
			if b.hasData {
				b.data = b.data[:len(b.data)-1] // the last line feed
				return b, nil
			}
			if moved {
				return block{}, nil
			}
			b = block{}
			continue
		}
		name, value := cutField(line)
		switch name {
		case "event":
			b.event = string(value)
		case "data":
			b.hasData = true
			b.data = append(append(b.data, value...), '\n')
			if len(b.data) > eventBytesMax {
				return block{}, ErrEventTooLong
			}
		case "id":
			if usableID(value) {
				id = string(value)
			}
		case "retry":
			e.setRetry(value)
		}
	}
}

// cutField splits a line at its first colon. A comment has an empty name.
func cutField(line []byte) (string, []byte) {
	name, value, found := bytes.Cut(line, []byte{':'})
	if found && len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return string(name), value
}

// usableID rejects NUL, as the standard does, and the other control characters, which a
// header cannot contain.
func usableID(value []byte) bool {
	for _, b := range value {
		if b < ' ' || b == 0x7f {
			return false
		}
	}
	return true
}

func (e *eventReader) setRetry(value []byte) {
	for _, b := range value {
		if b < '0' || b > '9' {
			return
		}
	}
	if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
		e.retry = time.Duration(ms) * time.Millisecond
	}
}

// readLine returns a line without its end, which is CRLF, LF or CR. The slice is valid
// until the next call.
func (e *eventReader) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if e.afterCR {
			e.afterCR = false
			if c == '\n' {
				continue
			}
		}
		if !e.begun {
			e.begun = true
			if c == 0xEF && e.skipBOM() {
				continue
			}
		}
		switch c {
		case '\r':
			e.afterCR = true
			return e.line, nil
		case '\n':
			return e.line, nil
		}
		if len(e.line) == eventBytesMax {
			return nil, ErrEventTooLong
		}
		e.line = append(e.line, c)
	}
}

// skipBOM skips the rest of a byte order mark at the beginning of the stream.
func (e *eventReader) skipBOM() bool {
	rest, err := e.r.Peek(2)
	if err != nil || rest[0] != 0xBB || rest[1] != 0xBF {
		return false
	}
	_, _ = e.r.Discard(2)
	return true
}
