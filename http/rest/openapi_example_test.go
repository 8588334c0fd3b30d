package rest

import (
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// Examples are built from the tags of the wire structs. The example of a struct contains
// its fields with an example tag, and its required fields without one, with the first
// value that their rules allow.

const (
	exampleID      = "01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1"
	exampleInstant = "2026-11-21T13:04:29.017000Z"
)

// bodyExample returns an example of a JSON body or form.
func bodyExample(t reflect.Type, m *members) object {
	example := object{}
	for i := range m.fields {
		f := &m.fields[i]
		if text := exampleTag(t, f); text != "" {
			example = example.with(f.name, fromTag(f.shape, text))
		} else if f.shape.required {
			example = example.with(f.name, valueExample(f.shape))
		}
	}
	return example
}

func exampleTag(owner reflect.Type, f *field) string {
	return owner.FieldByIndex(f.index).Tag.Get("example")
}

// fromTag returns the value of an example tag, which is JSON except for texts.
func fromTag(s *shape, text string) any {
	switch s.kind {
	case kindString, kindID, kindInstant, kindText:
		return text
	}
	return jsontext.Value(text)
}

// valueExample returns an example of a value without a tag.
func valueExample(s *shape) any {
	if s.enum != nil {
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
		return bodyExample(s.typ, s.members)
	case kindObject, kindMap:
		return object{}
	case kindArray, kindList:
		return []any{}
	default:
		return "text"
	}
}
