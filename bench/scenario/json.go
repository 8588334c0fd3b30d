package scenario

import (
	"bytes"
	"net/url"
)

// members walks the members of one JSON object without allocating. Values are returned
// as they are in the text, strings with their quotes. It expects valid answers; it
// reports an invalid object at the latest when ended is called. After that, rest is the
// text that follows the object.
type members struct {
	rest []byte
	bad  bool
	done bool
}

func membersOf(object []byte) members {
	object = skipBlank(object)
	if len(object) < 2 || object[0] != '{' {
		return members{bad: true}
	}
	return members{rest: object[1:]}
}

// ended reports whether the walk reached the end of a valid object.
func (m *members) ended() bool { return m.done && !m.bad }

// next returns the next member; ok is false after the last member and at an error.
func (m *members) next() (name, value []byte, ok bool) {
	if name, ok = m.name(); !ok {
		return nil, nil, false
	}
	value, ok = m.value()
	return name, value, ok
}

// name returns the name of the next member. The caller must then take its value, by
// value or by walking rest.
func (m *members) name() (name []byte, ok bool) {
	if m.bad || m.done {
		return nil, false
	}
	m.rest = skipBlank(m.rest)
	if len(m.rest) > 0 && m.rest[0] == ',' {
		m.rest = skipBlank(m.rest[1:])
	}
	if len(m.rest) > 0 && m.rest[0] == '}' {
		m.done, m.rest = true, m.rest[1:]
		return nil, false
	}
	name, rest, ok := cutValue(m.rest)
	rest = skipBlank(rest)
	if !ok || len(name) < 2 || name[0] != '"' || len(rest) == 0 || rest[0] != ':' {
		m.bad = true
		return nil, false
	}
	m.rest = skipBlank(rest[1:])
	return name[1 : len(name)-1], true
}

func (m *members) value() (value []byte, ok bool) {
	value, m.rest, ok = cutValue(m.rest)
	m.bad = m.bad || !ok
	return value, ok
}

func skipBlank(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// cutValue splits off the JSON value at the start of b.
func cutValue(b []byte) (value, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	end := 0
	switch b[0] {
	case '"':
		end = stringEnd(b)
	case '{', '[':
		end = nestEnd(b)
	default:
		for end < len(b) && b[end] != ',' && b[end] != '}' && b[end] != ']' && b[end] > ' ' {
			end++
		}
	}
	if end <= 0 {
		return nil, nil, false
	}
	return b[:end], b[end:], true
}

// stringEnd returns the index after the string at the start of b; 0 if the string does
// not end.
func stringEnd(b []byte) int {
	for at := 1; ; {
		quote := bytes.IndexByte(b[at:], '"')
		if quote < 0 {
			return 0
		}
		at += quote
		escapes := 0
		for b[at-1-escapes] == '\\' {
			escapes++
		}
		at++
		if escapes%2 == 0 {
			return at
		}
	}
}

// nestEnd returns the index after the object or array at the start of b.
func nestEnd(b []byte) int {
	depth := 0
	for at := 0; at < len(b); at++ {
		switch b[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		case '"':
			end := stringEnd(b[at:])
			if end == 0 {
				return 0
			}
			at += end - 1
		}
	}
	return 0
}

// plainText returns the content of a string without escapes, such as ids, handles and
// payloads; nil for null and for everything else.
func plainText(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil
	}
	return value[1 : len(value)-1]
}

// escapeCursor escapes a cursor for a query string.
func escapeCursor(cursor []byte) string { return url.QueryEscape(string(cursor)) }
