package http

import (
	"io"
	"math/bits"
	"sync"

	"parley/http/limit"
)

// sheet is a piece of memory to write on: a body that arrives, an answer that is
// rendered. It is used again when its request is answered.
//
// A large one becomes the body of its answer, without being copied: then it is
// given back, and what it holds no longer counts, once the client has taken it or
// the connection has ended.
type sheet struct {
	b    []byte
	hold limit.Hold
	sent int
}

const (
	// sheetLeast is what a small sheet begins with. Small ones have at most
	// limit.Small bytes and count for nobody.
	sheetLeast = 4 << 10
	// sheetClasses are the sizes of large sheets: limit.Small, doubled that often.
	// Larger ones are not kept.
	sheetClasses = 7
)

var (
	smallSheets = sync.Pool{New: func() any { return &sheet{b: make([]byte, 0, sheetLeast)} }}
	largeSheets [sheetClasses]sync.Pool
)

// newSheet has room for so many bytes at least. As many as sheetBytes says are to
// be counted for it.
func newSheet(size int) *sheet {
	class := sheetClass(size)
	switch {
	case size <= limit.Small:
		s := smallSheets.Get().(*sheet)
		if cap(s.b) < size {
			s.b = make([]byte, 0, limit.Small)
		}
		return s
	case class > sheetClasses:
		return &sheet{b: make([]byte, 0, size)}
	}
	if s, ok := largeSheets[class-1].Get().(*sheet); ok {
		return s
	}
	return &sheet{b: make([]byte, 0, limit.Small<<class)}
}

// sheetClass is how often limit.Small is doubled to have room for a size.
func sheetClass(size int) int { return bits.Len(uint(max(size-1, 0) / limit.Small)) }

// sheetBytes is how many bytes a sheet takes that has room for a size.
func sheetBytes(size int) int {
	if class := sheetClass(size); 0 < class && class <= sheetClasses {
		return limit.Small << class
	}
	return size
}

// giveBack keeps the sheet for others, by the room that it has.
func (s *sheet) giveBack() {
	class := bits.Len(uint(cap(s.b) / limit.Small))
	s.b, s.sent = s.b[:0], 0
	switch {
	case cap(s.b) <= limit.Small:
		smallSheets.Put(s)
	case class-1 <= sheetClasses && cap(s.b) == limit.Small<<(class-1): // what sheetBytes says
		largeSheets[class-2].Put(s)
	}
}

// Read gives the bytes to a reader that has them copied.
func (s *sheet) Read(p []byte) (int, error) {
	if s.sent == len(s.b) {
		return 0, io.EOF
	}
	n := copy(p, s.b[s.sent:])
	s.sent += n
	return n, nil
}

// WriteTo gives them without a copy.
func (s *sheet) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(s.b[s.sent:])
	s.sent += n
	return int64(n), err
}

// SupportsBodyWriteTo tells the engine to use WriteTo.
func (s *sheet) SupportsBodyWriteTo() bool { return true }

// Close is called when the request is answered, or the answer has left, or its
// connection has failed.
func (s *sheet) Close() error {
	s.hold.Release()
	s.hold = limit.Hold{}
	s.giveBack()
	return nil
}
