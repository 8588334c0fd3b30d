package rest

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// depthMax bounds the nesting depth of a body.
const depthMax = 32

// errTooDeep ends the reading of a body that nests deeper than depthMax.
var errTooDeep = errors.New("too deep")

// decodeBody reads a JSON body. Faults of members are collected. A syntax error ends the
// reading and is then the only fault reported for the body.
func decodeBody(body []byte, plan *members, in reflect.Value, faults *SchemaError) {
	root := place{name: "body"}
	switch many, deep := tooManyMembers(body, plan.most); {
	case many && deep:
		faults.add(&root, faultJSON, msgTooDeep)
		return
	case many:
		faults.add(&root, FaultValue, msgMembers(plan.most))
		return
	}
	d := &decoder{plan: plan, into: in, root: &root, faults: faults}
	if !d.plain(body) {
		d.full(body)
	}
}

// full reads any body, in one pass.
func (d *decoder) full(body []byte) {
	before := len(d.faults.Faults)
	if err := json.Unmarshal(body, d); err != nil {
		d.faults.Faults = d.faults.Faults[:before]
		d.faults.add(d.root, faultJSON, jsonFault(err))
	}
}

// jsonFault describes a syntax error without quoting the body.
func jsonFault(err error) string {
	if errors.Is(err, errTooDeep) {
		return msgTooDeep
	}
	syntax := (*jsontext.SyntacticError)(nil)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "Invalid JSON: a member name occurs twice"
	case errors.As(err, &syntax) && syntax.Err != nil:
		return "Invalid JSON: " + strings.TrimPrefix(syntax.Err.Error(), "jsontext: ") + " at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	default:
		return "Invalid JSON"
	}
}

// decoder walks a JSON document along a plan. It implements UnmarshalJSONFrom to use the
// pooled reader of the json package.
type decoder struct {
	plan   *members
	into   reflect.Value
	root   *place
	faults *SchemaError
}

// UnmarshalJSONFrom reads the whole body. null counts as absent, so a null body is an
// empty one.
func (d *decoder) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '{':
		return d.object(dec, d.plan, d.into, d.root)
	case 'n':
		d.missing(d.plan, d.into, d.root, new([membersMax]uint8), unknownNames{})
	default:
		d.faults.add(d.root, faultDict, msgDict)
	}
	_, err := readValue(dec)
	return err
}

// object reads members in any order.
func (d *decoder) object(dec *jsontext.Decoder, m *members, into reflect.Value, at *place) error {
	if dec.StackDepth() >= depthMax {
		return errTooDeep
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	var seen [membersMax]uint8 // the rank of the name that set the value
	var unknown unknownNames
	sent := 0
	for ; dec.PeekKind() == '"'; sent++ {
		if err := d.member(dec, m, into, at, &seen, &unknown); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	if at == d.root && unknown.count > 0 {
		d.faults.unknown, d.faults.absent = unknown, m.absentNames(&seen)
	}
	if m.some && sent > 0 && sent == unknown.count {
		unknown.refuse(at, m.absentNames(&seen), d.faults)
	}
	d.missing(m, into, at, &seen, unknown)
	return nil
}

func (d *decoder) member(dec *jsontext.Decoder, m *members, into reflect.Value, at *place, seen *[membersMax]uint8, unknown *unknownNames) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	name, known := m.find(raw)
	if !known {
		if m.closed {
			extra := place{up: at, name: unquote(raw)}
			d.faults.add(&extra, faultExtra, msgExtra)
		}
		unknown.add(unquote(raw))
		_, err = readValue(dec)
		return err
	}
	f := &m.fields[name.field]
	absent := dec.PeekKind() == 'n' && !f.shape.clearable
	if before := seen[name.field]; absent || before != 0 && before < name.rank {
		_, err = readValue(dec)
		return err
	} else if before != 0 {
		d.faults.forget(&place{up: at, name: f.names[before-1]})
		into.FieldByIndex(f.index).SetZero()
	}
	seen[name.field] = name.rank
	v := into.FieldByIndex(f.index)
	if f.shape.kind != kindStruct && f.shape.kind != kindList && f.shape.kind != kindMap {
		return d.scalar(dec, f.shape, v, at, f.names[name.rank-1])
	}
	here := place{up: at, name: f.names[name.rank-1]}
	return d.value(dec, f.shape, v, &here)
}

// scalar is value for shapes without a plan of their own inside, which are nearly all.
// Without the recursion, its place stays on the stack.
func (d *decoder) scalar(dec *jsontext.Decoder, s *shape, v reflect.Value, up *place, name string) error {
	if s.clearable && dec.PeekKind() == 'n' {
		clearField(v)
		_, err := readValue(dec)
		return err
	}
	raw, err := readValue(dec)
	if err == nil {
		here := place{up: up, name: name}
		s.fromJSON(raw, v, &here, d.faults)
	}
	return err
}

// clearField records that a field was null, which clears it.
func clearField(v reflect.Value) {
	v.Field(0).SetBool(true)
	v.Field(1).SetBool(true)
}

// find looks up a member by its quoted name without allocating.
func (m *members) find(quoted jsontext.Value) (nameOf, bool) {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		n, ok := m.byName[string(inner)]
		return n, ok
	}
	n, ok := m.byName[unquote(quoted)]
	return n, ok
}

func (d *decoder) missing(m *members, into reflect.Value, at *place, seen *[membersMax]uint8, unknown unknownNames) {
	for i := range m.fields {
		f := &m.fields[i]
		if seen[i] != 0 {
			continue
		}
		here, before := place{up: at, name: f.name}, len(d.faults.Faults)
		f.absent(into.FieldByIndex(f.index), &here, d.faults)
		if len(d.faults.Faults) > before {
			d.faults.Faults[before].Msg += unknown.hint(f.name)
		}
	}
}

func (d *decoder) value(dec *jsontext.Decoder, s *shape, v reflect.Value, at *place) error {
	token := dec.PeekKind()
	switch {
	case s.clearable && token == 'n':
		clearField(v)
	case s.kind == kindStruct && token == '{' && s.itself:
		return d.itself(dec, s, s.settle(v), at)
	case s.kind == kindStruct && token == '{':
		return d.object(dec, s.members, s.settle(v), at)
	case s.kind == kindMap && token == '{':
		return d.texts(dec, s, s.settle(v), at)
	case s.kind == kindStruct, s.kind == kindMap:
		d.faults.add(at, faultDict, msgDict)
	case s.kind == kindList && token == '[':
		return d.list(dec, s, s.settle(v), at)
	case s.kind == kindList:
		d.faults.add(at, faultList, msgList)
	default:
		raw, err := readValue(dec)
		if err == nil {
			s.fromJSON(raw, v, at, d.faults)
		}
		return err
	}
	if token != 'n' {
		s.settle(v)
	}
	_, err := readValue(dec)
	return err
}

// itself lets a struct read its own JSON, then validates and fills its fields again by
// the plan, which is stricter.
func (d *decoder) itself(dec *jsontext.Decoder, s *shape, v reflect.Value, at *place) error {
	raw, err := readValue(dec)
	if err != nil {
		return err
	}
	before := len(d.faults.Faults)
	refused := v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw)
	inner := &decoder{plan: s.members, into: v, root: at.clone(), faults: d.faults}
	if err := json.Unmarshal(raw, inner); err != nil {
		return err
	}
	if refused != nil && len(d.faults.Faults) == before {
		d.faults.add(at, FaultValue, msgTextUnparseable)
	}
	return nil
}

func (d *decoder) list(dec *jsontext.Decoder, s *shape, v reflect.Value, at *place) error {
	if dec.StackDepth() >= depthMax {
		return errTooDeep
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	list, n := reflect.MakeSlice(s.typ, 0, 0), 0
	for ; dec.PeekKind() != ']' && dec.PeekKind() != jsontext.KindInvalid; n++ {
		if s.maxItems > 0 && n >= s.maxItems {
			if _, err := readValue(dec); err != nil {
				return err
			}
			continue
		}
		item := place{up: at, index: n}
		list = reflect.Append(list, reflect.Zero(s.typ.Elem()))
		if err := d.value(dec, s.item, list.Index(n), &item); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	s.countItems(n, at, d.faults)
	v.Set(list)
	return nil
}

// texts reads an object whose members are texts of any name.
func (d *decoder) texts(dec *jsontext.Decoder, s *shape, v reflect.Value, at *place) error {
	if dec.StackDepth() >= depthMax {
		return errTooDeep
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	all, n := reflect.MakeMap(s.typ), 0
	for ; dec.PeekKind() == '"'; n++ {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		name := unquote(raw)
		if raw, err = readValue(dec); err != nil {
			return err
		}
		if s.maxItems > 0 && n >= s.maxItems {
			continue
		}
		here, text := place{up: at, name: name}, reflect.New(s.typ.Elem()).Elem()
		s.item.fromJSON(raw, text, &here, d.faults)
		all.SetMapIndex(reflect.ValueOf(name).Convert(s.typ.Key()), text)
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	if s.maxItems > 0 && n > s.maxItems {
		d.faults.add(at, faultListTooLong, "Dictionary should have at most "+items(s.maxItems)+" after validation, not "+strconv.Itoa(n))
	}
	v.Set(all)
	return nil
}

// readValue reads one value and rejects it if it nests too deep. The bytes are valid
// until the next read.
func readValue(dec *jsontext.Decoder) (jsontext.Value, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if token := raw.Kind(); (token == '{' || token == '[') && dec.StackDepth()+depthOf(raw) > depthMax {
		return nil, errTooDeep
	}
	return raw, nil
}

// depthOf returns the nesting depth of a valid JSON value.
func depthOf(raw jsontext.Value) int {
	depth, deepest := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		}
	}
	return deepest
}
