package rest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"parley/client/api"
)

// schemas collects the named schemas of a document. A struct that is sent and received
// has two schemas if they differ.
type schemas struct {
	comments   comments
	texts      texts
	operations map[string]operation
	named      []namedSchema
	shared     map[string]bool // the names of refusals that several routes have
	err        error
}

// about returns what operations states about a route.
func (b *schemas) about(r *Route) operation { return b.operations[r.Method+" "+r.Path] }

type namedSchema struct {
	typ    reflect.Type
	input  bool
	name   string
	schema object
}

func (b *schemas) components() object {
	all := object{}
	for _, n := range b.named {
		all = all.with(n.name, n.schema)
	}
	slices.SortFunc(all, func(x, y entry) int { return strings.Compare(x.name, y.name) })
	return all
}

// ref returns a reference to the schema of a struct, which it describes at the first use.
func (b *schemas) ref(t reflect.Type, input bool, describe func() object) object {
	name := schemaName(t)
	for _, n := range b.named {
		if n.typ == t && n.input == input {
			return refTo(n.name)
		}
		if n.typ == t {
			name += "Input" // answers are described first
		}
	}
	for taken := 2; slices.ContainsFunc(b.named, func(n namedSchema) bool { return n.name == name }); taken++ {
		name = strings.TrimRight(name, "0123456789") + strconv.Itoa(taken)
	}
	at := len(b.named)
	b.named = append(b.named, namedSchema{typ: t, input: input, name: name})
	schema := describe()
	b.named[at].schema = schema
	return refTo(name)
}

// refNamed returns a reference to a schema that no struct has.
func (b *schemas) refNamed(name string, schema object) object {
	b.named = append(b.named, namedSchema{name: name, schema: schema})
	return refTo(name)
}

func refTo(name string) object { return object{{"$ref", "#/components/schemas/" + name}} }

// schemaName returns the type's name. Page[Message] becomes PageOfMessage.
func schemaName(t reflect.Type) string {
	name, argument, generic := strings.Cut(t.Name(), "[")
	if generic {
		argument = strings.TrimSuffix(argument, "]")
		name += "Of" + argument[strings.LastIndexByte(argument, '.')+1:]
	}
	if name == "" {
		name = "Anonymous"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// input describes what a value of a request may be.
func (b *schemas) input(s *shape) object {
	var schema object
	switch s.kind {
	case kindStruct:
		schema = b.inputBody(s.typ, s.members)
	case kindList:
		schema = object{{"type", "array"}, {"items", b.input(s.item)}}
		schema = bound(schema, "minItems", s.minItems)
		schema = bound(schema, "maxItems", s.maxItems)
	case kindMap:
		schema = object{{"type", "object"}, {"additionalProperties", b.input(s.item)}}
		schema = bound(schema, "maxProperties", s.maxItems)
	default:
		schema = scalar(s.kind)
	}
	return s.constrain(schema)
}

// inputField describes what a field accepts.
func (b *schemas) inputField(owner reflect.Type, f *field, nullable bool) object {
	schema := b.input(f.shape)
	if types := owner.FieldByIndex(f.index).Tag.Get("types"); types != "" {
		schema, nullable = ofTypes(types), false
	}
	if nullable {
		schema = alsoNull(schema)
	}
	if f.preset.IsValid() {
		schema = schema.with("default", presetValue(f.shape))
	}
	if example := exampleTag(owner, f); example != "" {
		schema = schema.with("examples", []any{fromTag(f.shape, example)})
	}
	return schema
}

func presetValue(s *shape) any {
	switch s.kind {
	case kindBool:
		return s.preset == "true"
	case kindInt:
		n, _ := strconv.ParseInt(s.preset, 10, 64)
		return n
	default:
		return s.preset
	}
}

func bound(schema object, name string, n int) object {
	if n > 0 {
		return schema.with(name, n)
	}
	return schema
}

// constrain adds the rules that apply to a value of its kind.
func (s *shape) constrain(schema object) object {
	switch s.kind {
	case kindString:
		schema = bound(bound(schema, "minLength", s.minLength), "maxLength", s.maxLength)
		if s.pattern != "" {
			schema = schema.with("pattern", s.pattern)
		}
		if s.enum != nil {
			schema = schema.with("enum", s.enum)
		}
		if s.format != "" {
			schema = schema.with("format", s.format)
		}
	case kindInt, kindNumber:
		if s.hasMin {
			schema = schema.with("minimum", s.minimum)
		}
		if s.hasMax {
			schema = schema.with("maximum", s.maximum)
		}
	}
	return schema
}

// scalar returns the schema of a kind without rules.
func scalar(k kind) object {
	switch k {
	case kindBool:
		return object{{"type", "boolean"}}
	case kindInt:
		return object{{"type", "integer"}}
	case kindNumber:
		return object{{"type", "number"}}
	case kindID:
		return object{{"type", "string"}, {"format", "uuid"}}
	case kindInstant:
		return object{{"type", "string"}, {"format", "date-time"}}
	case kindObject:
		return object{{"type", "object"}, {"additionalProperties", true}}
	case kindArray:
		return object{{"type", "array"}, {"items", object{}}}
	case kindAny:
		return object{}
	default:
		return object{{"type", "string"}}
	}
}

// alsoNull returns a schema that also allows null.
func alsoNull(schema object) object {
	out := object{}
	for _, e := range schema {
		switch e.name {
		case "$ref":
			return object{{"anyOf", []object{schema, {{"type", "null"}}}}}
		case "type":
			e.value = []any{e.value, "null"}
		case "enum":
			var words []any
			for _, w := range e.value.([]string) {
				words = append(words, w)
			}
			e.value = append(words, nil)
		}
		out = append(out, e)
	}
	return out
}

// inputBody describes the JSON members of an In struct.
func (b *schemas) inputBody(t reflect.Type, m *members) object {
	return b.ref(t, true, func() object {
		properties, required := object{}, []string{}
		for i := range m.fields {
			f := &m.fields[i]
			property := b.inputField(t, f, !f.shape.required)
			if text := b.describe(t, f); text != "" {
				property = property.with("description", text)
			}
			properties = properties.with(f.name, property)
			if f.shape.required {
				required = append(required, f.name)
			}
		}
		schema := b.objectOf(t, properties, required)
		if m.closed {
			schema = schema.with("additionalProperties", false)
		}
		return schema
	})
}

// describe returns the description of a field: its tag, else the comment in the source,
// and the rules that no schema keyword expresses.
func (b *schemas) describe(owner reflect.Type, f *field) string {
	text := owner.FieldByIndex(f.index).Tag.Get("description")
	if text == "" {
		text = b.comments.ofField(owner, f.index)
	}
	if f.shape.maxBytes > 0 {
		text += " At most " + strconv.Itoa(f.shape.maxBytes) + " bytes of compact JSON."
	}
	if f.shape.clearable {
		text += " Null clears it."
	}
	if len(f.names) > 1 {
		text += " Also accepted as " + strings.Join(f.names[1:], ", ") + "."
	}
	return strings.TrimSpace(text)
}

// output describes what a Go type marshals to.
func (b *schemas) output(t reflect.Type) object {
	inner, pointer, clearable := unwrap(t)
	if pointer || clearable {
		return alsoNull(b.output(inner))
	}
	if choice, ok := reflect.Zero(t).Interface().(interface{ OneOf() []any }); ok {
		var shapes []object
		for _, one := range choice.OneOf() {
			shapes = append(shapes, b.output(reflect.TypeOf(one)))
		}
		return object{{"oneOf", shapes}}
	}
	k, err := kindOf(t)
	if err != nil {
		b.err = errSchema(t)
		return object{}
	}
	switch k {
	case kindStruct:
		return b.ref(t, false, func() object { return b.outputStruct(t) })
	case kindList:
		return object{{"type", "array"}, {"items", b.output(t.Elem())}}
	case kindMap:
		return object{{"type", "object"}, {"additionalProperties", b.output(t.Elem())}}
	case kindObject, kindArray:
		return alsoNull(scalar(k))
	default:
		return scalar(k)
	}
}

func (b *schemas) outputStruct(t reflect.Type) object {
	properties, required := object{}, []string{}
	b.outputFields(t, t, nil, &properties, &required)
	return b.objectOf(t, properties, required)
}

// objectOf returns the schema of a struct.
func (b *schemas) objectOf(t reflect.Type, properties object, required []string) object {
	schema := object{{"type", "object"}}
	if text := b.comments.of(t); text != "" {
		schema = schema.with("description", text)
	}
	schema = schema.with("properties", properties)
	if len(required) > 0 {
		schema = schema.with("required", required)
	}
	return schema
}

func (b *schemas) outputFields(owner, t reflect.Type, under []int, properties *object, required *[]string) {
	for i := range t.NumField() {
		sf, index := t.Field(i), append(slices.Clone(under), i)
		name, tagged := jsonName(sf)
		if sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct {
			b.outputFields(owner, sf.Type, index, properties, required)
			continue
		}
		if !tagged && (!sf.IsExported() || sf.Tag.Get("json") == "-") {
			continue
		}
		if !tagged {
			name = sf.Name
		}
		if sf.Tag.Get("brand") == "true" {
			name = brandWord
		}
		omitted := strings.Contains(sf.Tag.Get("json"), ",omit")
		typ := sf.Type
		if omitted && typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		property := b.within(t, name, b.output(typ))
		if types := sf.Tag.Get("types"); types != "" {
			property = ofTypes(types)
		}
		if sf.Tag.Get("null") == "never" {
			property = neverNull(property)
		}
		if words := sf.Tag.Get("enum"); words != "" {
			property = oneOfWords(property, strings.Split(words, ","))
		}
		text := sf.Tag.Get("description")
		if text == "" {
			text = b.comments.ofField(owner, index)
		}
		if text != "" {
			property = property.with("description", text)
		}
		*properties = properties.with(name, property)
		if !omitted {
			*required = append(*required, name)
		}
	}
}

// ofTypes returns the schema of values of several types, which no type of Go expresses.
func ofTypes(types string) object {
	var choices []object
	for name := range strings.SplitSeq(types, ",") {
		choices = append(choices, object{{"type", name}})
	}
	if len(choices) == 1 {
		return choices[0]
	}
	return object{{"oneOf", choices}}
}

// neverNull removes null from the types of a schema.
func neverNull(schema object) object {
	out := object{}
	for _, e := range schema {
		if types, ok := e.value.([]any); ok && e.name == "type" {
			e.value = types[0]
		}
		out = append(out, e)
	}
	return out
}

// oneOfWords restricts a text, or each text of a list, to some words. null stays allowed
// where it was.
func oneOfWords(schema object, words []string) object {
	var all []any
	for _, word := range words {
		all = append(all, word)
	}
	out := object{}
	for _, e := range schema {
		if items, ok := e.value.(object); ok && e.name == "items" {
			return append(out, entry{"items", items.with("enum", words)})
		}
		if _, nullable := e.value.([]any); nullable && e.name == "type" {
			all = append(all, nil)
		}
		out = append(out, e)
	}
	return out.with("enum", all)
}

// insideMetadata is what the service adds to the free-form metadata of a message.
var insideMetadata = reflect.TypeFor[struct {
	Provenance api.Provenance `json:"provenance"`
}]()

// within describes what the service adds to a free-form object.
func (b *schemas) within(owner reflect.Type, member string, schema object) object {
	if owner != reflect.TypeFor[api.Message]() || member != "metadata" {
		return schema
	}
	inside := b.outputStruct(insideMetadata)
	return append(schema, inside[1:]...) // all but the type
}
