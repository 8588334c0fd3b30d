package wire

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// part is a field as it was read: its number in n, or its bytes in b.
type part struct {
	number protowire.Number
	wire   protowire.Type
	n      uint64
	b      []byte
}

// next reads the first field of a message and returns the rest. A part that is neither a
// varint, nor of 64 bits, nor bytes has its content left out: no type is encoded so.
func next(b []byte) (p part, rest []byte, err error) {
	number, wire, size := protowire.ConsumeTag(b)
	if size < 0 {
		return p, nil, errMalformed
	}
	p.number, p.wire, b = number, wire, b[size:]
	switch wire {
	case protowire.VarintType:
		p.n, size = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		p.n, size = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		p.b, size = protowire.ConsumeBytes(b)
	default:
		size = protowire.ConsumeFieldValue(number, wire, b)
	}
	if size < 0 {
		return p, nil, errMalformed
	}
	return p, b[size:], nil
}

// decoder decodes one input. Capacity is how many more bytes the items of its lists, what is behind
// its pointers and the values in its interfaces may take.
type decoder struct {
	*Types
	capacity int
}

// memoryFactor and memorySpare bound the memory that an input takes, relative to its size: a list
// of empty items would take up to a hundred times as much. The spare has room for the standings of
// some 300,000 agents of whom none is in a group, each of 2 bytes and 64 in memory.
const memoryFactor, memorySpare = 8, 16 << 20

func (t *Types) decoder(b []byte) *decoder {
	return &decoder{t, memoryFactor*len(b) + memorySpare}
}

// charge takes capacity for some values of a type.
func (t *decoder) charge(n int, of reflect.Type) error {
	if t.capacity -= n * int(of.Size()); t.capacity < 0 {
		return errTooLarge
	}
	return nil
}

// Value decodes what Append encoded. It shares no memory with b.
func (t *Types) Value(b []byte) (any, error) { return t.decoder(b).value(b, 0) }

func (t *decoder) value(b []byte, depth int) (any, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if depth > depthMax {
		return nil, errTooDeep
	}
	name, b, err := next(b)
	if err != nil || name.number != typeField || name.wire != protowire.BytesType {
		return nil, errMalformed
	}
	p := t.names[string(name.b)]
	if p == nil {
		return nil, fmt.Errorf("%w: %.100q", ErrUnregistered, name.b)
	}
	if err := t.charge(1, p.of); err != nil {
		return nil, err
	}
	scratch := p.scratch.Get()
	v := reflect.ValueOf(scratch).Elem()
	err = ascend(b, typeField, func(f part) error {
		if f.number != contentField {
			return nil
		}
		return t.get(f, p, v, depth)
	})
	var value any
	if err == nil {
		value = v.Interface()
	}
	v.SetZero()
	p.scratch.Put(scratch)
	return value, err
}

// ascend calls read with each field of a message. The numbers must ascend from above
// last, so that no field is read twice.
func ascend(b []byte, last protowire.Number, read func(part) error) error {
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil || f.number <= last {
			return errMalformed
		}
		if err := read(f); err != nil {
			return err
		}
		b, last = rest, f.number
	}
	return nil
}

// get decodes a field into v, which is zero.
func (t *decoder) get(f part, p *plan, v reflect.Value, depth int) error {
	if f.wire != p.wire() {
		return errMalformed
	}
	switch p.kind {
	case boolean:
		if f.n > 1 {
			return errMalformed
		}
		v.SetBool(f.n == 1)
	case signed:
		n := protowire.DecodeZigZag(f.n)
		if v.OverflowInt(n) {
			return errMalformed
		}
		v.SetInt(n)
	case unsigned:
		if v.OverflowUint(f.n) {
			return errMalformed
		}
		v.SetUint(f.n)
	case double:
		v.SetFloat(math.Float64frombits(f.n))
	case text:
		v.SetString(string(f.b))
	case octets:
		return getOctets(f.b, v)
	case instant:
		return t.getInstant(f.b, v.Addr().Interface().(*time.Time), depth)
	case pointer:
		if err := t.charge(1, p.elem.of); err != nil {
			return err
		}
		target := reflect.New(p.elem.of)
		v.Set(target)
		return t.get(f, p.elem, target.Elem(), depth)
	case message:
		v.Set(reflect.New(p.of.Elem()))
		return proto.Unmarshal(f.b, v.Interface().(proto.Message))
	case list:
		return t.getItems(f.b, p, v, depth)
	case structure:
		return t.getFields(f.b, p, v, depth)
	case dynamic:
		value, err := t.value(f.b, depth+1)
		return setAny(v, value, err)
	case failure:
		value, err := t.errorOf(f.b, depth)
		return setAny(v, value, err)
	}
	return nil
}

func getOctets(b []byte, v reflect.Value) error {
	if v.Kind() == reflect.Slice {
		v.SetBytes(append([]byte{}, b...))
	} else if copy(v.Bytes(), b) != len(b) || v.Len() != len(b) {
		return errMalformed
	}
	return nil
}

func (t *decoder) getInstant(b []byte, at *time.Time, depth int) error {
	parts := instantParts{}
	err := t.getFields(b, t.instant, reflect.ValueOf(&parts).Elem(), depth)
	if err == nil && parts.Nanoseconds >= uint32(time.Second) {
		err = errMalformed
	}
	*at = time.Unix(parts.UnixSeconds, int64(parts.Nanoseconds)).UTC()
	return err
}

// setAny sets an interface to a value that was decoded.
func setAny(v reflect.Value, value any, err error) error {
	if err != nil || value == nil {
		return err
	}
	if !reflect.TypeOf(value).AssignableTo(v.Type()) {
		return errMalformed
	}
	v.Set(reflect.ValueOf(value))
	return nil
}

func (t *decoder) getFields(b []byte, p *plan, v reflect.Value, depth int) error {
	fields := p.fields
	return ascend(b, 0, func(f part) error {
		for len(fields) > 0 && fields[0].number() < f.number {
			fields = fields[1:]
		}
		if len(fields) == 0 || fields[0].number() != f.number {
			return nil // a field of another version
		}
		if err := t.get(f, fields[0].plan, v.Field(fields[0].index), depth); err != nil {
			return fmt.Errorf("%s.%s: %w", p.of, fields[0].name, err)
		}
		return nil
	})
}

// getItems counts the items first, so that it allocates no more than they take.
func (t *decoder) getItems(b []byte, p *plan, v reflect.Value, depth int) error {
	n := 0
	for rest := b; len(rest) > 0; n++ {
		f, after, err := next(rest)
		if err != nil || f.number != itemField && (f.number != nilField || !p.elem.mayBeNil()) {
			return errMalformed
		}
		rest = after
	}
	if v.Kind() == reflect.Slice {
		if err := t.charge(n, p.of.Elem()); err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(p.of, n, n))
	} else if n != v.Len() {
		return errMalformed
	}
	for i := range n {
		f, rest, err := next(b)
		if err == nil && f.number == itemField {
			err = t.get(f, p.elem, v.Index(i), depth)
		}
		if err != nil {
			return err
		}
		b = rest
	}
	return nil
}
