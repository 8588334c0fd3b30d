package rest

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// To find duplicate names, the JSON reader keeps all names of an object: 80,000 members,
// in less than 1 MiB, take tens of milliseconds and 12 MB, or 27 MB in metadata. So a
// body may have, at any depth, as many members as its schema allows, and a limited number
// of unknown ones.

const (
	// memberBytesMin is the minimum size of a member: "":1 and a comma.
	memberBytesMin = 5
	// extraMembers is how many members a body may have besides those of its schema,
	// anyMembers how many a value without a schema may have.
	extraMembers = 1024
	anyMembers   = 16
)

// capacity returns how many members an object of the plan can have.
func (m *members) capacity() (n int) {
	for i := range m.fields {
		f := &m.fields[i]
		n += len(f.names) * (1 + f.shape.capacity())
	}
	return n
}

// capacity returns how many members a value can have inside.
func (s *shape) capacity() int {
	switch s.kind {
	case kindObject, kindArray, kindAny:
		if s.maxBytes > 0 {
			return s.maxBytes / memberBytesMin
		}
		return anyMembers
	case kindStruct:
		return s.members.capacity()
	case kindList:
		return s.maxItems * s.item.capacity()
	case kindMap:
		return s.maxItems
	default:
		return 0
	}
}

// tooManyMembers checks a body before it is parsed. It counts the colons outside of
// strings: valid JSON has one for each member. deep reports that the body nests deeper
// than depthMax before its members are too many.
func tooManyMembers(body []byte, most int) (many, deep bool) {
	if len(body) < memberBytesMin*most {
		return false, false
	}
	for n, depth := 0, 0; len(body) > 0; body = body[1:] {
		switch body[0] {
		case '{', '[':
			depth++
			deep = deep || depth > depthMax
		case '}', ']':
			depth--
		case ':':
			if n++; n > most {
				return true, deep
			}
		case '"':
			body = body[textEnd(body):]
			if len(body) == 0 {
				return false, deep
			}
		}
	}
	return false, deep
}

// textEnd returns the position of the closing quote of the string at the beginning of b,
// or len(b) if there is none.
func textEnd(b []byte) int {
	for at := 1; ; at++ {
		quote := bytes.IndexByte(b[at:], '"')
		if quote < 0 {
			return len(b)
		}
		at += quote
		escapes := 0
		for b[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}

func msgMembers(most int) string {
	return "Value error, the body has more than " + strconv.Itoa(most) + " members"
}

// reservedMembers are members that the server writes.
type reservedMembers struct {
	// allowed has, by name, which members of a reserved member clients may send: none if the list
	// is empty, and then the member itself is dropped.
	allowed map[string][]string
	// written are the names as they stand in compact JSON.
	written [][]byte
}

// reservedOf reads a tag: names, each of which may have a list of what is allowed within it, as in
// "provenance,a2a=parts cleartext".
func reservedOf(tag string) reservedMembers {
	r := reservedMembers{allowed: map[string][]string{}}
	for one := range strings.SplitSeq(tag, ",") {
		if name, allowed, _ := strings.Cut(one, "="); name != "" {
			r.allowed[name] = strings.Fields(allowed)
			r.written = append(r.written, []byte(`"`+name+`":`))
		}
	}
	return r
}

// WithoutMembers returns a compact JSON object without members.
func WithoutMembers(object jsontext.Value, names ...string) jsontext.Value {
	return reservedOf(strings.Join(names, ",")).dropFrom(object)
}

// dropFrom returns a compact JSON object without the members that are reserved.
func (r reservedMembers) dropFrom(object jsontext.Value) jsontext.Value {
	named := func(name []byte) bool { return bytes.Contains(object, name) } // there or deeper
	if !slices.ContainsFunc(r.written, named) {
		return object
	}
	return eachMember(object, func(name string, value jsontext.Value) jsontext.Value {
		allowed, reserved := r.allowed[name]
		switch {
		case !reserved:
			return value
		case len(allowed) == 0 || value.Kind() != '{':
			return nil
		}
		return eachMember(value, func(inner string, value jsontext.Value) jsontext.Value {
			if !slices.Contains(allowed, inner) {
				return nil
			}
			return value
		})
	})
}

// eachMember returns a compact JSON object with what keep returns for each member, nil for none.
func eachMember(object jsontext.Value, keep func(name string, value jsontext.Value) jsontext.Value) jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	kept := jsontext.Value{'{'}
	for _, _ = d.ReadToken(); d.PeekKind() == '"'; {
		quoted, _ := d.ReadValue() // the object is valid
		plain, _ := jsontext.AppendUnquote(nil, quoted)
		start := len(kept)
		kept = append(append(kept, quoted...), ':') // the decoder reuses its memory
		value, err := d.ReadValue()
		if err != nil {
			return object
		}
		if value = keep(string(plain), value); value == nil {
			kept = kept[:start]
			continue
		}
		kept = append(append(kept, value...), ',')
	}
	return append(bytes.TrimSuffix(kept, []byte{','}), '}')
}
