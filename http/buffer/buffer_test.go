package buffer_test

import (
	"bytes"
	"testing"

	"parley/http/buffer"
	"parley/http/limit"
)

// TestSharedBytesAreNotReused: bytes that New has not made may be those of a page that is kept, and
// nobody else writes into them.
func TestSharedBytesAreNotReused(t *testing.T) {
	for _, size := range []int{limit.Small, 2 * limit.Small, 4 * limit.Small} {
		kept := bytes.Repeat([]byte("k"), size)
		if err := (&buffer.Buffer{Bytes: kept}).Close(); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			other := buffer.New(size)
			other.Bytes = append(other.Bytes, bytes.Repeat([]byte("o"), size)...)
			defer other.Free()
		}
		if bytes.IndexByte(kept, 'o') >= 0 {
			t.Errorf("%d bytes were used again", size)
		}
	}
}
