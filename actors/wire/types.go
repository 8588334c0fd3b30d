// Package wire encodes what crosses between the nodes of a cluster: requests to actors,
// their replies and their errors. The types are plain Go types. How each is encoded
// follows from its declaration, and is worked out once, when the type is registered.
//
// The encoding is protobuf's. A struct is a message whose field numbers are the positions
// of its fields, from 1 on. So fields are only ever appended, and keep their types. A
// blank field (_) takes the place of one that was removed. Nodes of neighbouring versions
// understand each other: a decoder skips fields that it does not know, and a field that is
// missing is zero. Types.Describe lists the numbers.
//
// What is decoded equals what was encoded: nil and empty slices stay apart, as do nil and
// a pointer to zero. Two things change. Instants are in UTC, and of an error only that is
// left which Types.AppendError keeps.
//
// Input may come from an attacker. A value takes at most memoryFactor times its encoded size
// in memory, and memorySpare bytes; protobuf messages may take more.
package wire

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// depthMax is how deep values in interfaces may be nested. Other nesting is bounded by the types,
// which are not recursive.
const depthMax = 16

// Types are the types that may cross between nodes, by name. They are registered before
// the first value is encoded; from then on all methods may be called concurrently.
type Types struct {
	// plans has the registered types and all that they are made of.
	plans map[reflect.Type]*plan
	names map[string]*plan
	kept  []keptError
	// parts and instant are the plans of errorParts and instantParts.
	parts, instant *plan
}

// kind is how a type is encoded.
type kind uint8

const (
	unfinished kind = iota
	boolean
	signed
	unsigned
	double
	text
	octets // a slice or an array of bytes
	instant
	pointer
	message // a pointer to a protobuf message
	list    // a slice or an array
	structure
	dynamic // an interface
	failure // an error
)

var (
	timeType    = reflect.TypeFor[time.Time]()
	errorType   = reflect.TypeFor[error]()
	messageType = reflect.TypeFor[proto.Message]()
)

// plan is how a type is encoded and decoded.
type plan struct {
	kind kind
	of   reflect.Type
	// name is the type's name on the wire, "" if it is only a part of registered types.
	name string
	// elem is what a pointer points to, or a list holds.
	elem   *plan
	fields []field
	// scratch holds zero values as pointers, because only a value in a variable can be
	// set, or its arrays be read, without an allocation.
	scratch sync.Pool
}

// field is a field of a struct. Its number is index+1.
type field struct {
	*plan
	name  string
	index int
}

func (f field) number() protowire.Number { return protowire.Number(f.index + 1) }

// NewTypes returns Types with those that a member of parley.Refusal.Extra usually has:
// bool, string, []string, []byte, []any, integers, float64, time.Time and time.Duration;
// and error.
func NewTypes() *Types {
	t := &Types{plans: map[reflect.Type]*plan{}, names: map[string]*plan{}}
	t.Add(
		false, "", []string(nil), []byte(nil), []any(nil), float64(0), time.Time{}, time.Duration(0),
		0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0),
	)
	t.register(errorType)
	t.parts, t.instant = t.mustCompile(partsType), t.mustCompile(reflect.TypeFor[instantParts]())
	return t
}

// Add registers the type of each sample under the name that reflection gives it, such as
// "agent.Change" or "[]parley.Seat". It panics on a type that it does not support, on two
// types of one name, and on an interface that no registered type implements. What is
// supported: booleans, integers, float64, strings, slices, arrays, structs, time.Time,
// interfaces, errors, pointers to these except slices, interfaces and pointers, and
// pointers to protobuf messages. Recursive types and unexported fields are not.
func (t *Types) Add(samples ...any) {
	for _, sample := range samples {
		t.register(reflect.TypeOf(sample))
	}
	for of, p := range t.plans {
		if p.kind == dynamic && !t.implemented(of) {
			panic(fmt.Sprintf("wire: no registered type implements %s", of))
		}
	}
}

func (t *Types) implemented(of reflect.Type) bool {
	for _, p := range t.names {
		if p.of.Implements(of) {
			return true
		}
	}
	return false
}

// folders are those of packages in the name of a type. They are left out, so that a package can
// move while nodes of both programs run.
var folders = regexp.MustCompile(`[\w.-]+/`)

func (t *Types) register(of reflect.Type) {
	p := t.mustCompile(of)
	p.name = folders.ReplaceAllString(of.String(), "")
	if other := t.names[p.name]; other != nil && other != p {
		panic(fmt.Sprintf("wire: two types have the name %s", p.name))
	}
	t.names[p.name] = p
}

func (t *Types) mustCompile(of reflect.Type) *plan {
	if of == nil {
		panic("wire: nil has no type")
	}
	p, err := t.compile(of)
	if err != nil {
		panic(fmt.Sprintf("wire: %s: %v", of, err))
	}
	return p
}

func (t *Types) compile(of reflect.Type) (p *plan, err error) {
	if p = t.plans[of]; p != nil {
		if p.kind == unfinished {
			return nil, fmt.Errorf("%s is recursive", of)
		}
		return p, nil
	}
	p = &plan{of: of, scratch: sync.Pool{New: func() any { return reflect.New(of).Interface() }}}
	t.plans[of] = p
	found := kindOf(of)
	switch found {
	case unfinished:
		return nil, fmt.Errorf("%s is not supported", of)
	case pointer:
		p.elem, err = t.compile(of.Elem())
		if err == nil && p.elem.mayBeNil() {
			err = fmt.Errorf("%s points to what may be nil itself", of)
		}
	case list:
		p.elem, err = t.compile(of.Elem())
	case structure:
		p.fields, err = t.compileFields(of)
	}
	p.kind = found
	return p, err
}

func (t *Types) compileFields(of reflect.Type) (fields []field, err error) {
	for i := range of.NumField() {
		f := of.Field(i)
		if f.Name == "_" {
			continue
		}
		if !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
			return nil, fmt.Errorf("%s.%s is not exported", of, f.Name)
		}
		p, err := t.compile(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", of, f.Name, err)
		}
		fields = append(fields, field{p, f.Name, i})
	}
	return fields, nil
}

// kinds are the kinds of types that are encoded alike whatever they are named or hold.
var kinds = map[reflect.Kind]kind{
	reflect.Bool: boolean, reflect.Float64: double, reflect.String: text,
	reflect.Int: signed, reflect.Int8: signed, reflect.Int16: signed, reflect.Int32: signed, reflect.Int64: signed,
	reflect.Uint: unsigned, reflect.Uint8: unsigned, reflect.Uint16: unsigned, reflect.Uint32: unsigned, reflect.Uint64: unsigned,
	reflect.Slice: list, reflect.Array: list, reflect.Struct: structure, reflect.Pointer: pointer, reflect.Interface: dynamic,
}

func kindOf(of reflect.Type) kind {
	k := kinds[of.Kind()]
	switch {
	case k == list && of.Elem().Kind() == reflect.Uint8:
		return octets
	case of == timeType:
		return instant
	case of == errorType:
		return failure
	case k == pointer && of.Implements(messageType) && !promotes(of.Elem()):
		return message
	}
	return k
}

// promotes reports whether a struct has the methods of a message because it embeds one,
// of which they encode no more than that one.
func promotes(of reflect.Type) bool {
	return of.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(of), func(f reflect.StructField) bool {
		return f.Anonymous && (f.Type.Implements(messageType) || reflect.PointerTo(f.Type).Implements(messageType))
	})
}

func (p *plan) mayBeNil() bool {
	switch p.of.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Interface:
		return true
	}
	return false
}

// wire returns how protobuf encodes the type.
func (p *plan) wire() protowire.Type {
	switch p.kind {
	case boolean, signed, unsigned:
		return protowire.VarintType
	case double:
		return protowire.Fixed64Type
	case pointer:
		return p.elem.wire()
	}
	return protowire.BytesType
}

// String describes the encoding: a change of it breaks nodes of other versions.
func (p *plan) String() string {
	switch p.kind {
	case boolean, signed, unsigned, double, text:
		return p.of.Kind().String()
	case pointer:
		return "*" + p.elem.String()
	case message:
		return "message " + p.of.Elem().String()
	case octets, list:
		length, item := "", "byte"
		if p.of.Kind() == reflect.Array {
			length = strconv.Itoa(p.of.Len())
		}
		if p.kind == list {
			item = p.elem.String()
		}
		return "[" + length + "]" + item
	case dynamic:
		return "any " + p.of.String()
	}
	return p.of.String()
}

// Describe lists how every type is encoded, one fact on each line: of each registered
// type, error and struct its name, and of each struct its fields with their numbers. A
// test that compares it with a file shows when a change would break nodes of another
// version.
func (t *Types) Describe() string {
	var all []string
	for name, p := range t.names {
		all = append(all, "type "+name+" = "+p.String())
	}
	for of, p := range t.plans {
		if p.kind != structure {
			continue
		}
		all = append(all, "struct "+of.String())
		for _, f := range p.fields {
			all = append(all, fmt.Sprintf("struct %s %4d %s %s", of, f.number(), f.name, f.plan))
		}
	}
	for _, k := range t.kept {
		all = append(all, "error "+k.name)
	}
	slices.Sort(all)
	return strings.Join(all, "\n") + "\n"
}

// Errors of encoding and decoding.
var (
	// ErrUnregistered means that a type is not known here: a node of another version may know it.
	ErrUnregistered = errors.New("wire: type is not registered")

	errMalformed = errors.New("wire: malformed value")
	errTooDeep   = fmt.Errorf("wire: values are nested more than %d deep", depthMax)
	errTooLarge  = fmt.Errorf("wire: a value takes more than %d times its size, and %d bytes, in memory", memoryFactor, memorySpare)
)
