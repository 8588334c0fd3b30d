package api

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// Object is a JSON object kept as the bytes it came in. Nil is null.
type Object jsontext.Value

// Array is a JSON array kept as the bytes it came in. Nil is null.
type Array jsontext.Value

var (
	// ErrNotObject says that a value that should be a JSON object is another kind.
	ErrNotObject = errors.New("value should be a JSON object")
	// ErrNotArray says that a value that should be a JSON array is another kind.
	ErrNotArray = errors.New("value should be a JSON array")
)

var null = []byte("null")

// MarshalJSON writes the object as it is.
func (o Object) MarshalJSON() ([]byte, error) { return orNull(o), nil }

// MarshalJSONTo writes the object as it is.
func (o Object) MarshalJSONTo(enc *jsontext.Encoder) error { return enc.WriteValue(orNull(o)) }

// UnmarshalJSON keeps a copy of b, which must be an object or null.
func (o *Object) UnmarshalJSON(b []byte) error {
	kept, err := keep(b, '{', ErrNotObject)
	*o = kept
	return err
}

// UnmarshalJSONFrom keeps a copy of the next value, which must be an object or null.
func (o *Object) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	b, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return o.UnmarshalJSON(b)
}

// MarshalJSON writes the array as it is.
func (a Array) MarshalJSON() ([]byte, error) { return orNull(a), nil }

// MarshalJSONTo writes the array as it is.
func (a Array) MarshalJSONTo(enc *jsontext.Encoder) error { return enc.WriteValue(orNull(a)) }

// UnmarshalJSON keeps a copy of b, which must be an array or null.
func (a *Array) UnmarshalJSON(b []byte) error {
	kept, err := keep(b, '[', ErrNotArray)
	*a = kept
	return err
}

// UnmarshalJSONFrom keeps a copy of the next value, which must be an array or null.
func (a *Array) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	b, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return a.UnmarshalJSON(b)
}

func orNull(b []byte) []byte {
	if len(b) == 0 {
		return null
	}
	return b
}

func keep(b []byte, first byte, wrong error) ([]byte, error) {
	b = bytes.TrimSpace(b)
	switch {
	case bytes.Equal(b, null):
		return nil, nil
	case len(b) == 0 || b[0] != first:
		return nil, wrong
	}
	return bytes.Clone(b), nil
}

// Clearable is a field of a PATCH that null clears and absence leaves alone.
// Tag it omitzero, so that an unset one is not sent.
type Clearable[T any] struct {
	// Set tells that the field was present.
	Set bool
	// Null tells that it was present and null: the stored value is cleared.
	Null bool
	// Value is the new value when Set and not Null.
	Value T
}

// SetTo is a present field with a value.
func SetTo[T any](value T) Clearable[T] { return Clearable[T]{Set: true, Value: value} }

// Cleared is a present field that is null.
func Cleared[T any]() Clearable[T] { return Clearable[T]{Set: true, Null: true} }

// IsZero reports whether the field is absent.
func (c Clearable[T]) IsZero() bool { return !c.Set }

// MarshalJSON writes the value, or null when the field is cleared or unset.
func (c Clearable[T]) MarshalJSON() ([]byte, error) {
	if c.Null || !c.Set {
		return null, nil
	}
	return json.Marshal(c.Value)
}

// UnmarshalJSON is called only for a field that is present.
func (c *Clearable[T]) UnmarshalJSON(b []byte) error {
	*c = Clearable[T]{Set: true, Null: bytes.Equal(bytes.TrimSpace(b), null)}
	if c.Null {
		return nil
	}
	return json.Unmarshal(b, &c.Value)
}

// Paging asks for a Page of a list that is a plain array otherwise. Either field is
// enough.
type Paging struct {
	// Limit has the answer be a page of at most so many items instead of an array.
	// With a cursor alone it is 100.
	Limit *int `json:"-" query:"limit" minimum:"1" maximum:"100"`
	// Cursor is the next_cursor of the page before.
	Cursor *string `json:"-" query:"cursor"`
}

// Page is one page of a longer list.
type Page[T any] struct {
	Items []T `json:"items"`
	// NextCursor leads to the page after this one; it is opaque and authenticated.
	// A transcript's leads to newer rows, from its first row on.
	NextCursor *string `json:"next_cursor"`
	// HasMore tells whether a further page has rows now. A filtered page may be
	// short, even empty, while it is true.
	HasMore bool `json:"has_more"`
}
