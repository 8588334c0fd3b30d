package rest

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Examples are built from the tags of the wire structs. The example of a struct contains
// its fields with an example tag, and its required fields without one, with the first
// value that their rules allow.

const (
	exampleID      = "01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1"
	exampleInstant = "2026-11-21T13:04:29.017000Z"
)

// exampleBody returns an example of a JSON body or form.
func (b *schemas) exampleBody(m *members) object {
	example := object{}
	for i := range m.fields {
		if f := &m.fields[i]; f.shape.example != "" || f.shape.required {
			example = example.with(f.name, b.exampleOf(f.shape))
		}
	}
	return example
}

// exampleOf returns an example of a value: its tag, which is JSON except for texts, or a
// value derived from its rules.
func (b *schemas) exampleOf(s *shape) any {
	switch {
	case s.example != "" && (s.kind == kindString || s.kind == kindID || s.kind == kindInstant || s.kind == kindText):
		return b.brand.Replace(s.example)
	case s.example != "":
		return jsontext.Value(b.brand.Replace(s.example))
	case s.enum != nil:
		return s.enum[0]
	}
	switch s.kind {
	case kindBool:
		return true
	case kindInt, kindNumber:
		return max(s.minimum, 1)
	case kindID:
		return exampleID
	case kindInstant:
		return exampleInstant
	case kindStruct:
		return b.exampleBody(s.members)
	case kindObject, kindMap:
		return object{}
	case kindArray, kindList:
		return []any{}
	default:
		return "text"
	}
}
