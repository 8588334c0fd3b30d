package rest

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client/api"
	"parley/client/parley"
)

// ErrLongArray rejects an array that is too long for one answer.
var ErrLongArray = parley.ErrOverloaded.ForOne().Saying("The list has more than 8 MiB. Ask for it in pages: with limit, then with cursor.")

// ArrayOrPage is the answer of a list: a plain array, or a page if the caller asks for
// pages.
type ArrayOrPage[T any] struct{}

// OneOf returns the shapes that the answer may have.
func (ArrayOrPage[T]) OneOf() []any { return []any{[]T{}, api.Page[T]{}} }

// pageRows is how many rows a page has if the caller sent only a cursor.
const pageRows = 100

// Lists is the state that all lists share.
type Lists struct {
	Cursors *Cursors
	// ArrayBytes bounds a plain array, in bytes.
	ArrayBytes int
}

// Position decodes the cursor of a list, which must have one of the lengths, or any if none
// is given. It returns nil if there is no cursor.
func (s *Lists) Position(list string, cursor *string, lengths ...int) ([]byte, error) {
	if cursor == nil {
		return nil, nil
	}
	position, err := s.Cursors.Open(list, *cursor)
	if err != nil || len(lengths) > 0 && !slices.Contains(lengths, len(position)) {
		return nil, parley.ErrInvalidCursor
	}
	return position, nil
}

// Place decodes a cursor of a list that holds a number. It returns 0 if there is no
// cursor.
func (s *Lists) Place(list string, cursor *string) (uint64, error) {
	position, err := s.Position(list, cursor, 8)
	if err != nil || position == nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(position), nil
}

// Cursor encodes a number as a cursor of a list. For 0, the end of the list, it returns
// "".
func (s *Lists) Cursor(list string, place uint64) string {
	if place == 0 {
		return ""
	}
	return s.Cursors.Seal(list, binary.BigEndian.AppendUint64(nil, place))
}

// List renders an ArrayOrPage, one row after the other. Each row has a key. Keys ascend;
// a row keeps its key, and no other row ever gets it. So a walk through the pages shows
// each lasting row exactly once, whatever rows are added or removed meanwhile.
type List struct {
	lists *Lists
	Call  *Call
	name  string // the name under which cursors are sealed
	After []byte // the key of the last row before this page, nil at the beginning
	Limit int    // 0: a plain array
	rows  int
	last  []byte // the key of the last row
	more  bool
	b     []byte
	err   error
}

// New begins the answer. The name must include all filters. Keys have one of the lengths,
// or any if none is given.
func (s *Lists) New(c *Call, in api.Paging, name string, lengths ...int) (*List, error) {
	l := &List{lists: s, Call: c, name: name + " of " + c.Caller.Name()}
	switch {
	case in.Limit != nil:
		l.Limit = *in.Limit
	case in.Cursor != nil:
		l.Limit = pageRows
	}
	var err error
	l.After, err = s.Position(l.name, in.Cursor, lengths...)
	l.b = append(l.b, l.opening()...)
	return l, err
}

func (l *List) opening() string {
	if l.Limit == 0 {
		return "["
	}
	return `{"items":[`
}

// Passed reports whether a row was in an earlier page.
func (l *List) Passed(key []byte) bool { return l.After != nil && bytes.Compare(key, l.After) <= 0 }

// Add renders a row, or records the error of reading it, and reports whether the list
// continues.
func (l *List) Add(key []byte, row any, err error) bool {
	if l.err = err; err != nil {
		return false
	}
	if l.Passed(key) {
		return true
	}
	if l.more = l.Limit > 0 && l.rows == l.Limit; l.more {
		return false
	}
	one, err := json.Marshal(row)
	if l.err = err; err != nil {
		return false
	}
	size := len(l.b) + len(one) + len(",]")
	if l.Limit > 0 {
		size += PageFrame
	}
	if l.more = l.Limit > 0 && l.rows > 0 && size > parley.PageBytesMax; l.more {
		return false
	}
	if l.err = l.Fits(size); l.err == nil {
		l.err = l.grow(size)
	}
	if l.err != nil {
		return false
	}
	if l.rows > 0 {
		l.b = append(l.b, ',')
	}
	l.b, l.last = append(l.b, one...), key
	l.rows++
	return true
}

// Fits rejects a plain array that is too long for the given size.
func (l *List) Fits(size int) error {
	if l.Limit == 0 && size > l.lists.ArrayBytes {
		return ErrLongArray
	}
	return nil
}

// grow makes room for an answer of the given size. During the copy both buffers count.
func (l *List) grow(size int) error {
	if size <= cap(l.b) {
		return nil
	}
	room := max(size, min(2*cap(l.b), l.lists.ArrayBytes))
	if err := l.Call.Reserve(cap(l.b) + room); err != nil {
		return err
	}
	l.b = append(make([]byte, 0, room), l.b...)
	return nil
}

// Keep adds a key to keys that are found in no order, and keeps only the first ones,
// which the page needs.
func (l *List) Keep(keys [][]byte, key []byte) [][]byte {
	keys = append(keys, key)
	if l.Limit == 0 || len(keys) < 8*pageRows {
		return keys
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys[:l.Limit+1]
}

// Answer ends the list. It returns the error if rendering or reading the rows has failed.
func (l *List) Answer(err error) (Rendered, error) {
	switch {
	case l.err != nil:
		return Rendered{}, l.err
	case err != nil:
		return Rendered{}, err
	case l.Limit == 0:
		return Rendered{JSON: append(l.b, ']')}, nil
	case !l.more:
		return Rendered{JSON: append(l.b, `],"next_cursor":null,"has_more":false}`...)}, nil
	}
	l.b = appendCursor(append(l.b, `],"next_cursor":`...), l.lists.Cursors.Seal(l.name, l.last))
	return Rendered{JSON: append(l.b, `,"has_more":true}`...)}, nil
}

func appendCursor(b []byte, cursor string) []byte {
	b, _ = jsontext.AppendQuote(b, cursor)
	return b
}

// PageFrame bounds the bytes that a page takes besides its rows.
const PageFrame = 512
