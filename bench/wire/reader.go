package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// step bounds how far a body's buffer grows ahead of the received bytes: an answer that
// only claims to be large must not take memory.
const step = 256 << 10

// reader reads lines and counted bytes. Lines usually lie in the buffer of in; a line
// that does not fit is assembled in long.
type reader struct {
	in   *bufio.Reader
	long []byte
}

// line returns the next line without its CR LF or LF, valid until the next read. limit
// includes the line's end.
func (r *reader) line(limit int) ([]byte, error) {
	part, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = r.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) && len(r.long) <= limit {
			r.long = append(r.long, part...)
			part, err = r.in.ReadSlice('\n')
		}
		r.long = append(r.long, part...)
		part = r.long
	}
	switch {
	case len(part) > limit:
		return nil, ErrTooLarge
	case errors.Is(err, io.EOF) && len(part) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	part = part[:len(part)-1]
	return bytes.TrimSuffix(part, []byte{'\r'}), nil
}

// take appends the next n bytes to into.
func (r *reader) take(into []byte, n int) ([]byte, error) {
	if n > BodyBytesMax-len(into) {
		return into, ErrTooLarge
	}
	for n > 0 {
		now, start := min(n, step), len(into)
		into = slices.Grow(into, now)[:start+now]
		if _, err := io.ReadFull(r.in, into[start:]); err != nil {
			return into, cutOff(err)
		}
		n -= now
	}
	return into, nil
}

// end reads the CR LF after counted bytes.
func (r *reader) end() error {
	rest, err := r.line(HeadBytesMax)
	if err != nil {
		return cutOff(err)
	}
	if len(rest) != 0 {
		return malformed("counted bytes do not end where they should", rest)
	}
	return nil
}

// chunk reads the size line of the next chunk. After the last chunk, whose size
// is 0, it reads the trailer as well.
func (r *reader) chunk() (int, error) {
	line, err := r.line(HeadBytesMax)
	if err != nil {
		return 0, cutOff(err)
	}
	digits, _, _ := bytes.Cut(line, []byte{';'})
	size, ok := hexadecimal(bytes.TrimRight(digits, " \t"))
	if !ok {
		return 0, malformed("a chunk begins with its size", line)
	}
	if size > 0 {
		return size, nil
	}
	for room := HeadBytesMax; ; {
		line, err := r.line(room)
		if err != nil {
			return 0, cutOff(err)
		}
		if len(line) == 0 {
			return 0, nil
		}
		room -= len(line)
	}
}

// cutOff converts an end of input in the middle of an answer to io.ErrUnexpectedEOF.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// hexadecimal and decimal parse sizes without the string that strconv needs for its
// error. Both reject values that cannot be a size.
func hexadecimal(digits []byte) (int, bool) {
	if len(digits) == 0 || len(digits) > 15 {
		return 0, false
	}
	n := 0
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | int(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

func decimal(digits []byte) (int, bool) {
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// fold reports whether name equals want, ignoring case; want is lower case.
func fold(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

// head holds the parts of an HTTP answer's head that decide how to continue.
type head struct {
	status int
	// length is the Content-Length, or -1 without one.
	length  int
	chunked bool
	// closing means that no other answer follows on this connection.
	closing     bool
	retryAfter  []byte
	contentType []byte
}

// head reads heads until a final one and skips interim answers (1xx). Its slices point
// into keep, which it returns extended.
func (r *reader) head(keep []byte) (head, []byte, error) {
	for room := HeadBytesMax; ; {
		h, kept, left, err := r.oneHead(keep, room)
		if err != nil || h.status >= 200 {
			return h, kept, err
		}
		if h.status == 101 {
			return h, kept, malformed("nobody asked for another protocol", []byte("101"))
		}
		keep, room = kept, left
	}
}

func (r *reader) oneHead(keep []byte, room int) (head, []byte, int, error) {
	h := head{length: -1}
	keep = keep[:0]
	line, err := r.line(room)
	if err != nil {
		return h, keep, 0, err
	}
	room -= len(line)
	if h.status, h.closing, err = statusLine(line); err != nil {
		return h, keep, 0, err
	}
	for {
		line, err := r.line(room)
		if err != nil {
			return h, keep, 0, cutOff(err)
		}
		if len(line) == 0 {
			break
		}
		room -= len(line)
		if keep, err = h.field(line, keep); err != nil {
			return h, keep, 0, err
		}
	}
	if h.chunked && h.length >= 0 {
		return h, keep, 0, malformed("chunked and counted at once", strconv.AppendInt(nil, int64(h.length), 10))
	}
	return h, keep, room, nil
}

// statusLine reads "HTTP/1.1 201 Created".
func statusLine(line []byte) (status int, closing bool, err error) {
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, false, malformed("an answer begins with its status line", line)
	}
	status, ok := decimal(line[9:12])
	if !ok || status < 100 {
		return 0, false, malformed("an answer begins with its status line", line)
	}
	return status, line[7] == '0', nil
}

// field records the relevant fields. It copies slices to keep, because the next read
// overwrites the line.
func (h *head) field(line, keep []byte) ([]byte, error) {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return keep, malformed("a field has a name and a colon", line)
	}
	name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
	switch {
	case fold(name, "content-length"):
		n, ok := decimal(value)
		if !ok || h.length >= 0 && h.length != n {
			return keep, malformed("Content-Length is one number", line)
		}
		h.length = n
	case fold(name, "transfer-encoding"):
		if !fold(value, "chunked") {
			return keep, malformed("the only transfer encoding here is chunked", line)
		}
		h.chunked = true
	case fold(name, "connection"):
		h.closing = h.closing && !fold(value, "keep-alive") || fold(value, "close")
	case fold(name, "retry-after"):
		start := len(keep)
		keep = append(keep, value...)
		h.retryAfter = keep[start:]
	case fold(name, "content-type"):
		start := len(keep)
		keep = append(keep, value...)
		h.contentType = keep[start:]
	}
	return keep, nil
}

// reading adds to an error what was being read.
func reading(what string, err error) error {
	return fmt.Errorf("wire: %s: %w", what, err)
}
