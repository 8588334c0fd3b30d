package rest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// bindQuery fills the query fields. Unknown names are ignored.
func (p *plan) bindQuery(query []byte, in reflect.Value, faults *SchemaError) {
	pairs := splitPairs(string(query))
	bindPairs(pairs, "query", p.query, in, faults)
	if p.lists {
		p.refuseUnknown(pairs, faults)
	}
}

// refuseUnknown reports names that the query of a list does not have. Those that begin with an
// underscore or utm_ are added by browsers and trackers, and mean nothing here.
func (p *plan) refuseUnknown(pairs []pair, faults *SchemaError) {
	var unknown unknownNames
	var accepted, aliases []string
	for i := range p.query {
		accepted, aliases = append(accepted, p.query[i].name), append(aliases, p.query[i].names...)
	}
	for _, pair := range pairs {
		if !slices.Contains(aliases, pair.name) && !strings.HasPrefix(pair.name, "_") && !strings.HasPrefix(pair.name, "utm_") {
			unknown.add(pair.name)
		}
	}
	unknown.refuse(&place{name: "query"}, accepted, faults)
}

// bindForm fills the body fields from a form, in which no name may occur twice.
// source: RFC 6749 section 3.2
func (p *plan) bindForm(body []byte, in reflect.Value, faults *SchemaError) {
	pairs, seen := splitPairs(string(body)), map[string]bool{}
	for _, one := range pairs {
		if seen[one.name] {
			faults.add(&place{name: "body"}, FaultValue, "Value error, a parameter occurs twice")
			return
		}
		seen[one.name] = true
	}
	bindPairs(pairs, "body", p.body.fields, in, faults)
}

// bindPairs reads name=value pairs. If a scalar has several values, the last one counts;
// a list takes all of them.
func bindPairs(pairs []pair, source string, fields []field, in reflect.Value, faults *SchemaError) {
	root := place{name: source}
	for i := range fields {
		f := &fields[i]
		v := in.FieldByIndex(f.index)
		name, values := f.find(pairs)
		at := place{up: &root, name: name}
		switch {
		case len(values) == 0, f.blank && values[len(values)-1] == "":
			f.absent(v, &at, faults)
		case f.shape.kind == kindList:
			f.bindList(values, v, &at, faults)
		default:
			text, ok := decodePercent(values[len(values)-1], true)
			if !ok {
				faults.add(&at, FaultValue, msgEncoding)
				continue
			}
			f.shape.fromText(text, v, &at, faults)
		}
	}
}

// pair is one name=value pair, with its name decoded and its value not yet.
type pair struct{ name, value string }

func splitPairs(text string) []pair {
	var pairs []pair
	for text != "" {
		var one string
		one, text, _ = strings.Cut(text, "&")
		name, value, _ := strings.Cut(one, "=")
		if name, ok := decodePercent(name, true); ok && name != "" {
			pairs = append(pairs, pair{name, value})
		}
	}
	return pairs
}

// find returns the values under the best of a field's names that was sent.
func (f *field) find(pairs []pair) (name string, values []string) {
	for _, name := range f.names {
		for _, p := range pairs {
			if p.name == name {
				values = append(values, p.value)
			}
		}
		if len(values) > 0 {
			return name, values
		}
	}
	return f.name, nil
}

func (f *field) bindList(values []string, v reflect.Value, at *place, faults *SchemaError) {
	s := f.shape
	list := s.settle(v)
	var texts []string
	for _, value := range values {
		text, ok := decodePercent(value, true)
		if !ok {
			faults.add(at, FaultValue, msgEncoding)
			return
		}
		if !s.split {
			texts = append(texts, text)
			continue
		}
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				texts = append(texts, part)
			}
		}
	}
	if len(texts) == 0 && s.required {
		faults.add(at, faultMissing, msgMissing)
		return
	}
	if !s.countItems(len(texts), at, faults) {
		return
	}
	list.Set(reflect.MakeSlice(s.typ, len(texts), len(texts)))
	for i, text := range texts {
		item := place{up: at, index: i}
		s.item.fromText(text, list.Index(i), &item, faults)
	}
}

// countItems checks the length of a list against its bounds.
func (s *shape) countItems(n int, at *place, faults *SchemaError) bool {
	switch {
	case s.maxItems > 0 && n > s.maxItems:
		faults.add(at, faultListTooLong, "List should have at most "+items(s.maxItems)+" after validation, not "+strconv.Itoa(n))
	case n < s.minItems:
		faults.add(at, faultListTooShort, "List should have at least "+items(s.minItems)+" after validation, not "+strconv.Itoa(n))
	default:
		return true
	}
	return false
}

// decodePercent copies and decodes one percent-encoded text, once. It rejects invalid
// encoding and invalid UTF-8.
func decodePercent(text string, plusIsSpace bool) (string, bool) {
	plain := true
	for i := range len(text) {
		if text[i] == '%' || text[i] == '+' && plusIsSpace {
			plain = false
			break
		}
	}
	if plain {
		return strings.Clone(text), utf8.ValidString(text)
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '+' && plusIsSpace:
			out = append(out, ' ')
		case text[i] != '%':
			out = append(out, text[i])
		default:
			if i+2 >= len(text) {
				return "", false
			}
			high, low := Unhex(text[i+1]), Unhex(text[i+2])
			if high > 15 || low > 15 {
				return "", false
			}
			out, i = append(out, high<<4|low), i+2
		}
	}
	return string(out), utf8.Valid(out)
}

// Unhex returns the value of a hexadecimal digit, or a number above 15 if c is not one.
func Unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	default:
		return 0xff
	}
}
