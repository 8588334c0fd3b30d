package rest

import (
	"bytes"
	"encoding/binary"

	"github.com/go-json-experiment/json/jsontext"
)

// plainMembersMax bounds the members of a plain body.
const plainMembersMax = 16

// plainMember is a member of a plain body, with its value as it is written.
type plainMember struct {
	name  nameOf
	value jsontext.Value
}

// plain reads a body as nearly all clients send it: one object of known members, each of
// them once, whose values are null, texts in ASCII without escapes, or objects for fields
// that take any. Any other body, valid or not, is left to the full reader: the result is
// false, and nothing has been read. The values are judged by what judges them there.
func (d *decoder) plain(body []byte) bool {
	var found [plainMembersMax]plainMember
	n, ok := d.plan.scanPlain(body, &found)
	if !ok {
		return false
	}
	var seen [membersMax]uint8
	for _, m := range found[:n] {
		f := &d.plan.fields[m.name.field]
		isNull := m.value.Kind() == 'n'
		if isNull && !f.shape.clearable {
			continue
		}
		seen[m.name.field] = m.name.rank
		v := d.into.FieldByIndex(f.index)
		if isNull {
			clearField(v)
			continue
		}
		here := place{up: d.root, name: f.names[m.name.rank-1]}
		f.shape.fromJSON(m.value, v, &here, d.faults)
	}
	d.missing(d.plan, d.into, d.root, &seen, unknownNames{})
	return true
}

// scanPlain splits a plain body into its members; ok is false for any other.
func (m *members) scanPlain(body []byte, found *[plainMembersMax]plainMember) (n int, ok bool) {
	body = skipBlank(body)
	if len(body) == 0 || body[0] != '{' {
		return 0, false
	}
	var named uint64 // a bit for each field
	for ; n < plainMembersMax; n++ {
		body = skipBlank(body[1:])
		end := plainText(body)
		if end == 0 {
			return 0, false
		}
		name, known := m.byName[string(body[1:end-1])]
		if !known || named&(1<<name.field) != 0 {
			return 0, false
		}
		named |= 1 << name.field
		body = skipBlank(body[end:])
		if len(body) == 0 || body[0] != ':' {
			return 0, false
		}
		body = skipBlank(body[1:])
		if end = m.fields[name.field].shape.plainValue(body); end == 0 {
			return 0, false
		}
		found[n] = plainMember{name, jsontext.Value(body[:end])}
		body = skipBlank(body[end:])
		switch {
		case len(body) == 0:
			return 0, false
		case body[0] == '}':
			return n + 1, len(skipBlank(body[1:])) == 0
		case body[0] != ',':
			return 0, false
		}
	}
	return 0, false
}

// plainValue returns the length of the plain value at the beginning of b that a field of
// the shape may have; 0 if there is none.
func (s *shape) plainValue(b []byte) int {
	switch {
	case len(b) == 0 || s.kind == kindStruct || s.kind == kindList || s.kind == kindMap:
		return 0
	case b[0] == '"':
		return plainText(b)
	case b[0] == 'n' && bytes.HasPrefix(b, []byte("null")):
		return len("null")
	case b[0] == '{' && s.kind == kindObject:
		end := nestEnd(b)
		raw := jsontext.Value(b[:end])
		if end > 0 && raw.IsValid() && 1+depthOf(raw) <= depthMax {
			return end
		}
	}
	return 0
}

// plainText returns the length of the string at the beginning of b, with its quotes, if
// it is printable ASCII without escapes; 0 otherwise.
func plainText(b []byte) int {
	if len(b) < 2 || b[0] != '"' {
		return 0
	}
	length := bytes.IndexByte(b[1:], '"')
	if length < 0 || !isPlain(b[1:1+length]) {
		return 0
	}
	return length + 2
}

// isPlain reports whether a text is printable ASCII without a backslash. It looks at eight
// bytes at a time: payloads are long.
func isPlain(text []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		w := binary.LittleEndian.Uint64(text)
		slash := w ^ '\\'*ones // a byte is 0 where w has a backslash
		// In each sum the top bit of a byte is set if the byte is less than the limit. A
		// borrow from a lower byte can set one wrongly, but never clear one, and the lower
		// byte then has its own set.
		if (w|(w-' '*ones)|(slash-ones)&^slash)&tops != 0 {
			return false
		}
	}
	for _, c := range text {
		if c < ' ' || c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

// nestEnd returns the length of the object at the beginning of b, as far as braces outside
// of strings show it; 0 if it does not end.
func nestEnd(b []byte) int {
	for at, depth := 0, 0; at < len(b); at++ {
		switch b[at] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return at + 1
			}
		case '"':
			at += textEnd(b[at:])
		}
	}
	return 0
}

func skipBlank(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}
