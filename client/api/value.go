package api

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// Object is a JSON object, stored as the bytes that were received. Nil is null.
type Object jsontext.Value

// Array is a JSON array, stored as the bytes that were received. Nil is null.
type Array jsontext.Value

var (
	// ErrNotObject is returned if a value that must be a JSON object is of another
	// kind.
	ErrNotObject = errors.New("value should be a JSON object")
	// ErrNotArray is returned if a value that must be a JSON array is of another kind.
	ErrNotArray = errors.New("value should be a JSON array")
)

var null = []byte("null")

// MarshalJSON writes the object unchanged.
func (o Object) MarshalJSON() ([]byte, error) { return orNull(o), nil }

// MarshalJSONTo writes the object unchanged.
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

// MarshalJSON writes the array unchanged.
func (a Array) MarshalJSON() ([]byte, error) { return orNull(a), nil }

// MarshalJSONTo writes the array unchanged.
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

// Clearable is a field of a PATCH: null clears the stored value, absence leaves it
// unchanged. Tag it omitzero, so that an unset one is not sent.
type Clearable[T any] struct {
	// Set reports that the field was present.
	Set bool
	// Null reports that it was present and null: the stored value is cleared.
	Null bool
	// Value is the new value if Set and not Null.
	Value T
}

// SetTo returns a present field with a value.
func SetTo[T any](value T) Clearable[T] { return Clearable[T]{Set: true, Value: value} }

// Cleared returns a present field that is null.
func Cleared[T any]() Clearable[T] { return Clearable[T]{Set: true, Null: true} }

// IsZero reports whether the field is absent.
func (c Clearable[T]) IsZero() bool { return !c.Set }

// MarshalJSON writes the value, or null if the field is cleared or unset.
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

// Paging requests a Page of a list that is a plain array otherwise. Either field is
// enough.
type Paging struct {
	// Limit requests a page of at most that many items instead of an array. With a
	// cursor alone it is 100.
	Limit *int `json:"-" query:"limit" minimum:"1" maximum:"100"`
	// Cursor is the next_cursor of the previous page.
	Cursor *string `json:"-" query:"cursor"`
}

// Page is a part of a list. While has_more is true, repeat the request with next_cursor as
// cursor.
type Page[T any] struct {
	Items []T `json:"items"`
	// NextCursor leads to the next page. It is opaque and authenticated. In a
	// transcript it leads to newer rows, from the first row on.
	NextCursor *string `json:"next_cursor"`
	// HasMore reports whether a further page has rows now. A filtered page may be
	// short, even empty, while it is true.
	HasMore bool `json:"has_more"`
}
