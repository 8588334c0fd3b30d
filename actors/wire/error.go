package wire

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"parley/client/parley"
)

// keptError is an error that errors.Is finds after a crossing. distinct is the error
// itself if it is a refusal that can be told from others of its code, or nil.
type keptError struct {
	name     string
	err      error
	distinct *parley.Refusal
}

// errorParts are what crosses of an error.
type errorParts struct {
	Refusal *refusalParts
	// Kept are the names of the other errors that errors.Is finds.
	Kept []string
}

// refusalParts are a parley.Refusal.
type refusalParts struct {
	Reason     parley.Reason
	Code, Text string
	OfOne      bool
	Extra      []extraMember
	// Distinct is the name of the error of which the refusal is a copy.
	Distinct string
}

// extraMember is a member of Extra. Value is what Append makes of it.
type extraMember struct {
	Name  string
	Value []byte
}

var partsType = reflect.TypeFor[errorParts]()

// AddError registers an error that errors.Is finds in its copies, and in errors that wrap
// it, after they have crossed. Refusals need no name, because errors.Is tells them by
// reason and code, unless parley.Refusal.Distinct made them. AddError panics on any other
// refusal and on a name in use.
func (t *Types) AddError(name string, err error) {
	k := keptError{name: name, err: err}
	if r := (*parley.Refusal)(nil); errors.As(err, &r) {
		if k.distinct = r; errors.Is(parley.Refuse(r.Reason, r.Code, ""), r) {
			panic(fmt.Sprintf("wire: error %s is told by its reason and code", name))
		}
	}
	if t.keptError(name) != nil {
		panic(fmt.Sprintf("wire: two errors have the name %s", name))
	}
	t.kept = append(t.kept, k)
}

func (t *Types) keptError(name string) *keptError {
	for i := range t.kept {
		if t.kept[i].name == name {
			return &t.kept[i]
		}
	}
	return nil
}

// AppendError appends an error; nil takes no bytes. What crosses of it is the refusal that
// errors.As finds in it, and the registered errors that errors.Is finds. An error that has
// neither becomes parley.ErrInternal: its text is not meant for callers, so it is up to
// this node to log it. A member of Extra whose type is not registered, here or where the
// error is decoded, is left out, because the rest still says what happened.
func (t *Types) AppendError(dst []byte, err error) []byte {
	if err == nil {
		return dst
	}
	dst, _ = t.putError(dst, err, 0) // parts are strings, numbers and bytes, which never fail
	return dst
}

// Error decodes what AppendError encoded. The second result says why that failed.
func (t *Types) Error(b []byte) (decoded, failed error) { return t.decoder(b).errorOf(b, 0) }

func (t *Types) putError(dst []byte, err error, depth int) ([]byte, error) {
	parts := errorParts{}
	refusal := (*parley.Refusal)(nil)
	if errors.As(err, &refusal) {
		parts.Refusal = t.refusalParts(refusal, depth)
	}
	for _, k := range t.kept {
		if errors.Is(err, k.err) && (refusal == nil || !errors.Is(refusal, k.err)) {
			parts.Kept = append(parts.Kept, k.name)
		}
	}
	if refusal == nil && len(parts.Kept) == 0 {
		parts.Refusal = t.refusalParts(parley.ErrInternal, depth)
	}
	return t.putFields(dst, t.parts, reflect.ValueOf(&parts).Elem(), depth)
}

func (t *Types) refusalParts(r *parley.Refusal, depth int) *refusalParts {
	parts := &refusalParts{Reason: r.Reason, Code: r.Code, Text: r.Text, OfOne: r.OfOne}
	for _, k := range t.kept {
		if k.distinct != nil && errors.Is(r, k.distinct) {
			parts.Distinct = k.name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Extra)) {
		if value, err := t.appendValue(nil, r.Extra[name], depth+1); err == nil {
			parts.Extra = append(parts.Extra, extraMember{name, value})
		}
	}
	return parts
}

func (t *decoder) errorOf(b []byte, depth int) (decoded, failed error) {
	if len(b) == 0 {
		return nil, nil
	}
	parts := errorParts{}
	if err := t.getFields(b, t.parts, reflect.ValueOf(&parts).Elem(), depth); err != nil {
		return nil, err
	}
	var all []error
	if parts.Refusal != nil {
		refusal, err := t.refusal(parts.Refusal, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, refusal)
	}
	for _, name := range parts.Kept {
		if k := t.keptError(name); k != nil {
			all = append(all, k.err)
		}
	}
	switch len(all) {
	case 0:
		return parley.ErrInternal, nil
	case 1:
		return all[0], nil
	}
	return errors.Join(all...), nil
}

func (t *decoder) refusal(parts *refusalParts, depth int) (*parley.Refusal, error) {
	r := &parley.Refusal{Reason: parts.Reason, Code: parts.Code, Text: parts.Text, OfOne: parts.OfOne}
	if k := t.keptError(parts.Distinct); k != nil && k.distinct != nil && errors.Is(k.distinct, r) {
		r = r.DistinctAs(k.distinct)
	}
	for _, member := range parts.Extra {
		value, err := t.value(member.Value, depth+1)
		if errors.Is(err, ErrUnregistered) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.Extra == nil {
			r.Extra = make(map[string]any, len(parts.Extra))
		}
		r.Extra[member.Name] = value
	}
	return r, nil
}
