package rest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// reservedMembers has, by name, which members of a reserved member clients may send: none if the
// list is empty, and then the member itself is dropped.
type reservedMembers map[string][]string

// reservedOf reads a tag: names, each of which may have a list of what is allowed within it, as in
// "provenance,a2a=parts cleartext".
func reservedOf(tag string) reservedMembers {
	if tag == "" {
		return nil
	}
	r := reservedMembers{}
	for one := range strings.SplitSeq(tag, ",") {
		name, allowed, _ := strings.Cut(one, "=")
		r[name] = strings.Fields(allowed)
	}
	return r
}

// WithoutMembers returns a compact JSON object without members.
func WithoutMembers(object jsontext.Value, names ...string) jsontext.Value {
	return reservedOf(strings.Join(names, ",")).dropFrom(object)
}

// dropFrom returns a compact JSON object without the members that are reserved.
func (r reservedMembers) dropFrom(object jsontext.Value) jsontext.Value {
	for name := range r {
		if bytes.Contains(object, []byte(`"`+name+`":`)) { // there or deeper
			return eachMember(object, func(name string, value jsontext.Value) jsontext.Value {
				allowed, reserved := r[name]
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
	}
	return object
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
