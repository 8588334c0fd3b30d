package mls

import (
	"encoding/binary"
	"fmt"
)

// Error says where and why bytes are not what they should be.
type Error struct {
	// At is the offset of the fault, in bytes.
	At int
	// Text is a clause such as "the bytes end within it".
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.At, e.Text) }

// reader decodes the presentation language of TLS with the vectors of RFC 9420. After the
// first fault it returns zero values only.
type reader struct {
	data  []byte
	at    int
	fault *Error
}

func (r *reader) fail(at int, text string) {
	if r.fault == nil {
		r.fault = &Error{at, text}
	}
}

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if r.fault != nil {
		return nil
	}
	if n > len(r.data)-r.at {
		r.fail(len(r.data), "the bytes end too early")
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at : r.at]
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// length reads the length of a vector: one, two or four bytes, of which the first two bits
// say how many. source: RFC 9420 2.1.2
func (r *reader) length() int {
	at := r.at
	first := r.u8()
	n := int(first & 0x3f)
	switch first >> 6 {
	case 1:
		n = n<<8 | int(r.u8())
		if n < 1<<6 {
			r.fail(at, "a length is not in its shortest form")
		}
	case 2:
		n = n<<8 | int(r.u8())
		n = n<<16 | int(r.u16())
		if n < 1<<14 {
			r.fail(at, "a length is not in its shortest form")
		}
	case 3:
		r.fail(at, "a length has a reserved form")
	}
	return n
}

// vector returns the contents of a vector.
func (r *reader) vector() []byte {
	at := r.at
	n := r.length()
	if r.fault == nil && n > len(r.data)-r.at {
		r.fail(at, "a vector is longer than what is left")
	}
	return r.take(n)
}

// within reads the contents of a vector, item by item.
func (r *reader) within(item func()) {
	n := len(r.vector())
	if r.fault != nil {
		return
	}
	end, whole := r.at, r.data
	r.data, r.at = whole[:end], end-n
	for r.fault == nil && r.at < end {
		item()
	}
	r.data = whole
}

// end checks that nothing follows.
func (r *reader) end() error {
	if r.fault == nil && r.at < len(r.data) {
		r.fail(r.at, "more bytes follow the end")
	}
	if r.fault != nil {
		return r.fault
	}
	return nil
}

// appendVector appends a vector with these contents.
func appendVector[T ~string | ~[]byte](to []byte, contents T) []byte {
	switch n := len(contents); {
	case n < 1<<6:
		to = append(to, byte(n))
	case n < 1<<14:
		to = binary.BigEndian.AppendUint16(to, uint16(n)|1<<14)
	default:
		to = binary.BigEndian.AppendUint32(to, uint32(n)|2<<30)
	}
	return append(to, contents...)
}
