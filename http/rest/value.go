package rest

import (
	"bytes"
	"encoding"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"parley/client/api"
)

// settle returns the addressable value that a shape fills: behind the pointer, inside the
// Clearable. A field that was sent is never nil afterwards, even if its value is wrong,
// so that rules across fields can tell what was sent.
func (s *shape) settle(v reflect.Value) reflect.Value {
	switch {
	case s.pointer:
		if v.IsNil() {
			v.Set(reflect.New(s.typ))
		}
		return v.Elem()
	case s.clearable:
		v.Field(0).SetBool(true)
		v.Field(1).SetBool(false)
		return v.Field(2)
	default:
		return v
	}
}

// fromText reads a value from a path, a query, a header or a form. The caller handles
// lists.
func (s *shape) fromText(text string, v reflect.Value, at *place, faults *SchemaError) {
	v = s.settle(v)
	switch s.kind {
	case kindBool:
		b, ok := truth(text)
		if !ok {
			faults.add(at, faultBoolParsing, msgBoolParsing)
		}
		v.SetBool(b)
	case kindInt:
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil && !isRange(err) {
			faults.add(at, faultIntParsing, msgIntParsing)
			return
		}
		s.setInt(n, isRange(err), v, at, faults)
	default:
		s.setString(text, v, at, faults)
	}
}

func isRange(err error) bool {
	return errors.Is(err, strconv.ErrRange)
}

// truth parses the boolean words that Pydantic accepts.
func truth(text string) (value, ok bool) {
	switch strings.ToLower(text) {
	case "true", "1", "yes", "on", "t", "y":
		return true, true
	case "false", "0", "no", "off", "f", "n":
		return false, true
	default:
		return false, false
	}
}

// fromJSON reads a scalar or a raw value. The bytes belong to the decoder and
// are copied.
func (s *shape) fromJSON(raw jsontext.Value, v reflect.Value, at *place, faults *SchemaError) {
	v = s.settle(v)
	token := raw.Kind()
	switch s.kind {
	case kindBool:
		switch token {
		case 't', 'f':
			v.SetBool(token == 't')
		case '"', '0':
			faults.add(at, faultBoolParsing, msgBoolParsing)
		default:
			faults.add(at, faultBoolType, msgBool)
		}
	case kindInt:
		s.intFromJSON(raw, v, at, faults)
	case kindNumber:
		s.numberFromJSON(raw, v, at, faults)
	case kindObject, kindArray, kindAny:
		s.setRaw(raw, v, at, faults)
	default:
		if token != '"' {
			s.notText(at, faults)
			return
		}
		s.setString(unquote(raw), v, at, faults)
	}
}

func (s *shape) notText(at *place, faults *SchemaError) {
	switch s.kind {
	case kindID:
		faults.add(at, faultUUIDType, msgUUIDType)
	case kindInstant:
		faults.add(at, faultDatetime, msgDatetime)
	default:
		faults.add(at, faultStringType, msgString)
	}
}

// unquote copies the text of a JSON string that the decoder has validated.
func unquote(raw jsontext.Value) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	text, _ := jsontext.AppendUnquote(make([]byte, 0, len(inner)), raw)
	return string(text)
}

func (s *shape) intFromJSON(raw jsontext.Value, v reflect.Value, at *place, faults *SchemaError) {
	switch raw.Kind() {
	case '0':
	case '"':
		faults.add(at, faultIntParsing, msgIntParsing)
		return
	default:
		faults.add(at, faultIntType, msgInt)
		return
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err == nil || isRange(err) {
		s.setInt(n, err != nil, v, at, faults)
		return
	}
	// 3.0 and 3e2 are whole numbers too.
	f, err := strconv.ParseFloat(string(raw), 64)
	if err == nil && f != math.Trunc(f) {
		faults.add(at, faultIntFraction, msgIntFraction)
		return
	}
	huge := err != nil || math.Abs(f) >= 1<<53
	if huge {
		f = math.Copysign(1<<53, f)
	}
	s.setInt(int64(f), huge, v, at, faults)
}

func (s *shape) numberFromJSON(raw jsontext.Value, v reflect.Value, at *place, faults *SchemaError) {
	switch raw.Kind() {
	case '0':
	case '"':
		faults.add(at, faultFloatParsing, msgNumberParsing)
		return
	default:
		faults.add(at, faultFloatType, msgNumber)
		return
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil:
		faults.add(at, faultFinite, msgFinite)
	case s.hasMin && n < float64(s.minimum):
		faults.add(at, faultAtLeast, "Input should be greater than or equal to "+strconv.FormatInt(s.minimum, 10))
	case s.hasMax && n > float64(s.maximum):
		faults.add(at, faultAtMost, "Input should be less than or equal to "+strconv.FormatInt(s.maximum, 10))
	default:
		v.SetFloat(n)
	}
}

// setInt stores a whole number. One that is too large for its type has been cut to the
// nearest value of the type; if no bound rejects that, its size is reported.
func (s *shape) setInt(n int64, cut bool, v reflect.Value, at *place, faults *SchemaError) {
	switch {
	case s.hasMin && n < s.minimum:
		faults.add(at, faultAtLeast, "Input should be greater than or equal to "+strconv.FormatInt(s.minimum, 10))
	case s.hasMax && n > s.maximum:
		faults.add(at, faultAtMost, "Input should be less than or equal to "+strconv.FormatInt(s.maximum, 10))
	case cut, v.CanInt() && v.OverflowInt(n), v.CanUint() && (n < 0 || v.OverflowUint(uint64(n))):
		faults.add(at, faultIntSize, msgIntSize)
	case v.CanUint():
		v.SetUint(uint64(n))
	default:
		v.SetInt(n)
	}
}

// setString stores a text in a string, an id, a time or another type that reads itself.
func (s *shape) setString(text string, v reflect.Value, at *place, faults *SchemaError) {
	switch s.kind {
	case kindString:
		v.SetString(text)
		s.judge(text, at, faults)
	case kindInstant:
		t, err := api.ParseTime(text)
		switch {
		case err != nil:
			faults.add(at, faultDatetime, msgDatetime)
		case s.typ == wireTime:
			v.Set(reflect.ValueOf(t))
		default:
			v.Set(reflect.ValueOf(t.Time))
		}
	default:
		into := v.Addr().Interface().(encoding.TextUnmarshaler)
		if err := into.UnmarshalText([]byte(text)); err == nil {
			return
		}
		if s.kind == kindID {
			faults.add(at, FaultUUIDParsing, MsgUUID)
			return
		}
		faults.add(at, FaultValue, msgTextUnparseable)
	}
}

// judge checks a text against the rules of its field and reports the first violation.
// Lengths count code points.
func (s *shape) judge(text string, at *place, faults *SchemaError) {
	switch {
	case s.maxLength > 0 && len(text) > s.maxLength && utf8.RuneCountInString(text) > s.maxLength:
		faults.add(at, faultTooLong, "String should have at most "+characters(s.maxLength))
	case s.minLength > 0 && utf8.RuneCountInString(text) < s.minLength:
		faults.add(at, faultTooShort, "String should have at least "+characters(s.minLength))
	case s.match != nil && !s.match.MatchString(text):
		faults.add(at, faultPattern, s.mismatch())
	case s.enum != nil && !slices.Contains(s.enum, text):
		faults.add(at, faultEnum, "Input should be "+choices(s.enum))
	case s.format == "date-time" && !isInstant(text):
		faults.add(at, faultDatetime, msgDatetime)
	case s.format == "email" && !isEmail(text):
		faults.add(at, FaultValue, msgEmail)
	}
}

// mismatch describes the expected text, in words if the field has them, since few people
// read regular expressions.
func (s *shape) mismatch() string {
	if s.patternWords != "" {
		return "String should be " + s.patternWords
	}
	return "String should match pattern '" + s.pattern + "'"
}

func isInstant(text string) bool {
	_, err := api.ParseTime(text)
	return err == nil
}

// isEmail requires only something@something: only delivered mail proves an address.
func isEmail(text string) bool {
	local, domain, ok := strings.Cut(text, "@")
	return ok && local != "" && domain != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || unicode.IsSpace(r) })
}

// setRaw keeps a copy of a JSON value in compact form with escapes resolved, so that the
// way a client writes a character does not affect the size limits.
func (s *shape) setRaw(raw jsontext.Value, v reflect.Value, at *place, faults *SchemaError) {
	switch token := raw.Kind(); {
	case s.kind == kindObject && token != '{':
		faults.add(at, faultDict, msgDict)
		return
	case s.kind == kindArray && token != '[':
		faults.add(at, faultList, msgList)
		return
	}
	own := raw.Clone()
	if bytes.ContainsAny(own, " \t\r\n\\") { // else it is as compact as it can be
		if err := own.Format(); err != nil {
			faults.add(at, FaultValue, msgTextUnparseable)
			return
		}
	}
	if own = s.reserved.dropFrom(own); !finite(own) {
		faults.add(at, faultFinite, msgFinite)
	}
	if s.maxBytes > 0 && len(own) > s.maxBytes {
		faults.add(at, FaultValue, "Value error, should have at most "+strconv.Itoa(s.maxBytes)+" bytes of compact JSON")
	}
	v.SetBytes(own)
}

// plainDigits is how many digits a whole number may have that is surely finite.
const plainDigits = 308

// finite reports whether all numbers in a valid JSON value are finite ones of 64 bits. A
// reader that knows no others would reject the whole page of a recipient.
func finite(raw jsontext.Value) bool {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			i += textEnd(raw[i:])
		case c == '-' || '0' <= c && c <= '9':
			end, exponent := i, false
			for end < len(raw) && bytes.IndexByte(numberBytes, raw[end]) >= 0 {
				exponent = exponent || raw[end]|0x20 == 'e'
				end++
			}
			if exponent || end-i > plainDigits {
				if _, err := strconv.ParseFloat(string(raw[i:end]), 64); err != nil {
					return false
				}
			}
			i = end - 1
		}
	}
	return true
}

var numberBytes = []byte("0123456789+-.eE")
