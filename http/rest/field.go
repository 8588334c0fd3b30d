package rest

import (
	"strconv"
	"strings"

	"parley/client/api"
)

// FieldError describes what is wrong with one value of a request.
type FieldError = api.FieldError

// fieldErrorsMax bounds the number of faults in one answer.
const fieldErrorsMax = 64

// SchemaError lists every fault found in one request. It is answered with 422.
type SchemaError struct {
	Faults []FieldError
	// unknown and absent are names of body members: those that were sent but are unknown,
	// and those that were not sent.
	unknown unknownNames
	absent  []string
}

func (e *SchemaError) Error() string {
	words := make([]string, 0, len(e.Faults))
	for _, f := range e.Faults {
		words = append(words, f.Type)
	}
	return "request does not match its schema: " + strings.Join(words, ", ")
}

func (e *SchemaError) add(at *place, kind, msg string) {
	if len(e.Faults) < fieldErrorsMax {
		e.Faults = append(e.Faults, FieldError{Loc: at.loc(), Msg: msg, Type: kind})
	}
}

// forget drops the faults at and below a place, because a better name for the same field
// was found.
func (e *SchemaError) forget(at *place) {
	prefix, kept := at.loc(), e.Faults[:0]
	for _, f := range e.Faults {
		if !below(f.Loc, prefix) {
			kept = append(kept, f)
		}
	}
	e.Faults = kept
}

func below(loc, prefix []any) bool {
	if len(loc) < len(prefix) {
		return false
	}
	for i := range prefix {
		if loc[i] != prefix[i] {
			return false
		}
	}
	return true
}

// place is the binder's position in the request. It lives on the stack and is formatted
// only for faults.
type place struct {
	up    *place
	name  string
	index int // used when name is empty
}

// clone returns a place that may outlive the binder's stack.
func (p *place) clone() (c *place) {
	for _, step := range p.loc() {
		c = &place{up: c}
		c.name, _ = step.(string)
		c.index, _ = step.(int)
	}
	return c
}

func (p *place) loc() []any {
	depth := 0
	for q := p; q != nil; q = q.up {
		depth++
	}
	loc := make([]any, depth)
	for q := p; q != nil; q = q.up {
		depth--
		loc[depth] = q.index
		if q.name != "" || q.up == nil {
			loc[depth] = strings.Clone(q.name) // without a clone, every place would escape to the heap
		}
	}
	return loc
}

// The kinds of fault, as Pydantic v2 spells them.
const (
	faultMissing       = "missing"
	faultExtra         = "extra_forbidden"
	faultJSON          = "json_invalid"
	faultStringType    = "string_type"
	faultTooLong       = "string_too_long"
	faultTooShort      = "string_too_short"
	faultPattern       = "string_pattern_mismatch"
	faultEnum          = "enum"
	faultBoolType      = "bool_type"
	faultBoolParsing   = "bool_parsing"
	faultIntType       = "int_type"
	faultIntParsing    = "int_parsing"
	faultIntFraction   = "int_from_float"
	faultIntSize       = "int_parsing_size"
	faultFloatType     = "float_type"
	faultFloatParsing  = "float_parsing"
	faultFinite        = "finite_number"
	faultAtLeast       = "greater_than_equal"
	faultAtMost        = "less_than_equal"
	faultUUIDType      = "uuid_type"
	FaultUUIDParsing   = "uuid_parsing"
	faultDatetime      = "datetime_parsing"
	faultDict          = "dict_type"
	faultList          = "list_type"
	faultListTooLong   = "too_long"
	faultListTooShort  = "too_short"
	FaultValue         = "value_error"
	msgMissing         = "Field required"
	msgExtra           = "Extra inputs are not permitted"
	msgString          = "Input should be a valid string"
	msgBool            = "Input should be a valid boolean"
	msgBoolParsing     = "Input should be a valid boolean, unable to interpret input"
	msgInt             = "Input should be a valid integer"
	msgIntParsing      = "Input should be a valid integer, unable to parse string as an integer"
	msgIntFraction     = "Input should be a valid integer, got a number with a fractional part"
	msgNumber          = "Input should be a valid number"
	msgNumberParsing   = "Input should be a valid number, unable to parse string as a number"
	msgFinite          = "Input should be a finite number"
	msgIntSize         = "Unable to parse input string as an integer, exceeded maximum size"
	msgUUIDType        = "UUID input should be a string"
	MsgUUID            = "Input should be a valid UUID, 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12"
	msgDatetime        = "Input should be a valid datetime"
	msgDict            = "Input should be a valid dictionary"
	msgList            = "Input should be a valid list"
	msgEmail           = "value is not a valid email address: it should be something@something"
	msgEncoding        = "Value error, percent-encoding or UTF-8 is invalid"
	msgTooDeep         = "Invalid JSON: nested deeper than 32 levels"
	msgTextUnparseable = "Value error, input cannot be read"
)

func characters(n int) string { return plural(n, " character") }
func items(n int) string      { return plural(n, " item") }

func plural(n int, noun string) string {
	if n == 1 {
		return "1" + noun
	}
	return strconv.Itoa(n) + noun + "s"
}

// choices formats an enumeration: 'a', 'b' or 'c'.
func choices(words []string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString("'" + w + "'")
	}
	return b.String()
}
