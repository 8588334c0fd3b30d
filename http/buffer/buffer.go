// Package buffer pools the memory of request bodies and answers.
//
// What a large buffer holds counts against the memory budget of its caller until the
// buffer is closed.
package buffer

import (
	"io"
	"math/bits"
	"sync"

	"parley/http/limit"
)

// Buffer is pooled memory for a body that is received, or an answer that is rendered. It
// is reused after its request is answered. A Buffer that New has not made is not: its bytes may be
// shared, such as those of a page that is kept.
//
// A large one becomes the body of its answer without being copied. Then it is freed, and
// what it holds no longer counts, when the client has read it or the connection has
// ended.
type Buffer struct {
	Bytes []byte
	Hold  limit.Hold
	sent  int
	// pooled: nobody else has the bytes.
	pooled bool
}

const (
	// smallest is the first capacity of a small buffer. Small ones have at most
	// limit.Small bytes and do not count.
	smallest = 4 << 10
	// classes is the number of sizes of large buffers: limit.Small, doubled up to that
	// often. Larger ones are not pooled.
	classes = 7
)

var (
	small = sync.Pool{New: func() any { return &Buffer{Bytes: make([]byte, 0, smallest), pooled: true} }}
	large [classes]sync.Pool
)

// New returns a buffer with room for at least size bytes. The caller counts Size(size)
// bytes for it.
func New(size int) *Buffer {
	class := classOf(size)
	switch {
	case size <= limit.Small:
		s := small.Get().(*Buffer)
		if cap(s.Bytes) < size {
			s.Bytes = make([]byte, 0, limit.Small)
		}
		return s
	case class > classes:
		return &Buffer{Bytes: make([]byte, 0, size), pooled: true}
	}
	if s, ok := large[class-1].Get().(*Buffer); ok {
		return s
	}
	return &Buffer{Bytes: make([]byte, 0, limit.Small<<class), pooled: true}
}

// classOf is how often limit.Small is doubled to have room for size bytes.
func classOf(size int) int { return bits.Len(uint(max(size-1, 0) / limit.Small)) }

// Size is the number of bytes that a buffer takes which has room for size bytes.
func Size(size int) int {
	if class := classOf(size); 0 < class && class <= classes {
		return limit.Small << class
	}
	return size
}

// Free returns the buffer to its pool, by its capacity.
func (s *Buffer) Free() {
	if !s.pooled {
		return
	}
	class := bits.Len(uint(cap(s.Bytes) / limit.Small))
	s.Bytes, s.sent = s.Bytes[:0], 0
	switch {
	case cap(s.Bytes) <= limit.Small:
		small.Put(s)
	case class-1 <= classes && cap(s.Bytes) == limit.Small<<(class-1): // as Size says
		large[class-2].Put(s)
	}
}

// Read implements io.Reader.
func (s *Buffer) Read(p []byte) (int, error) {
	if s.sent == len(s.Bytes) {
		return 0, io.EOF
	}
	n := copy(p, s.Bytes[s.sent:])
	s.sent += n
	return n, nil
}

// WriteTo writes the bytes without copying them.
func (s *Buffer) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(s.Bytes[s.sent:])
	s.sent += n
	return int64(n), err
}

// SupportsBodyWriteTo tells fasthttp to use WriteTo.
func (s *Buffer) SupportsBodyWriteTo() bool { return true }

// Close frees the buffer and what it holds. It is called when the request is answered,
// the answer has been sent, or the connection has failed.
func (s *Buffer) Close() error {
	s.Hold.Release()
	s.Hold = limit.Hold{}
	s.Free()
	return nil
}
