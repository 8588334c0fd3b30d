package rest

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"parley/client/api"
)

// kind is the kind of a value on the wire.
type kind uint8

const (
	kindString kind = iota
	kindBool
	kindInt
	kindNumber
	kindID
	kindInstant
	kindText   // any other type that reads itself from a text
	kindObject // a JSON object, kept raw
	kindArray  // a JSON array, kept raw
	kindAny    // any JSON value, kept raw
	kindStruct
	kindList
	kindMap // of texts, where it is an input
)

// rules are the constraints of one field, read from its tags. Zero means no constraint
// unless a separate flag says otherwise.
type rules struct {
	required         bool
	minLength        int
	maxLength        int
	pattern          string
	patternWords     string // the pattern in words, for people
	match            matcher
	enum             []string
	hasMin, hasMax   bool
	minimum, maximum int64
	minItems         int
	maxItems         int
	maxBytes         int
	// reserved are members of an object that the server writes: a client's are dropped.
	reserved  reservedMembers
	format    string
	split     bool
	preset    string // the default, as written in the tag
	hasPreset bool
}

// shape describes how one value is read: its kind, its Go type, its rules.
type shape struct {
	kind      kind
	typ       reflect.Type // without its pointer or Clearable
	pointer   bool
	clearable bool
	rules
	members *members // of a kindStruct
	// itself: the struct also reads its own JSON, to keep what its fields do not show.
	itself bool
	item   *shape // of a kindList or a kindMap
}

// members are the fields of a struct that are read from a JSON object or a form.
type members struct {
	fields []field
	byName map[string]nameOf
	closed bool // other names are rejected
	some   bool // if other names are sent, then one of these too
	most   int  // members that a body with this root may have, see tooManyMembers
}

// nameOf maps a name to its field and the name's rank: the field's own name has rank 1,
// aliases follow in the order of their tag.
type nameOf struct {
	field int
	rank  uint8
}

// field is one field of an In struct.
type field struct {
	name  string
	names []string // name, then aliases
	index []int
	shape *shape
	// preset is the value of the field if it is absent. It is invalid if the tag has no
	// default.
	preset reflect.Value
	// branded: the brand replaces the name in the tag.
	branded bool
	// blank: an empty text counts as absent.
	blank bool
	// ofAgent, ofGroup: the path's id of an agent or a group, where a handle may stand too.
	ofAgent, ofGroup bool
}

// membersMax bounds the members of a struct, so that the decoder can record on the stack
// which of them it has seen.
const membersMax = 64

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	goTime          = reflect.TypeFor[time.Time]()
	wireTime        = reflect.TypeFor[api.Time]()
)

// kindOf returns the kind of a Go type that is neither a pointer nor a Clearable.
func kindOf(t reflect.Type) (kind, error) {
	switch {
	case t == goTime || t == wireTime:
		return kindInstant, nil
	case t.Kind() == reflect.Array && t.Len() == 16 && reflect.PointerTo(t).Implements(textUnmarshaler):
		return kindID, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return rawKindOf(t), nil
	case t.Kind() != reflect.Interface && (reflect.PointerTo(t).Implements(textUnmarshaler) || t.Implements(textMarshaler)):
		return kindText, nil
	}
	switch t.Kind() {
	case reflect.String:
		return kindString, nil
	case reflect.Bool:
		return kindBool, nil
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint32, reflect.Uint64, reflect.Uint8, reflect.Uint16, reflect.Int16:
		return kindInt, nil
	case reflect.Float64, reflect.Float32:
		return kindNumber, nil
	case reflect.Slice:
		return kindList, nil
	case reflect.Struct:
		return kindStruct, nil
	case reflect.Map:
		return kindMap, nil
	case reflect.Interface:
		return kindAny, nil
	default:
		return 0, fmt.Errorf("a %s cannot come from or go to JSON here", t)
	}
}

func rawKindOf(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[api.Object]():
		return kindObject
	case reflect.TypeFor[api.Array]():
		return kindArray
	default:
		return kindAny
	}
}

// clearableValue returns T for api.Clearable[T], which it recognizes by its form.
func clearableValue(t reflect.Type) (reflect.Type, bool) {
	if t.Kind() != reflect.Struct || t.NumField() != 3 {
		return nil, false
	}
	set, null, value := t.Field(0), t.Field(1), t.Field(2)
	ok := set.Name == "Set" && set.Type.Kind() == reflect.Bool && null.Name == "Null" && null.Type.Kind() == reflect.Bool && value.Name == "Value"
	return value.Type, ok
}

// unwrap removes the pointer or the Clearable from a type.
func unwrap(t reflect.Type) (inner reflect.Type, pointer, clearable bool) {
	if t.Kind() == reflect.Pointer {
		return t.Elem(), true, false
	}
	if value, ok := clearableValue(t); ok {
		return value, false, true
	}
	return t, false, false
}

func newShape(t reflect.Type, r rules) (*shape, error) {
	s := &shape{rules: r}
	s.typ, s.pointer, s.clearable = unwrap(t)
	k, err := kindOf(s.typ)
	if err != nil {
		return nil, err
	}
	s.kind = k
	switch k {
	case kindStruct:
		s.itself = reflect.PointerTo(s.typ).Implements(jsonUnmarshaler)
		s.members, err = newMembers(s.typ)
	case kindList:
		each := r
		each.minItems, each.maxItems, each.required, each.hasPreset = 0, 0, false, false
		s.item, err = newShape(s.typ.Elem(), each)
	case kindMap:
		if s.typ.Key().Kind() != reflect.String || s.typ.Elem().Kind() != reflect.String {
			return nil, fmt.Errorf("a %s cannot be an input", s.typ)
		}
		each := rules{minLength: r.minLength, maxLength: r.maxLength}
		s.item, err = newShape(s.typ.Elem(), each)
	}
	return s, err
}

// newMembers plans the json fields of a struct, including embedded structs.
func newMembers(t reflect.Type) (*members, error) {
	m := &members{byName: map[string]nameOf{}}
	if err := m.collect(t, nil); err != nil {
		return nil, err
	}
	if len(m.fields) > membersMax {
		return nil, fmt.Errorf("%s has more than %d members", t, membersMax)
	}
	for i, f := range m.fields {
		for rank, name := range f.names {
			if _, taken := m.byName[name]; taken {
				return nil, fmt.Errorf("%s has two members named %q", t, name)
			}
			m.byName[name] = nameOf{field: i, rank: uint8(rank + 1)}
		}
	}
	return m, nil
}

func (m *members) collect(t reflect.Type, under []int) error {
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(append([]int(nil), under...), i)
		if sf.Name == "_" {
			m.closed = m.closed || sf.Tag.Get("additionalProperties") == "false"
			continue
		}
		name, tagged := jsonName(sf)
		if sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct {
			if err := m.collect(sf.Type, index); err != nil {
				return err
			}
			continue
		}
		if !tagged || sf.Tag.Get("input") == "false" {
			continue
		}
		f, err := newField(sf, name, index)
		if err != nil {
			return err
		}
		m.fields = append(m.fields, f)
	}
	return nil
}

// jsonName returns the member name of a Go field.
func jsonName(sf reflect.StructField) (string, bool) {
	tag, ok := sf.Tag.Lookup("json")
	name, _, _ := strings.Cut(tag, ",")
	return name, ok && name != "-" && name != ""
}

func newField(sf reflect.StructField, name string, index []int) (field, error) {
	fail := func(err error) (field, error) { return field{}, fmt.Errorf("field %s: %w", sf.Name, err) }
	r, err := rulesOf(sf.Tag)
	if err != nil {
		return fail(err)
	}
	s, err := newShape(sf.Type, r)
	if err != nil {
		return fail(err)
	}
	f := field{name: name, names: []string{name}, index: index, shape: s, branded: sf.Tag.Get("brand") == "true"}
	if aliases := sf.Tag.Get("aliases"); aliases != "" {
		for _, alias := range strings.Split(aliases, ",") {
			if alias != name {
				f.names = append(f.names, alias)
			}
		}
	}
	if r.hasPreset {
		f.preset, err = presetOf(sf.Type, s)
	}
	if err != nil {
		return fail(err)
	}
	return f, nil
}

// presetOf reads a default by the same rules as a value that was sent, so that an invalid
// default fails at start.
func presetOf(t reflect.Type, s *shape) (reflect.Value, error) {
	v, faults := reflect.New(t).Elem(), &SchemaError{}
	s.fromText(s.preset, v, &place{name: "default"}, faults)
	if len(faults.Faults) > 0 {
		return v, fmt.Errorf("default %q: %s", s.preset, faults.Faults[0].Msg)
	}
	return v, nil
}

func rulesOf(tag reflect.StructTag) (r rules, err error) {
	number := func(key string) (n int64, there bool) {
		text, there := tag.Lookup(key)
		if there && err == nil {
			if n, err = strconv.ParseInt(text, 10, 64); err != nil {
				err = fmt.Errorf("tag %s: %w", key, err)
			}
		}
		return n, there
	}
	length := func(key string) int {
		n, _ := number(key)
		return int(n)
	}
	r.required = tag.Get("required") == "true"
	r.minLength, r.maxLength = length("minLength"), length("maxLength")
	r.minItems, r.maxItems, r.maxBytes = length("minItems"), length("maxItems"), length("maxBytes")
	r.minimum, r.hasMin = number("minimum")
	r.maximum, r.hasMax = number("maximum")
	r.format = tag.Get("format")
	r.reserved = reservedOf(tag.Get("reserved"))
	r.split = tag.Get("split") == "true"
	r.preset, r.hasPreset = tag.Lookup("default")
	if words := tag.Get("enum"); words != "" {
		r.enum = strings.Split(words, ",")
	}
	if r.pattern = tag.Get("pattern"); r.pattern != "" {
		r.match, r.patternWords = compilePattern(r.pattern), tag.Get("words")
	}
	return r, err
}
