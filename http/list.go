package http

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"

	"parley"
	"parley/http/api"
)

// errLongArray refuses an array that is too long to be answered whole.
var errLongArray = parley.ErrOverloaded.ForOne().Saying("The list has more than 8 MiB. Ask for it in pages: with limit, then with cursor.")

// arrayOrPage is what a list answers that is a plain array unless its caller asks
// for pages.
type arrayOrPage[T any] struct{}

// OneOf are the shapes that the answer may have.
func (arrayOrPage[T]) OneOf() []any { return []any{[]T{}, api.Page[T]{}} }

// pageRows is how many rows a page has where the caller gave a cursor alone.
const pageRows = 100

// list renders such an answer, one row after the other. Each row has a key. Keys
// ascend, a row keeps its own, and no other row ever has it: so a walk through the
// pages shows a row that stays exactly once, whatever comes and goes meanwhile.
type list struct {
	service *Service
	call    *Call
	name    string // that its cursors are sealed for
	after   []byte // the key of the last row before this page, nil at the beginning
	limit   int    // 0: a plain array
	rows    int
	last    []byte // the key of the last row
	more    bool
	b       []byte
	err     error
}

// newList begins the answer. The name has all filters in it; keys have one of the
// lengths.
func (s *Service) newList(c *Call, in api.Paging, name string, lengths ...int) (*list, error) {
	l := &list{service: s, call: c, name: name + " of " + c.Caller.Org.String()}
	switch {
	case in.Limit != nil:
		l.limit = *in.Limit
	case in.Cursor != nil:
		l.limit = pageRows
	}
	var err error
	l.after, err = s.position(l.name, in.Cursor, lengths...)
	l.b = append(l.b, l.opening()...)
	return l, err
}

func (l *list) opening() string {
	if l.limit == 0 {
		return "["
	}
	return `{"items":[`
}

// passed reports whether a row was in an earlier page.
func (l *list) passed(key []byte) bool { return l.after != nil && bytes.Compare(key, l.after) <= 0 }

// add renders a row, or takes the error that came in its place, and reports whether
// the list goes on.
func (l *list) add(key []byte, row any, err error) bool {
	if l.err = err; err != nil {
		return false
	}
	if l.passed(key) {
		return true
	}
	if l.more = l.limit > 0 && l.rows == l.limit; l.more {
		return false
	}
	one, err := json.Marshal(row)
	if l.err = err; err != nil {
		return false
	}
	size := len(l.b) + len(one) + len(",]")
	if l.limit > 0 {
		size += pageFrame
	}
	if l.more = l.limit > 0 && l.rows > 0 && size > parley.PageBytesMax; l.more {
		return false
	}
	if l.err = l.fits(size); l.err == nil {
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

// fits refuses a plain array of so many bytes if it is too long.
func (l *list) fits(size int) error {
	if l.limit == 0 && size > l.service.arrayBytes {
		return errLongArray
	}
	return nil
}

// grow makes room for an answer of so many bytes. While it is copied there are two.
func (l *list) grow(size int) error {
	if size <= cap(l.b) {
		return nil
	}
	room := max(size, min(2*cap(l.b), l.service.arrayBytes))
	if err := l.call.holds(cap(l.b) + room); err != nil {
		return err
	}
	l.b = append(make([]byte, 0, room), l.b...)
	return nil
}

// keep adds a key to those that are found in no order. Of them a page needs only
// the first.
func (l *list) keep(keys [][]byte, key []byte) [][]byte {
	keys = append(keys, key)
	if l.limit == 0 || len(keys) < 8*pageRows {
		return keys
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys[:l.limit+1]
}

// answer ends the list, unless it or the reading of its rows has failed.
func (l *list) answer(err error) (Rendered, error) {
	switch {
	case l.err != nil:
		return Rendered{}, l.err
	case err != nil:
		return Rendered{}, err
	case l.limit == 0:
		return Rendered{JSON: append(l.b, ']')}, nil
	case !l.more:
		return Rendered{JSON: append(l.b, `],"next_cursor":null,"has_more":false}`...)}, nil
	}
	l.b = appendText(append(l.b, `],"next_cursor":`...), l.service.Cursors.Seal(l.name, l.last))
	return Rendered{JSON: append(l.b, `,"has_more":true}`...)}, nil
}
