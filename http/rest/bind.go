package rest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// checker is an In struct with rules across its fields. Check runs after the rules of the
// single fields, and its faults are reported together with theirs. A field that was sent
// is non-nil then, even if its value was wrong.
type checker interface {
	Check() []FieldError
}

// plan describes how an In struct is filled from a request. It is built once, with the
// route, so that serving needs no reflection over types.
type plan struct {
	in     reflect.Type
	path   []field
	query  []field
	header []field
	body   *members // nil: the body is ignored
	bodied bool     // the body has members to bind
	// unbound: the body is described, and the handler reads it.
	unbound bool
	// brands maps the names in the tags of branded members to their names in a body.
	brands  map[string]string
	form    bool // a form is accepted instead of JSON
	lists   bool // unknown names in the query are refused
	checked bool
}

// branded is the prefix of header names that contain the brand. The wire structs use the
// specification's spelling; the configured brand replaces it.
const branded = "X-Svc-"

// newPlan reads the tags of an In struct. brand is the configured brand as it is spelled
// in header names.
func newPlan(in reflect.Type, brand string) (*plan, error) {
	p := &plan{in: in, checked: reflect.PointerTo(in).Implements(reflect.TypeFor[checker]())}
	if in.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", in)
	}
	if err := p.collect(in, nil, brand); err != nil {
		return nil, fmt.Errorf("%s: %w", in, err)
	}
	body, err := newMembers(in)
	if err == nil {
		p.brands, err = body.rebrand(strings.ToLower(brand))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in, err)
	}
	if p.bodied = len(body.fields) > 0 || body.closed || p.form; p.bodied {
		p.body = body
		body.most = extraMembers + body.capacity()
	}
	for _, f := range body.fields {
		if p.form && !f.shape.textual() {
			return nil, fmt.Errorf("%s: field %s cannot come from a form", in, f.name)
		}
	}
	return p, nil
}

// rebrand gives branded members the brand as their name. It returns their former names,
// with the new ones.
func (m *members) rebrand(brand string) (renamed map[string]string, err error) {
	for i := range m.fields {
		f := &m.fields[i]
		if !f.branded || f.name == brand {
			continue
		}
		if _, taken := m.byName[brand]; taken {
			return nil, fmt.Errorf("the brand %q is the name of another member", brand)
		}
		if renamed == nil {
			renamed = map[string]string{}
		}
		renamed[f.name] = brand
		m.byName[brand] = m.byName[f.name]
		delete(m.byName, f.name)
		f.name, f.names[0] = brand, brand
	}
	return renamed, nil
}

// branded returns a fault with the names that the body has.
func (p *plan) branded(f FieldError) FieldError {
	if len(f.Loc) < 2 || f.Loc[0] != "body" {
		return f
	}
	if name, _ := f.Loc[1].(string); p.brands[name] != "" {
		f.Loc = slices.Clone(f.Loc)
		f.Loc[1] = p.brands[name]
	}
	return f
}

func (p *plan) collect(t reflect.Type, under []int, brand string) error {
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(append([]int(nil), under...), i)
		if sf.Name == "_" {
			p.form = p.form || sf.Tag.Get("form") == "true"
			continue
		}
		if _, tagged := jsonName(sf); sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct {
			if err := p.collect(sf.Type, index, brand); err != nil {
				return err
			}
			continue
		}
		for _, source := range []struct {
			tag  string
			into *[]field
		}{{"path", &p.path}, {"query", &p.query}, {"header", &p.header}} {
			name := sf.Tag.Get(source.tag)
			if name == "" {
				continue
			}
			if rest, ok := strings.CutPrefix(name, branded); ok && source.tag == "header" {
				name = "X-" + brand + "-" + rest
			}
			f, err := newField(sf, name, index)
			if err != nil {
				return err
			}
			if !f.shape.textual() {
				return fmt.Errorf("field %s cannot come from a %s", sf.Name, source.tag)
			}
			if source.tag == "header" {
				f.names[0] = strings.ToLower(name) // as locations spell it
			}
			f.blank = source.tag == "query" && (name == "limit" || name == "cursor")
			f.ofAgent, f.ofGroup = sf.Type == agentID, sf.Type == groupID
			*source.into = append(*source.into, f)
		}
	}
	return nil
}

// textual reports whether a value can be written as a text or a list of texts.
func (s *shape) textual() bool {
	switch s.kind {
	case kindString, kindBool, kindInt, kindID, kindInstant, kindText:
		return true
	case kindList:
		return s.item.kind != kindList && s.item.textual()
	default:
		return false
	}
}

// bind fills in from the request. The error is a *SchemaError with all faults, or the
// refusal of a path or a media type.
func (p *plan) bind(c *Call, in reflect.Value) error {
	faults := &SchemaError{}
	if err := p.bindPath(c, in, faults); err != nil {
		return err
	}
	if len(p.query) > 0 || p.lists {
		p.bindQuery(c.ctx.URI().QueryString(), in, faults)
	}
	for i := range p.header {
		p.header[i].bindHeader(c, in, faults)
	}
	if p.body != nil && !p.unbound {
		if err := p.bindBody(c, in, faults); err != nil {
			return err
		}
	}
	if p.checked && !faults.unreadable() {
		for _, f := range in.Addr().Interface().(checker).Check() {
			if len(faults.Faults) < fieldErrorsMax {
				faults.Faults = append(faults.Faults, faults.hinted(p.branded(f)))
			}
		}
	}
	if len(faults.Faults) > 0 {
		return faults
	}
	return nil
}

// unreadable reports whether the body could not be read at all, so that rules across its
// members mean nothing.
func (e *SchemaError) unreadable() bool {
	for _, f := range e.Faults {
		if f.Type == faultJSON || len(f.Loc) == 1 {
			return true
		}
	}
	return false
}

func (p *plan) bindPath(c *Call, in reflect.Value, faults *SchemaError) error {
	root := place{name: "path"}
	for i := range p.path {
		f := &p.path[i]
		raw, _ := c.ctx.UserValue(f.name).(string)
		text, ok := decodePercent(raw, false)
		// Handlers refuse what is no id, under this name, with the same error as the binder.
		if named := f.shape.kind == kindID || f.name == "id"; !ok || !named && strings.ContainsAny(text, "/\x00") {
			return ErrNoRoute
		}
		at := place{up: &root, name: f.name}
		v := in.FieldByIndex(f.index)
		if !f.ofAgent && !f.ofGroup {
			f.shape.fromText(text, v, &at, faults)
			continue
		}
		if err := f.bindNamed(c, text, v, &at, faults); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) bindHeader(c *Call, in reflect.Value, faults *SchemaError) {
	root := place{name: "header"}
	at, v := place{up: &root, name: f.names[0]}, in.FieldByIndex(f.index)
	// A header that is sent without a value is empty, not absent. Peek may return nil for
	// both.
	switch sent := c.ctx.Request.Header.PeekAll(f.name); {
	case len(sent) == 0:
		f.absent(v, &at, faults)
	case !utf8.Valid(sent[0]):
		faults.add(&at, FaultValue, msgEncoding)
	default:
		f.shape.fromText(string(sent[0]), v, &at, faults)
	}
}

// absent sets a field to its default, or reports it if it is required.
func (f *field) absent(v reflect.Value, at *place, faults *SchemaError) {
	switch {
	case f.preset.IsValid():
		f.setPreset(v)
	case f.shape.required:
		faults.add(at, faultMissing, msgMissing)
	}
}

// setPreset copies the default, so that requests share no pointer.
func (f *field) setPreset(v reflect.Value) {
	if !f.shape.pointer {
		v.Set(f.preset)
		return
	}
	own := reflect.New(f.shape.typ)
	own.Elem().Set(f.preset.Elem())
	v.Set(own)
}

// bindBody chooses the reader by media type. A missing type counts as JSON, as does
// application/*+json. An empty body is {} whatever its type. A body with a
// Content-Encoding is rejected; a proxy in front may decompress it.
func (p *plan) bindBody(c *Call, in reflect.Value, faults *SchemaError) error {
	body := c.ctx.Request.Body()
	if isBlank(body) {
		body = []byte("{}")
	} else if err := c.checkCoding(); err != nil {
		return err
	} else if p.form && mediaType(c.ctx.Request.Header.ContentType()) == formMedia {
		p.bindForm(body, in, faults)
		return nil
	} else if err := c.CheckJSON(); err != nil {
		return err
	}
	decodeBody(body, p.body, in, faults)
	return nil
}

func (c *Call) checkCoding() error {
	if coding := c.ctx.Request.Header.ContentEncoding(); len(coding) > 0 && !strings.EqualFold(string(coding), "identity") {
		return errCoding
	}
	return nil
}

// CheckJSON refuses a body that is declared to be compressed, or to be something else than
// JSON.
func (c *Call) CheckJSON() error {
	if err := c.checkCoding(); err != nil {
		return err
	}
	switch media := mediaType(c.ctx.Request.Header.ContentType()); {
	case media == "" || media == JSONMedia:
	case strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"):
	default:
		return errMediaType
	}
	return nil
}

func isBlank(body []byte) bool {
	for _, b := range body {
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return false
		}
	}
	return true
}

// mediaType returns the media type without its parameters, in lower case.
func mediaType(header []byte) string {
	if string(header) == JSONMedia {
		return JSONMedia
	}
	text, _, _ := strings.Cut(string(header), ";")
	return strings.ToLower(strings.TrimSpace(text))
}
