package wire

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Numbers of fields of the messages that stand for no struct.
const (
	// A value has the name of its type and its content. The content is missing if it is
	// zero; of nil, the name is missing too.
	typeField, contentField = 1, 2
	// A list has its items in order, those that are nil under a number of their own.
	itemField, nilField = 1, 2
)

// instantParts are what crosses of a time.Time.
type instantParts struct {
	UnixSeconds int64
	Nanoseconds uint32
}

// Append appends a value with the name of its type, which must be registered. Nil is a
// value too, of no bytes. An error of any type is a value, see AppendError.
func (t *Types) Append(dst []byte, value any) ([]byte, error) {
	return t.appendValue(dst, value, 0)
}

func (t *Types) appendValue(dst []byte, value any, depth int) ([]byte, error) {
	if value == nil {
		return dst, nil
	}
	if depth > depthMax {
		return dst, errTooDeep
	}
	p := t.plans[reflect.TypeOf(value)]
	if p == nil || p.name == "" {
		if _, is := value.(error); !is {
			return dst, fmt.Errorf("%w: %T", ErrUnregistered, value)
		}
		p = t.plans[errorType]
	}
	dst = protowire.AppendString(protowire.AppendTag(dst, typeField, protowire.BytesType), p.name)
	scratch := p.scratch.Get()
	v := reflect.ValueOf(scratch).Elem()
	v.Set(reflect.ValueOf(value))
	dst, err := t.appendField(dst, contentField, p, v, depth)
	v.SetZero()
	p.scratch.Put(scratch)
	return dst, err
}

// appendField appends a field, or nothing if it is zero.
func (t *Types) appendField(dst []byte, number protowire.Number, p *plan, v reflect.Value, depth int) ([]byte, error) {
	if v.IsZero() {
		return dst, nil
	}
	return t.put(protowire.AppendTag(dst, number, p.wire()), p, v, depth)
}

// put appends what follows a tag.
func (t *Types) put(dst []byte, p *plan, v reflect.Value, depth int) (_ []byte, err error) {
	switch p.kind {
	case boolean:
		return protowire.AppendVarint(dst, protowire.EncodeBool(v.Bool())), nil
	case signed:
		return protowire.AppendVarint(dst, protowire.EncodeZigZag(v.Int())), nil
	case unsigned:
		return protowire.AppendVarint(dst, v.Uint()), nil
	case double:
		return protowire.AppendFixed64(dst, math.Float64bits(v.Float())), nil
	case text:
		return protowire.AppendString(dst, v.String()), nil
	case octets:
		return protowire.AppendBytes(dst, v.Bytes()), nil
	case pointer:
		return t.put(dst, p.elem, v.Elem(), depth)
	}
	dst = append(dst, 0) // the place of the length
	start := len(dst)
	switch p.kind {
	case instant:
		at := v.Addr().Interface().(*time.Time)
		parts := instantParts{at.Unix(), uint32(at.Nanosecond())}
		dst, err = t.putFields(dst, t.instant, reflect.ValueOf(&parts).Elem(), depth)
	case message:
		dst, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, v.Interface().(proto.Message))
	case list:
		dst, err = t.putItems(dst, p.elem, v, depth)
	case structure:
		dst, err = t.putFields(dst, p, v, depth)
	case dynamic:
		dst, err = t.appendValue(dst, v.Interface(), depth+1)
	case failure:
		dst, err = t.putError(dst, v.Interface().(error), depth)
	}
	return putLength(dst, start), err
}

func (t *Types) putFields(dst []byte, p *plan, v reflect.Value, depth int) (_ []byte, err error) {
	for i := range p.fields {
		f := &p.fields[i]
		if dst, err = t.appendField(dst, f.number(), f.plan, v.Field(f.index), depth); err != nil {
			return dst, fmt.Errorf("%s.%s: %w", p.of, f.name, err)
		}
	}
	return dst, nil
}

func (t *Types) putItems(dst []byte, elem *plan, v reflect.Value, depth int) (_ []byte, err error) {
	mayBeNil := elem.mayBeNil()
	for i := range v.Len() {
		item := v.Index(i)
		if mayBeNil && item.IsNil() {
			dst = protowire.AppendVarint(protowire.AppendTag(dst, nilField, protowire.VarintType), 1)
			continue
		}
		if dst, err = t.put(protowire.AppendTag(dst, itemField, elem.wire()), elem, item, depth); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// putLength writes the length of what begins at start into the byte before. If it takes
// more than a byte, the content moves.
func putLength(dst []byte, start int) []byte {
	n := len(dst) - start
	more := protowire.SizeVarint(uint64(n)) - 1
	if more > 0 {
		dst = append(dst, make([]byte, more)...)
		copy(dst[start+more:], dst[start:start+n])
	}
	protowire.AppendVarint(dst[:start-1], uint64(n))
	return dst
}
