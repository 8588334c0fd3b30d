package httpserver

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"parley/http/rest"
)

const (
	// chunkLineMax bounds the line with a chunk's size and extensions, in bytes.
	chunkLineMax = 256
	// trailersMax bounds the number of lines after the last chunk.
	trailersMax = 16
)

var errChunks = errors.New("the chunks of a body are malformed")

// chunks reads a chunked body from the bytes on the wire. It is stricter than the engine,
// which accepts a bare LF as the end of a line, turns trailers into headers, and does not
// distinguish the end of a body from that of its connection.
// // source: RFC 9112 section 7.1
type chunks struct {
	from io.Reader
	// may checks the length of the body so far, before the bytes of a chunk are read.
	may func(total int) error
	// single are the names that a trailer must not have: headers that affect how the
	// request is processed.
	single []string

	begun, ended bool
	left, total  int
	line         [chunkLineMax]byte
}

func (c *chunks) Read(p []byte) (n int, err error) {
	for c.left == 0 {
		if c.ended {
			return 0, io.EOF
		}
		if err := c.next(); err != nil {
			return 0, cut(err)
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err = c.from.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, cut(err)
}

// next reads up to the bytes of the next chunk, or to the end of the body.
func (c *chunks) next() error {
	if c.begun {
		if line, err := c.readLine(); err != nil || len(line) > 0 {
			return errors.Join(errChunks, err)
		}
	}
	c.begun = true
	line, err := c.readLine()
	if err != nil {
		return err
	}
	digits, extension, extended := bytes.Cut(line, []byte{';'})
	if c.left, err = chunkSize(digits); err != nil || extended && !visible(extension) {
		return errors.Join(errChunks, err)
	}
	if c.left == 0 {
		c.ended = true
		return c.trailers()
	}
	c.total += c.left
	return c.may(c.total)
}

// trailers skips the fields after the last chunk. They are ignored.
func (c *chunks) trailers() error {
	for range trailersMax {
		line, err := c.readLine()
		if err != nil || len(line) == 0 {
			return err
		}
		name, value, found := bytes.Cut(line, []byte{':'})
		decides := slices.ContainsFunc(c.single, func(s string) bool { return len(s) == len(name) && bytes.EqualFold([]byte(s), name) })
		if !found || len(name) == 0 || slices.ContainsFunc(name, notToken) || !visible(value) || decides || forbiddenTrailer(name) {
			return errChunks
		}
	}
	return errChunks
}

// readLine returns the next line without its CR LF. The next call overwrites it.
func (c *chunks) readLine() ([]byte, error) {
	for n := range c.line {
		if _, err := io.ReadFull(c.from, c.line[n:n+1]); err != nil {
			return nil, err
		}
		if c.line[n] == '\n' {
			if n == 0 || c.line[n-1] != '\r' {
				return nil, errChunks
			}
			return c.line[:n-1], nil
		}
	}
	return nil, errChunks
}

// chunkSize parses the size of a chunk: a few hexadecimal digits and nothing else.
func chunkSize(digits []byte) (n int, err error) {
	if len(digits) == 0 || len(digits) > 7 {
		return 0, errChunks
	}
	for _, d := range digits {
		if rest.Unhex(d) > 15 {
			return 0, errChunks
		}
		n = n<<4 | int(rest.Unhex(d))
	}
	return n, nil
}

// visible reports whether a text has no control characters except tabs.
func visible(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// notToken reports whether a character is not allowed in a field name.
func notToken(c byte) bool {
	return (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) < 0
}

// forbiddenTrailer names what frames a message besides the headers that decide.
func forbiddenTrailer(name []byte) bool {
	return bytes.EqualFold(name, []byte("trailer"))
}

// cut is the end of a connection before that of the body.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
